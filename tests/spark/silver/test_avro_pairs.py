"""Each type of a writer read as each type of a reader: the table of docs/author/schema-registry.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from common.declare import Avro
from common.schema import avro as avro_schema
from tests.support.avro import encode, framed, record

PAGE = Path(__file__).parents[3] / "docs" / "author" / "schema-registry.md"


def logical(base: Any, name: str, **more: Any) -> Any:
    given = base if isinstance(base, dict) else {"type": base}
    return given | {"logicalType": name} | more


def fixed(name: str, size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


KINDS: dict[str, tuple[Any, Any]] = {
    "boolean": ("boolean", True),
    "int": ("int", 7),
    "long": ("long", 7),
    "float": ("float", 0.5),
    "double": ("double", 0.5),
    "string": ("string", "RED"),
    "bytes": ("bytes", b"RED"),
    "fixed of 3": (fixed("Hash", 3), b"RED"),
    "fixed of 4": (fixed("Other", 4), b"REDS"),
    "enum": ({"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}, "RED"),
    "enum with fewer symbols": ({"type": "enum", "name": "Colour", "symbols": ["GREEN"]}, "GREEN"),
    "date": (logical("int", "date"), 7),
    "timestamp-millis": (logical("long", "timestamp-millis"), 7),
    "timestamp-micros": (logical("long", "timestamp-micros"), 7),
    "timestamp-nanos": (logical("long", "timestamp-nanos"), 7000),
    "local-timestamp-micros": (logical("long", "local-timestamp-micros"), 7),
    "decimal(9,2)": (logical("bytes", "decimal", precision=9, scale=2), b"\7"),
    "decimal(18,2)": (logical("bytes", "decimal", precision=18, scale=2), b"\7"),
    "decimal(9,3)": (logical("bytes", "decimal", precision=9, scale=3), b"\7"),
    "uuid": (logical("string", "uuid"), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    "array of int": ({"type": "array", "items": "int"}, [7]),
    "array of string": ({"type": "array", "items": "string"}, ["RED"]),
    "map of int": ({"type": "map", "values": "int"}, {"a": 7}),
    "record": ({"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}, {"x": 7}),
    "null or int": (["null", "int"], 7),
    "null or string": (["null", "string"], "RED"),
}
"""Each type by its name on the page, with a value."""


def fates(spark: Any, folder: Path, reader: Any) -> dict[str, str | None]:
    """Why a reader of one type does not take the value of each type of a writer; None where it does."""
    from silver.read.value_reader import read_values

    spark.conf.set(avro_schema.REGISTRY, str(folder))
    values = []
    for place, (kind, value) in enumerate(KINDS.values()):
        schema = record(f=kind)
        (folder / f"{place}.avsc").write_text(json.dumps(schema))
        values.append((place, framed(place, encode(schema, {"f": value}))))
    frame = spark.createDataFrame(values, "place int, value binary")
    read = read_values(frame, Avro(json.dumps(record(f=reader)), framing="registry")).frame
    rows = read.orderBy("place").select(F.col("__read.fault"), F.col("__read.value.f")).collect()
    assert all((row.fault is None) == (row.f is not None) for row in rows)
    return dict(zip(KINDS, (row.fault for row in rows), strict=True))


@pytest.mark.long
def test_the_page_has_the_fate_of_each_pair_of_types(spark: Any, tmp_path: Path) -> None:
    """A type reads itself; what no line of the page has is refused with one reason, and never null."""
    lines, alone, reasons = [], [], set[str]()
    for name, (reader, _) in KINDS.items():
        found = fates(spark, tmp_path, reader)
        assert found[name] is None
        reasons |= {fault for fault in found.values() if fault is not None}
        read = [writer for writer, fault in found.items() if fault is None]
        if read == [name]:
            alone.append(name)
        else:
            lines.append(f"| {name} | {', '.join(read)} |")
    table = "\n".join([*lines, "", f"Of itself alone: {', '.join(alone)}.\n"])
    assert reasons == {"unresolvable_schema"}
    assert table in PAGE.read_text(encoding="utf-8"), f"the page is to have:\n{table}"


def test_each_type_has_a_line_of_the_page_or_is_read_of_itself_alone() -> None:
    _, _, avro = PAGE.read_text(encoding="utf-8").partition("## Which type is read as which\n")
    avro, _, _ = avro.partition("\n## ")
    (alone,) = re.findall(r"^Of itself alone: (.+)\.$", avro, re.MULTILINE)
    lines = re.findall(r"^\| (.+?) \| .+ \|$", avro, re.MULTILINE)[1:]
    assert sorted([*lines, *alone.split(", ")]) == sorted(KINDS)
