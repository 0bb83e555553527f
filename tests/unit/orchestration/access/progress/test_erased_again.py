"""Erased records that an older copy has brought back are found by a start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.paths import ERASED, Layout
from common.declare import Pipeline, Topic
from common.delta import table as delta_table
from orchestration.access.progress.erased import erased_again, newest_erased
from orchestration.run.start_checks import _warn_of_erased_records
from tests.support.shops import plain_silver
from tests.unit.common.delta.test_small_table import DAMAGES, damage_page

AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Of one bronze table the records 3 and 7 were erased, and of another one all of them."""
    found = Layout(str(tmp_path), str(tmp_path / "checkpoints"), tmp_path)
    rows = [("bronze.orders", "t", 0, offset, "a", AT) for offset in (3, 7)]
    rows += [("bronze.other", "o", 0, offset, "b", AT) for offset in range(9)]
    names = ("bronze", "topic", "partition", "offset", "run_id", "erased_at")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    write_deltalake(found.table_path(ERASED), pa.table(columns))
    return found


def store(layout: Layout, table: str, *offsets: int, erased_at: datetime | None = None) -> None:
    """A table with the records at some offsets of two partitions."""
    before = "" if table.startswith("bronze.") else "_kafka_"
    places = [("t", partition, offset) for partition in (0, 1) for offset in offsets]
    columns = zip(("topic", "partition", "offset"), zip(*places, strict=True), strict=True)
    write_deltalake(
        layout.table_path(table), pa.table({f"{before}{name}": list(part) for name, part in columns})
    )
    if erased_at is not None:
        value = {delta_table.ERASED: erased_at.isoformat()}
        DeltaTable(layout.table_path(table)).alter.set_table_properties(value, raise_if_not_exists=False)


@pytest.mark.parametrize("table", ["bronze.orders", "silver.orders"])
@pytest.mark.parametrize(
    ("offsets", "erased_at", "again"),
    [
        ((0, 1, 2, 4), None, 0),
        (range(9), None, 2),
        ((3,), AT - timedelta(days=1), 1),
        (range(9), AT + timedelta(seconds=1), 0),  # the log says that it was erased from since
    ],
)
def test_records_that_a_copy_has_brought_back_are_counted(
    layout: Layout, table: str, offsets: tuple[int, ...], erased_at: datetime | None, again: int
) -> None:
    known = newest_erased(layout, ["bronze.orders"])
    assert known is not None
    assert erased_again(layout, known, table) == 0  # there is no table
    store(layout, table, *offsets, erased_at=erased_at)
    assert erased_again(layout, known, table) == again


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_start_says_that_it_cannot_look_for_them_and_goes_on(
    layout: Layout, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of erased records is damaged: nothing else is wrong, and no command makes it whole."""
    DAMAGES[damage](Path(layout.table_path(ERASED)))
    pipeline = Pipeline("p", bronze=[Topic("orders")], silver=[plain_silver("orders", "id string")])
    context: Any = SimpleNamespace(layout=layout, pipeline=pipeline)
    _warn_of_erased_records(context, pipeline.topics[0])
    told = " ".join(capsys.readouterr().err.split())
    assert "bronze.orders: whether erased records are there again cannot be told: the table" in told


def test_a_damaged_page_of_a_table_is_told_by_its_reader(layout: Layout) -> None:
    known = newest_erased(layout, ["bronze.orders"])
    assert known is not None
    store(layout, "bronze.orders", *range(9))
    damage_page(Path(layout.table_path("bronze.orders")))
    assert erased_again(layout, known, "bronze.orders") == 0
