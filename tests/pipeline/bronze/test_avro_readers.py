"""Avro container files of every type and codec beside a reader of others: fastavro, which wrote them."""

from __future__ import annotations

import base64
import json
import os
import random
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest

from common.declare import Files, Pipeline
from tests.pipeline.bronze.test_files import OLD, bronze, engine_of
from tests.support.oracles.other_readers import same

CHANCE = random.Random(12)  # noqa: S311  # a repeatable one
ROWS = 400
EPOCH = datetime(1970, 1, 1)  # a clock reading, which has no zone


def text() -> str:
    return "".join(chr(CHANCE.choice([0, 34, 92, 233, 8364, 128512, 97])) for _ in range(CHANCE.randrange(6)))


def moment() -> datetime:
    seconds = CHANCE.randrange(-(10**10), 10**10)
    return EPOCH + timedelta(seconds=seconds, microseconds=CHANCE.randrange(10**6))


def to_milli(value: Any) -> Any:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def whole(bits: int) -> Callable[[], int]:
    return lambda: CHANCE.choice([-(2**bits), 2**bits - 1, 0, CHANCE.randrange(-(2**bits), 2**bits)])


def single(value: Any) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", float(value)))[0]
    return found


def amount(precision: int, scale: int) -> Callable[[], Decimal]:
    return lambda: Decimal(CHANCE.randrange(-(10**precision) + 1, 10**precision)).scaleb(-scale)


def decimal(value: Any) -> Decimal:
    return Decimal(str(value))


def alike(value: Any) -> Any:
    return value


def logical(kind: str, name: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


PAIR = {
    "type": "record",
    "name": "Pair",
    "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": "string"}],
}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
KINDS: dict[str, tuple[Any, Callable[[], Any], Callable[[Any], Any]]] = {
    # The type, a value, and how its JSON is read.
    "flag": ("boolean", lambda: CHANCE.random() < 0.5, alike),
    "i": ("int", whole(31), alike),
    "l": ("long", whole(63), alike),
    "f": ("float", lambda: single(CHANCE.gauss(0, 1e9)), single),
    "d": (
        "double",
        lambda: CHANCE.choice([0.1, -0.0, 5e-324, 1.7976931348623157e308, CHANCE.gauss(0, 1)]),
        float,
    ),
    "s": ("string", text, alike),
    "raw": ("bytes", lambda: CHANCE.randbytes(CHANCE.randrange(5)), base64.b64decode),
    "three": ({"type": "fixed", "name": "Three", "size": 3}, lambda: CHANCE.randbytes(3), base64.b64decode),
    "enum": (ENUM, lambda: CHANCE.choice("AB"), alike),
    "cents": (logical("bytes", "decimal", precision=12, scale=2), amount(12, 2), decimal),
    "wide": (
        logical("fixed", "decimal", name="Wide", size=16, precision=38, scale=10),
        amount(38, 10),
        decimal,
    ),
    "uuid": (logical("string", "uuid"), lambda: UUID(bytes=CHANCE.randbytes(16)), UUID),
    "day": (logical("int", "date"), lambda: moment().date(), date.fromisoformat),
    "tm": (logical("int", "time-millis"), lambda: to_milli(moment().time()), time.fromisoformat),
    "tu": (logical("long", "time-micros"), lambda: moment().time(), time.fromisoformat),
    "ms": (
        logical("long", "timestamp-millis"),
        lambda: to_milli(moment()).replace(tzinfo=UTC),
        datetime.fromisoformat,
    ),
    "us": (logical("long", "timestamp-micros"), lambda: moment().replace(tzinfo=UTC), datetime.fromisoformat),
    "wall": (logical("long", "local-timestamp-micros"), moment, datetime.fromisoformat),
    "list": (
        {"type": "array", "items": ["null", "long"]},
        lambda: [CHANCE.choice([None, 7]) for _ in range(CHANCE.randrange(4))],
        alike,
    ),
    "names": (
        {"type": "map", "values": "double"},
        lambda: {f"{text()}{n}": 0.5 for n in range(CHANCE.randrange(3))},
        lambda value: {name: float(each) for name, each in value.items()},
    ),
    "pair": (PAIR, lambda: {"x": whole(63)(), "y": text()}, alike),
    "either": (["string", "long"], lambda: CHANCE.choice([text(), 2**53 + 1]), alike),
}


@pytest.mark.long
@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_each_type_is_what_fastavro_reads(spark: Any, tmp_path: Path, codec: str) -> None:
    """Nulls among the values, and several blocks, in micro-batches that begin inside of them."""
    fields = [
        {"name": name, "type": kind if name == "either" else ["null", kind]}
        for name, (kind, _, _) in KINDS.items()
    ]
    schema = {"type": "record", "name": "Event", "fields": fields}
    rows = [
        {
            name: None if name != "either" and CHANCE.random() < 0.1 else value()
            for name, (_, value, _) in KINDS.items()
        }
        for _ in range(ROWS)
    ]
    file = tmp_path / "export" / "1.avro"
    file.parent.mkdir()
    with file.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(schema), rows, codec=codec, sync_interval=4_000)
    os.utime(file, (OLD, OLD))
    source = Files("history", path=str(file.parent), format="avro", max_rows_per_trigger=150)
    engine = engine_of(spark, tmp_path, Pipeline(name="shop", bronze=[source]))
    engine.run("bronze")
    ours = [json.loads(value, parse_float=Decimal) for _, _, _, value in bronze(engine)]
    with file.open("rb") as content:
        theirs = [*fastavro.reader(content)]
    assert len(ours) == len(theirs) == ROWS
    for name, (_, _, parse) in KINDS.items():
        for mine, other in zip(ours, theirs, strict=True):
            found = None if mine[name] is None else parse(mine[name])
            assert same(found, other[name]), (name, mine[name], other[name])
