"""The example of a brokerage's warehouse: each gold table has what a plain oracle makes of silver's rows.

Histories are made by Python, version after version; the other tables are their queries in DuckDB.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from inspect import getmodule
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot

from common.declare import Custom, Files, Message, Topic, View
from orchestration.access.declaration.load_file import load_pipeline
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.example_run import ExampleRun, samples

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[3] / "examples" / "brokerage" / "pipeline.py"
SENT = {"customers": 40, "accounts": 40, "trades": 70, "cash": 60}
"""Messages of each topic: those of eight days or so."""
LOADED = {"customers": 22, "accounts": 22, "trades": 40, "cash": 30}
LATE = slice(5, 9)
"""Messages of each topic's load that come with the increment, behind the watermark."""
OLD = time.time() - 3_600

Row = dict[str, Any]
Version = tuple[Any, Any, Row | None]
"""A version's place in time, its order at that time, and its values; None ends the key."""

TRADES = """
    select trade_id, revision, account_id, symbol, quantity, price, fee, traded_at from (
        from silver.trades qualify row_number() over (partition by trade_id order by revision desc) = 1
    ) where status <> 'cancelled'
"""


@dataclass
class Warehouse(ExampleRun):
    """The example of the brokerage.

    Attributes:
        folder: Where its files are.
        write_day: Writes the files of a day.
    """

    folder: Path = field(kw_only=True)
    write_day: Callable[[Path, int, int], list[Path]] = field(kw_only=True)

    def load(self) -> None:
        """The first messages of each topic, but for some; the files of three days."""
        for topic, messages in self.sent.items():
            loaded = messages[: LOADED[topic]]
            self.send(topic, [*loaded[: LATE.start], *loaded[LATE.stop :]])
        self.read_files(0, 1, 2)
        self.engine.run("silver", "gold")

    def go_on(self) -> None:
        """The other messages and the next days; a day's files come after those of a later day."""
        for topic, messages in self.sent.items():
            self.send(topic, messages[LOADED[topic] :])
        self.read_files(3)
        self.engine.run("silver", "gold")
        self.read_files(6)
        self.read_files(5)
        self.engine.run("silver", "gold")

    def come_late(self) -> None:
        """Messages behind the watermark, and the files of a day that was left out."""
        for topic, messages in self.sent.items():
            self.send(topic, messages[LATE])
        self.read_files(4)
        self.engine.run("silver", "gold")

    def correct(self) -> None:
        """Rows of silver get other values."""
        self.silver("customers").update(predicate="change_id % 5 = 0", updates={"tier": "3", "city": "NULL"})
        self.silver("accounts").update(predicate="change_id % 7 = 0", updates={"customer_id": "101"})
        self.silver("trades").update(predicate="trade_id % 6 = 0", updates={"price": "price * 2"})
        self.silver("prices").update(
            predicate="symbol = 'ALBA' and day < '2025-06-01'", updates={"high": "999"}
        )
        self.silver("prospects").update(predicate="prospect_id % 5 = 0", updates={"city": "'Lyon'"})
        self.engine.run("gold")

    def delete(self) -> None:
        """Rows of silver go; of the prospects those of a whole day, and some of another."""
        self.silver("customers").delete("change_id % 9 = 1")
        self.silver("accounts").delete("change_id % 11 = 3")
        self.silver("trades").delete("trade_id % 10 = 4")
        self.silver("prospects").delete("taken_on = '2026-03-04T00:00:00Z'")
        self.silver("prospects").delete("taken_on = '2026-03-06T00:00:00Z' and prospect_id < 7")
        self.engine.run("gold")

    def read_files(self, *days: int) -> None:
        """Write the files of some days, and have bronze read them."""
        for day in days:
            for file in self.write_day(self.folder, 7, day):
                os.utime(file, (OLD, OLD))
        files = [each for each in self.engine.pipeline.bronze if isinstance(each, Files)]
        alone = replace(self.engine.pipeline, bronze=files, silver=[], gold=[])
        Engine(self.engine.spark, alone, self.engine.settings).run("bronze")

    def wrong(self) -> dict[str, str]:
        """The gold tables that are not what the oracles make of silver's rows, and how they differ."""
        return self.differing(self.texts(), self.histories())

    def texts(self) -> Mapping[str, str]:
        """The views in DuckDB's dialect, after those that they read."""
        views = (each for each in self.engine.pipeline.gold if isinstance(each, View))
        return {"trades": TRADES} | {
            each.name: sqlglot.transpile(each.statement, "spark", "duckdb")[0] for each in views
        }

    def histories(self) -> Mapping[str, pa.Table]:
        """The histories, in Python."""
        people, of, listed = (self.rows(name) for name in ("customers", "accounts", "prospects"))
        return {
            "customers": _table(
                _intervals(
                    _filled(people, "customer_id", ("name", "city", "tier", "phone")),
                    ("customer_id", "customer_key", ("name", "city", "tier"), ("phone",)),
                )
            ),
            "accounts": _table(
                _intervals(
                    _filled(of, "account_id", ("customer_id", "broker", "status")),
                    ("account_id", "account_key", ("customer_id", "broker", "status"), ()),
                )
            ),
            "prospects": _table(
                _intervals(_of_snapshots(listed), ("prospect_id", "", ("name", "city", "net_worth"), ()))
            ),
        }

    def rows(self, silver: str) -> list[Row]:
        """The rows of a silver table."""
        return self.engine.rows(f"silver.{silver}")


STAGES: Mapping[str, Callable[[Warehouse], None]] = {
    "load": Warehouse.load,
    "increment": Warehouse.go_on,
    "late": Warehouse.come_late,
    "corrections": Warehouse.correct,
    "deletions": Warehouse.delete,
}


def _filled(rows: Iterable[Row], key: str, names: Sequence[str]) -> Iterator[tuple[Any, list[Version]]]:
    """The versions of each key with all their values: null leaves one as it was since the last end."""
    of_keys = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["changed_at"], row["change_id"])):
        of_keys[row[key]].append(row)
    for value, changes in of_keys.items():
        known: Row = {}
        versions: list[Version] = []
        for row in changes:
            if row["action"] == "close":
                known = {}
            else:
                known |= {name: row[name] for name in names if row[name] is not None}
            state = None if row["action"] == "close" else {name: known.get(name) for name in names}
            versions.append((row["changed_at"], row["change_id"], state))
        yield value, versions


def _of_snapshots(rows: Iterable[Row]) -> Iterator[tuple[Any, list[Version]]]:
    """Each key in each snapshot; one that lacks it ends it, unless that is the newest."""
    listed = {(row["prospect_id"], row["taken_on"]): row for row in rows}
    days = sorted({day for _, day in listed})
    for key in sorted({key for key, _ in listed}):
        yield (
            key,
            [(day, 0, listed.get((key, day))) for day in days if day != days[-1] or (key, day) in listed],
        )


def _intervals(
    keys: Iterable[tuple[Any, list[Version]]], shape: tuple[str, str, Sequence[str], Sequence[str]]
) -> list[Row]:
    """The rows of a history; ``shape``: key, surrogate key, columns, and those that are not tracked."""
    key, surrogate, columns, untracked = shape
    found = []
    for value, versions in keys:
        last = {at: state for at, _, state in versions}  # of one time, the last counts
        runs: list[Row] = []
        tracked: Any = None
        for at, state in last.items():
            before, tracked = tracked, None if state is None else [state[name] for name in columns]
            if runs and before is not None and tracked != before:
                runs[-1]["valid_to"] = at
            if state is None:
                continue
            if tracked != before:
                runs.append({key: value, "valid_from": at, "valid_to": None, "versions": 0})
                runs[-1] |= {name: state[name] for name in columns}
                if surrogate:
                    runs[-1][surrogate] = _surrogate(value, at)
            runs[-1] |= {name: state[name] for name in untracked}
            runs[-1] |= {"versions": runs[-1]["versions"] + 1, "last_at": at}
        found += [run | {"is_current": run["valid_to"] is None} for run in runs]
    return found


def _surrogate(key: int, at: datetime) -> str:
    micros = (at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000
    return sha256(f'["{key}","{micros:.0f}"]'.encode()).hexdigest()


def _table(rows: Sequence[Row]) -> pa.Table:
    naive = [
        {
            name: value.replace(tzinfo=None) if isinstance(value, datetime) else value
            for name, value in row.items()
        }
        for row in rows
    ]
    return pa.Table.from_pylist(naive)


@pytest.fixture(name="warehouse", scope="module")
def _warehouse(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    pipeline = load_pipeline(EXAMPLE)
    folder = tmp_path_factory.mktemp("brokerage")
    files = {"prospects": folder / "prospects", "prices": folder / "prices"}
    bronze = [
        replace(each, path=str(files[each.name])) if isinstance(each, Files) else each
        for each in pipeline.bronze
    ]
    engine = Engine(spark, replace(pipeline, bronze=bronze), make_settings(folder, "none:1"))
    topic = pipeline.bronze[0]
    assert isinstance(topic, Topic)
    write_day = getmodule(topic.sample).write_day  # type: ignore[union-attr]  # of the module beside the pipeline
    began = datetime(2026, 4, 1, tzinfo=UTC)  # after all events: none is of the future
    return Warehouse(engine, samples(pipeline, 7, SENT), began, folder=folder, write_day=write_day)


def test_everything_is_declared(warehouse: Warehouse) -> None:
    assert not [each for each in warehouse.engine.pipeline.gold if isinstance(each, Custom)]


def test_the_same_seed_gives_the_same_bytes(warehouse: Warehouse, tmp_path: Path) -> None:
    pipeline = warehouse.engine.pipeline
    assert samples(pipeline, 7, SENT) == warehouse.sent
    others: Mapping[str, list[Message]] = samples(pipeline, 8, SENT)
    assert all(others[name] != messages for name, messages in warehouse.sent.items())
    texts = [[file.read_text() for file in warehouse.write_day(tmp_path, seed, 0)] for seed in (7, 7, 8)]
    assert texts[0] == texts[1]
    assert all(one != other for one, other in zip(texts[0], texts[2], strict=True))


@pytest.mark.parametrize("stage", [*STAGES])
def test_every_table_is_what_the_oracles_make_of_silver(warehouse: Warehouse, stage: str) -> None:
    warehouse.reach(stage, STAGES)
    assert warehouse.wrong() == {}


def test_the_late_messages_were_behind_the_watermark(warehouse: Warehouse) -> None:
    """Else they would prove nothing."""
    warehouse.reach("late", STAGES)
    assert all(warehouse.engine.rows(f"silver.{name}__late") for name in ("customers", "accounts", "cash"))
