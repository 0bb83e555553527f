"""Parquet rows of every type beside two readers of others: pyarrow and DuckDB."""

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

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.declare import Files, Pipeline
from tests.pipeline.bronze.test_files import OLD, bronze, engine_of

CHANCE = random.Random(11)  # noqa: S311  # a repeatable one
ROWS = 300
EPOCH = datetime(1970, 1, 1)  # a clock reading, which has no zone


def whole(low: int, high: int) -> Callable[[], int]:
    return lambda: CHANCE.choice([low, high, 0, CHANCE.randint(low, high)])


def text() -> str:
    return "".join(chr(CHANCE.choice([0, 34, 92, 233, 8364, 128512, 97])) for _ in range(CHANCE.randrange(6)))


def raw() -> bytes:
    return CHANCE.randbytes(CHANCE.randrange(5))


def single() -> float:
    found: float = struct.unpack("<f", struct.pack("<f", CHANCE.uniform(-1e30, 1e-3)))[0]
    return found


def double() -> float:
    return CHANCE.choice([0.1, -0.0, 5e-324, 1.7976931348623157e308, CHANCE.gauss(0, 1e9)])


def digits(precision: int, scale: int) -> Callable[[], Decimal]:
    return lambda: Decimal(CHANCE.randint(-(10**precision) + 1, 10**precision - 1)).scaleb(-scale)


def moment() -> datetime:
    return EPOCH + timedelta(
        seconds=CHANCE.randrange(-(9 * 10**9), 9 * 10**9), microseconds=CHANCE.randrange(10**6)
    )


def instant() -> datetime:
    return moment().replace(tzinfo=UTC)


def day() -> date:
    return moment().date()


def of_day() -> time:
    return moment().time()


def to_milli(value: Callable[[], Any]) -> Callable[[], Any]:
    def cut() -> Any:
        found = value()
        return found.replace(microsecond=found.microsecond // 1000 * 1000)

    return cut


def same(value: Any) -> Any:
    return value


def as_single(value: Any) -> Any:
    return struct.unpack("<f", struct.pack("<f", value))[0]


Kind = tuple[pa.DataType, Callable[[], Any], Callable[[Any], Any]]
KINDS: dict[str, Kind] = {
    # The type, a value, and how its JSON is read.
    "i8": (pa.int8(), whole(-128, 127), same),
    "i16": (pa.int16(), whole(-(2**15), 2**15 - 1), same),
    "i32": (pa.int32(), whole(-(2**31), 2**31 - 1), same),
    "i64": (pa.int64(), whole(-(2**63), 2**63 - 1), same),
    "u8": (pa.uint8(), whole(0, 255), same),
    "u16": (pa.uint16(), whole(0, 2**16 - 1), same),
    "u32": (pa.uint32(), whole(0, 2**32 - 1), same),
    "u64": (pa.uint64(), whole(0, 2**64 - 1), same),
    "f32": (pa.float32(), single, as_single),
    "f64": (pa.float64(), double, float),
    "flag": (pa.bool_(), lambda: CHANCE.random() < 0.5, same),
    "text": (pa.string(), text, same),
    "word": (pa.dictionary(pa.int32(), pa.string()), text, same),
    "long": (pa.large_string(), text, same),
    "raw": (pa.binary(), raw, base64.b64decode),
    "three": (pa.binary(3), lambda: CHANCE.randbytes(3), base64.b64decode),
    "uuid": (pa.uuid(), lambda: CHANCE.randbytes(16), UUID),
    "d9": (pa.decimal128(9, 2), digits(9, 2), lambda value: Decimal(str(value))),
    "d18": (pa.decimal128(18, 18), digits(18, 18), lambda value: Decimal(str(value))),
    "d38": (pa.decimal128(38, 10), digits(38, 10), lambda value: Decimal(str(value))),
    "day": (pa.date32(), day, date.fromisoformat),
    "ms": (pa.timestamp("ms", "UTC"), to_milli(instant), datetime.fromisoformat),
    "us": (pa.timestamp("us", "UTC"), instant, datetime.fromisoformat),
    "local": (pa.timestamp("us"), moment, datetime.fromisoformat),
    "t32": (pa.time32("ms"), to_milli(of_day), time.fromisoformat),
    "t64": (pa.time64("us"), of_day, time.fromisoformat),
}
ONLY_ARROW: dict[str, Kind] = {
    # DuckDB has no type of 16 bits for numbers with a point, and takes whole nanoseconds to microseconds.
    "half": (pa.float16(), lambda: CHANCE.choice([0.5, -65504.0, 2.0**-24, 0.333251953125]), as_single),
    "ns": (pa.timestamp("ns", "UTC"), instant, datetime.fromisoformat),
    "list": (pa.list_(pa.int64()), lambda: [CHANCE.choice([None, 7]) for _ in range(3)], same),
    "lists": (pa.list_(pa.list_(pa.string())), lambda: [[text()], None, []], same),
    "place": (pa.struct([("x", pa.string()), ("y", pa.int32())]), lambda: {"x": text(), "y": None}, same),
    "names": (
        pa.map_(pa.string(), pa.int64()),
        lambda: [("a", 1), (text() + "b", None)],
        lambda v: [*v.items()],
    ),
}


@pytest.mark.long
@pytest.mark.parametrize(("compression", "version"), [("snappy", "1.0"), ("zstd", "2.0"), ("gzip", "1.0")])
def test_each_type_is_what_pyarrow_and_duckdb_read(
    spark: Any, tmp_path: Path, compression: str, version: Any
) -> None:
    """Nulls among the values, several row groups and pages; no two readers disagree."""
    kinds = KINDS | ONLY_ARROW
    columns = {
        name: pa.array([None if CHANCE.random() < 0.1 else value() for _ in range(ROWS)], kind)
        for name, (kind, value, _) in kinds.items()
    }
    file = tmp_path / "export" / "1.parquet"
    file.parent.mkdir()
    pq.write_table(
        pa.table(columns),
        file,
        row_group_size=70,
        data_page_size=256,
        compression=compression,
        data_page_version=version,
    )
    os.utime(file, (OLD, OLD))
    source = Files("history", path=str(file.parent), format="parquet", max_rows_per_trigger=130)
    engine = engine_of(spark, tmp_path, Pipeline(name="shop", bronze=[source]))
    engine.run("bronze")
    ours = [json.loads(value, parse_float=Decimal) for _, _, _, value in bronze(engine)]
    theirs = pq.read_table(file).to_pylist()
    assert len(ours) == len(theirs) == ROWS
    for name, (_, _, parse) in kinds.items():
        found = [None if row[name] is None else parse(row[name]) for row in ours]
        assert found == [row[name] for row in theirs], name
    for name in KINDS:
        column = duckdb.sql(f"SELECT \"{name}\" FROM read_parquet('{file}')").fetchall()  # names of ours
        in_utc = [value.astimezone(UTC) if getattr(value, "tzinfo", None) else value for (value,) in column]
        assert in_utc == [row[name] for row in theirs], name
