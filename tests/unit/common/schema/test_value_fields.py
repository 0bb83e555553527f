"""A JSON value's schema is read as Spark reads it, from DDL, a file or a StructType; every fault is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.declare import Json
from common.errors import PipelineError
from common.schema.ddl import DDL_TYPES, TOO_DEEP, Field
from common.schema.value_fields import fields, spark_schema_text

HERE = Path(__file__).parent
QUAKE = (
    "id string, properties struct<mag:double,time:bigint>, tags array<struct<k:string>>, m map<string,int>"
)


class Struct:
    """What a StructType offers."""

    def jsonValue(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        return {
            "type": "struct",
            "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
        }


def faults(schema: object, folder: Path = HERE) -> list[str]:
    with pytest.raises(PipelineError) as caught:
        fields(Json(schema), folder)
    assert {problem.place for problem in caught.value.problems} == {"Json"}
    assert all(f"{Path(__file__).name}:" in problem.source for problem in caught.value.problems)
    return [problem.message for problem in caught.value.problems]


def test_ddl_gives_names_types_and_what_is_nested() -> None:
    key, properties, tags, counts = fields(Json(QUAKE), HERE)
    assert key == Field("id", "string")
    assert properties.type == "struct<mag:double,time:bigint>"
    assert properties.nested == (Field("mag", "double"), Field("time", "bigint"))
    assert tags.nested == (Field("element", "struct<k:string>", (Field("k", "string"),)),)
    assert counts.nested == (Field("key", "string"), Field("value", "int"))


@pytest.mark.parametrize(
    ("ddl", "names", "types"),
    [
        ("`a b` int, order string", ["a b", "order"], ["int", "string"]),
        ("a: LONG not null comment 'it''s', b Dec(12, 2)", ["a", "b"], ["bigint", "decimal(12,2)"]),
        ("struct<a: int>", ["a"], ["int"]),
        ("a timestamp_ltz, b string collate utf8_lcase, c interval day to second", ["a", "b", "c"], None),
        ("a array<array<int>>", ["a"], ["array<array<int>>"]),
    ],
)
def test_ddl_is_read_as_spark_reads_it(ddl: str, names: list[str], types: list[str] | None) -> None:
    found = fields(Json(ddl, strict=False), HERE)
    assert [field.name for field in found] == names
    if types is not None:
        assert [field.type for field in found] == types


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("", "the schema is empty; write it like 'id string, amount decimal(12,2)'"),
        ("a strng", "field 'a': 'strng' is no type of Spark's; did you mean 'string'?"),
        ("a struct<b: datetime>", "field 'a.b': 'datetime' is no type of Spark's; did you mean 'timestamp'?"),
        ("a", "field 'a' has no type; write it like 'a string'"),
        ("a int b int", "the schema cannot be read at 'b' after field 'a': a ',' is missing"),
        ("a int,", "the schema has a ',' too many after field 'a'"),
        ("a struct<b: int", "the schema ends inside field 'a.b': a '>' is missing"),
        ("a-b int", "the schema cannot be read at '-' after 'a'; a name with it needs backquotes"),
        ("id int, id int", "field 'id' is there twice; keep one"),
        ("id int, ID int", "fields 'id' and 'ID' differ only by case, which Spark ignores; keep one"),
        (
            "s struct<a: int, A: int>",
            "fields 's.a' and 's.A' differ only by case, which Spark ignores; keep one",
        ),
        ("größe int", "field 'größe': a name with other letters than a to z needs backquotes: `größe`"),
    ],
)
def test_wrong_ddl_is_told_in_words(ddl: str, message: str) -> None:
    assert faults(ddl) == [message]


@given(st.sampled_from(sorted(DDL_TYPES)), st.data())
def test_a_type_with_one_letter_doubled_is_told_and_a_right_one_named(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    wrong = name[:at] + name[at] + name[at:]
    assert f"{wrong!r} is no type of Spark's; did you mean" in faults(f"a {wrong}")[0]


def test_a_file_is_read_relative_to_the_pipeline(tmp_path: Path) -> None:
    document = {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "at", "type": {"type": "array", "elementType": "decimal(10, 2)", "containsNull": True}},
            {
                "name": "m",
                "type": {"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": True},
            },
        ],
    }
    (tmp_path / "v.json").write_text(json.dumps(document))
    found = fields(Json("v.json"), tmp_path)
    assert [(field.name, field.type) for field in found] == [
        ("id", "bigint"),
        ("at", "array<decimal(10,2)>"),
        ("m", "map<string,date>"),
    ]
    assert json.loads(spark_schema_text(Json("v.json"), tmp_path)) == document


def test_the_text_for_spark_is_the_ddl_itself_or_json() -> None:
    assert spark_schema_text(Json(QUAKE), HERE) == QUAKE
    assert json.loads(spark_schema_text(Json(Struct()), HERE)) == Struct().jsonValue()
    assert fields(Json(Struct()), HERE) == (Field("id", "bigint"),)


def test_a_schema_that_spark_would_refuse_gives_no_text() -> None:
    with pytest.raises(PipelineError, match="did you mean 'string'"):
        spark_schema_text(Json("a strng"), HERE)


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "quake.schema.json").write_text("{}")
    assert faults("quakes.schema.json", tmp_path) == [
        f"there is no file 'quakes.schema.json' in {tmp_path}; did you mean 'quake.schema.json'?"
    ]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "v.json:1 is not JSON"),
        ("[1]", "v.json is a list, not a struct"),
        ('{"type": "array"}', "v.json is not a struct"),
        ('{"$schema": "x", "properties": {}}', "v.json is a JSON Schema document, which Spark does not read"),
        (
            '{"type": "object", "properties": {}}',
            "v.json is a JSON Schema document, which Spark does not read",
        ),
        ("[" * 100_000, "v.json is not JSON"),
    ],
)
def test_a_file_that_is_no_struct_is_refused_in_words(tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "v.json").write_text(text)
    (message,) = faults("v.json", tmp_path)
    assert message.startswith(part)
    assert "frame.schema.json() of Spark" in message


def test_every_fault_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    members = [
        {"name": "a", "type": "bigint"},
        {"name": "b", "type": "strin"},
        {"nme": "c"},
        {"name": "d", "type": {"type": "array", "elementType": "long"}},
    ]
    (tmp_path / "v.json").write_text(json.dumps({"type": "struct", "fields": members}))
    told = faults("v.json", tmp_path)
    assert told[0] == "v.json, field 'a': 'bigint' is no type in Spark's JSON; write 'long'"
    assert told[1] == "v.json, field 'b': 'strin' is no type of Spark's; did you mean 'string'?"
    assert told[2].startswith("v.json: a field lacks its name or type")
    assert told[3] == "v.json, field 'd' lacks 'containsNull': true or false; Spark requires it"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("decimal(39,2)", "'decimal(39,2)' has 39 digits; Spark's decimals have at most 38"),
        ("decimal(3,5)", "'decimal(3,5)' has more digits after the point (5) than digits (3)"),
        ("decimal(5,-1)", "'decimal(5,-1)' has a negative number of digits after the point"),
        ("decimal(a,b)", "'decimal(a,b)' is no decimal; write its digits"),
        ("decimal(1,2,3)", "'decimal(1,2,3)' is no decimal; write its digits"),
        ("varchar", "'varchar' needs a length of at least 1, as in varchar(20)"),
        ("varchar(0)", "'varchar(0)' needs a length of at least 1"),
        ("char", "'char' needs a length of at least 1"),
        ("varchar(99999999999)", "'varchar(99999999999)' needs a length"),
        ("int(5)", "'int(5)' is no type of Spark's; int has no arguments"),
        ("string(5)", "'string(5)' is no type of Spark's; string has no arguments"),
        ("interval day to month", "'interval day to month' is no interval of Spark's"),
        ("time(7)", "'time(7)' is no type of Spark's"),
    ],
)
def test_arguments_that_spark_refuses_are_refused(kind: str, message: str, tmp_path: Path) -> None:
    """In DDL text, and in a schema file."""
    (fault,) = faults(f"id string, a {kind}")
    assert fault.startswith(f"field 'a': {message}")
    in_json = kind.replace("int(", "integer(")
    member = {"name": "a", "type": in_json, "nullable": True, "metadata": {}}
    (tmp_path / "v.json").write_text(json.dumps({"type": "struct", "fields": [member]}))
    (fault,) = faults("v.json", tmp_path)
    assert fault.startswith("v.json, field 'a': ")


@pytest.mark.parametrize(
    "kind",
    [
        *(
            "decimal",
            "decimal(38,38)",
            "decimal(0)",
            "dec( 12 , 2 )",
            "numeric(5)",
            "varchar(1)",
            "character(3)",
        ),
        *("interval day to second", "interval month", "interval year to month", "time", "time(6)", "variant"),
    ],
)
def test_arguments_that_spark_accepts_are_accepted(kind: str) -> None:
    assert len(fields(Json(f"a {kind}", strict=False), HERE)) == 1


def test_every_unknown_type_of_a_text_is_told_at_once_with_the_required_fields() -> None:
    with pytest.raises(PipelineError) as caught:
        fields(Json("a strng, b struct<c: datetime>, d int", required=["e", "b.c", "a"]), HERE)
    assert [problem.message.partition(";")[0] for problem in caught.value.problems] == [
        "field 'a': 'strng' is no type of Spark's",
        "field 'b.c': 'datetime' is no type of Spark's",
        "required names 'e', but there is no field 'e'",
    ]


@pytest.mark.parametrize("kind", ["ddl", "file", "arrays"])
def test_a_schema_that_is_nested_too_deeply_is_told_in_words(kind: str, tmp_path: Path) -> None:
    """Spark's own parser overflows its stack; a hundred levels are read."""
    whole = "a " + "struct<a:" * 100 + "int" + ">" * 100
    assert fields(Json(whole, max_depth=1000), HERE)
    if kind == "ddl":
        assert faults("a " + "struct<a:" * 300 + "int" + ">" * 300) == [f"field 'a' {TOO_DEEP}"]
        return
    inner: object = "long"
    for _ in range(300):
        struct = {
            "type": "struct",
            "fields": [{"name": "a", "type": inner, "nullable": True, "metadata": {}}],
        }
        array = {"type": "array", "elementType": inner, "containsNull": True}
        inner = struct if kind == "file" else array
    document = {"type": "struct", "fields": [{"name": "a", "type": inner, "nullable": True, "metadata": {}}]}
    (tmp_path / "v.json").write_text(json.dumps(document))
    assert faults("v.json", tmp_path) == [f"v.json {TOO_DEEP}"]


def test_a_name_with_half_a_character_is_refused(tmp_path: Path) -> None:
    """Neither Parquet nor py4j can write it."""
    member = {"name": "a\ud800", "type": "long", "nullable": True, "metadata": {}}
    (tmp_path / "v.json").write_text(json.dumps({"type": "struct", "fields": [member]}))
    told = "field 'a\\ud800' has a lone surrogate in its name, which is no character; rename it"
    assert faults("v.json", tmp_path) == [told]
    assert faults("`a\ud800` int") == [told]
