"""Rows written as Avro and Protobuf: other libraries read what the row has, or the row is refused by name."""

from __future__ import annotations

import io
import json
import random
import string
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest

from common.declare import Avro, KafkaSink, Protobuf, Publish
from common.schema.ddl import spark_json
from common.schema.sent import sent_fields
from gold.publish.encoded import encoded
from tests.support.oracles import protobuf
from tests.support.oracles.protobuf import entry, enum, field, file, message

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DECIMAL = {"logicalType": "decimal", "precision": 10, "scale": 3}
TYPES: Mapping[str, Any] = {
    "flag": "boolean",
    "small": "int",
    "big": "long",
    "ratio": "float",
    "real": "double",
    "text": "string",
    "raw": "bytes",
    "code": {"type": "fixed", "name": "Code", "size": 3},
    "state": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
    "day": {"type": "int", "logicalType": "date"},
    "at_ms": {"type": "long", "logicalType": "timestamp-millis"},
    "at_us": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
    "money": {"type": "bytes", **DECIMAL},
    "cents": {"type": "fixed", "name": "Cents", "size": 6, **DECIMAL},
    "uid": {"type": "string", "logicalType": "uuid"},
    "uid16": {"type": "fixed", "name": "Uid", "size": 16, "logicalType": "uuid"},
    "maybe": ["null", "string"],
    "either": ["int", "null", "long"],
    "list": {"type": "array", "items": ["null", "int"]},
    "map": {"type": "map", "values": "double"},
    "inner": {
        "type": "record",
        "name": "Inner",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": ["null", {"type": "array", "items": "string"}]},
        ],
    },
}
SCHEMA = {
    "type": "record",
    "name": "All",
    "fields": [{"name": name, "type": kind} for name, kind in TYPES.items()],
}


def avro_row(chance: random.Random) -> dict[str, Any]:
    """Values of each type, at the ends of their ranges and between."""
    moment = EPOCH + timedelta(microseconds=chance.randrange(-(10**15), 10**15))
    money = Decimal(chance.choice([0, 1, -1, 9_999_999_999, -9_999_999_999, chance.randrange(10**9)])).scaleb(
        -3
    )
    text = chance.choice(["", "a", "hé \U0001f600", "x" * 300])
    return {
        "flag": chance.random() < 0.5,
        "small": chance.choice([-(2**31), 2**31 - 1, 0, chance.randrange(10**6)]),
        "big": chance.choice([-(2**63), 2**63 - 1, 0, chance.randrange(10**12)]),
        "ratio": chance.choice([0.5, -(2.0**100), 0.0]),
        "real": chance.choice([0.1, -1e300, 0.0]),
        "text": text,
        "raw": chance.randbytes(chance.randrange(5)),
        "code": chance.randbytes(3),
        "state": chance.choice(["NEW", "PAID"]),
        "day": date(1970, 1, 1) + timedelta(days=chance.randrange(-50_000, 50_000)),
        "at_ms": moment.replace(microsecond=moment.microsecond // 1000 * 1000),
        "at_us": moment,
        "local": moment.replace(tzinfo=None),
        "money": money,
        "cents": money,
        "uid": str(UUID(int=chance.getrandbits(128))),
        "uid16": str(UUID(int=chance.getrandbits(128))),
        "maybe": chance.choice([None, text]),
        "either": chance.choice([None, 2**40, 1]),
        "list": [chance.choice([None, 1, -1]) for _ in range(chance.randrange(4))],
        "map": {letter: chance.random() for letter in string.ascii_letters[: chance.randrange(3)]},
        "inner": {"a": chance.randrange(9), "b": chance.choice([None, [], ["x", text]])},
    }


ORDER = file(
    enum("State", "NEW", "PAID", OLD=-3),
    message("Line", field(1, "name", "string"), field(2, "count", "int32", optional=True)),
    message(
        "Order",
        *(field(n, f"one_{kind}", kind) for n, kind in enumerate(protobuf.PLAIN, 1)),
        *(field(n, f"many_{kind}", kind, repeated=True) for n, kind in enumerate(protobuf.PLAIN, 101)),
        *(field(n, f"maybe_{kind}", kind, optional=True) for n, kind in enumerate(protobuf.PLAIN, 201)),
        field(30, "state", "enum .shop.State"),
        field(32, "line", ".shop.Line"),
        field(33, "lines", ".shop.Line", repeated=True),
        field(34, "counts", ".shop.Order.CountsEntry", repeated=True),
        field(36, "at", ".google.protobuf.Timestamp"),
        field(37, "whole", ".google.protobuf.Int64Value"),
        field(40, "card", "string", oneof=0),
        field(41, "cash", ".shop.Line", oneof=0),
        entry("CountsEntry", "string", "sint64"),
        oneofs=["paid"],
    ),
)


def protobuf_value(chance: random.Random, kind: str) -> Any:
    if kind in ("double", "float"):
        return chance.choice([0.0, 0.5, -(2.0**100)])
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "string":
        return chance.choice(["", "a", "hé \U0001f600", "x" * 200])
    if kind == "bytes":
        return chance.randbytes(chance.randrange(5))
    size = int(kind[-2:])
    low, high = (0, 2**size - 1) if kind[0] in "uf" else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)
    found = chance.choice([low, high, 0, 1, chance.randrange(low, high + 1)])
    return Decimal(found) if kind in ("uint64", "fixed64") else found


def protobuf_row(chance: random.Random) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for kind in protobuf.PLAIN:
        row[f"one_{kind}"] = protobuf_value(chance, kind)
        row[f"many_{kind}"] = [protobuf_value(chance, kind) for _ in range(chance.randrange(3))]
        row[f"maybe_{kind}"] = protobuf_value(chance, kind) if chance.random() < 0.5 else None

    def line() -> dict[str, Any]:
        return {"name": protobuf_value(chance, "string"), "count": chance.choice([None, 0, 7])}

    paid = chance.randrange(3)
    return row | {
        "state": chance.choice(["NEW", "PAID", "OLD"]),
        "line": chance.choice([None, line()]),
        "lines": [line() for _ in range(chance.randrange(3))],
        "counts": {
            protobuf_value(chance, "string"): chance.randrange(-9, 9) for _ in range(chance.randrange(3))
        },
        "at": EPOCH + timedelta(microseconds=chance.randrange(-(10**15), 10**15)),
        "whole": chance.choice([None, 0, -(2**63)]),
        "card": "visa" if paid == 1 else None,
        "cash": line() if paid == 2 else None,
    }


@pytest.fixture(name="written")
def _written(spark: Any) -> Callable[..., list[bytes]]:
    """The rows as values of messages, in their order."""
    from pyspark.sql.types import StructType

    def run(value: Avro | Protobuf, rows: Sequence[Mapping[str, Any]]) -> list[bytes]:
        kind = StructType.fromJson(spark_json(sent_fields(value)))
        frame = spark.createDataFrame([tuple(row[name] for name in kind.names) for row in rows], kind)
        publish = Publish("sent", reads="silver.orders", to=KafkaSink("t", value=value))
        assert isinstance(publish.to, KafkaSink)
        parts = encoded(frame.coalesce(1), frame.columns, publish, publish.to, ())
        return [bytes(row[0]) for row in frame.coalesce(1).select(parts["value"].alias("value")).collect()]

    return run


def test_fastavro_reads_what_rows_have(written: Callable[..., list[bytes]]) -> None:
    chance = random.Random(5)  # noqa: S311  # a repeatable one
    rows = [avro_row(chance) for _ in range(300)]
    parsed = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
    for row, content in zip(rows, written(Avro(json.dumps(SCHEMA)), rows), strict=True):
        stream = io.BytesIO(content)
        found = fastavro.schemaless_reader(stream, parsed, None)
        assert stream.read() == b""
        uids = {"uid": str(found["uid"]), "uid16": str(UUID(bytes=found["uid16"]))}
        assert found | uids == row


def test_protobufs_own_package_reads_what_rows_have(
    written: Callable[..., list[bytes]], tmp_path: Path
) -> None:
    (tmp_path / "order.desc").write_bytes(protobuf.descriptors(ORDER))
    chance = random.Random(6)  # noqa: S311  # a repeatable one
    rows = [protobuf_row(chance) for _ in range(300)]
    order = protobuf.classes(ORDER)
    contents = written(Protobuf(str(tmp_path / "order.desc"), "shop.Order"), rows)
    for row, content in zip(rows, contents, strict=True):
        assert protobuf.row(order.FromString(content)) == row


def test_what_is_written_is_read_again(
    spark: Any, written: Callable[..., list[bytes]], tmp_path: Path
) -> None:
    """By the engine's own readers: no value has a fault."""
    from silver.read.value_reader import read_values

    (tmp_path / "order.desc").write_bytes(protobuf.descriptors(ORDER))
    chance = random.Random(7)  # noqa: S311  # a repeatable one
    formats: list[tuple[Avro | Protobuf, Callable[[random.Random], dict[str, Any]]]] = [
        (Avro(json.dumps(SCHEMA)), avro_row),
        (Protobuf(str(tmp_path / "order.desc"), "shop.Order"), protobuf_row),
    ]
    for value, drawn in formats:
        rows = [drawn(chance) for _ in range(50)]
        frame = spark.createDataFrame([(each,) for each in written(value, rows)], "value binary")
        found = read_values(frame, value).frame.where("__read.fault IS NOT NULL").count()
        assert found == 0


WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "null": ({"small": None}, "field 'small' is null, and the schema has no null there"),
    "nested null": ({"inner": {"a": None, "b": None}}, "field 'inner.a' is null, and the schema has no null"),
    "microseconds": (
        {"at_ms": datetime(2026, 1, 1, 0, 0, 0, 1, UTC)},
        "field 'at_ms' has microseconds, and the schema has milliseconds",
    ),
    "symbol": ({"state": "GONE"}, "field 'state' is no symbol of the schema's enum"),
    "bytes": ({"code": b"ab"}, "field 'code' has not the 3 bytes of the schema"),
    "uuid": ({"uid16": "1-1-1-1-1"}, "field 'uid16' is no UUID"),
}


@pytest.mark.long
@pytest.mark.parametrize("case", WRONG)
def test_a_value_that_the_schema_does_not_take_is_named(
    written: Callable[..., list[bytes]], case: str
) -> None:
    changed, text = WRONG[case]
    with pytest.raises(Exception, match=text):
        written(Avro(json.dumps(SCHEMA)), [avro_row(random.Random(1)) | changed])  # noqa: S311


WRONG_MESSAGES: Mapping[str, tuple[dict[str, Any], str]] = {
    "null": ({"one_int32": None}, "field 'one_int32' is null, which reads as the type's zero"),
    "list": ({"many_string": None}, "field 'many_string' is null, which reads as empty"),
    "null of a list": ({"many_int32": [1, None]}, "field 'many_int32' has a null in it"),
    "null of a map": ({"counts": {"a": None}}, "field 'counts' has a null in it"),
    "enum": ({"state": "GONE"}, "field 'state' is no name of the schema's enum"),
    "sign": ({"one_uint32": -1}, "field 'one_uint32' is beyond the range of a number of 32 bits"),
    "large": (
        {"one_fixed64": Decimal(2**64)},
        "field 'one_fixed64' is beyond the range of a number of 64 bits",
    ),
    "oneof": (
        {"card": "visa", "cash": {"name": "a", "count": None}},
        "field 'cash' is set beside 'card' of the same oneof",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", WRONG_MESSAGES)
def test_a_value_that_a_message_does_not_take_is_named(
    written: Callable[..., list[bytes]], case: str, tmp_path: Path
) -> None:
    (tmp_path / "order.desc").write_bytes(protobuf.descriptors(ORDER))
    changed, text = WRONG_MESSAGES[case]
    with pytest.raises(Exception, match=text):
        written(
            Protobuf(str(tmp_path / "order.desc"), "shop.Order"),
            [protobuf_row(random.Random(1)) | changed],  # noqa: S311
        )
