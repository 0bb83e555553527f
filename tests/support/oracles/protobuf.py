"""Protobuf's own package as the oracle: descriptors, messages and their bytes; nothing of the product."""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.unknown_fields import UnknownFieldSet

IMPORTED = (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
"""Protobuf's own messages that the files of the tests import."""


PLAIN = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
"""Types of single values, but for enums."""


def field(number: int, name: str, kind: str, **more: Any) -> FieldDescriptorProto:
    """A field; ``kind`` is a type's name, or the full name of a message or an enum after a dot.

    Args:
        number: Its number.
        name: Its name.
        kind: A plain type, ``.pkg.Name``, or ``enum .pkg.Name``, ``group .pkg.Name``.
        more: ``repeated``, ``required``, ``optional``, ``oneof`` (a number), ``default``.
    """
    made = FieldDescriptorProto(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
    plain, _, type_name = kind.rpartition(" ") if " " in kind else ("message", "", kind)
    if type_name.startswith("."):
        made.type_name = type_name
    else:
        plain = kind
    made.type = FieldDescriptorProto.Type.Value(f"TYPE_{plain.upper()}")
    if more.get("repeated"):
        made.label = FieldDescriptorProto.LABEL_REPEATED
    if more.get("required"):
        made.label = FieldDescriptorProto.LABEL_REQUIRED
    if "oneof" in more:
        made.oneof_index = more["oneof"]
    if "default" in more:
        made.default_value = more["default"]
    if more.get("optional"):
        made.proto3_optional = True
    return made


def message(name: str, *members: Any, oneofs: Sequence[str] = ()) -> DescriptorProto:
    """A message of fields, messages and enums."""
    made = DescriptorProto(name=name)
    for oneof in oneofs:
        made.oneof_decl.add(name=oneof)
    for one in members:
        if isinstance(one, FieldDescriptorProto):
            made.field.append(one)
            if one.proto3_optional:
                made.field[-1].oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{one.name}")
        elif isinstance(one, EnumDescriptorProto):
            made.enum_type.append(one)
        else:
            made.nested_type.append(one)
    return made


def entry(name: str, key: str, value: str) -> DescriptorProto:
    """The message of a map's entries."""
    made = message(name, field(1, "key", key), field(2, "value", value))
    made.options.map_entry = True
    return made


def enum(name: str, *names: str, **more: int) -> EnumDescriptorProto:
    """An enum of names from 0 on, and of names with numbers."""
    made = EnumDescriptorProto(name=name)
    for number, each in enumerate(names):
        made.value.add(name=each, number=number)
    for each, number in more.items():
        made.value.add(name=each, number=number)
        made.options.allow_alias = True
    return made


def file(*members: Any, syntax: str = "proto3", name: str = "shop.proto") -> FileDescriptorProto:
    """A file of package ``shop``; it imports all that the tests use of Protobuf's own."""
    made = FileDescriptorProto(name=name, package="shop", syntax=syntax)
    made.dependency.extend(str(each.DESCRIPTOR.name) for each in IMPORTED)
    for one in members:
        (made.enum_type if isinstance(one, EnumDescriptorProto) else made.message_type).append(one)
    return made


def descriptors(*files: FileDescriptorProto) -> bytes:
    """What ``protoc --include_imports --descriptor_set_out`` writes."""
    whole = FileDescriptorSet()
    for each in IMPORTED:
        each.DESCRIPTOR.CopyToProto(whole.file.add())
    whole.file.extend(files)
    return whole.SerializeToString()


def classes(*files: FileDescriptorProto, name: str = "shop.Order") -> Any:
    """The class of a message, by Protobuf's own package."""
    pool = descriptor_pool.DescriptorPool()
    for each in FileDescriptorSet.FromString(descriptors(*files)).file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def row(found: Any) -> dict[str, Any]:
    """A message of Protobuf's own package as a row of silver."""
    return {each.name: _column(found, each) for each in found.DESCRIPTOR.fields}


def _column(found: Any, each: FieldDescriptor) -> Any:
    value = getattr(found, each.name)
    if each.message_type is not None and each.message_type.GetOptions().map_entry:
        key, inner = (each.message_type.fields_by_name[name] for name in ("key", "value"))
        return {_one(one, key): _one(value[one], inner) for one in value}
    if each.is_repeated:
        return [_one(one, each) for one in value]
    return None if each.has_presence and not found.HasField(each.name) else _one(value, each)


def _one(value: Any, each: FieldDescriptor) -> Any:
    if each.enum_type is not None:
        number = each.enum_type.values_by_number[value].number
        return next(one.name for one in each.enum_type.values if one.number == number)
    if each.message_type is None:
        is_wide = each.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)
        return Decimal(value) if is_wide else value
    name = each.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
            seconds=value.seconds, microseconds=value.nanos // 1000
        )
    return value.value if name.endswith("Value") else row(value)


_WIRE = {
    **dict.fromkeys(["int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum"], 0),
    **dict.fromkeys(["fixed64", "sfixed64", "double"], 1),
    **dict.fromkeys(["string", "bytes", "message"], 2),
    **dict.fromkeys(["fixed32", "sfixed32", "float"], 5),
}
"""The wire type of each type; no message that is damaged has a ``group``."""
_PACKED = {0: rb"[\x80-\xff]*[\x00-\x7f]", 1: rb".{8}", 5: rb".{4}"}
"""A packed value of each wire type."""


def strict_reasons(sent: bytes, of: Descriptor) -> Iterator[str]:
    """Why a strict reader refuses bytes that Protobuf's own package reads as a message of a type.

    The package itself takes the bytes apart: to a message without fields, each field is an unknown one.
    """
    parts = UnknownFieldSet(empty_pb2.Empty.FromString(sent))
    again = b"".join(tagged(each.field_number, each.wire_type, _bytes(each)) for each in parts)
    if again != sent and re.search(rb"[\x80-\xff]{9}[\x02-\x7f]", sent):
        yield "number_out_of_range"  # a number of more than 64 bits, of which the package drops the upper
    for each in parts:
        member = of.fields_by_number.get(each.field_number)
        if member is None:
            continue
        kind = FieldDescriptorProto.Type.Name(member.type)[5:].lower()
        wire = _WIRE[kind]
        if member.is_repeated and wire != 2 and each.wire_type == 2:
            found = re.findall(_PACKED[wire], each.data, re.DOTALL)
            yield from strict_reasons(b"".join(tagged(member.number, wire, one) for one in found), of)
        elif each.wire_type != wire:
            yield "wrong_type"
        elif member.message_type is not None:
            yield from strict_reasons(each.data, member.message_type)
        else:
            yield from _of_single(kind, each.data, member)


def _bytes(part: Any) -> bytes:
    """The content of an unknown field; of a group none."""
    size = {1: 8, 5: 4}.get(part.wire_type)
    if size is not None:
        return int(part.data).to_bytes(size, "little")
    return varint(part.data) if part.wire_type == 0 else part.data if part.wire_type == 2 else b""


def _of_single(kind: str, data: Any, member: FieldDescriptor) -> Iterator[str]:
    if kind in ("double", "float"):
        [number] = (
            struct.unpack("<d", struct.pack("<Q", data))
            if kind == "double"
            else struct.unpack("<f", struct.pack("<I", data))
        )
        if not isfinite(number):
            yield "non_finite_number"
    elif kind in ("uint32", "bool"):
        if data >= (2 if kind == "bool" else 2**32):
            yield "number_out_of_range"
    elif kind in ("int32", "sint32", "enum"):
        signed = (data >> 1) ^ -(data & 1) if kind == "sint32" else data - (data >> 63 << 64)
        if kind == "enum":
            # Of the package's own map by number, a key beyond 32 bits is cut off.
            if signed not in {each.number for each in member.enum_type.values}:
                yield "unknown_enum_number"
        elif not -(2**31) <= signed < 2**31:
            yield "number_out_of_range"


def varint(value: int) -> bytes:
    """A whole number without a sign."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def tagged(number: int, kind: int, content: bytes) -> bytes:
    """A field's tag and content; of kind 2 with its length."""
    size = varint(len(content)) if kind == 2 else b""
    return varint(number << 3 | kind) + size + content


def framed(schema_id: int, indexes: Iterable[int], content: bytes) -> bytes:
    """A value in a registry's framing, with the indexes of its message."""
    path = list(indexes)
    written = b"\0" if path == [0] else varint(2 * len(path)) + b"".join(varint(2 * one) for one in path)
    return b"\0" + schema_id.to_bytes(4, "big") + written + content


REFUND = file(
    message("Refund", field(1, "order_id", "string"), field(2, "refunded_at", ".google.protobuf.Timestamp"))
)
"""What the example of all declarations reads."""
