"""The bronze tables of a case have the columns, properties and commits that bronze's own query gives them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from bronze.table import PROPERTIES, SCHEMA
from common.config.paths import Layout
from common.declare import Pipeline, Topic
from common.errors import CaseError
from common.schema.ddl import parse
from medallion import case
from orchestration.author.cases.arrow_types import fields_of
from orchestration.author.cases.bronze_rows import (
    bronze_batches,
    create_bronze,
    write_bronze,
    write_lookup,
)
from orchestration.author.cases.read.case import TIMESTAMP, Place
from orchestration.author.cases.read.text_table import parse_table
from orchestration.author.cases.record import _lines
from orchestration.author.cases.run_case import TableRows
from orchestration.author.check.visible_columns import BRONZE
from tests.conftest import make_settings

SHOP = Pipeline(name="shop", bronze=[Topic("orders"), Topic("returns", pattern="back_.*")])


def test_each_micro_batch_is_a_commit_and_offsets_go_on(tmp_path: Path) -> None:
    given = case(
        "one",
        topic="orders",
        messages=[
            {"value": {"id": 1}, "key": "k", "headers": [{"a": "x"}, {"a": None}]},
            {"value": None, "offset": 7, "timestamp": "2026-03-01T12:00:00Z"},
            "cut",
            {"value": "x"},
            {"value": "y", "partition": 2},
            {"value": "z", "topic": "back_eu"},
        ],
        expect={"bronze.orders": "none"},
    )
    layout = Layout.of(SHOP, make_settings(tmp_path, "none:1"))
    create_bronze(SHOP, layout)
    for batch in bronze_batches(given, SHOP):
        write_bronze(batch, SHOP, layout)
    table = DeltaTable(layout.table_path("bronze.orders"))
    assert table.version() == 2
    assert len(table.file_uris()) == 2
    assert dict(table.metadata().configuration) == PROPERTIES
    rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: (row["partition"], row["offset"]))
    assert [(r["partition"], r["offset"], r["key"], r["value"]) for r in rows] == [
        (0, 0, b"k", b'{"id": 1}'),
        (0, 7, None, None),
        (0, 8, None, b"x"),
        (2, 0, None, b"y"),
    ]
    assert rows[0]["headers"] == [{"key": "a", "value": b"x"}, {"key": "a", "value": None}]
    assert rows[1]["headers"] is None
    assert [row["kafka_timestamp"] for row in rows[:2]] == [TIMESTAMP, datetime(2026, 3, 1, 12, tzinfo=UTC)]
    assert rows[0]["ingested_at"] < rows[2]["ingested_at"]
    (other,) = DeltaTable(layout.table_path("bronze.returns")).to_pyarrow_table().to_pylist()
    assert (other["topic"], other["offset"], other["value"]) == ("back_eu", 0, b"z")


def test_the_columns_are_those_of_the_bronze_table(tmp_path: Path) -> None:
    layout = Layout.of(SHOP, make_settings(tmp_path, "none:1"))
    create_bronze(SHOP, layout)
    schema = DeltaTable(layout.table_path("bronze.orders")).schema()
    found = {field.name: field.type for field in fields_of(pa.schema(schema.to_arrow()))}
    assert found == {field.name: field.dataType.simpleString() for field in SCHEMA.fields}
    assert found == {field.name: field.type for field in BRONZE}


def test_a_record_of_a_topic_that_nothing_reads_is_refused() -> None:
    given = case("one", topic="order", messages=["x"], expect={"bronze.orders": "none"})
    with pytest.raises(CaseError, match="no bronze table reads topic 'order'; did you mean 'orders'"):
        bronze_batches(given, SHOP)


def test_the_rows_of_a_lookup_have_the_types_of_the_heading(tmp_path: Path) -> None:
    text = "code | eu boolean | rate decimal(5,2) | since timestamp\nde | true | 1.5 | 2026-03-01\nch | | |"
    place = Place(Path("shop.cases.yaml"), 3)
    table = parse_table(text, place, "lookups", [])
    path = write_lookup(table, tmp_path / "lookups" / "countries")
    found = DeltaTable(path).to_pyarrow_table()
    assert [(field.name, field.type) for field in fields_of(found.schema)] == [
        ("code", "string"),
        ("eu", "boolean"),
        ("rate", "decimal(5,2)"),
        ("since", "timestamp"),
    ]
    assert sorted(row["code"] for row in found.to_pylist() if row["eu"] is None) == ["ch"]
    with pytest.raises(CaseError, match=r"shop\.cases\.yaml:4: lookups: 'maybe' is no boolean"):
        write_lookup(parse_table("eu boolean\nmaybe", place, "lookups", []), tmp_path / "x")
    with pytest.raises(CaseError, match="a lookup's columns are string, "):
        write_lookup(parse_table("eu map<int,int>\n", place, "lookups", []), tmp_path / "y")


def test_a_recorded_case_is_read_as_the_same_case(tmp_path: Path) -> None:
    from orchestration.author.cases.read.load import load_files

    given = case(
        "it's: 'x' #1",
        messages=[
            {"value": '{"a": "it\'s \\u00e9 — | #"}', "key": "k: [", "offset": 3, "topic": "orders"},
            {"value": b"\xff\n", "key": b"\x00", "topic": "orders", "timestamp": 1, "offset": 9},
            {"value": None, "headers": [{"t": "a, b"}, {"t": None}], "topic": "orders", "offset": 10},
        ],
        expect={"bronze.orders": "none"},
    )
    fields = parse("offset bigint, reasons array<string>, note string, _watermark timestamp")
    rows = ({"offset": 3, "reasons": ["a", "b"], "note": "x | null\\", "_watermark": None},)
    tables = {"silver.orders": TableRows(tuple(fields), rows), "silver.orders__late": TableRows((), ())}
    file = tmp_path / "recorded.cases.yaml"
    file.write_text("cases:\n" + "\n".join(_lines(given, tables)) + "\n", encoding="utf-8")
    loaded = load_files([file])
    assert loaded.problems == ()
    (again,) = loaded.cases
    assert again.name == given.name
    parts = [
        [(r.value, r.key, r.headers, r.topic, r.partition, r.offset, r.timestamp) for r in one.records]
        for one in (given, again)
    ]
    assert parts[0] == parts[1]
    expected = again.expect["silver.orders"]
    assert (expected.columns, expected.rows) == (
        ("offset", "reasons", "note"),
        (("3", "a, b", "x | null\\"),),
    )
    assert again.expect["silver.orders__late"].columns == ()
