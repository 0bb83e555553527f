"""Protobuf values on real Spark, beside Protobuf's own package: what passes is what was written."""

from __future__ import annotations

import json
import random
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import Edition, FeatureSet, FileDescriptorSet
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from common.declare import Protobuf
from common.schema import avro as avro_schema
from tests.support.oracles.protobuf import (
    PLAIN,
    classes,
    descriptors,
    entry,
    enum,
    field,
    file,
    framed,
    message,
    row,
    strict_reasons,
    tagged,
    varint,
)

COLOUR = enum("Colour", "NONE", "RED", CRIMSON=1, DARK=-5)
LINE = message("Line", field(1, "name", "string"), field(2, "count", "int32", optional=True))
EVERYTHING = file(
    COLOUR,
    LINE,
    message(
        "Order",
        *(field(number, f"one_{kind}", kind) for number, kind in enumerate(PLAIN, 1)),
        *(field(number, f"many_{kind}", kind, repeated=True) for number, kind in enumerate(PLAIN, 101)),
        *(field(number, f"maybe_{kind}", kind, optional=True) for number, kind in enumerate(PLAIN, 201)),
        field(30, "colour", "enum .shop.Colour"),
        field(31, "colours", "enum .shop.Colour", repeated=True),
        field(32, "line", ".shop.Line"),
        field(33, "lines", ".shop.Line", repeated=True),
        field(34, "counts", ".shop.Order.CountsEntry", repeated=True),
        field(35, "named", ".shop.Order.NamedEntry", repeated=True),
        field(36, "at", ".google.protobuf.Timestamp"),
        field(37, "whole", ".google.protobuf.Int64Value"),
        field(38, "texts", ".google.protobuf.StringValue", repeated=True),
        field(39, "any", ".google.protobuf.Any"),
        field(40, "card", "string", oneof=0),
        field(41, "cash", ".shop.Line", oneof=0),
        field(42, "points", "uint32", oneof=0),
        entry("CountsEntry", "string", "sint64"),
        entry("NamedEntry", "uint64", ".shop.Line"),
        oneofs=["paid"],
    ),
)
Order = classes(EVERYTHING)

Rows = list[tuple[str | None, str | None, dict[str, Any] | None]]


@pytest.fixture(name="read_all")
def _read_all(spark: Any, tmp_path: Path) -> Callable[..., Rows]:
    """Values read in one job: fault, its field, and the fields, in order; then what is rescued."""

    def run(schema: bytes, values: Sequence[bytes | None], registry: str = "", **more: Any) -> Any:
        from silver.read.value_reader import read_values

        (tmp_path / "order.desc").write_bytes(schema)
        rescue = more.pop("rescue", False)
        value = Protobuf(str(tmp_path / "order.desc"), more.pop("message", "shop.Order"), **more)
        spark.conf.set(avro_schema.REGISTRY, registry)
        frame = spark.createDataFrame(list(enumerate(values)), "place int, value binary")
        read = read_values(frame, value, rescue=rescue).frame.orderBy("place").select("__read")
        found = read.toArrow().column("__read").to_pylist()
        if rescue:
            return [one["rescued"] and json.loads(one["rescued"]) for one in found]
        return [
            (None, None, None) if one is None else (one["fault"], one["fault_field"], _plain(one["value"]))
            for one in found
        ]

    return run


def _plain(value: Any) -> Any:
    """Arrow hands maps out as pairs."""
    if isinstance(value, dict):
        return {
            name: {key: _plain(one) for key, one in v} if name in ("counts", "named") else _plain(v)
            for name, v in value.items()
        }
    return [_plain(one) for one in value] if isinstance(value, list) else value


def single(chance: random.Random, kind: str) -> Any:
    """A value of a plain type."""
    if kind in ("double", "float"):
        return chance.choice([0.0, -0.0, 0.5, -1e30, 2.0**100, float(chance.randrange(1000)) / 4])
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "string":
        return chance.choice(["", "a", "hé \U0001f600 \0", "x" * 200])
    if kind == "bytes":
        return chance.randbytes(chance.randrange(5))
    size = int(kind[-2:])
    low, high = (0, 2**size - 1) if kind[0] in "uf" else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)
    return chance.choice([low, high, 0, 1, max(low, -1), chance.randrange(low, high + 1)])


def drawn(chance: random.Random) -> Any:
    """A message with values of all kinds, at the ends of their ranges and between."""
    made, one = Order(), partial(single, chance)
    for kind in PLAIN:
        if chance.random() < 0.7:
            setattr(made, f"one_{kind}", one(kind))
        if chance.random() < 0.3:
            setattr(made, f"maybe_{kind}", one(kind))
        getattr(made, f"many_{kind}").extend(one(kind) for _ in range(chance.randrange(3)))
    made.colour = chance.choice([0, 1, -5])
    made.colours.extend(chance.choice([0, 1, -5]) for _ in range(chance.randrange(4)))
    for each in ("line", "cash"):
        if chance.random() < 0.5:
            getattr(made, each).name = one("string")
    for _ in range(chance.randrange(3)):
        made.lines.add(name=one("string"), count=one("int32"))
        made.counts[one("string")] = one("sint64")
        made.named[one("uint64")].count = one("int32")
        made.texts.add(value=one("string"))
    made.at.FromMicroseconds(chance.randrange(-62135596800000000, 253402300799999999))
    made.whole.value = one("int64")
    made.any.type_url = "x/y"
    if chance.random() < 0.3:
        made.card = one("string")
    elif chance.random() < 0.3:
        made.points = one("uint32")
    return made


def test_what_passes_is_what_was_written(read_all: Callable[..., Rows]) -> None:
    chance = random.Random(11)  # noqa: S311  # a repeatable one
    sent = [Order(), *(drawn(chance) for _ in range(300))]
    parts = [(drawn(chance), drawn(chance)) for _ in range(100)]
    whole = [one.SerializeToString() for one in sent]
    joined = [one.SerializeToString() + two.SerializeToString() for one, two in parts]
    rows = read_all(descriptors(EVERYTHING), [None, *whole, *joined])
    assert rows[0] == (None, None, None)
    assert rows[1 : len(whole) + 1] == [(None, None, row(one)) for one in sent]
    # Bytes of two messages are one message: a later value counts, lists grow, messages are merged.
    assert rows[len(whole) + 1 :] == [(None, None, row(Order.FromString(each))) for each in joined]


STRICT = {
    "wrong_type",
    "number_out_of_range",
    "unknown_enum_number",
    "non_finite_number",
    "number_rounded",
    "invalid_timestamp",
}
"""Reasons of values that Protobuf's own package reads: as another value, or as one that no column holds."""


def signs(found: Any, sent: bytes) -> set[str]:
    """Which reasons of ``STRICT`` the bytes of a message give, as Protobuf's own package reads them."""
    told = set(strict_reasons(sent, Order.DESCRIPTOR))
    nanos, seconds = found.at.nanos, found.at.seconds
    if not 0 <= nanos < 10**9:
        told.add("invalid_timestamp")
    if nanos % 1000:
        told.add("number_rounded")
    if not -62135596800 <= seconds <= 253402300799:
        told.add("number_out_of_range")
    return told


@pytest.mark.parametrize("seed", [7, *(pytest.param(each, marks=pytest.mark.long) for each in (8, 9, 10))])
def test_damaged_bytes_are_one_row_and_never_another_value(read_all: Callable[..., Rows], seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  # a repeatable one
    damaged: list[bytes] = []
    for _ in range(100):
        whole = drawn(chance).SerializeToString()
        damaged += [whole[: chance.randrange(len(whole))] for _ in range(10)]
        for _ in range(30):
            at = chance.randrange(len(whole))
            damaged.append(whole[:at] + chance.randbytes(1) + whole[at + 1 :])
        damaged.append(whole + chance.randbytes(chance.randrange(1, 30)))
    damaged += [chance.randbytes(chance.randrange(40)) for _ in range(1000)]
    rows = read_all(descriptors(EVERYTHING), damaged)
    assert len(rows) == len(damaged)
    met = set()
    for sent, (fault, _, came) in zip(damaged, rows, strict=True):
        try:
            theirs = Order.FromString(sent)
        except DecodeError:
            theirs = None
        met.add(fault)
        assert (fault is None) == (came is not None)
        if fault is None:
            assert theirs is not None, sent
            # Protobuf's package takes an entry with an unknown field for an unknown field as a whole.
            lost = {
                Order.DESCRIPTOR.fields_by_number[one.field_number].name
                for one in UnknownFieldSet(theirs)
                if one.field_number in (34, 35)
            }
            assert came is not None
            assert came == row(theirs) | {name: came[name] for name in lost}, sent
        elif theirs is not None:
            assert fault in STRICT & signs(theirs, sent), sent
    assert met >= {None, "malformed_protobuf", "not_utf8", "wrong_type", "unknown_enum_number"}


OLD = file(
    enum("Colour", "NONE", "RED"),
    message("Line", field(1, "name", "string", required=True)),
    message(
        "Order",
        field(1, "a", "int32", required=True),
        field(2, "b", "string", default="none"),
        field(3, "c", "enum .shop.Colour", default="RED"),
        field(4, "d", "group .shop.Order.D", repeated=True),
        field(5, "e", ".shop.Line"),
        field(6, "f", "double"),
        field(7, "g", "bytes", default="\\001x"),
        field(8, "h", ".google.protobuf.Timestamp"),
        field(9, "i", "bool"),
        field(10, "j", ".shop.Order"),
        message("D", field(1, "x", "int32")),
    ),
    syntax="proto2",
)
NOTHING = {
    "b": "none",
    "c": "RED",
    "d": [],
    "e": None,
    "f": None,
    "g": b"\1x",
    "h": None,
    "i": None,
    "j": None,
}
A = tagged(1, 0, varint(1))
FAULTS: dict[str, tuple[bytes, tuple[str, str | None]]] = {
    "no required field": (b"", ("missing_required", "a")),
    "no required field within": (A + tagged(5, 2, b""), ("missing_required", "e.name")),
    "a number without a name": (A + tagged(3, 0, varint(7)), ("unknown_enum_number", "c")),
    "NaN": (A + tagged(6, 1, bytes.fromhex("000000000000f87f")), ("non_finite_number", "f")),
    "infinity": (A + tagged(6, 1, bytes.fromhex("000000000000f07f")), ("non_finite_number", "f")),
    "an int32 of 2^31": (tagged(1, 0, varint(2**31)), ("number_out_of_range", "a")),
    "a boolean of 2": (A + tagged(9, 0, b"\2"), ("number_out_of_range", "i")),
    "a text for a number": (tagged(1, 2, b"\1"), ("wrong_type", "a")),
    "a number for a text": (A + tagged(2, 0, b"\1"), ("wrong_type", "b")),
    "no text": (A + tagged(2, 2, b"\xff"), ("not_utf8", "b")),
    "a nanosecond": (A + tagged(8, 2, tagged(2, 0, b"\1")), ("number_rounded", "h")),
    "no nanosecond": (A + tagged(8, 2, tagged(2, 0, varint(10**9))), ("invalid_timestamp", "h")),
    "a year of 10000": (A + tagged(8, 2, tagged(1, 0, varint(253402300800))), ("number_out_of_range", "h")),
    "cut off": (A + b"\x12\5abc", ("malformed_protobuf", "b")),
    "a length of 2^63": (A + b"\x12" + varint(2**63), ("malformed_protobuf", "b")),
    "a group without an end": (A + b"\x23\x08\1", ("malformed_protobuf", "d")),
    "an end without a group": (A + b"\x24", ("malformed_protobuf", None)),
    "the field 0": (A + b"\0\0", ("malformed_protobuf", None)),
    "wire type 6": (A + b"\x7e", ("malformed_protobuf", None)),
    "a number without an end": (b"\x08" + b"\x80" * 11, ("malformed_protobuf", "a")),
    "a number of 65 bits": (b"\x08" + b"\xff" * 9 + b"\x7f", ("number_out_of_range", "a")),
    "a message of another length": (A + tagged(5, 2, b"\x0a\5ab"), ("malformed_protobuf", "e.name")),
    "groups in groups": (A + b"\x7b" * 200 + b"\x7c" * 200, ("too_deep", None)),
}


def test_what_does_not_pass_has_its_reason_and_its_field(read_all: Callable[..., Rows]) -> None:
    schema = descriptors(OLD)
    found = read_all(schema, [value for value, _ in FAULTS.values()])
    assert dict(zip(FAULTS, found, strict=True)) == {
        name: (*told, None) for name, (_, told) in FAULTS.items()
    }
    inner = A + tagged(2, 2, b"x")
    values = [A, A + b"\x23\x08\2\x24" + b"\x23\x24", A + tagged(10, 2, A) + tagged(10, 2, inner), A * 3]
    assert read_all(schema, [*values, A * 4], max_bytes=len(A * 3) + 20)[:4] == [
        (None, None, {"a": 1} | NOTHING),
        (None, None, {"a": 1} | NOTHING | {"d": [{"x": 2}, {"x": None}]}),
        (None, None, {"a": 1} | NOTHING | {"j": A + inner}),
        (None, None, {"a": 1} | NOTHING),
    ]
    assert read_all(schema, [A * 3, A * 4], max_bytes=len(A * 3))[1] == ("too_large", None, None)
    at = A + tagged(8, 2, tagged(1, 0, b"\5") + tagged(2, 0, b"\1"))
    [(_, _, parts)] = read_all(schema, [at], timestamps="parts")
    assert parts is not None
    assert parts["h"] == {"seconds": 5, "nanos": 1}


def test_a_message_kept_as_bytes_may_come_in_very_many_parts(read_all: Callable[..., Rows]) -> None:
    """The time is that of the bytes: copies of all earlier parts at each further one would take a minute."""
    count = 600_000
    started = time.monotonic()
    [(fault, _, came)] = read_all(descriptors(OLD), [A + tagged(10, 2, b"\1") * count])
    assert time.monotonic() - started < 20
    assert (fault, came) == (None, {"a": 1} | NOTHING | {"j": b"\1" * count})


def test_an_entry_of_a_map_without_key_or_value_has_their_defaults(read_all: Callable[..., Rows]) -> None:
    """Also in proto2, where other absent fields are null."""
    maps = file(
        COLOUR,
        message(
            "Order",
            field(1, "counts", ".shop.Order.CountsEntry", repeated=True),
            field(2, "named", ".shop.Order.NamedEntry", repeated=True),
            entry("CountsEntry", "string", "int64"),
            entry("NamedEntry", "uint64", "enum .shop.Colour"),
        ),
        syntax="proto2",
    )
    key, value = tagged(1, 2, tagged(1, 2, b"k")), tagged(1, 2, tagged(2, 0, b"\5"))
    sent = [tagged(1, 2, b""), key, value, key + value, tagged(2, 2, b""), tagged(2, 2, A)]
    theirs = [row(classes(maps).FromString(each)) for each in sent]
    assert theirs[3]["counts"] == {"k": 0, "": 5}
    assert read_all(descriptors(maps), sent) == [(None, None, each) for each in theirs]


def test_features_of_an_edition_are_as_protobufs_package_reads_them(
    tmp_path: Path, read_all: Callable[..., Rows]
) -> None:
    """Presence and groups of the file and of a field, plain and from a writer of the same schema."""
    features = FeatureSet(field_presence="IMPLICIT", message_encoding="DELIMITED")
    explicit, prefixed = field(2, "b", "int32"), field(4, "prefixed", ".shop.Line")
    explicit.options.features.field_presence = FeatureSet.EXPLICIT
    prefixed.options.features.message_encoding = FeatureSet.LENGTH_PREFIXED
    edition = file(
        message("Line", field(1, "name", "string")),
        message(
            "Order",
            *(field(1, "a", "int32"), explicit, field(3, "line", ".shop.Line"), prefixed),
            field(5, "lines", ".shop.Line", repeated=True),
            field(6, "named", ".shop.Order.NamedEntry", repeated=True),
            entry("NamedEntry", "int32", ".shop.Line"),
        ),
        syntax="editions",
    )
    edition.edition = Edition.EDITION_2023
    edition.options.features.CopyFrom(features)
    made = classes(edition)
    whole = made(a=1, b=0, line={"name": "x"}, prefixed={"name": "y"}, lines=[{"name": "z"}, {}])
    whole.named[7].name = "n"
    sent = [made(), whole]
    (tmp_path / "1.desc").write_bytes(descriptors(edition))
    plain = [each.SerializeToString() for each in sent]
    expected = [(None, None, row(each)) for each in sent]
    assert read_all(descriptors(edition), plain) == expected
    behind = [framed(1, ORDER_AT, each) for each in plain]
    assert read_all(descriptors(edition), behind, str(tmp_path), framing="registry") == expected


def test_unknown_fields_are_kept_with_their_bytes(read_all: Callable[..., Any]) -> None:
    schema = file(
        message("Line", field(1, "name", "string")),
        message(
            "Order",
            field(1, "a", "int32"),
            field(2, "line", ".shop.Line"),
            field(3, "lines", ".shop.Line", repeated=True),
            field(4, "named", ".shop.Order.NamedEntry", repeated=True),
            entry("NamedEntry", "int32", ".shop.Line"),
        ),
    )
    new = tagged(9, 2, b"new")
    again, group = tagged(8, 0, b"\7"), b"\x3b\x08\1\x3c"
    value = b"".join(
        [
            *(A, again, new, again, group, tagged(2, 2, new)),
            *(tagged(3, 2, b""), tagged(3, 2, new), tagged(4, 2, tagged(1, 0, b"\5") + tagged(2, 2, new))),
        ]
    )

    def text(given: bytes) -> str:
        return b64encode(given).decode()

    assert read_all(descriptors(schema), [value, A], rescue=True) == [
        {
            "line": {"9": text(new)},
            "lines": [None, {"9": text(new)}],
            "named": {"5": {"9": text(new)}},
            "7": text(group),
            "8": text(again * 2),
            "9": text(new),
        },
        None,
    ]


def written(*members: Any, syntax: str = "proto3") -> bytes:
    """A registry's file: another message, and the order, with a message in it."""
    inside = message("Inside", field(1, "a", "int32"))
    return descriptors(file(LINE, message("Order", *members, inside, oneofs=["one"]), syntax=syntax))


def alone(*members: Any) -> bytes:
    """A file of a folder as ``protoc`` writes it without ``--include_imports``: the order's own file."""
    whole = FileDescriptorSet(file=[file(message("Other"), message("Order", *members))])
    return whole.SerializeToString()


ONEOF = (field(1, "a", "int32"), field(5, "x", "string", oneof=0), field(6, "y", "string", oneof=0))
WRITERS: Mapping[int, bytes] = {
    1: written(*ONEOF),
    2: written(field(1, "a", "sint32")),
    3: written(field(1, "a", "int64"), field(2, "other", "string")),
    4: written(field(1, "a", "int32", repeated=True)),
    5: written(field(5, "x", "string"), field(6, "y", "string")),
    6: written(field(1, "a", "int32"), field(3, "maybe", "int32")),
    7: written(field(1, "a", "int32"), field(3, "maybe", "int32", optional=True)),
    8: b"no descriptor",
    9: written(field(1, "a", "int32"), field(4, "line", ".google.protobuf.Timestamp")),
    10: written(field(1, "a", "int32"), field(3, "maybe", "int32", default="4"), syntax="proto2"),
    12: alone(field(1, "a", "int32"), field(4, "line", ".shop.Line")),
    13: alone(field(1, "a", "int32"), field(7, "span", ".google.protobuf.Duration")),
}
READER = (
    *(*ONEOF, field(3, "maybe", "int32", optional=True), field(4, "line", ".shop.Line")),
    field(7, "span", ".google.protobuf.Duration"),
)
ORDER_AT = [1]
CAME = {"a": 1, "maybe": None, "line": None, "x": None, "y": None, "span": None}
REFUSED = ("unresolvable_schema", None, None)
RESOLVED: list[tuple[bytes, tuple[str | None, str | None, Any]]] = [
    (framed(1, ORDER_AT, A), (None, None, CAME)),
    (framed(1, ORDER_AT, b""), (None, None, CAME | {"a": 0})),
    (framed(2, ORDER_AT, A), REFUSED),
    (framed(3, ORDER_AT, A + tagged(2, 2, b"x")), (None, None, CAME)),
    (framed(3, ORDER_AT, tagged(1, 0, varint(2**40))), ("number_out_of_range", "a", None)),
    (framed(4, ORDER_AT, A), REFUSED),
    (framed(5, ORDER_AT, tagged(5, 2, b"x")), REFUSED),
    (framed(6, ORDER_AT, A), (None, None, CAME | {"maybe": 0})),
    (framed(7, ORDER_AT, A), (None, None, CAME)),
    (framed(8, ORDER_AT, A), REFUSED),
    (framed(9, ORDER_AT, A), REFUSED),
    (framed(10, ORDER_AT, A), (None, None, CAME)),
    (framed(12, ORDER_AT, A), REFUSED),
    (
        framed(13, ORDER_AT, A + tagged(7, 2, tagged(1, 0, b"\5"))),
        (None, None, CAME | {"span": {"seconds": 5, "nanos": 0}}),
    ),
    (framed(11, ORDER_AT, A), ("unknown_schema_id", None, None)),
    (framed(2**32 - 1, ORDER_AT, A), ("unknown_schema_id", None, None)),
    (framed(1, [0], b""), REFUSED),
    (framed(1, [1, 0], A), REFUSED),
    (framed(1, [7], A), REFUSED),
    (b"\0\0\0\0\1\3" + A, ("unknown_framing", None, None)),
    (b"\0\0\0\0\1\2", ("unknown_framing", None, None)),
    (b"\0\0\0\0\1", ("unknown_framing", None, None)),
    (b"\1\0\0\0\1\0" + A, ("unknown_framing", None, None)),
    (b"", ("unknown_framing", None, None)),
]


def test_a_writers_message_is_compared_with_the_declared_one(
    tmp_path: Path, read_all: Callable[..., Rows]
) -> None:
    for number, content in WRITERS.items():
        (tmp_path / f"{number}.desc").write_bytes(content)
    values = [value for value, _ in RESOLVED]
    rows = read_all(written(*READER), values, str(tmp_path), framing="registry")
    assert dict(enumerate(rows)) == dict(enumerate(expected for _, expected in RESOLVED))
    # The first message is a single zero; one within another has an index per level.
    first = [framed(1, [0], tagged(1, 2, b"x")), framed(1, [1], A)]
    assert read_all(written(*READER), first, str(tmp_path), framing="registry", message="shop.Line") == [
        (None, None, {"name": "x", "count": None}),
        REFUSED,
    ]
    # The entry of a map is a message of the file, which some writers count and others do not.
    counts = field(2, "counts", ".shop.Order.CountsEntry", repeated=True)
    (tmp_path / "14.desc").write_bytes(written(counts, entry("CountsEntry", "string", "int64")))
    within = read_all(
        written(*READER),
        [framed(1, [1, 0], A), framed(14, [1, 0], A), framed(14, [1, 1], A), framed(14, [1, 2], A)],
        str(tmp_path),
        framing="registry",
        message="shop.Order.Inside",
    )
    assert within == [*[(None, None, {"a": 1})] * 3, REFUSED]


def test_a_zero_that_a_writer_leaves_out_is_no_default_of_the_declared_schema(
    tmp_path: Path, read_all: Callable[..., Rows]
) -> None:
    """A writer of proto2 that sends nothing has said nothing: there the default counts."""
    members = (field(1, "x", "int32"), field(2, "text", "string"), field(3, "colour", "enum .shop.Colour"))
    reader = tuple(
        field(each.number, each.name, kind, default=default)
        for each, kind, default in zip(
            members, ("int32", "string", "enum .shop.Colour"), ("7", "none", "RED"), strict=True
        )
    )
    for number, syntax in ((1, "proto3"), (2, "proto2")):
        content = descriptors(file(COLOUR, message("Order", *members), syntax=syntax))
        (tmp_path / f"{number}.desc").write_bytes(content)
    declared = descriptors(file(COLOUR, message("Order", *reader), syntax="proto2"))
    values = [framed(1, [0], b""), framed(1, [0], A), framed(2, [0], b"")]
    assert read_all(declared, values, str(tmp_path), framing="registry") == [
        (None, None, {"x": 0, "text": "", "colour": "NONE"}),
        (None, None, {"x": 1, "text": "", "colour": "NONE"}),
        (None, None, {"x": 7, "text": "none", "colour": "RED"}),
    ]
