"""Avro values on real Spark: what passes is what was written, and all else has its reason."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from common.declare import Avro
from common.schema import avro as avro_schema
from tests.support.avro import encode, framed, number, record

UTC = dt.UTC

EVERYTHING = record(
    flag="boolean",
    small="int",
    big="long",
    single="float",
    double="double",
    text="string",
    raw="bytes",
    perhaps=["null", "string"],
    wide=["null", "int", "long"],
    day={"type": "int", "logicalType": "date"},
    millis={"type": "long", "logicalType": "timestamp-millis"},
    micros=["null", {"type": "long", "logicalType": "timestamp-micros"}],
    nanos={"type": "long", "logicalType": "timestamp-nanos"},
    local={"type": "long", "logicalType": "local-timestamp-micros"},
    price={"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
    cents={"type": "fixed", "name": "Cents", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2},
    id={"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"},
    name={"type": "string", "logicalType": "uuid"},
    colour={"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]},
    hash={"type": "fixed", "name": "Hash", "size": 3},
    tags={"type": "array", "items": ["null", "string"]},
    counts={"type": "map", "values": "long"},
    inner={"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "double"}]},
    inners={"type": "array", "items": "Inner"},
)
SENT = {
    "flag": True,
    "small": -(2**31),
    "big": 2**63 - 1,
    "single": 0.5,
    "double": 0.1,
    "text": "h\u00e9 \U0001f600 \0",
    "raw": b"\0\xff",
    "perhaps": None,
    "wide": -7,
    "day": -719162,
    "millis": 253402300799999,
    "micros": 1,
    "nanos": -1000,
    "local": 1_700_000_000_000_001,
    "price": int("9" * 38).to_bytes(16, "big"),
    "cents": (-999999999).to_bytes(4, "big", signed=True),
    "id": bytes(range(16)),
    "name": "not checked",
    "colour": "GREEN",
    "hash": b"abc",
    "tags": ["a", None, ""],
    "counts": {"a": 1, "": -1},
    "inner": {"x": 1.5},
    "inners": [],
}
CAME = SENT | {
    "day": dt.date(1, 1, 1),
    "millis": dt.datetime(9999, 12, 31, 23, 59, 59, 999000, UTC),
    "micros": dt.datetime(1970, 1, 1, 0, 0, 0, 1, UTC),
    "nanos": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    "local": dt.datetime(2023, 11, 14, 22, 13, 20, 1),  # it has no zone
    "price": Decimal("9" * 28 + "." + "9" * 10),
    "cents": Decimal("-9999999.99"),
    "id": "00010203-0405-0607-0809-0a0b0c0d0e0f",
}

Rows = list[tuple[str | None, str | None, dict[str, Any] | None]]


@pytest.fixture(name="read_all")
def _read_all(spark: Any) -> Callable[..., Rows]:
    """Values read in one job: fault, its field, and the fields, in order."""

    def run(value: Avro, values: Sequence[bytes | None], registry: str = "") -> Rows:
        from silver.read.value_reader import read_values

        spark.conf.set(avro_schema.REGISTRY, registry)
        rows = [(place, each) for place, each in enumerate(values)]
        frame = spark.createDataFrame(rows, "place int, value binary")
        table = read_values(frame, value).frame.orderBy("place").select("__read").toArrow()
        found = table.column("__read").to_pylist()
        return [
            (None, None, None) if one is None else (one["fault"], one["fault_field"], _plain(one["value"]))
            for one in found
        ]

    return run


def _plain(value: Any) -> Any:
    """Arrow hands maps out as pairs."""
    if isinstance(value, dict):
        return {name: dict(v) if name == "counts" else _plain(v) for name, v in value.items()}
    return value


def avro(schema: Any, **more: Any) -> Avro:
    return Avro(json.dumps(schema), **more)


def one(schema: Any, value: Any) -> bytes:
    return encode(schema, {schema["fields"][0]["name"]: value})


def test_what_passes_is_what_was_written(read_all: Callable[..., Rows]) -> None:
    nothing = SENT | {"wide": None, "micros": None, "tags": [], "counts": {}, "perhaps": "x"}
    rows = read_all(avro(EVERYTHING), [encode(EVERYTHING, SENT), None, encode(EVERYTHING, nothing)])
    assert rows[0] == (None, None, CAME)
    assert rows[1] == (None, None, None)
    assert rows[2] == (
        None,
        None,
        CAME | {"wide": None, "micros": None, "tags": [], "counts": {}, "perhaps": "x"},
    )


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
TEXT = record(a="string")
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
PLAIN_FAULTS: dict[str, tuple[Any, bytes, str, str | None]] = {
    "nothing": (TEXT, b"", "empty_value", None),
    "cut off": (TEXT, number(3) + b"ab", "malformed_avro", "a"),
    "a byte too many": (TEXT, number(1) + b"ab", "malformed_avro", None),
    "a length of two gigabytes": (TEXT, number(2**31 - 1), "malformed_avro", "a"),
    "a negative length": (TEXT, number(-1), "malformed_avro", "a"),
    "a length without an end": (TEXT, b"\xff" * 12, "malformed_avro", "a"),
    "no UTF-8": (TEXT, number(1) + b"\xff", "not_utf8", "a"),
    "an encoded surrogate": (TEXT, number(3) + b"\xed\xa0\x80", "not_utf8", "a"),
    "a boolean of 2": (record(a="boolean"), b"\x02", "malformed_avro", "a"),
    "an int of 2^31": (record(a="int"), number(2**31), "malformed_avro", "a"),
    "no such branch": (record(a=["null", "int"]), number(2), "malformed_avro", "a"),
    "no such symbol": (
        record(a={"type": "enum", "name": "E", "symbols": ["X"]}),
        number(1),
        "malformed_avro",
        "a",
    ),
    "a billion items": (record(a={"type": "array", "items": "int"}), number(10**9), "malformed_avro", "a"),
    "a name twice": (
        record(a={"type": "map", "values": "int"}),
        number(2) + (number(1) + b"k" + number(1)) * 2 + b"\0",
        "duplicate_key",
        "a",
    ),
    "a year of 10000": (record(a=MILLIS), number(253402300800000), "number_out_of_range", "a"),
    "an overflow of micros": (record(a=MILLIS), number(2**63 - 1), "number_out_of_range", "a"),
    "a day of 10000": (
        record(a={"type": "int", "logicalType": "date"}),
        number(2932897),
        "number_out_of_range",
        "a",
    ),
    "a nanosecond": (
        record(a={"type": "long", "logicalType": "timestamp-nanos"}),
        number(1),
        "number_rounded",
        "a",
    ),
    "a digit too many": (
        record(a=AMOUNT),
        one(record(a=AMOUNT), (10000).to_bytes(2, "big")),
        "number_out_of_range",
        "a",
    ),
    "a decimal of 1 MB": (
        record(a=AMOUNT),
        one(record(a=AMOUNT), b"\x01" * 1_000_000),
        "number_out_of_range",
        "a",
    ),
    "a decimal of no byte": (record(a=AMOUNT), b"\0", "malformed_avro", "a"),
    "inside": (
        record(a={"type": "array", "items": record(b="string") | {"name": "In"}}),
        number(1) + number(1) + b"\xff" + b"\0",
        "not_utf8",
        "a.b",
    ),
}


def test_what_does_not_pass_has_its_reason_and_its_field(read_all: Callable[..., Rows]) -> None:
    found = {name: read_all(avro(schema), [value])[0] for name, (schema, value, _, _) in PLAIN_FAULTS.items()}
    assert found == {name: (fault, place, None) for name, (_, _, fault, place) in PLAIN_FAULTS.items()}
    assert read_all(avro(TEXT, max_bytes=3), [one(TEXT, "ab"), one(TEXT, "abc")]) == [
        (None, None, {"a": "ab"}),
        ("too_large", None, None),
    ]


def test_any_bytes_are_one_row(read_all: Callable[..., Rows]) -> None:
    chance = random.Random(7)  # noqa: S311  # a repeatable one
    whole = encode(EVERYTHING, SENT)
    mutants = [whole[:cut] for cut in range(1, len(whole))]
    for _ in range(2000):
        bytes_ = bytearray(whole)
        bytes_[chance.randrange(len(whole))] = chance.randrange(256)
        mutants.append(bytes(bytes_))
    mutants += [chance.randbytes(chance.randrange(1, 200)) for _ in range(2000)]
    rows = read_all(avro(EVERYTHING), [*mutants, whole])
    assert len(rows) == len(mutants) + 1
    assert {fault for fault, _, _ in rows[: len(whole) - 1]} == {"malformed_avro"}
    assert all((fault is None) == (value is not None) for fault, _, value in rows)
    assert rows[-1] == (None, None, CAME)


WRITERS: dict[int, Any] = {
    1: record(a="int"),
    2: record(b="string", a="long", c={"type": "array", "items": "string"}),
    3: record(a="string"),
    4: record(a=["null", "long"]),
    5: record(t=MICROS, a="long"),
    6: record(other="long"),
    7: record(a="long", e={"type": "array", "items": "null"}),
}
READER = record(a="double", t=(["null", MILLIS], None), d=("string", "none"))
RESOLVED: list[tuple[bytes, tuple[str | None, str | None, Any]]] = [
    (framed(1, number(5)), (None, None, {"a": 5.0, "t": None, "d": "none"})),
    (
        framed(2, number(1) + b"x" + number(2**53) + number(1) + number(1) + b"y" + b"\0"),
        (None, None, {"a": 2.0**53, "t": None, "d": "none"}),
    ),
    (framed(2, number(1) + b"x" + number(2**53 + 1) + b"\0"), ("number_rounded", "a", None)),
    (framed(2, number(1) + b"x" + number(2**63 - 1) + b"\0"), ("number_rounded", "a", None)),
    (framed(3, number(1) + b"5"), ("unresolvable_schema", "a", None)),
    (framed(4, number(1) + number(3)), (None, None, {"a": 3.0, "t": None, "d": "none"})),
    (framed(4, number(0)), ("unresolvable_schema", "a", None)),
    (framed(5, number(1) + number(1)), ("unresolvable_schema", None, None)),
    (framed(6, number(1)), ("unresolvable_schema", None, None)),
    (framed(7, number(1) + number(2**62) + b"\0"), ("unresolvable_schema", None, None)),
    (framed(8, b""), ("unresolvable_schema", None, None)),
    (framed(9, b""), ("unknown_schema_id", None, None)),
    (b"", ("unknown_framing", None, None)),
    (b"\0\0\0\1", ("unknown_framing", None, None)),
    (b"\1\0\0\0\1\n", ("unknown_framing", None, None)),
    # Avro's single-object encoding.
    (b"\xc3\x01" + bytes(8) + number(1), ("unknown_framing", None, None)),
    (framed(1, b""), ("malformed_avro", "a", None)),
    (framed(1, number(5) + b"\0"), ("malformed_avro", None, None)),
]


def test_a_writers_schema_is_resolved_or_told(tmp_path: Path, read_all: Callable[..., Rows]) -> None:
    for number_, schema in WRITERS.items():
        (tmp_path / f"{number_}.avsc").write_text(json.dumps(schema))
    (tmp_path / "8.avsc").write_text("no schema")
    rows = read_all(avro(READER, framing="registry"), [value for value, _ in RESOLVED], str(tmp_path))
    assert rows == [expected for _, expected in RESOLVED]


def test_a_text_or_plain_bytes_are_no_decimal(tmp_path: Path, read_all: Callable[..., Rows]) -> None:
    for number_, kind in enumerate(("string", "bytes", AMOUNT), start=1):
        (tmp_path / f"{number_}.avsc").write_text(json.dumps(record(a=kind)))
    values = [framed(writer, number(2) + b"12") for writer in (1, 2, 3)]
    reader = avro(record(a=AMOUNT | {"precision": 10}), framing="registry")
    refused = ("unresolvable_schema", None, None)
    written = (None, None, {"a": Decimal("125.94")})
    assert read_all(reader, values, str(tmp_path)) == [refused, refused, written]


DROPPED: dict[str, Any] = {"int": 7, "long": 2**53 + 1, "float": 2.5, "double": -0.5}
TAKEN: dict[tuple[str, str], tuple[Any, Any]] = {
    # The writer's type and the reader's: what was written, and what comes; None where it would be rounded.
    ("double", "double"): (1.5, 1.5),
    ("float", "double"): (1.5, 1.5),
    ("float", "float"): (1.5, 1.5),
    ("int", "double"): (2**31 - 1, 2.0**31 - 1),
    ("int", "float"): (2**24 + 1, None),
    ("long", "double"): (2**53 + 1, None),
    ("long", "float"): (2**24, 2.0**24),
    ("long", "long"): (2**63 - 1, 2**63 - 1),
    ("int", "long"): (-3, -3),
}


def test_numbers_of_dropped_fields_are_nobodys(tmp_path: Path, read_all: Callable[..., Rows]) -> None:
    """Dropped before, between and after what is read; alone, in a union, an array and a record."""
    for (written, taken), (sent, came) in TAKEN.items():
        reader = record(d=taken, n=(["null", taken], None), e=(taken, 3 if taken == "long" else 0.25))
        values = []
        folder = tmp_path / f"{written}-{taken}"
        folder.mkdir()
        for place, (kind, old) in enumerate(DROPPED.items(), start=1):
            inner = {"type": "record", "name": f"In{place}", "fields": [{"name": "x", "type": kind}]}
            many = {"type": "array", "items": kind}
            writer = record(a=kind, b=inner, d=written, c=many, n=["null", written], f=["null", kind], g=kind)
            (folder / f"{place}.avsc").write_text(json.dumps(writer))
            value = {"a": old, "b": {"x": old}, "d": sent, "c": [old], "n": sent, "f": old, "g": old}
            values.append(framed(place, encode(writer, value)))
        found = read_all(avro(reader, framing="registry"), values, str(folder))
        whole = (None, None, {"d": came, "n": came, "e": 3 if taken == "long" else 0.25})
        assert found == [("number_rounded", "d", None) if came is None else whole] * len(DROPPED), (
            written,
            taken,
        )
