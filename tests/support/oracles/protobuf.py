"""Protobuf's own package as the oracle: descriptors, messages and their bytes; nothing of the product."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

IMPORTED = (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
"""Protobuf's own messages that the files of the tests import."""


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
