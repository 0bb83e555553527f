"""Avro values whose writer's schema is another one, beside fastavro: numbers on both sides, of every kind."""

from __future__ import annotations

import io
import json
import random
import struct
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import functions as F

from common.declare import Avro
from common.schema import avro as avro_schema
from tests.support.avro import framed
from tests.support.oracles import other_readers
from tests.support.oracles.other_readers import REFUSED, disagreements, listed

pytestmark = pytest.mark.long

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DAY = {"type": "int", "logicalType": "date"}
PROMOTED: dict[str, tuple[Any, ...]] = {
    # What a reader may take for a writer's type; the first is the type itself.
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "boolean": ("boolean",),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
LOGICAL = (AMOUNT, MILLIS, MICROS, DAY)


class Evolution:
    """A writer's schema, a reader's, and values of the writer's; drawn."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311  # a repeatable one
        self.names = 0

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def pair(self, depth: int = 2) -> tuple[Any, Any]:  # noqa: PLR0911  # a line per kind
        """A type as it was written, and as it is read."""
        way = self.chance.randrange(12)
        if depth and way == 0:
            return self.records(self.name("R"), depth - 1)
        if depth and way == 1:
            written, read = self.pair(depth - 1)
            return {"type": "array", "items": written}, {"type": "array", "items": read}
        if depth and way == 2:
            written, read = self.pair(depth - 1)
            return {"type": "map", "values": written}, {"type": "map", "values": read}
        if way == 3:
            symbols = ["A", "B", "C"]
            enum = {"type": "enum", "name": self.name("E"), "symbols": symbols}
            return enum, enum | {"symbols": ["D", *symbols[self.chance.randrange(2) :]], "default": "D"}
        if way == 4:
            fixed = {"type": "fixed", "name": self.name("F"), "size": 3}
            return fixed, fixed
        if way == 5:
            kind = self.chance.choice(LOGICAL)
            return kind, kind
        written = self.chance.choice([*PROMOTED, "int", "long", "int", "long", "double"])
        return written, self.chance.choice(PROMOTED[written])

    def field(self, depth: int) -> tuple[Any, Any]:
        """As ``pair``, on either side perhaps with null."""
        written, read = self.pair(depth)
        way = self.chance.randrange(4)
        if way == 0:
            return ["null", written], ["null", read]
        return (written, ["null", read]) if way == 1 else (written, read)

    def records(self, name: str, depth: int = 2) -> tuple[Any, Any]:
        """Fields that both have, in another order, dropped ones, and new ones with defaults."""
        writer, reader = [], []
        for _ in range(self.chance.randrange(2, 6)):
            field = self.name("m" if depth == 2 else "n")
            written, read = self.field(depth)
            writer.append({"name": field, "type": written})
            if self.chance.random() < 0.7:
                reader.append({"name": field, "type": read})
        for kind, default in self.chance.sample(
            [("long", 7), ("double", 0.25), (["null", "int"], None), ("string", "x"), ("boolean", True)], 2
        ):
            reader.append({"name": self.name("d"), "type": kind, "default": default})
        self.chance.shuffle(reader)
        return (
            {"type": "record", "name": name, "fields": writer},
            {"type": "record", "name": name, "fields": reader},
        )

    def value(self, kind: Any) -> Any:  # noqa: C901, PLR0911  # a line per type
        if isinstance(kind, list):
            return None if self.chance.random() < 0.3 else self.value(kind[1])
        if isinstance(kind, dict):
            if "logicalType" in kind:
                return self.logical(kind["logicalType"])
            if kind["type"] == "record":
                return {each["name"]: self.value(each["type"]) for each in kind["fields"]}
            if kind["type"] == "array":
                return [self.value(kind["items"]) for _ in range(self.chance.randrange(4))]
            if kind["type"] == "map":
                return {f"k{n}": self.value(kind["values"]) for n in range(self.chance.randrange(3))}
            if kind["type"] == "enum":
                return self.chance.choice(kind["symbols"])
            return self.chance.randbytes(kind["size"])
        if kind in {"int", "long"}:
            bits = 31 if kind == "int" else 63
            return self.chance.choice(
                [-(2**bits), 2**bits - 1, 2**24 + 1, 0, self.chance.randrange(-(2**bits), 2**bits), -7]
            )
        if kind == "float":
            return struct.unpack("<f", struct.pack("<f", self.chance.gauss(0, 1e6)))[0]
        if kind == "double":
            return self.chance.choice([0.1, -0.0, 5e-324, 1.7976931348623157e308, self.chance.gauss(0, 1e9)])
        if kind == "boolean":
            return self.chance.random() < 0.5
        text = "".join(
            self.chance.choice("a\0\u00e9\u20ac\U0001f600") for _ in range(self.chance.randrange(5))
        )
        return text if kind == "string" else self.chance.choice([text.encode(), b"\xff\x00"])

    def logical(self, kind: str) -> Any:
        if kind == "decimal":
            return Decimal(self.chance.randrange(-(10**12) + 1, 10**12)).scaleb(-2)
        if kind == "date":
            return date(1, 1, 1) + timedelta(days=self.chance.randrange(3_650_000))
        at = EPOCH + timedelta(milliseconds=self.chance.randrange(-(10**13), 10**13))
        return at if kind == "timestamp-millis" else at + timedelta(microseconds=self.chance.randrange(1000))


@pytest.fixture(name="read_all")
def _read_all(spark: Any) -> Callable[..., list[tuple[str | None, Any]]]:
    def run(value: Avro, values: list[bytes], registry: str) -> list[tuple[str | None, Any]]:
        from silver.read.value_reader import read_values

        spark.conf.set(avro_schema.REGISTRY, registry)
        frame = spark.createDataFrame(list(enumerate(values)), "place int, value binary")
        table = read_values(frame, value).frame.orderBy("place").select(F.col("__read")).toArrow()
        return [(one["fault"], one["value"]) for one in table.column("__read").to_pylist()]

    return run


def plain(kind: Any, value: Any) -> Any:
    """A value of ours as fastavro has it: Arrow hands maps out as pairs."""
    if value is None:
        return None
    if isinstance(kind, list):
        return plain(kind[1], value)
    if isinstance(kind, dict) and kind["type"] == "record":
        return {each["name"]: plain(each["type"], value[each["name"]]) for each in kind["fields"]}
    if isinstance(kind, dict) and kind["type"] == "array":
        return [plain(kind["items"], each) for each in value]
    if isinstance(kind, dict) and kind["type"] == "map":
        return {name: plain(kind["values"], each) for name, each in value}
    return value


def by_fastavro(writer: Any, reader: Any, datum: bytes) -> Any:
    try:
        return fastavro.schemaless_reader(io.BytesIO(datum), writer, reader)
    except (fastavro.read.SchemaResolutionError, UnicodeDecodeError, ValueError):
        return REFUSED


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_evolved_schemas_beside_fastavro(
    tmp_path: Path, read_all: Callable[..., list[tuple[str | None, Any]]], seed: int
) -> None:
    draw = Evolution(seed)
    both: list[other_readers.Read] = []
    for place in range(25):
        writer, reader = draw.records("Event")
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / "1.avsc").write_text(json.dumps(writer))
        values = []
        for _ in range(40):
            out = io.BytesIO()
            fastavro.schemaless_writer(out, writer, draw.value(writer))
            values.append(out.getvalue())
        found = read_all(
            Avro(json.dumps(reader), framing="registry"), [framed(1, each) for each in values], str(folder)
        )
        for datum, (fault, value) in zip(values, found, strict=True):
            theirs = by_fastavro(writer, reader, datum)
            both.append(("record", fault, plain(reader, value), theirs))
    found, examples = disagreements(both)
    assert found.keys() == listed("Avro", "fastavro"), (found, examples)
    assert Counter(fault for _, fault, _, _ in both)[None] > 500
