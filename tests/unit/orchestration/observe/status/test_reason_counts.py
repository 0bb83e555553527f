"""Rows of a quarantine by reason, counted from new files only, equal a count of the whole table."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from common.delta.log import LogReader
from orchestration.access.query.duckdb_views import Database, count_reasons
from orchestration.observe.page.live import Live
from orchestration.observe.status import reason_counts
from orchestration.observe.status.model import Status, TableStatus
from orchestration.observe.status.reason_counts import ReasonCounter
from tests.support.oracles.lived_in import PIPELINE, LivedIn


class Counted:
    """A counter of one quarantine, and how often the whole table was counted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lived_in = LivedIn(folder)
        self.path = self.lived_in.layout.table_path("silver.orders__quarantine")
        self.counter, self.log, self.whole = ReasonCounter(), LogReader(self.path), 0
        monkeypatch.setattr(reason_counts, "count_reasons", self._count)

    def _count(self, database: Database, path: str, version: int | None = None) -> object:
        self.whole += 1
        return count_reasons(database, path, version)

    def now(self) -> dict[str, int]:
        snapshot = self.log.snapshot()
        assert snapshot is not None
        return dict(self.counter.count(self.log, snapshot))

    def expected(self) -> dict[str, int]:
        return dict(count_reasons(Database(), self.path))


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(tmp_path, monkeypatch)


@pytest.mark.long
def test_a_micro_batch_costs_its_own_files_and_not_those_of_a_year(counted: Counted) -> None:
    for batch in range(5):
        counted.lived_in.quarantine({b"a": "bad", b"b": f"reason {batch % 2}"})
        assert counted.now() == counted.expected()
    assert counted.now() == {"bad": 5, "reason 0": 3, "reason 1": 2}
    assert counted.whole == 1


def test_a_compaction_changes_nothing(counted: Counted) -> None:
    for _ in range(3):
        counted.lived_in.quarantine({b"a": "bad"})
        counted.now()
    DeltaTable(counted.path).optimize.compact()
    assert counted.now() == {"bad": 3}
    counted.lived_in.quarantine({b"a": "bad"})
    assert counted.now() == {"bad": 4}
    assert counted.whole == 1


def test_rows_that_were_removed_are_counted_again(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most once a minute, however often rows are removed."""
    counted.lived_in.quarantine({b"a": "bad", b"b": "worse"})
    assert counted.now() == {"bad": 1, "worse": 1}
    DeltaTable(counted.path).delete('"offset" = 1')
    assert counted.now() == {"bad": 1, "worse": 1}
    assert counted.whole == 1
    monkeypatch.setattr(reason_counts, "_PAUSE_SECONDS", 0.0)
    assert counted.now() == counted.expected() == {"bad": 1}
    assert counted.whole == 2


def only(status: Status, table: str) -> TableStatus:
    (found,) = (one for one in status.tables if one.table == table)
    return found


def test_a_quarantine_whose_files_are_damaged_hides_only_its_reasons(tmp_path: Path) -> None:
    lived_in = LivedIn(tmp_path)
    lived_in.caught_up()
    lived_in.quarantine({b"a": "bad"})
    live = Live(PIPELINE, lived_in.settings, lived_in.layout)
    live.status()
    for file in Path(lived_in.layout.table_path("silver.orders__quarantine")).glob("*.parquet"):
        file.write_bytes(b"x")
    for reader, reasons in ((live, (("bad", 1),)), (Live(PIPELINE, lived_in.settings, lived_in.layout), ())):
        rejected = only(reader.facts(True).status, "silver.orders").quarantine
        assert rejected is not None
        assert (rejected.rows, rejected.reasons) == (1, reasons)
