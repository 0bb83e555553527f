"""Envelopes, lines, texts and bytes; unknown and required fields; one reading per row."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.declare import Bytes, Csv, Debezium, Json, Text
from silver.read.columns import META
from silver.read.parse import parsed

NESTED = (
    "id string, o struct<x: int, p: struct<y: int>>, a array<struct<q: int>>, m map<string, struct<r: int>>"
)


@pytest.fixture(scope="module")
def bronze(spark: Any) -> Callable[..., Any]:
    """A bronze frame with these values, at offsets from 0 on."""

    def frame(*values: bytes | None) -> Any:
        rows = [("t", 0, at, None, 0, None, b"k", value, None) for at, value in enumerate(values)]
        return spark.createDataFrame(rows, SCHEMA).coalesce(1)

    return frame


@pytest.fixture(scope="module")
def told(bronze: Callable[..., Any]) -> Callable[..., list[tuple[Any, ...]]]:
    """One thing that ``_kafka`` says of each value, in order."""

    def rows(name: str, values: list[bytes], value: Any, *, rescue: bool = False) -> list[Any]:
        frame = parsed(bronze(*values), value, rescue=rescue)
        return [row[0] for row in frame.select(f"{META}.{name}").collect()]

    return rows


@pytest.fixture(scope="module")
def rows(bronze: Callable[..., Any]) -> Callable[..., list[tuple[Any, ...]]]:
    """Each value's fault, its field, and the declared fields, in order."""

    def found(values: list[bytes | None], value: Any) -> list[tuple[Any, ...]]:
        frame = parsed(bronze(*values), value)
        fields = [name for name in frame.columns if name != META]
        quoted = {name: F.col(f"`{name}`") for name in fields}
        at = [each.cast("timestamp_ntz") if name == "at" else each for name, each in quoted.items()]
        return [tuple(row) for row in frame.select(f"{META}.fault", f"{META}.fault_field", *at).collect()]

    return found


RESCUED: list[tuple[bytes, str | None]] = [
    (b'{"id":"a","o":{"x":1,"p":{"y":2}},"a":[{"q":1}],"m":{"k":{"r":1}}}', None),
    (b'{"id":"a","new":1.10}', '{"new":1.10}'),
    (b'{ "new" : [ 1 , {"b" : "\\u0041"} ] ,"id":"a"}', '{"new":[ 1 , {"b" : "\\u0041"} ]}'),
    (
        b'{"new":1,"o":{"x":1,"z":2,"p":{"w":null,"y":1}},"last":{}}',
        '{"new":1,"o":{"z":2,"p":{"w":null}},"last":{}}',
    ),
    (b'{"a":[{"q":1},{"q":2,"z":3},null,{"z":4}]}', '{"a":[null,{"z":3},null,{"z":4}]}'),
    (b'{"m":{"k":{"r":1},"l":{"r":1,"s":2},"m":null}}', '{"m":{"l":{"s":2}}}'),
    (b'{"ID":"a"}', '{"ID":"a"}'),
    (b'{"n\\u0065w":"\\ud83c\\udf0d"}', '{"n\\u0065w":"\\ud83c\\udf0d"}'),
    (b'{"id":{"new":1}}', None),
    (b'{"o":null,"a":[],"m":{}}', None),
    (b'{"new":1,"o":{"x":"wrong"}}', None),
]


def test_unknown_fields_are_rescued_at_their_place_as_they_were_written(told: Callable[..., Any]) -> None:
    values = [value for value, _ in RESCUED]
    assert told("rescued", values, Json(NESTED), rescue=True) == [text for _, text in RESCUED]
    assert told("rescued", values, Json(NESTED)) == [None] * len(RESCUED)
    assert told("fault", values, Json(NESTED)) == [None] * 10 + ["wrong_type"]


FIELDS: list[tuple[bytes, str, str | None]] = [
    (b'{"o":{"x":"1"}}', "wrong_type", "o.x"),
    (b'{"o":{"p":{"y":1.5}}}', "wrong_type", "o.p.y"),
    (b'{"o":5}', "wrong_type", "o"),
    (b'{"a":[{"q":1},{"q":"x"}]}', "wrong_type", "a.element.q"),
    (b'{"m":{"k":{"r":1},"secret":{"r":"x"}}}', "wrong_type", "m.value.r"),
    (b'{"o":{"x":1,"x":2}}', "duplicate_key", "o.x"),
    (b'{"new":1,"new":2}', "duplicate_key", None),
    (b'{"o":{"secret":{"b":tru}}}', "malformed_json", "o"),
    (b'{"id":"\\ud800"}', "bad_unicode", "id"),
    (b'{"id":"x"', "malformed_json", None),
    (b'{"o":{"x":"1"},"id":NaN}', "non_finite_number", "id"),
    (b'{"o":{"x":99999999999},"a":1}', "number_out_of_range", "o.x"),
]


def test_a_fault_names_the_declared_field_and_nothing_of_the_payload(told: Callable[..., Any]) -> None:
    values = [value for value, _, _ in FIELDS]
    assert told("fault", values, Json(NESTED)) == [fault for _, fault, _ in FIELDS]
    assert told("fault_field", values, Json(NESTED)) == [field for _, _, field in FIELDS]


def test_required_fields_are_there_and_not_null(rows: Callable[..., Any]) -> None:
    value = Json("id string, o struct<x: int>, n int not null", required=["id", "o.x"])
    cases = [
        (b'{"id":"a","o":{"x":1},"n":1}', None, None),
        (b'{"o":{"x":1},"n":1}', "missing_required", "id"),
        (b'{"id":null,"o":{"x":1},"n":1}', "missing_required", "id"),
        (b'{"id":"a","o":{},"n":1}', "missing_required", "o.x"),
        (b'{"id":"a","o":null,"n":1}', "missing_required", "o.x"),
        (b'{"ID":"a","o":{"x":1},"n":1}', "missing_required", "id"),
        (b'{"id":"a","o":{"x":1}}', "missing_required", "n"),
        (b'{"o":{"x":"1"}}', "wrong_type", "o.x"),
    ]
    assert [row[:2] for row in rows([case[0] for case in cases], value)] == [case[1:] for case in cases]


def test_limits_of_size_and_depth_are_the_declared_ones(told: Callable[..., Any]) -> None:
    values = [b'{"id":"abcd"}', b'{"id":"abcde"}', b'{"x":[]}', b'{"x":[[]]}']
    assert told("fault", values, Json("id string", max_bytes=13, max_depth=2)) == [
        *(None, "too_large", None, "too_deep"),
    ]


def test_times_without_an_offset_are_utc_where_the_contract_says_so(rows: Callable[..., Any]) -> None:
    value = Json("at timestamp", timestamps="utc")
    found = rows([b'{"at":"2024-01-01T00:00:00"}', b'{"at":"2024-01-01T00:00:00+01:00"}'], value)
    assert [row[2] for row in found] == [datetime(2024, 1, 1), datetime(2023, 12, 31, 23)]


def test_names_and_texts_of_bounded_length(rows: Callable[..., Any]) -> None:
    value = Json('`a.b` string, `ü` int, c char(2), v varchar(3), `q"r` int')
    cases: list[tuple[bytes, tuple[Any, ...]]] = [
        ('{"a.b":"x","ü":1,"c":"é","v":"漢漢漢"}'.encode(), (None, None, "x", 1, "é", "漢漢漢", None)),
        (b'{"\\u00fc":2,"v":"abcd"}', ("wrong_type", "v", *(None,) * 5)),
        (b'{"c":1.5}', ("wrong_type", "c", *(None,) * 5)),
        (b'{"q\\"r":1}', (None, None, None, None, None, None, 1)),
        (b'{"q"r":1}', ("malformed_json", None, *(None,) * 5)),
    ]
    assert rows([value for value, _ in cases], value) == [row for _, row in cases]


ROW = "id bigint, name string"
FLAT = b'{"before":null,"after":{"id":1,"name":"a"},"op":"c","ts_ms":5,"source":{"db":"d","table":"t","x":1}}'
SOURCE = (None, "d", None, "t", None, None, None, None, None)


def test_an_envelope_is_read_with_and_without_its_schema(rows: Callable[..., Any]) -> None:
    schema = b'{"type":"struct","fields":[{"field":"op"}]}'
    same = (None, None, None, (1, "a"), "c", 5, SOURCE)
    nothing = (None,) * 5
    cases = [
        (FLAT, same),
        (b'{"schema":' + schema + b',"payload":' + FLAT + b"}", same),
        (b'{ "payload" : ' + FLAT + b', "schema":' + schema + b"}", same),
        (b'{"payload":' + FLAT + b"}", same),
        (b'{"schema":' + schema + b"}", ("missing_required", "op", *nothing)),
        (b'{"schema":null,"payload":null}', ("missing_required", "op", *nothing)),
        (b'{"schema":null,"payload":5}', ("wrong_type", None, *nothing)),
        (b'{"payload":{"op":"c"},"payload":{"op":"d"}}', ("duplicate_key", None, *nothing)),
        (b'{"payload":{"op":"c"}', ("malformed_json", None, *nothing)),
        (b'{"payload":{"op":"c"}}x', ("trailing_data", None, *nothing)),
        (b'{"id":1,"name":"a"}', ("missing_required", "op", *nothing)),
        (b'{"op":"d","before":{"id":"1"}}', ("wrong_type", "before.id", *nothing)),
        (b"{}", ("missing_required", "op", *nothing)),
        (b"[]", ("not_an_object", None, *nothing)),
    ]
    found = rows([value for value, _ in cases], Debezium(ROW))
    assert [(value, row) for (value, _), row in zip(cases, found, strict=True)] == cases


def test_unknown_fields_of_an_envelope_are_rescued_from_its_payload(told: Callable[..., Any]) -> None:
    schema = b'{"schema":{"a":1},"payload":'
    values = [
        FLAT,
        schema + FLAT + b"}",
        schema + b'{"op":"c","after":{"x":2}},"new":1}',
        b'{"op":"c","new":1}',
    ]
    assert told("rescued", values, Debezium(ROW), rescue=True) == [
        *('{"source":{"x":1}}', '{"source":{"x":1}}', '{"after":{"x":2},"new":1}', '{"new":1}'),
    ]


def test_a_line_is_read_by_position_and_as_strictly(rows: Callable[..., Any]) -> None:
    value = Csv(
        "id string, n int, m decimal(5,2), d double, b boolean, day date, at timestamp", required=["id"]
    )
    nothing = (None,) * 7
    cases = [
        (
            b'"a ""b"", c",5,1.50,0.5,true,2024-02-29,2024-02-29T00:00:00Z',
            (None, None, 'a "b", c', 5, Decimal("1.50"), 0.5, True, date(2024, 2, 29), datetime(2024, 2, 29)),
        ),
        (b"a,,,,,,\r\n", (None, None, "a", *(None,) * 6)),
        (b'"\n",,,,,,\n', (None, None, "\n", *(None,) * 6)),
        (b'"",,,,,,', (None, None, "", *(None,) * 6)),
        (b'"""",,,,,,', (None, None, '"', *(None,) * 6)),
        (b'"a""""b","5",,,,,', (None, None, 'a""b', 5, *(None,) * 5)),
        (b'a,"",,,,,', ("wrong_type", "n", *nothing)),
        (b",1,,,,,", ("missing_required", "id", *nothing)),
        (b"a,1.0,,,,,", ("wrong_type", "n", *nothing)),
        (b"a, 1,,,,,", ("wrong_type", "n", *nothing)),
        (b"a,007,,,,,", ("wrong_type", "n", *nothing)),
        (b"a,99999999999,,,,,", ("number_out_of_range", "n", *nothing)),
        (b"a,1,1.999,,,,", ("number_rounded", "m", *nothing)),
        (b"a,1,1,NaN,,,", ("wrong_type", "d", *nothing)),
        (b"a,1,1,0.1000000000000000055,,,", ("number_rounded", "d", *nothing)),
        (b"a,1,1,1e999,,,", ("non_finite_number", "d", *nothing)),
        (b"a,1,1,1,TRUE,,", ("wrong_type", "b", *nothing)),
        (b"a,1,1,1,true,today,", ("wrong_type", "day", *nothing)),
        (b"a,1,1,1,true,,2024-02-29T00:00:00", ("timestamp_without_offset", "at", *nothing)),
        (b"a,1", ("wrong_field_count", None, *nothing)),
        (b"a,x,,,,,,", ("wrong_field_count", None, *nothing)),
        (b'a"b,1,,,,,', ("malformed_csv", "id", *nothing)),
        (b'"a"b,1,,,,,', ("malformed_csv", "id", *nothing)),
        (b'"a,1,,,,,', ("malformed_csv", "id", *nothing)),
        (b"a,1,,,,,\nb,2,,,,,", ("malformed_csv", "at", *nothing)),
        (b"a\xff,1,,,,,", ("not_utf8", None, *nothing)),
        (b"", ("empty_value", None, *nothing)),
        (b"\n", ("empty_value", None, *nothing)),
    ]
    found = rows([line for line, _ in cases], value)
    assert [(line, row) for (line, _), row in zip(cases, found, strict=True)] == cases


def test_a_separator_and_a_text_for_null_are_the_declared_ones(rows: Callable[..., Any]) -> None:
    value = Csv("a string, b string", separator="¦", null_text="\\N")
    found = rows(["x,y¦\\N".encode(), '""¦"\\N"'.encode(), "¦".encode()], value)
    assert found == [(None, None, "x,y", None), (None, None, "", "\\N"), (None, None, "", "")]


def test_text_is_the_whole_value_and_bytes_are_any(rows: Callable[..., Any]) -> None:
    values = ["Łódź\n".encode(), b"", b"\xff", b"123456789", None]
    assert rows(values, Text(max_bytes=8)) == [
        *((None, None, "Łódź\n"), (None, None, ""), ("not_utf8", None, None), ("too_large", None, None)),
        (None, None, None),
    ]
    assert rows(values, Bytes()) == [
        (None, None, None if value is None else bytearray(value)) for value in values
    ]


@pytest.mark.parametrize(
    ("value", "call"),
    [
        (Json(NESTED), r"static_invoke\(medallion\.ValueReader\.read\("),
        (Json(NESTED, strict=False), r"from_json\("),
        (Debezium(ROW), r"static_invoke\(medallion\.ValueReader\.read\("),
        (Csv("id string, n int"), r"static_invoke\(medallion\.ValueReader\.read\("),
    ],
)
def test_a_value_is_read_once_and_by_no_python(
    spark: Any, bronze: Callable[..., Any], value: Any, call: str
) -> None:
    """Whatever is asked of the result: filters on it, fields of it twice, and a cache below."""
    frame = parsed(bronze(FLAT, b"{}", None).cache(), value, rescue=isinstance(value, Debezium))
    names = [name for name in frame.columns if name != META]
    asked = (
        frame.where(f"{META}.fault is null and {META}.value is not null")
        .select(
            "*", F.struct(*names).alias("again"), F.col(f"{META}.fault_field"), F.col(names[0]).alias("twice")
        )
        .where(F.col("twice").isNull() | F.col("again").isNotNull())
    )
    plan = asked._jdf.queryExecution().executedPlan().toString()
    assert len(re.findall(call, plan)) == 1
    assert "Python" not in plan
    asked.collect()


def test_threads_and_declarations_do_not_meet(spark: Any, bronze: Callable[..., Any]) -> None:
    """Two declarations in one task, row by row, over several tasks at once."""
    values = [f'{{"id":"{n}","n":{n}}}'.encode() for n in range(2000)]
    frame = bronze(*values).repartition(8)
    both = parsed(frame, Json("id string, n int")).select(F.col("n").alias("left"), f"{META}.value")
    other = both.withColumns(
        {name: F.lit(None) for name in ("topic", "partition", "offset", "kafka_timestamp", "ingested_at")}
    ).withColumns({name: F.lit(None) for name in ("kafka_timestamp_type", "key", "headers")})
    again = parsed(other.withColumn("value", F.col("value")), Json("n string"))
    joined = again.select("n", F.expr(f"cast({META}.value as string)").alias("text"))
    found = joined.collect()
    assert len(found) == 2000
    assert all(row.text == f'{{"id":"{row.n}","n":{row.n}}}' for row in found)
