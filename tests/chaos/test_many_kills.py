"""All kinds of gold, and publications, under SIGKILL, again and again, by real processes and a real broker.

The first third of the kills comes while the tables are created, beginning with none. The tables are compared,
as multisets, with those of a job that reads the same topic and is never killed, and the audit must balance.
``SIGKILLS=60`` kills so often; ``CHAOS_SEED`` draws the moments again.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from common.delta.log import LogReader
from orchestration.access.declaration.lineage import written_by
from tests.chaos.all_kinds import PIPELINE, events
from tests.chaos.test_kill import feeding
from tests.support.processes import PAUSING, Command, Medallion, await_that, is_caught_up, medallion

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("SIGKILLS", "3"))
BOUNDS = (*PAUSING, "bronze.max_offsets_per_trigger=400", "spark.state_store=rocksdb")
ON_TOPIC = """
import json
from dataclasses import replace
from pathlib import Path
from common.declare import BatchSink, FileSink, Publish
from tests.chaos.all_kinds import PIPELINE

HERE = Path(__file__).parent

def keep(rows, batch_id, token):
    # As a database does with a token in the transaction of the rows: a file per token, there or not.
    place = HERE / "kept" / token.replace("/", "_")
    place.parent.mkdir(exist_ok=True)
    if not place.exists():
        part = place.with_suffix(".part")
        part.write_text(json.dumps([row.place for row in rows.collect()]))
        part.rename(place)

PLACE = {{"place": "concat(_kafka_partition, '/', _kafka_offset)"}}
pipeline = replace(
    PIPELINE,
    bronze=[replace(PIPELINE.bronze[0], topics=[{topic!r}])],
    publish=[
        Publish("files", reads="silver.orders", to=FileSink("files", format="jsonl"), columns=PLACE),
        Publish("kept", reads="silver.orders", to=BatchSink(keep), columns=PLACE),
    ],
)
"""
TABLES = [name for table in (*PIPELINE.silver, *PIPELINE.gold) for name in written_by(table)]


def versions(commands: Medallion) -> dict[str, int]:
    """The newest version of each table."""
    found = {table: LogReader(commands.layout.table_path(table)).latest_version() for table in TABLES}
    return {table: -1 if version is None else version for table, version in found.items()}


def begun(commands: Medallion) -> int:
    """How many tables have a folder, with or without a first commit."""
    return sum(Path(commands.layout.table_path(table)).exists() for table in TABLES)


def await_growth(commands: Medallion, job: Command) -> None:
    """Wait until the job has written every gold table since its start, or is about to."""
    before = versions(commands)

    def has_grown() -> bool:
        return sum(now > before[table] for table, now in versions(commands).items()) > len(TABLES) // 2

    await_that(has_grown, "half of the tables have grown", job)


def kill(job: Command, kind: str) -> None:
    """End a job, or one of its two processes, without a word."""
    if kind == "group":
        job.kill_group()
        return
    if kind == "python":
        job.signal(signal.SIGKILL)
    elif (jvm := job.jvm) is not None:
        os.kill(jvm, signal.SIGKILL)
    job.code()


def content(commands: Medallion) -> dict[str, Counter[str]]:
    """Rows of all tables, without the columns that depend on when a record arrived."""
    found = {}
    for table in TABLES:
        path = commands.layout.table_path(table)
        if not DeltaTable.is_deltatable(path):
            found[table] = Counter()
            continue
        rows = DeltaTable(path).to_pyarrow_table()
        names = [name for name in rows.column_names if not name.startswith("_")]
        if table.endswith("__quarantine"):
            names = ["topic", "partition", "offset", "reasons"]
        found[table] = Counter(map(repr, rows.select(sorted(names)).to_pylist()))
    return found


def published(folder: Path) -> dict[str, Counter[str]]:
    """The rows that the publications have sent, by their coordinates."""
    manifests = sorted((folder / "files" / "_manifest").glob("0*.json"))
    named = [folder / "files" / name for one in manifests for name in json.loads(one.read_text())["files"]]
    lines = (json.loads(line)["place"] for file in named for line in file.read_text().splitlines())
    whole = [json.loads(file.read_text()) for file in (folder / "kept").iterdir() if file.suffix != ".part"]
    return {"files": Counter(lines), "kept": Counter(place for places in whole for place in places)}


def pipeline_in(folder: Path, topic: str) -> Path:
    """The file of the pipeline, beside which its publications write."""
    folder.mkdir()
    file = folder / "kinds.py"
    file.write_text(ON_TOPIC.format(topic=topic), encoding="utf-8")
    return file


def test_every_kind_of_gold_is_that_of_a_job_that_was_never_killed(
    broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    seed = int(os.environ.get("CHAOS_SEED", secrets.randbelow(10**6)))
    print(f"CHAOS_SEED={seed}, {KILLS} kills")  # noqa: T201  # pytest shows it with a failure
    chance = random.Random(seed)  # noqa: S311  # repeatable is what matters
    killed, calm_one = (tmp_path / name for name in ("killed", "calm"))
    kinds: Counter[str] = Counter()
    with medallion(killed, pipeline_in(killed, topic), f"kafka.bootstrap_servers={broker}") as commands:
        with feeding(lambda portion: send(topic, portion), events(seed)) as feed:
            for number in range(KILLS):
                job = commands.start("up", more=BOUNDS)
                least = min(begun(commands) + chance.randint(1, 3), len(TABLES))
                if number < max(1, KILLS // 3) and begun(commands) < least:
                    await_that(lambda: begun(commands) >= least, f"{least} tables are begun", job)  # noqa: B023
                else:
                    await_growth(commands, job)
                time.sleep(chance.uniform(0, 3))
                kind = chance.choice(["group", "python", "jvm"])
                kill(job, kind)
                kinds[kind] += 1
                there = sum(version >= 0 for version in versions(commands).values())
                print(f"kill {number + 1}: {kind}, of {len(TABLES)} tables {there} are there", flush=True)  # noqa: T201
            job = commands.start("up", more=BOUNDS)
        await_that(lambda: is_caught_up(commands), "all is caught up", job)
        job.signal(signal.SIGTERM)
        assert job.code() == 0, job.stderr
        rest = commands.run("backfill")  # what the publications have yet to send
        assert rest.code() == 0, rest.stderr
        audit = commands.run("audit")
        assert audit.code() == 0, audit.stdout + audit.stderr
        found = content(commands)
        rows = DeltaTable(commands.layout.table_path("silver.orders")).to_pyarrow_table().to_pylist()
        places = Counter(f"{row['_kafka_partition']}/{row['_kafka_offset']}" for row in rows)
        assert published(killed) == {"files": places, "kept": places}
    with medallion(calm_one, pipeline_in(calm_one, topic), f"kafka.bootstrap_servers={broker}") as commands:
        calm = commands.run("backfill")
        assert calm.code() == 0, calm.stderr
        expected = content(commands)
    print(f"{len(feed.sent):,} messages, kills: {dict(kinds)}")  # noqa: T201
    for table, rows in expected.items():
        assert (rows - found[table], found[table] - rows) == (Counter(), Counter()), table
    assert sum(expected["silver.orders"].values()) > 0
    assert {table for table, rows in expected.items() if rows} >= {gold.table for gold in PIPELINE.gold}
