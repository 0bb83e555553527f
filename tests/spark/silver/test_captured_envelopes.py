"""Change events as users of Debezium captured them, with and without their schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.declare import Debezium
from silver.read.column_names import META
from silver.read.declared_columns import parse_values

CAPTURED = Path(__file__).parents[4] / "shared" / "data" / "cdc_debezium"
ENVELOPE = {"before", "after", "op", "ts_ms", "source"}
SOURCE = (
    "connector",
    "db",
    "schema",
    "table",
    "snapshot",
    "ts_ms",
    "lsn",
    "file",
    "pos",
    "row",
    "gtid",
    "sequence",
)
KINDS = {bool: "boolean", int: "bigint", str: "string", dict: "string", list: "string"}


def envelopes(file: Path) -> Iterator[str]:
    """Each change event of a file, as it is written there: one a line, or the members of one document."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".txt":
        yield from (line for line in text.splitlines() if line.lstrip().startswith("{"))
    elif "expected_binlog" in text:
        for name in json.loads(text):
            start = text.index("{", text.index(f'"{name}"'))
            yield text[start : json.JSONDecoder().raw_decode(text, start)[1]]
    else:
        yield text[text.index("{") :]


def payload(text: str) -> dict[str, Any]:
    """The envelope proper."""
    document: dict[str, Any] = loaded(text)
    found: dict[str, Any] = document.get("payload", document)
    return found


def loaded(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def kind(value: object) -> str:
    """A column's type that holds the value exactly: some numbers of the capture are no doubles."""
    if isinstance(value, Decimal):
        is_double = Decimal(repr(float(value))) == value
        return "double" if is_double else f"decimal(38,{-int(value.as_tuple().exponent)})"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "decimal(38,0)"
    return KINDS[type(value)]


def row_type(payloads: list[dict[str, Any]]) -> str:
    """DDL of the captured table: what its rows hold; a string where they do not agree."""
    kinds: dict[str, set[str]] = {}
    for each in payloads:
        for row in (each.get("before") or {}, each.get("after") or {}):
            for name, value in row.items():
                kinds.setdefault(name, set()).update({kind(value)} if value is not None else set())
    told = {name: found.pop() if len(found) == 1 else "string" for name, found in kinds.items()}
    return ", ".join(f"`{name}` {kind}" for name, kind in told.items()) or "id string"


def expected(row: dict[str, Any] | None, names: list[str]) -> dict[str, Any] | None:
    return None if row is None else {name: row.get(name) for name in names}


@pytest.mark.skipif(not CAPTURED.is_dir(), reason=f"the captured change events are not there: {CAPTURED}")
def test_every_captured_envelope_is_read_as_it_was_sent(spark: Any) -> None:
    """Rows, operation, times and source; all files of the capture, each with its table's own type."""
    read = 0
    files = [
        *CAPTURED.glob("paimon/**/kafka/debezium/**/*.txt"),
        *CAPTURED.glob("flink-cdc/**/debezium-json*.txt"),
        *CAPTURED.glob("flink-cdc/**/debezium-data-schema-*.json"),
    ]
    by_type: dict[str, list[str]] = {}
    for file in files:
        texts = list(envelopes(file))
        by_type.setdefault(row_type([payload(text) for text in texts]), []).extend(texts)
    for ddl, texts in by_type.items():
        rows = [("t", 0, at, None, 0, None, None, text.encode(), None) for at, text in enumerate(texts)]
        frame = parse_values(spark.createDataFrame(rows, SCHEMA).coalesce(1), Debezium(ddl))
        told = frame.select(F.col(f"{META}.fault").alias("fault"), *sorted(ENVELOPE))
        for text, row in zip(texts, (each.asDict(recursive=True) for each in told.collect()), strict=True):
            sent = payload(text)
            assert row["fault"] is None, text
            assert (row["op"], row["ts_ms"]) == (sent["op"], sent.get("ts_ms")), text
            for side in ("before", "after"):
                names = list(row[side] or ())
                for name, value in (expected(sent.get(side), names) or {}).items():
                    got = row[side][name]
                    if isinstance(got, str) and not isinstance(value, str):
                        got = loaded(got)
                    got = Decimal(repr(got)) if isinstance(got, float) else got
                    assert got == value, (text, name)
                assert (row[side] is None) == (sent.get(side) is None), text
            source = sent.get("source") or {}
            assert {name: value for name, value in (row["source"] or {}).items() if value is not None} == {
                name: source[name] for name in SOURCE if source.get(name) is not None
            }
            read += 1
    assert read > 85


@pytest.mark.skipif(not CAPTURED.is_dir(), reason=f"the captured change events are not there: {CAPTURED}")
def test_a_change_of_the_tables_definition_is_no_change_of_a_row(spark: Any) -> None:
    (file,) = CAPTURED.glob("paimon/**/mysql/debezium-event-change.json")
    (text,) = envelopes(file)
    rows = [("t", 0, 0, None, 0, None, None, text.encode(), None)]
    frame = parse_values(spark.createDataFrame(rows, SCHEMA), Debezium("id bigint"))
    assert [tuple(row) for row in frame.select(f"{META}.fault", f"{META}.fault_field").collect()] == [
        ("missing_required", "op")
    ]
