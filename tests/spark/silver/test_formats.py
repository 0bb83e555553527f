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
from silver.read.column_names import META
from silver.read.declared_columns import parse_values

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
    """What ``_kafka`` says of each value, by these names, in order."""

    def rows(names: list[str], values: list[bytes], value: Any, *, rescue: bool = False) -> list[Any]:
        frame = parse_values(bronze(*values), value, rescue=rescue)
        return [tuple(row) for row in frame.select(*(f"{META}.{name}" for name in names)).collect()]

    return rows


@pytest.fixture(scope="module")
def rows(bronze: Callable[..., Any]) -> Callable[..., list[tuple[Any, ...]]]:
    """Each value's fault, its field, and the declared fields, in order."""

    def found(values: list[bytes | None], value: Any) -> list[tuple[Any, ...]]:
        frame = parse_values(bronze(*values), value)
        fields = [name for name in frame.columns if name != META]
        quoted = {name: F.col(f"`{name}`") for name in fields}
        at = [each.cast("timestamp_ntz") if name == "at" else each for name, each in quoted.items()]
        return [tuple(row) for row in frame.select(f"{META}.fault", f"{META}.fault_field", *at).collect()]

    return found


def test_a_json_object_is_its_fields_its_fault_and_what_no_field_names(told: Callable[..., Any]) -> None:
    values = [
        b'{"id":"a","new":1.10,"o":{"x":1,"z":2,"p":{"w":null,"y":1}},"a":[{"q":1},null,{"z":4}]}',
        b'{"m":{"k":{"r":1},"secret":{"r":"x"}}}',
        b'{"o":{"x":1}}',
    ]
    value = Json(NESTED, required=["id"], max_depth=4, max_bytes=1000)
    assert told(["fault", "fault_field", "rescued"], values, value, rescue=True) == [
        (None, None, '{"new":1.10,"o":{"z":2,"p":{"w":null}},"a":[null,null,{"z":4}]}'),
        ("wrong_type", "m.value.r", None),
        ("missing_required", "id", None),
    ]


def test_limits_of_size_and_depth_are_the_declared_ones(told: Callable[..., Any]) -> None:
    values = [b'{"id":"abcd"}', b'{"id":"abcde"}', b'{"x":[]}', b'{"x":[[]]}']
    found = told(["fault"], values, Json("id string", max_bytes=13, max_depth=2))
    assert found == [(None,), ("too_large",), (None,), ("too_deep",)]


def test_columns_of_json_have_the_declared_names_and_types(rows: Callable[..., Any]) -> None:
    value = Json('`a.b` string, `ü` int, c char(2), `q"r` int, at timestamp', timestamps="utc")
    sent = '{"a.b":"x","ü":1,"c":"é","q\\"r":2,"at":"2024-01-01T00:00:00"}'
    assert rows([sent.encode()], value) == [(None, None, "x", 1, "é", 2, datetime(2024, 1, 1))]


ROW = "id bigint, name string"
FLAT = b'{"before":null,"after":{"id":1,"name":"a"},"op":"c","ts_ms":5,"source":{"db":"d","table":"t","x":1}}'
SOURCE = (None, "d", None, "t", *(None,) * 13)


def test_an_envelope_is_read_with_and_without_its_schema(rows: Callable[..., Any]) -> None:
    same = (None, None, None, (1, "a"), "c", 5, SOURCE, None)
    nothing = (None,) * 6
    cases = [
        (FLAT, same),
        (b'{"schema":{"type":"struct"},"payload":' + FLAT + b"}", same),
        (b'{"op":"d","before":{"id":"1"}}', ("wrong_type", "before.id", *nothing)),
    ]
    found = rows([value for value, _ in cases], Debezium(ROW))
    assert [(value, row) for (value, _), row in zip(cases, found, strict=True)] == cases


ORACLE = (
    b'{"op":"u","after":{"id":1},"source":{"connector":"oracle","scn":"2122","commit_scn":"2125"},'
    b'"transaction":{"id":"5.6.641","total_order":2,"data_collection_order":1}}'
)
SQL_SERVER = (
    b'{"op":"u","after":{"id":1},"source":{"connector":"sqlserver","change_lsn":"00000027:00000758:0003",'
    b'"commit_lsn":"00000027:00000758:0005","event_serial_no":2},"transaction":null}'
)
POSTGRES = b'{"op":"c","after":{"id":1},"source":{"lsn":24,"sequence":"[\\"24\\",\\"24\\"]","txId":7}}'


@pytest.mark.parametrize(
    ("value", "source", "transaction"),
    [
        (ORACLE, {"connector": "oracle", "scn": "2122", "commit_scn": "2125"}, ("5.6.641", 2, 1)),
        (
            SQL_SERVER,
            {
                "connector": "sqlserver",
                "change_lsn": "00000027:00000758:0003",
                "commit_lsn": "00000027:00000758:0005",
                "event_serial_no": 2,
            },
            None,
        ),
        (POSTGRES, {"lsn": 24, "sequence": '["24","24"]'}, None),
    ],
)
def test_the_positions_of_each_connector_are_read(
    rows: Callable[..., Any], value: bytes, source: dict[str, Any], transaction: Any
) -> None:
    ((fault, *_, found, of_transaction),) = rows([value], Debezium(ROW))
    assert fault is None
    assert {name: each for name, each in found.asDict().items() if each is not None} == source
    assert of_transaction == transaction


def test_unknown_fields_of_an_envelope_are_rescued_from_its_payload(told: Callable[..., Any]) -> None:
    value = b'{"schema":{"a":1},"payload":{"op":"c","after":{"x":2}},"new":1}'
    assert told(["rescued"], [value], Debezium(ROW), rescue=True) == [('{"after":{"x":2},"new":1}',)]


def test_a_line_is_read_by_position(rows: Callable[..., Any]) -> None:
    value = Csv(
        "id string, n int, m decimal(5,2), d double, b boolean, day date, at timestamp",
        required=["id"],
        separator="¦",
        null_text=["-", "NA"],
    )
    lines = [
        '"a ""b"" c"¦5¦1.50¦0.5¦true¦2024-02-29¦2024-02-29T00:00:00Z\r\n',
        "a¦-¦NA¦-¦-¦-¦NA",
        "-¦1¦-¦-¦-¦-¦-",
        "a¦1",
    ]
    assert rows([line.encode() for line in lines], value) == [
        (None, None, 'a "b" c', 5, Decimal("1.50"), 0.5, True, date(2024, 2, 29), datetime(2024, 2, 29)),
        (None, None, "a", *(None,) * 6),
        ("missing_required", "id", *(None,) * 7),
        ("wrong_field_count", None, *(None,) * 7),
    ]


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
        (Csv("id string, n int"), r"static_invoke\(medallion\.ValueReader\.readLine\("),
    ],
)
def test_a_value_is_read_once_and_by_no_python(
    spark: Any, bronze: Callable[..., Any], value: Any, call: str
) -> None:
    """Whatever is asked of the result: filters on it, fields of it twice, and a cache below."""
    frame = parse_values(bronze(FLAT, b"{}", None).cache(), value, rescue=isinstance(value, Debezium))
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
    both = parse_values(frame, Json("id string, n int")).select(F.col("n").alias("left"), f"{META}.value")
    other = both.withColumns(
        {name: F.lit(None) for name in ("topic", "partition", "offset", "kafka_timestamp", "ingested_at")}
    ).withColumns({name: F.lit(None) for name in ("kafka_timestamp_type", "key", "headers")})
    again = parse_values(other.withColumn("value", F.col("value")), Json("n string"))
    joined = again.select("n", F.expr(f"cast({META}.value as string)").alias("text"))
    found = joined.collect()
    assert len(found) == 2000
    assert all(row.text == f'{{"id":"{row.n}","n":{row.n}}}' for row in found)


def test_a_document_behind_a_registrys_frame_is_read_as_one_without(
    rows: Callable[..., list[tuple[Any, ...]]], told: Callable[..., list[Any]]
) -> None:
    """Whatever the id; a value without a frame has a fault, and the document's own faults stay."""
    value = Json("id string, n int", required=["id"], framing="registry")
    frame = b"\0\xff\0\0\7"
    values = [
        frame + b'{"id": "a", "n": 1, "more": 2}',
        b"\0\0\0\0\0" + '{"id": "ü"}'.encode(),
        None,
        b'{"id": "a"}',
        b"",
        b"\0\0\0\1",
        frame,
        frame + b'{"n": 1}',
        frame + frame + b'{"id": "a"}',
    ]
    assert rows(values, value) == [
        (None, None, "a", 1),
        (None, None, "ü", None),
        (None, None, None, None),
        *[("unknown_framing", None, None, None)] * 3,
        ("empty_value", None, None, None),
        ("missing_required", "id", None, None),
        ("not_utf8", None, None, None),
    ]
    assert told(["rescued"], values[:1], value, rescue=True) == [('{"more":2}',)]
    change = frame + b'{"payload": {"op": "c", "after": {"id": "a", "n": 1}}}'
    (found,) = rows([change], Debezium("id string, n int", framing="registry"))
    assert (found[0], found[3]) == (None, ("a", 1))
