"""Rows that a query has read, by the positions in its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.paths import Layout
from common.declare import Join, Topic, Upsert
from orchestration.access.progress.rows_read import RowsRead

LATEST = Upsert("latest", reads="silver.quakes", key=["n"], newest_by=["n"])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)


def write(layout: Layout, table: str, rows: int) -> None:
    write_deltalake(layout.table_path(table), pa.table({"n": list(range(rows))}), mode="append")


def commit(layout: Layout, query: str, number: int, *sources: Any) -> None:
    """A finished micro-batch up to these positions."""
    root = Path(layout.checkpoint_path(query))
    lines = "\n".join(json.dumps(source) for source in sources)
    for folder, text in (("offsets", f"v1\n{{}}\n{lines}"), ("commits", "v1\n{}")):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / str(number)).write_text(text)


def delta(layout: Layout, table: str, version: int) -> dict[str, Any]:
    table_id = str(DeltaTable(layout.table_path(table)).metadata().id)
    place = {"sourceVersion": 1, "reservoirId": table_id, "reservoirVersion": version, "index": -1}
    return place | {"isStartingVersion": False}


def test_rows_are_those_between_two_positions_however_often_they_are_read(layout: Layout) -> None:
    for rows in (10, 20, 40):
        write(layout, "silver.quakes", rows)
    commit(layout, "gold.latest", 0, delta(layout, "silver.quakes", 1))
    read = RowsRead(LATEST, layout)
    assert read.advance() == 0
    commit(layout, "gold.latest", 1, delta(layout, "silver.quakes", 3))
    assert read.advance() == 60
    assert read.advance() == 0


def test_a_new_query_reads_from_the_first_commit(layout: Layout) -> None:
    read = RowsRead(LATEST, layout)
    assert read.advance() == 0
    write(layout, "silver.quakes", 10)
    commit(layout, "gold.latest", 0, delta(layout, "silver.quakes", 1))
    assert read.advance() == 10


@pytest.mark.parametrize("joins", ["silver.b", "{folder}/lake/b"])
def test_a_join_reads_both_tables(layout: Layout, tmp_path: Path, joins: str) -> None:
    joins = joins.format(folder=tmp_path)
    join = Join("both", reads="silver.a", joins=joins, on={"n": "n"}, columns={"n": "n"})
    write(layout, "silver.a", 3)
    write(layout, joins, 4)
    read = RowsRead(join, layout)
    commit(layout, "gold.both", 0, delta(layout, "silver.a", 1), delta(layout, joins, 1))
    assert read.advance() == 7


def test_records_of_kafka_count_from_the_position_or_the_first_offset(layout: Layout) -> None:
    with_first = RowsRead(Topic("t"), layout, {"t": {0: 5, 1: 0}})
    without = RowsRead(Topic("t"), layout)
    commit(layout, "bronze.t", 0, {"t": {"0": 25, "1": 10}})
    assert with_first.advance() == 30
    assert without.advance() is None
    commit(layout, "bronze.t", 1, {"t": {"0": 26, "1": 10}})
    assert (with_first.advance(), without.advance()) == (1, 1)


def test_history_that_is_gone_is_not_a_number(layout: Layout) -> None:
    for rows in (10, 20):
        write(layout, "silver.quakes", rows)
    read = RowsRead(LATEST, layout)
    commit(layout, "gold.latest", 0, delta(layout, "silver.quakes", 2))
    (Path(layout.table_path("silver.quakes")) / "_delta_log/00000000000000000000.json").unlink()
    assert read.advance() is None
