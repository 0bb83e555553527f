"""Avro schemas as columns see them, and the ones that no column can hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from common.declare import Avro
from common.errors import PipelineError
from common.schema import avro as avro_schema
from common.schema.ddl import Field, spark_json


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
        ("j", {"type": "long", "logicalType": "timestamp-millis"}),
        ("k", {"type": "long", "logicalType": "local-timestamp-millis"}),
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
        "j": "timestamp",
        "k": "timestamp_ntz",
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
        ({"type": "enum", "name": "E", "symbols": ["X", "X"]}, "a symbol twice"),
        ({"type": "enum", "name": "E", "symbols": ["X"], "default": "Y"}, "none of its symbols"),
        (["null", "int", "null"], "null twice"),
        (["null", ["int"]], "a union with a union"),
        (7, "is no Avro type"),
    ],
)
def test_what_no_column_can_hold_is_refused_in_words(kind: Any, told: str) -> None:
    assert told in refused(kind)


INNER = {"type": "record", "name": "In", "fields": [{"name": "n", "type": "int"}]}
CODE = {"type": "fixed", "name": "Code", "size": 2}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}


def with_default(kind: Any, value: Any) -> None:
    document = {
        "type": "record",
        "name": "R",
        "namespace": "shop",
        "fields": [{"name": "a", "type": kind, "default": value}],
    }
    avro_schema.fields(Avro(json.dumps(document)), Path())


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", -(2**31)),
        ("long", 2**63 - 1),
        ("double", 1),
        ("boolean", False),
        ("bytes", "\u00ff"),
        (["null", "int"], None),
        (["null", "int"], 3),
        ({"type": "array", "items": "string"}, ["x"]),
        ({"type": "map", "values": ["null", "int"]}, {"k": None}),
        (CODE, "ab"),
        (COLOUR, "GREEN"),
        (INNER, {"n": 1, "other": 2}),
        ({"type": "array", "items": INNER}, [{"n": 1}]),
        ({"type": {"type": "int", "logicalType": "date"}}, 0),
    ],
)
def test_a_default_of_its_type_is_taken(kind: Any, value: Any) -> None:
    with_default(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("int", "7", "field 'a' has a bad default: \"7\" is no int"),
        ("int", 2**31, "2147483648 is no int"),
        ("int", 1.0, "1.0 is no int"),
        ("int", True, "true is no int"),
        ("long", None, "null is no long"),
        ("double", "NaN", '"NaN" is no double'),
        ("double", float("nan"), "NaN is no double"),
        ("boolean", 0, "0 is no boolean"),
        ("string", 1, "1 is no string"),
        ("bytes", "\u20ac", "is no bytes"),
        (["null", "int"], "x", '"x" is of no type of the union'),
        ({"type": "array", "items": "string"}, [1], "1 is no string"),
        ({"type": "array", "items": "string"}, {}, "{} is no array"),
        ({"type": "map", "values": "int"}, {"k": "v"}, '"v" is no int'),
        (CODE, "a", "no text of 2 characters"),
        (COLOUR, "BLUE", '"BLUE" is none of RED, GREEN'),
        (INNER, {}, "has no 'n'"),
        (INNER, {"n": "x"}, "of 'n' within it, \"x\" is no int"),
        (INNER, 1, "1 is no object"),
    ],
)
def test_a_default_that_is_not_of_its_type_is_a_mistake(kind: Any, value: Any, told: str) -> None:
    with pytest.raises(PipelineError) as error:
        with_default(kind, value)
    assert told in "; ".join(problem.message for problem in error.value.problems)


def test_a_default_of_a_type_that_is_declared_elsewhere() -> None:
    members = [
        {"name": "a", "type": INNER},
        {"name": "b", "type": "In", "default": {"n": "x"}},
        {"name": "c", "type": "shop.In", "default": {"n": 1}},
    ]
    document = {"type": "record", "name": "R", "namespace": "shop", "fields": members}
    with pytest.raises(PipelineError, match="field 'b' has a bad default") as error:
        avro_schema.fields(Avro(json.dumps(document)), Path())
    assert len(error.value.problems) == 1


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
    (member,) = spark_json([nested])["fields"]
    assert member["type"]["valueType"] == {"type": "array", "elementType": "integer", "containsNull": True}
