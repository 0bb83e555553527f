"""Avro schemas as columns see them, and the ones that no column can hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.declare import Avro
from common.errors import PipelineError
from common.schema import avro as avro_schema
from common.schema.ddl import Field


def types(*members: tuple[str, Any]) -> dict[str, str]:
    """Fields of a record and the types that they become."""
    document = {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in members]}
    return {f.name: f.type for f in avro_schema.fields(Avro(json.dumps(document)), Path())}


def refused(kind: Any) -> str:
    with pytest.raises(PipelineError) as told:
        types(("a", kind))
    return "; ".join(problem.message for problem in told.value.problems)


def test_each_type_has_its_column() -> None:
    inner = {"type": "record", "name": "In", "namespace": "x.y", "fields": [{"name": "n", "type": "int"}]}
    assert types(
        ("a", ["null", "long"]),
        ("b", {"type": "map", "values": {"type": "array", "items": "float"}}),
        ("c", inner),
        ("d", {"type": "array", "items": "x.y.In"}),
        ("e", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
        ("f", {"type": "long", "logicalType": "timestamp-micros"}),
        ("g", {"type": "int", "logicalType": "time-millis"}),
        ("h", {"type": {"type": "string"}}),
        ("i", ["int", "null", "long"]),
    ) == {
        "a": "bigint",
        "b": "map<string,array<float>>",
        "c": "struct<n:int>",
        "d": "array<struct<n:int>>",
        "e": "decimal(12,2)",
        "f": "timestamp",
        "g": "int",
        "h": "string",
        "i": "bigint",
    }


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (["int", "string"], "field 'a' is a union of 2 types"),
        ("strng", "did you mean 'string'?"),
        ("null", "is of type null alone"),
        ("R", "holds the record 'R' within itself"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "a decimal of 39 digits"),
        ({"type": "bytes", "logicalType": "decimal"}, "without a valid precision"),
        ({"type": "bytes", "logicalType": "big-decimal"}, "big-decimal"),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 10}, "at most 9"),
        ({"type": "array"}, "without 'items'"),
        ({"type": "enum", "name": "E", "symbols": []}, "without valid symbols"),
        (7, "is no Avro type"),
    ],
)
def test_what_no_column_can_hold_is_refused_in_words(kind: Any, told: str) -> None:
    assert told in refused(kind)


def test_fields_that_differ_by_case_only_are_refused() -> None:
    with pytest.raises(PipelineError, match="'a' and 'A'"):
        types(("a", "int"), ("A", "int"))


def test_a_value_is_a_record() -> None:
    with pytest.raises(PipelineError, match="a value is a record"):
        avro_schema.fields(Avro('"long"'), Path())


def test_a_file_is_found_beside_the_pipeline_or_the_nearest_is_named(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(
        '{"type":"record","name":"O","fields":[{"name":"id","type":"string"}]}'
    )
    assert avro_schema.fields(Avro("order.avsc"), tmp_path) == (Field("id", "string"),)
    with pytest.raises(PipelineError, match=r"did you mean 'order.avsc'\?"):
        avro_schema.fields(Avro("orders.avsc"), tmp_path)
    (tmp_path / "bad.avsc").write_text('{\n"type": }')
    with pytest.raises(PipelineError, match=r"bad\.avsc:2 is not JSON"):
        avro_schema.fields(Avro("bad.avsc"), tmp_path)


def test_spark_is_told_the_same_types() -> None:
    nested = Field(
        "m",
        "map<string,array<int>>",
        (Field("key", "string"), Field("v", "array<int>", (Field("element", "int"),))),
    )
    (member,) = avro_schema.spark_json([nested])["fields"]
    assert member["type"]["valueType"] == {"type": "array", "elementType": "integer", "containsNull": True}
