"""Each type of a writer read as each type of a reader: a table of docs/author/schema-registry.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from common.declare import Protobuf
from common.schema import avro as avro_schema
from tests.support.oracles.protobuf import (
    descriptors,
    entry,
    enum,
    field,
    file,
    framed,
    message,
    tagged,
    varint,
)

PAGE = Path(__file__).parents[4] / "docs" / "author" / "schema-registry.md"
INT = tagged(1, 0, b"\1")

KINDS: dict[str, tuple[str, bytes]] = {
    "double": ("double", tagged(1, 1, bytes(8))),
    "float": ("float", tagged(1, 5, bytes(4))),
    "int32": ("int32", INT),
    "int64": ("int64", INT),
    "uint32": ("uint32", INT),
    "uint64": ("uint64", INT),
    "sint32": ("sint32", INT),
    "sint64": ("sint64", INT),
    "fixed32": ("fixed32", tagged(1, 5, bytes(4))),
    "fixed64": ("fixed64", tagged(1, 1, bytes(8))),
    "sfixed32": ("sfixed32", tagged(1, 5, bytes(4))),
    "sfixed64": ("sfixed64", tagged(1, 1, bytes(8))),
    "bool": ("bool", INT),
    "string": ("string", tagged(1, 2, b"\x08\1")),
    "bytes": ("bytes", tagged(1, 2, b"\x08\1")),
    "enum": ("enum .shop.Colour", INT),
    "message": (".shop.Line", tagged(1, 2, INT)),
    "group": ("group .shop.Order.F", b"\x0b" + INT + b"\x0c"),
    "repeated int32": ("repeated int32", tagged(1, 2, b"\1")),
    "map<string, int64>": ("repeated .shop.Order.FEntry", tagged(1, 2, tagged(1, 2, b"k") + b"\x10\1")),
    "google.protobuf.Timestamp": (".google.protobuf.Timestamp", tagged(1, 2, INT)),
    "google.protobuf.Int32Value": (".google.protobuf.Int32Value", tagged(1, 2, INT)),
}
"""Each type by its name on the page, with the bytes of a value."""


def schema(kind: str) -> bytes:
    is_repeated = kind.startswith("repeated ")
    member = field(1, "f", kind.removeprefix("repeated "), repeated=is_repeated)
    inner = (message("F", field(1, "x", "int32")), entry("FEntry", "string", "int64"))
    line = message("Line", field(1, "x", "int32"))
    order = message("Order", member, *inner)
    return descriptors(file(enum("Colour", "NONE", "RED"), line, order, syntax="proto2"))


def fates(spark: Any, folder: Path, reader: str) -> dict[str, str | None]:
    """Why a reader of one type does not take the value of each type of a writer; None where it does."""
    from silver.read.value_reader import read_values

    spark.conf.set(avro_schema.REGISTRY, str(folder))
    values = []
    for place, (kind, value) in enumerate(KINDS.values()):
        (folder / f"{place}.desc").write_bytes(schema(kind))
        values.append((place, framed(place, [1], value)))
    (folder / "order.desc").write_bytes(schema(reader))
    frame = spark.createDataFrame(values, "place int, value binary")
    value = Protobuf(str(folder / "order.desc"), "shop.Order", framing="registry")
    read = read_values(frame, value).frame
    rows = read.orderBy("place").select(F.col("__read.fault"), F.col("__read.value.f")).collect()
    assert all((row.fault is None) == (row.f is not None) for row in rows)
    return dict(zip(KINDS, (row.fault for row in rows), strict=True))


def shown(name: str) -> str:
    return f"`{name}`" if "<" in name else name


@pytest.mark.long
def test_the_page_has_the_fate_of_each_pair_of_types(spark: Any, tmp_path: Path) -> None:
    """A type reads itself; what no line of the page has is refused with one reason, and never null."""
    lines, alone, reasons = [], [], set[str]()
    for name, (reader, _) in KINDS.items():
        found = fates(spark, tmp_path, reader)
        assert found[name] is None
        reasons |= {fault for fault in found.values() if fault is not None}
        read = [shown(writer) for writer, fault in found.items() if fault is None]
        if read == [shown(name)]:
            alone.append(shown(name))
        else:
            lines.append(f"| {shown(name)} | {', '.join(read)} |")
    table = "\n".join([*lines, "", f"Of itself alone: {', '.join(alone)}.\n"])
    assert reasons == {"unresolvable_schema"}
    assert table in PAGE.read_text(encoding="utf-8"), f"the page is to have:\n{table}"


def test_a_number_beyond_the_readers_range_is_a_fault_of_its_value(spark: Any, tmp_path: Path) -> None:
    """The ends of each whole number's range, read as each other type that the page allows."""
    from silver.read.value_reader import read_values

    ends = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
    ends |= {"uint32": (0, 2**32 - 1), "uint64": (0, 2**64 - 1)}
    spark.conf.set(avro_schema.REGISTRY, str(tmp_path))
    written = []
    for place, (kind, range_) in enumerate(ends.items()):
        (tmp_path / f"{place}.desc").write_bytes(schema(kind))
        written += [(kind, end, framed(place, [1], tagged(1, 0, varint(end % 2**64)))) for end in range_]
    frame = spark.createDataFrame([(i, each[2]) for i, each in enumerate(written)], "place int, value binary")
    for reader, (low, high) in ends.items():
        (tmp_path / "order.desc").write_bytes(schema(reader))
        value = Protobuf(str(tmp_path / "order.desc"), "shop.Order", framing="registry")
        read = read_values(frame, value).frame.orderBy("place")
        for (_, end, _), row in zip(
            written, read.select("__read.fault", "__read.value.f").collect(), strict=True
        ):
            if row.fault is None:
                assert int(row.f) == end
            elif row.fault != "unresolvable_schema":
                assert (row.fault, low <= end <= high) == ("number_out_of_range", False)
