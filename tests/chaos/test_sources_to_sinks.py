"""From each kind of source to each kind of sink, killed between the writes of sinks, beside an oracle.

``Files``, ``DeltaTable``, ``Topic`` and ``Stream``; a database, files, a topic and an object of one's own.
The pipeline's file kills its own process where the file ``dies`` says, so that the kill hits the other
publications wherever they are.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from common.declare import Message
from tests.broker.end_to_end.consumed import consumed
from tests.support.processes import Medallion, medallion
from tests.support.servers.postgres import PASSWORD, Postgres, postgres

pytestmark = pytest.mark.long

TABLES = """
create table orders (k text primary key, n int, times int not null default 1);
create table tokens (token text primary key);
"""

PIPELINE = '''
import os, signal, subprocess
from pathlib import Path
from common.machine.storage_folder import StorageFolder
from medallion import *

HERE, SQL = Path(__file__).parent, {sql!r}
os.environ["PGPASSWORD"] = {password!r}

def die(at):
    if (HERE / "dies").exists() and (HERE / "dies").read_text() == at:
        (HERE / "dies").unlink()
        os.kill(os.getpid(), signal.SIGKILL)

def upsert(rows, batch_id, token):
    found = [(row.id, row.n) for row in rows.collect()]
    die("before")
    values = ", ".join(f"('k{{int(one[1:]) % 3}}', {{n}})" for one, n in found) or "('none', null)"
    text = f"""begin;
    create temp table come (k text, n int) on commit drop;
    insert into come values {{values}};
    with fresh as (insert into tokens values ('{{token}}') on conflict do nothing returning 1)
    insert into orders select k, sum(n) from come where n is not null and exists (select from fresh)
    group by k
    on conflict (k) do update set n = orders.n + excluded.n, times = orders.times + 1;"""
    inside = (HERE / "dies").exists() and (HERE / "dies").read_text() == "inside"
    subprocess.run([*SQL, text + ("rollback;" if inside else "commit;")], check=True)
    die("inside")
    die("after")

write = StorageFolder.write

def written(self, name, content):
    if self.path.endswith("_manifest") and name.startswith("0"):
        die("manifest")
    write(self, name, content)

StorageFolder.write = written

class Touch:
    def process(self, row):
        (HERE / "touched" / row.id).touch()

def orders(name, value):
    return Silver(name, reads=f"bronze.{{name}}", value=value, columns=["id", "n", "at"], key=["id"],
                  event_time="at", watermark="1 day")

FIELDS = "id string, n int, at timestamp"
pipeline = Pipeline(
    "drill",
    bronze=[
        Topic("sent", topics=[{topic!r}]),
        Files("exported", path="exported", format="jsonl"),
        DeltaTable("lake", path="lake"),
        Stream("rate", format="rate-micro-batch", options={{"rowsPerBatch": "3"}}),
    ],
    silver=[orders("sent", Json(FIELDS)), orders("exported", Json(FIELDS)), orders("lake", Columns(FIELDS))],
    publish=[
        Publish("store", reads="silver.exported", to=BatchSink(upsert)),
        Publish("export", reads="silver.sent", to=FileSink("export"), columns=["id", "n"]),
        Publish("again", reads="silver.sent", to=KafkaSink({sink!r}, key="id"), columns=["id", "n"]),
        Publish("touch", reads="silver.lake", to=ForeachSink(Touch())),
        Publish("raw", reads="bronze.rate", to=FileSink("raw", format="jsonl"),
                columns={{"offset": "offset", "n": "value.value"}}),
    ],
)
'''


class Drill:
    """A pipeline with its sources, sinks, and what has been put into the sources."""

    def __init__(
        self, folder: Path, database: Postgres, commands: Medallion, send: Callable[..., None], topic: str
    ) -> None:
        self.folder, self.database, self.commands = folder, database, commands
        self.send, self.topic = send, topic
        self.numbers: list[int] = []

    def bring(self, numbers: Sequence[int]) -> None:
        """Orders into each source that is not its own: a file, a commit, messages."""
        at = "2026-01-01T00:00:00Z"
        lines = [json.dumps({"id": f"o{n}", "n": n, "at": at}) for n in numbers]
        file = self.folder / "exported" / f"{numbers[0]}.jsonl"
        file.write_text("".join(f"{line}\n" for line in lines))
        os.utime(file, (time.time() - 60, time.time() - 60))
        kinds = {"id": pa.string(), "n": pa.int32(), "at": pa.timestamp("us", "UTC")}
        table = pa.table({"id": [f"o{n}" for n in numbers], "n": list(numbers), "at": [0] * len(numbers)})
        write_deltalake(self.folder / "lake", table.cast(pa.schema(list(kinds.items()))), mode="append")
        self.send(self.topic, [Message(key=None, value=line.encode()) for line in lines])
        self.numbers += numbers

    def dies(self, at: str) -> None:
        """A run that ends where it is told, by SIGKILL."""
        (self.folder / "dies").write_text(at)
        command = self.commands.run("backfill")
        assert command.code() == -signal.SIGKILL, command.stderr
        assert not (self.folder / "dies").exists()

    def whole(self, name: str) -> list[Path]:
        """The files that the manifests of a folder name."""
        manifests = sorted((self.folder / name / "_manifest").glob("0*.json"))
        found = [json.loads(one.read_text())["files"] for one in manifests]
        return [self.folder / name / file for files in found for file in files]


def orders_in(broker: str, topic: str) -> Counter[str]:
    """How often each order is in a topic."""
    return Counter(json.loads(value or b"")["id"] for _, value in consumed(broker, topic))


@pytest.fixture(name="drill")
def _drill(
    broker: str, new_topic: Callable[[], str], send: Callable[..., None], tmp_path: Path
) -> Iterator[tuple[Drill, str]]:
    topic, sink = new_topic(), new_topic()
    folder = tmp_path / "drill"
    for name in ("exported", "touched"):
        (folder / name).mkdir(parents=True)
    with postgres() as database:
        database.run(TABLES)
        given: dict[str, Any] = {"sql": database.command, "password": PASSWORD}
        file = folder / "drill.py"
        file.write_text(PIPELINE.format(topic=topic, sink=sink, **given))
        with medallion(folder, file, f"kafka.bootstrap_servers={broker}") as commands:
            yield Drill(folder, database, commands, send, topic), sink


def test_every_sink_has_each_row_of_its_source_through_kills(drill: tuple[Drill, str], broker: str) -> None:
    """Once where the sink can tell, in the others at least once; and nothing that no source had."""
    made, sink = drill
    for first, at in ((0, "inside"), (10, "after"), (20, "manifest")):
        made.bring(range(first, first + 10))
        made.dies(at)
    made.bring(range(30, 40))
    done = made.commands.run("backfill")
    assert done.code() == 0, done.stderr
    ids = Counter(f"o{n}" for n in made.numbers)
    sums = {f"k{rest}": sum(n for n in made.numbers if n % 3 == rest) for rest in range(3)}
    told = made.database.run("select k, n from orders").splitlines()
    assert dict(line.split("|") for line in told) == {key: str(total) for key, total in sums.items()}
    tables = [pq.read_table(file, partitioning=None).to_pylist() for file in made.whole("export")]
    assert Counter(row["id"] for rows in tables for row in rows) == ids
    assert set(orders_in(broker, sink)) == set(ids)
    assert {file.name for file in (made.folder / "touched").iterdir()} == set(ids)
    raw = [json.loads(line) for file in made.whole("raw") for line in file.read_text().splitlines()]
    bronze = DeltaTable(made.commands.layout.table_path("bronze.rate")).to_pyarrow_table().to_pylist()
    assert raw
    assert sorted(row["n"] for row in raw) == sorted(row["offset"] for row in raw) == list(range(len(raw)))
    assert {(row["offset"], row["n"]) for row in raw} == {
        (one["offset"], one["value"]["value"]) for one in bronze
    }
    audit = made.commands.run("audit")
    assert audit.code() == 0, audit.stdout + audit.stderr
