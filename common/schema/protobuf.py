"""The fields of a Protobuf message with Spark's types, without Spark, and the message for the Java reader.

The schema is a set of descriptors, which Protobuf's own package reads: names, presence and editions are as it
says. What a column cannot hold as a struct is kept as its bytes: a message within itself, one without
fields, and the free forms ``Struct``, ``Value`` and ``ListValue``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.declare.declared import source_of
from common.declare.value_formats import DESCRIPTOR_ENDINGS, Protobuf
from common.errors import Fault, PipelineError, Problem, nearest
from common.schema.ddl import Field

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

MOST_FIELDS = 10_000
"""Most fields of a message with those of the messages in it, each counted wherever it occurs."""

_SPARK = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "int"),
    **dict.fromkeys(("uint32", "fixed32", "int64", "sint64", "sfixed64"), "bigint"),
    **dict.fromkeys(("uint64", "fixed64"), "decimal(20,0)"),
    **dict.fromkeys(("string", "enum"), "string"),
    "bool": "boolean",
    "float": "float",
    "double": "double",
    "bytes": "binary",
}
_TYPES = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group",
    "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
"""Types by their numbers in a descriptor."""

NOT_INSTALLED = (
    "descriptors are read by the package google.protobuf, which is not installed: "
    'pip install "medallion-lakehouse[protobuf]"'
)
_GOOGLE = "google.protobuf."
_TIMESTAMP = f"{_GOOGLE}Timestamp"
_FREE_FORMS = {f"{_GOOGLE}{name}" for name in ("Struct", "Value", "ListValue")}
_WRAPPERS = {
    f"{_GOOGLE}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


def fields(protobuf: Protobuf, folder: Path) -> tuple[Field, ...]:
    """The fields of a value, in the order of the message.

    Args:
        folder: Where a relative file name starts: the folder of the pipeline file.

    Raises:
        PipelineError: The descriptors are missing or unreadable, the message is none of them or has a field
            that no column can hold, or too many fields, or Protobuf's package is not installed.
    """
    return spec_and_fields(protobuf, folder)[1]


def spec_and_fields(protobuf: Protobuf, folder: Path) -> tuple[dict[str, Any], tuple[Field, ...]]:
    """The message as the Java reader takes it (``medallion.protobuf.Message``), and ``fields``, which says
    what is raised.
    """
    message = descriptor(protobuf, folder)
    walk = _Walk(protobuf)
    spec, found = walk.message(message, "", ())
    if found.kind != "struct" and not walk.faults:
        walk.faults.append(
            f"message {protobuf.message!r} becomes {found.type}; "
            "a value is a message with fields, the columns"
        )
    if walk.faults:
        raise _refused(protobuf, walk.faults)
    return spec, found.nested


def descriptor(protobuf: Protobuf, folder: Path) -> Descriptor:
    """The descriptor of the declared message; raises as ``fields``."""
    try:
        from google.protobuf import descriptor_pool
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise _refused(protobuf, [NOT_INSTALLED]) from error

    name, found_bytes = protobuf.schema, content(protobuf, folder)
    pool = descriptor_pool.DescriptorPool()
    try:
        files = FileDescriptorSet.FromString(found_bytes).file
        for file in files:
            pool.Add(file)
    except (DecodeError, TypeError) as error:
        how = f"protoc --include_imports --descriptor_set_out={name} FILE.proto"
        raise _refused(protobuf, [f"{name} is no whole set of descriptors; write it with {how}"]) from error
    try:
        found: Descriptor = pool.FindMessageTypeByName(protobuf.message)
    except KeyError as error:
        known = [f"{f.package}.{m.name}".lstrip(".") for f in files for m in f.message_type]
        fault = f"{name} has no message {protobuf.message!r}; {nearest(protobuf.message, known)}"
        raise _refused(protobuf, [fault]) from error
    return found


def content(protobuf: Protobuf, folder: Path) -> bytes:
    """The file of descriptors; raises as ``fields``."""
    path = folder / protobuf.schema
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        beside = [one.name for one in path.parent.glob("*") if one.suffix in DESCRIPTOR_ENDINGS]
        fault = f"there is no file {protobuf.schema!r} in {folder}; {nearest(path.name, beside)}"
        raise _refused(protobuf, [fault]) from error
    except OSError as error:
        raise _refused(protobuf, [f"{protobuf.schema} cannot be read ({error.strerror})"]) from error


def _refused(protobuf: Protobuf, faults: Sequence[str]) -> PipelineError:
    source = source_of(protobuf)
    return PipelineError([Problem("Protobuf", Fault("MED-1401", fault), source) for fault in faults])


@dataclass
class _Walk:
    """Walks a message and collects its faults in ``faults``."""

    declared: Protobuf
    faults: list[str] = field(default_factory=list)
    count: int = 0

    def message(self, message: Descriptor, place: str, above: Sequence[str]) -> tuple[dict[str, Any], Field]:
        """A message as the Java reader takes it, and its type, as a field without a name."""
        name = message.full_name
        spec: dict[str, Any] = {"name": name, "as": "row", "fields": []}
        if not message.fields or name in _FREE_FORMS or name in above:
            return spec | {"as": "bytes"}, Field("", "binary")
        inner = [self._member(each, place, (*above, name)) for each in message.fields]
        spec["fields"] = [one for one, _ in inner]
        nested = tuple(found for _, found in inner)
        if name == _TIMESTAMP and self.declared.timestamps == "micros":
            return spec | {"as": "timestamp"}, Field("", "timestamp")
        if name in _WRAPPERS:
            return spec | {"as": "value"}, Field("", nested[0].type)
        for text in _same_names(nested):
            self._fault(place, text)
        shown = ",".join(f"{one.name}:{one.type}" for one in nested)
        return spec, Field("", f"struct<{shown}>", nested)

    def _member(
        self, member: FieldDescriptor, place: str, above: Sequence[str]
    ) -> tuple[dict[str, Any], Field]:
        self.count += 1
        if self.count > MOST_FIELDS:  # messages that name each other have very many paths
            self._fault(
                "",
                f"has more than {MOST_FIELDS:,} fields, each counted in every message that has it; "
                "declare a smaller message",
            )
            raise _refused(self.declared, self.faults)
        kind = _TYPES[member.type]
        inner_place = f"{place}.{member.name}" if place else member.name
        spec: dict[str, Any] = {"name": member.name, "number": member.number, "type": kind}
        if member.message_type is None:
            spec |= self._of_scalar(member, inner_place)
            found = Field("", _SPARK[kind])
        else:
            inner, found = self.message(member.message_type, inner_place, above)
            spec["message"] = inner
            if member.message_type.GetOptions().map_entry:
                pair = found.nested
                found = Field("", f"map<{pair[0].type},{pair[1].type}>", pair)
                return spec | {"map": True, "repeated": True}, _named(member.name, found)
        if member.is_repeated:
            spec["repeated"] = True
            found = Field("", f"array<{found.type}>", (_named("element", found),))
        if member.is_required:
            spec["required"] = True
        oneof = member.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            spec["oneof"] = oneof.index
        return spec, _named(member.name, found)

    def _of_scalar(self, member: FieldDescriptor, place: str) -> dict[str, Any]:
        """The names of an enum, and the value where none is sent."""
        spec: dict[str, Any] = {}
        if member.enum_type is not None:
            names: dict[str, str] = {}
            for value in member.enum_type.values:
                names.setdefault(str(value.number), value.name)  # of names for one number, the first
            spec["symbols"] = names
        has_default = member.has_default_value and member.containing_oneof is None
        is_of_entry = member.containing_type.GetOptions().map_entry  # there, absent means the default
        is_null = member.has_presence and not has_default and not is_of_entry
        if member.is_repeated or member.is_required or is_null:
            return spec
        value = member.default_value
        if isinstance(value, float) and not isfinite(value):
            self._fault(place, f"has the default {value}, which no value may be; leave it out")
        elif isinstance(value, bytes):
            spec["absent"] = base64.b64encode(value).decode()
        else:
            spec["absent"] = str(value).lower() if isinstance(value, bool) else str(value)
        return spec

    def _fault(self, place: str, text: str) -> None:
        named = f"message {self.declared.message!r}"
        self.faults.append(f"{f'{named}, field {place!r}' if place else named} {text}")


def _named(name: str, found: Field) -> Field:
    return Field(name, found.type, found.nested)


def _same_names(nested: Sequence[Field]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for each in nested:
        if (first := seen.setdefault(each.name.lower(), each.name)) is not each.name:
            yield f"has fields {first!r} and {each.name!r}, which are equal to Spark; rename one"
