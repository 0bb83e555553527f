"""Whatever is gone or damaged, and wherever the recovery is killed: the tables are those of an undamaged run.

Each case is drawn from a seed, which is printed: ``RECOVER_SEED=17`` runs that case alone, and
``RECOVER_CASES=200`` draws so many, from ``RECOVER_FIRST`` on, for at most ``RECOVER_SECONDS``. All cases
start from one copy of a pipeline that has run.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from bronze.table import PROPERTIES, SCHEMA
from common.declare import Aggregate, Custom, Gold, History, Pipeline, Topic, Upsert, Window
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.machine.storage_folder import StorageFolder
from orchestration.change.recover.carry_out import recover_all
from orchestration.records.audit.audit import audit
from tests.conftest import make_settings
from tests.pipeline.silver.test_accounts import DELAY, EVENTS, KAFKA_TIME, ROTTEN, WRITTEN, _event, bring
from tests.support.engine import Engine
from tests.support.heap import release_tables
from tests.support.oracles.silver_oracle import Record, SilverOracle

CUTS: list[list[bytes | None]] = [
    *WRITTEN,
    [
        _event("e5", 156, "5", ""),
        _event("e6", 157, "250", ""),
        _event("e7", 2, "7.25", ""),
        _event("e8", 170, "5", ""),
        *ROTTEN[::5],
    ],
]
"""The records of each micro-batch of bronze; silver reads one at a time."""
BEFORE = 4
"""So many of them were there before the damage."""


def _copy(events: Any, writer: Any) -> None:
    writer.append(events.selectExpr("event_id", "cast(amount * 2 as decimal(11, 2)) as twice"), "copied")


GOLD: tuple[Gold, ...] = (
    Aggregate("by_amount", reads="silver.events", by=["amount"], measures={"events": "count(*)"}),
    Aggregate(
        "by_hour",
        reads="silver.events",
        mode="update",
        window=Window("happened_at", "1 hour"),
        measures={"events": "count(*)"},
    ),
    Aggregate(
        "exact",
        reads="silver.events",
        mode="recompute",
        by=["amount"],
        measures={"keys": "count(distinct event_id)", "latest": "max(happened_at)"},
    ),
    Upsert(
        "newest",
        reads="silver.events",
        key=["amount"],
        newest_by=["happened_at"],
        delete_when="event_id = 'e6'",
    ),
    History("states", reads="silver.events", key=["amount"], valid_by="happened_at", columns=["event_id"]),
    Custom(
        "copied",
        reads="silver.events",
        write=_copy,
        tables={"copied": "event_id string, twice decimal(11,2)"},
    ),
)
SILVER = ("silver.events", "silver.events__quarantine", "silver.events__late")
TABLES = (*SILVER, *(name for gold in GOLD for name in (gold.table, *gold.side_tables)))
PIPELINE = Pipeline(name="accounts", bronze=[Topic("events", topics=["t"])], silver=[EVENTS], gold=list(GOLD))


@dataclass
class Life:
    """A pipeline that has run before the damage, and what its tables hold after an undamaged end.

    Attributes:
        engine: The pipeline; it is never damaged itself.
        folder: Its data folder.
        ends: Per micro-batch of bronze, the next offsets.
        records: Per micro-batch of bronze, its records.
        expected: Rows of all tables at the end, as multisets.
    """

    engine: Engine
    folder: Path
    ends: list[list[int]]
    records: list[list[Record]]
    expected: Mapping[str, Counter[str]]

    def read(self, engine: Engine, first: int, end: int) -> None:
        """Bronze reads these micro-batches."""
        for number in range(first, end):
            bring(engine, number, self.records[number], self.ends[number])


@pytest.fixture(scope="module")
def life(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """All tables after four micro-batches; the expected rows are those of a copy that goes on undamaged."""
    folder = tmp_path_factory.mktemp("recover")
    engine = Engine(spark, PIPELINE, _settings(folder))
    records: list[list[Record]] = []
    ends, at = [], [0, 0]
    for values in CUTS:
        batch = []
        for value in values:
            partition = at.index(min(at))
            batch.append(Record(partition, at[partition], KAFKA_TIME, value))
            at[partition] += 1
        records.append(batch)
        ends.append(list(at))
    path = engine.path("bronze.events")
    delta_table.ensure(spark, "bronze.events", path, SCHEMA, PROPERTIES)
    made = Life(engine, folder, ends, records, {})
    for first in (0, BEFORE - 1):
        made.read(engine, first, BEFORE if first else BEFORE - 1)
        engine.run("silver", "gold")
    recover_all(PIPELINE, engine.settings, engine.layout, only="bronze.events", spark=lambda: spark)
    undamaged = _copy_of(made, "undamaged", GOLD)
    made.read(undamaged, BEFORE, len(CUTS))
    undamaged.run("silver", "gold")
    made.expected = content(undamaged)
    _check_oracle(made, undamaged)
    return made


def _settings(folder: Path) -> Any:
    return make_settings(folder, "none:1", "silver.max_files_per_trigger=1")


def _copy_of(life: Life, name: str, gold: tuple[Gold, ...]) -> Engine:
    folder = life.folder.parent / f"{life.folder.name}_{name}"
    shutil.copytree(life.folder, folder)
    pipeline = replace(PIPELINE, gold=list(gold))
    return Engine(life.engine.spark, pipeline, _settings(folder))


def content(engine: Engine) -> dict[str, Counter[str]]:
    """Rows of silver, of its side tables and of all gold tables of a pipeline, as multisets."""
    names = [*SILVER, *(name for gold in engine.pipeline.gold for name in (gold.table, *gold.side_tables))]
    return {name: Counter(map(repr, engine.rows(name))) for name in names}


def _check_oracle(life: Life, engine: Engine) -> None:
    """What all cases are compared with is itself what the oracle says."""
    oracle = SilverOracle(DELAY)
    for batch in life.records:
        oracle.batch(batch)
    found = {(row["_kafka_partition"], row["_kafka_offset"]) for row in engine.rows("silver.events")}
    assert found == set(oracle.silver)
    late = {(row["_kafka_partition"], row["_kafka_offset"]) for row in engine.rows("silver.events__late")}
    assert late == oracle.late
    aside = Counter((r["partition"], r["offset"]) for r in engine.rows("silver.events__quarantine"))
    assert aside == Counter([*oracle.quarantine, *oracle.dropped])


def run_case(life: Life, seed: int) -> str:
    """One case; returns what was damaged, in words."""
    draw = random.Random(seed)  # noqa: S311  # a seeded case, no secret
    gold = draw.choice(GOLD)
    engine = _copy_of(life, f"case_{seed}", (gold,))
    words = [draw.choice(DAMAGES)(engine, draw) for _ in range(draw.choice([1, 1, 1, 2]))]
    text = f"seed {seed}, {gold.table}: {'; '.join(words)}"
    print(text, flush=True)  # noqa: T201  # the seeds are part of the result
    kill_after = draw.choice([None, None, 0, 1, 2, 3])
    kinds: tuple[str, ...] = ()
    try:
        with killed_after(kill_after):
            kinds = _recover(engine)
    except _KilledError:
        text += f"; killed after {kill_after} changes"
        kinds = _recover(engine)
    assert _recover(engine) == (), text
    life.read(engine, _read_by_bronze(engine), len(CUTS))
    engine.run("silver", "gold")
    found = content(engine)
    for table, rows in found.items():
        expected = life.expected[table]
        assert (rows - expected, expected - rows) == (Counter(), Counter()), f"{table}: {text}; {kinds}"
    assert audit(engine.spark, engine.pipeline, EVENTS, engine.layout, again_seconds=0).faults == (), text
    shutil.rmtree(engine.layout.local.parents[1])
    return text


def _recover(engine: Engine) -> tuple[str, ...]:
    done = recover_all(engine.pipeline, engine.settings, engine.layout, spark=lambda: engine.spark)
    return tuple(f"{step.query} {step.kind}" for step in done.steps)


def _read_by_bronze(engine: Engine) -> int:
    """The micro-batch of bronze that comes next, by its checkpoint."""
    return (Checkpoint(str(engine.checkpoint("bronze.events"))).last_committed() or 0) + 1


class _KilledError(Exception):
    """Ends a recovery where a kill would."""


@contextmanager
def killed_after(changes: int | None) -> Iterator[None]:
    """Within the block, the process "dies" before the change of a file that follows so many others."""
    left = [10_000 if changes is None else changes]

    def dying(change: Callable[..., Any]) -> Callable[..., Any]:
        def run(*words: Any, **named: Any) -> Any:
            if "medallion-recover" in str(getattr(words[0], "path", "")):
                return change(*words, **named)  # the copy that a plan tries a repair with
            if not left[0]:
                raise _KilledError
            left[0] -= 1
            return change(*words, **named)

        return run

    with (
        mock.patch.object(Path, "rename", dying(Path.rename)),
        mock.patch.object(StorageFolder, "write", dying(StorageFolder.write)),
        mock.patch.object(StorageFolder, "delete", dying(StorageFolder.delete)),
    ):
        yield


def _queries(engine: Engine) -> list[str]:
    return ["silver.events", "silver.events", engine.pipeline.gold[0].table, "bronze.events"]


def _numbered(folder: Path) -> list[int]:
    return sorted(int(one.name) for one in folder.iterdir() if one.name.isdigit()) if folder.is_dir() else []


def _delete(file: Path) -> None:
    file.unlink(missing_ok=True)
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


def checkpoint_gone(engine: Engine, draw: random.Random) -> str:
    """The whole folder."""
    query = draw.choice(_queries(engine))
    shutil.rmtree(engine.checkpoint(query), ignore_errors=True)
    return f"checkpoint of {query} gone"


def state_gone(engine: Engine, draw: random.Random) -> str:
    """The folder state, where there is one."""
    query = draw.choice(_queries(engine)[:3])
    shutil.rmtree(engine.checkpoint(query) / "state", ignore_errors=True)
    return f"state of {query} gone"


def state_damaged(engine: Engine, draw: random.Random) -> str:
    """One file of the newest versions cut or gone."""
    query = draw.choice(_queries(engine)[:3])
    folder = engine.checkpoint(query) / "state"
    files = sorted(folder.rglob("*.delta")) or sorted(folder.rglob("*.zip"))
    if not files:
        return f"no state of {query}"
    file = files[-draw.randint(1, min(3, len(files)))]
    cut = draw.choice([None, 0, file.stat().st_size // 2])
    if cut is None:
        _delete(file)
    else:
        with file.open("r+b") as opened:
            opened.truncate(cut)
    return f"{file.relative_to(engine.checkpoint(query))} of {query} cut to {cut}"


def entries_gone(engine: Engine, draw: random.Random) -> str:
    """The newest entries of the offsets, of the commits, or of both."""
    query, folders = (
        draw.choice(_queries(engine)),
        draw.choice([["offsets"], ["commits"], ["offsets", "commits"]]),
    )
    back = draw.choice([1, 1, 2, 3, 50])
    for name in folders:
        for number in _numbered(engine.checkpoint(query) / name)[-back:]:
            _delete(engine.checkpoint(query) / name / str(number))
    return f"the newest {back} of {folders} of {query} gone"


def entry_emptied(engine: Engine, draw: random.Random) -> str:
    """The newest entry, cut to nothing."""
    query, name = draw.choice(_queries(engine)), draw.choice(["offsets", "commits"])
    numbers = _numbered(engine.checkpoint(query) / name)
    if numbers:
        (engine.checkpoint(query) / name / str(numbers[-1])).write_bytes(b"")
    return f"the newest entry of {name} of {query} emptied"


def position_edited(engine: Engine, draw: random.Random) -> str:
    """The newest entry names another position."""
    query, by = draw.choice(_queries(engine)), draw.choice([-1, 1, 2])
    folder = engine.checkpoint(query) / "offsets"
    if not (numbers := _numbered(folder)):
        return "no entry"
    file = folder / str(numbers[-1])
    *head, line = file.read_text().splitlines() or [""]
    if not line.startswith("{"):
        return "no position"
    place = json.loads(line)
    if "reservoirVersion" in place:
        place["reservoirVersion"] += by
    else:
        place = {topic: {n: max(0, end + by) for n, end in ends.items()} for topic, ends in place.items()}
    file.write_text("\n".join([*head, json.dumps(place)]))
    return f"position of {query} edited by {by}"


def metadata_gone(engine: Engine, draw: random.Random) -> str:
    """The file with the query's id."""
    query = draw.choice(_queries(engine))
    _delete(engine.checkpoint(query) / "metadata")
    return f"metadata of {query} gone"


def _table(engine: Engine, draw: random.Random) -> str:
    gold = engine.pipeline.gold[0]
    return draw.choice([*SILVER, gold.table, *gold.side_tables])


def table_gone(engine: Engine, draw: random.Random) -> str:
    """The whole folder."""
    table = _table(engine, draw)
    shutil.rmtree(engine.path(table), ignore_errors=True)
    return f"{table} gone"


def log_entries_gone(engine: Engine, draw: random.Random) -> str:
    """The newest commits of a table, bronze too; or one in the middle."""
    table, back = draw.choice([_table(engine, draw), "bronze.events"]), draw.choice([1, 1, 2, 3, 50])
    log = Path(engine.path(table)) / "_delta_log"
    commits = sorted(log.glob("*.json"))
    # Of bronze at least one micro-batch stays: it is the last resort.
    commits = commits[2:] if table.startswith("bronze.") else commits
    if table != "bronze.events" and len(commits) > 2 and draw.random() < 0.3:
        commits, back = commits[1:2], 1
    for commit in commits[-back:]:
        for file in log.glob(f"{commit.stem}*"):
            file.unlink()
        (log / f".{commit.name}.crc").unlink(missing_ok=True)
    return f"{[one.stem.lstrip('0') for one in commits[-back:]]} of the log of {table} gone"


def log_entry_damaged(engine: Engine, draw: random.Random) -> str:
    """The newest commit of a table, cut or overwritten."""
    table = _table(engine, draw)
    commits = sorted((Path(engine.path(table)) / "_delta_log").glob("*.json"))
    if commits:
        content = commits[-1].read_bytes()
        commits[-1].write_bytes(draw.choice([b"", content[: len(content) // 2], b"x" * len(content)]))
    return f"the newest commit of {table} damaged"


def file_damaged(engine: Engine, draw: random.Random) -> str:
    """A data file of a table, cut or gone."""
    table = _table(engine, draw)
    files = sorted(Path(engine.path(table)).glob("*.parquet"))
    if not files:
        return f"no file of {table}"
    file, cut = draw.choice(files), draw.choice([None, 0, 100])
    if cut is None:
        _delete(file)
    else:
        with file.open("r+b") as opened:
            opened.truncate(cut)
    return f"file of {table} cut to {cut}"


DAMAGES: tuple[Callable[[Engine, random.Random], str], ...] = (
    checkpoint_gone,
    state_gone,
    state_damaged,
    entries_gone,
    entries_gone,
    entry_emptied,
    position_edited,
    metadata_gone,
    table_gone,
    log_entries_gone,
    log_entries_gone,
    log_entry_damaged,
    file_damaged,
)


def _seeds() -> list[int]:
    if (one := os.environ.get("RECOVER_SEED")) is not None:
        return [int(one)]
    first = int(os.environ.get("RECOVER_FIRST", "0"))
    return list(range(first, first + int(os.environ.get("RECOVER_CASES", "12"))))


def _run_cases(life: Life, seeds: list[int]) -> None:
    began, limit, failed, ran = time.monotonic(), float(os.environ.get("RECOVER_SECONDS", "1e9")), [], 0
    for seed in seeds:
        if time.monotonic() - began > limit:
            break
        ran += 1
        try:
            run_case(life, seed)
        except Exception as error:  # noqa: BLE001  # all seeds run; those that fail are listed
            failed.append(f"RECOVER_SEED={seed}: {type(error).__name__}: {str(error)[:600]}")
            print(failed[-1], flush=True)  # noqa: T201
        release_tables()
    print(f"{ran} cases from seed {seeds[0]}, {len(failed)} failed", flush=True)  # noqa: T201
    assert failed == []


@pytest.mark.long
def test_any_damage_is_made_good(life: Life) -> None:
    """Twelve drawn cases, or as many as ``RECOVER_CASES`` says; ``make chaos`` draws 200."""
    _run_cases(life, _seeds())
