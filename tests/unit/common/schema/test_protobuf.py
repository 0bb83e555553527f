"""Protobuf messages as columns see them, and those that no column can hold."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from common.declare import Protobuf
from common.errors import PipelineError
from common.machine import extras
from common.schema import protobuf as protobuf_schema
from tests.support.oracles.protobuf import descriptors, entry, enum, field, file, message

ORDER = file(
    message("Empty"),
    message("Line", field(1, "name", "string"), field(2, "parent", ".shop.Line")),
    enum("Colour", "NONE", "RED"),
    message(
        "Order",
        field(1, "a", "int32"),
        field(2, "b", "uint32"),
        field(3, "c", "fixed64"),
        field(4, "d", "enum .shop.Colour", repeated=True),
        field(5, "e", ".shop.Line"),
        field(6, "f", ".shop.Order.FEntry", repeated=True),
        field(7, "g", ".google.protobuf.Timestamp"),
        field(8, "h", ".google.protobuf.Int64Value"),
        field(9, "i", ".google.protobuf.Struct"),
        field(10, "j", ".shop.Empty"),
        field(11, "k", ".google.protobuf.Any"),
        field(12, "l", "bytes", oneof=0),
        field(13, "m", "double", oneof=0),
        field(14, "n", "bool", optional=True),
        entry("FEntry", "int64", ".shop.Line"),
        oneofs=["one"],
    ),
)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    (tmp_path / "order.desc").write_bytes(descriptors(ORDER))
    return tmp_path


def test_each_type_has_its_column(folder: Path) -> None:
    found = {f.name: f.type for f in protobuf_schema.fields(Protobuf("order.desc", "shop.Order"), folder)}
    line = "struct<name:string,parent:binary>"
    assert found == {
        "a": "int",
        "b": "bigint",
        "c": "decimal(20,0)",
        "d": "array<string>",
        "e": line,
        "f": f"map<bigint,{line}>",
        "g": "timestamp",
        "h": "bigint",
        "i": "binary",
        "j": "binary",
        "k": "struct<type_url:string,value:binary>",
        "l": "binary",
        "m": "double",
        "n": "boolean",
    }
    parts = Protobuf("order.desc", "shop.Order", timestamps="parts")
    found = {f.name: f.type for f in protobuf_schema.fields(parts, folder)}
    assert found["g"] == "struct<seconds:bigint,nanos:int>"


def refused(folder: Path, schema: str = "order.desc", name: str = "shop.Order") -> str:
    with pytest.raises(PipelineError) as told:
        protobuf_schema.fields(Protobuf(schema, name), folder)
    return "; ".join(problem.message for problem in told.value.problems)


def test_mistakes_say_what_to_write(folder: Path) -> None:
    assert refused(folder, name="shop.Ordr") == (
        "order.desc has no message 'shop.Ordr'; did you mean 'shop.Order'?"
    )
    assert refused(folder, name="shop.Empty") == (
        "message 'shop.Empty' becomes binary; a value is a message with fields, the columns"
    )
    assert "did you mean 'order.desc'?" in refused(folder, "ordr.desc")
    (folder / "cut.desc").write_bytes(descriptors(ORDER)[:-3])
    (folder / "alone.desc").write_bytes(b"\n" + bytes([len(ORDER.SerializeToString()) % 128]))
    how = "is no whole set of descriptors; write it with protoc --include_imports --descriptor_set_out="
    for name in ("cut.desc", "alone.desc"):
        assert refused(folder, name) == f"{name} {how}{name} FILE.proto"
    with pytest.raises(PipelineError, match="write the name of a file with a set of descriptors"):
        Protobuf("order.proto", "shop.Order")


def test_a_set_without_its_imports_says_how_to_write_it(tmp_path: Path) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    (tmp_path / "order.desc").write_bytes(FileDescriptorSet(file=[ORDER]).SerializeToString())
    assert "--include_imports" in refused(tmp_path)


def test_names_and_defaults_that_no_column_can_have(tmp_path: Path) -> None:
    wrong = file(
        message(
            "Order",
            field(1, "a", "int32"),
            field(2, "A", "int32"),
            field(3, "b", "double", default="nan"),
        ),
        syntax="proto2",
    )
    (tmp_path / "order.desc").write_bytes(descriptors(wrong))
    assert refused(tmp_path) == (
        "message 'shop.Order', field 'b' has the default nan, which no value may be; leave it out; "
        "message 'shop.Order' has fields 'a' and 'A', which are equal to Spark; rename one"
    )


def test_messages_that_name_each_other_are_too_many_fields(tmp_path: Path) -> None:
    """Eight of them have 100,000 paths, and nine a million: the walk ends at the limit."""
    names = [f"M{number}" for number in range(12)]
    whole = file(
        *(message(n, *(field(i, o.lower(), f".shop.{o}") for i, o in enumerate(names, 1))) for n in names)
    )
    (tmp_path / "order.desc").write_bytes(descriptors(whole))
    assert refused(tmp_path, name="shop.M0") == (
        "message 'shop.M0' has more than 10,000 fields, each counted in every message that has it; "
        "declare a smaller message"
    )


def test_without_its_package_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
    assert extras.install("protobuf") in refused(folder)


COLUMNS = {
    **{
        kind: kind
        for kind in (
            *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32"),
            *("fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
        )
    },
    "enum": "enum .shop.Colour",
    "message": ".shop.Line",
    "repeated int32": "repeated int32",
    "map<string, int64>": "repeated .shop.Order.MapEntry",
    "google.protobuf.Timestamp": ".google.protobuf.Timestamp",
    "google.protobuf.Duration": ".google.protobuf.Duration",
    "google.protobuf.Any": ".google.protobuf.Any",
    "google.protobuf.Int32Value": ".google.protobuf.Int32Value",
    "google.protobuf.Struct": ".google.protobuf.Struct",
    "message without fields": ".shop.Empty",
    "message within itself": ".shop.Order",
}
"""Each type by its name on the page."""


def test_the_page_has_the_column_of_each_type(tmp_path: Path) -> None:
    members = [
        field(number, f"f{number}", kind.removeprefix("repeated "), repeated=kind.startswith("repeated "))
        for number, kind in enumerate(COLUMNS.values(), 1)
    ]
    members[list(COLUMNS).index("map<string, int64>")].name = "map"
    whole = file(
        *(enum("Colour", "NONE"), message("Empty"), message("Line", field(1, "x", "int32"))),
        message("Order", *members, entry("MapEntry", "string", "int64")),
    )
    (tmp_path / "order.desc").write_bytes(descriptors(whole))
    found = protobuf_schema.fields(Protobuf("order.desc", "shop.Order"), tmp_path)
    rows = zip(COLUMNS, (one.type.replace("struct<x:int>", "struct<…>") for one in found), strict=True)
    table = "\n".join(f"| {_code(name)} | {_code(kind)} |" for name, kind in rows)
    page = Path(__file__).parents[4] / "docs" / "author" / "schema-registry.md"
    assert f"|---|---|\n{table}\n" in page.read_text(encoding="utf-8"), f"the page is to have:\n{table}"


def _code(text: str) -> str:
    return f"`{text}`" if "<" in text else text
