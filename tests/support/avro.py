"""Avro's binary encoding, written from its specification; shares no code with the product's reader."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def number(value: int) -> bytes:
    """An int or a long."""
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    rest &= (1 << 64) - 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode(schema: Any, value: Any) -> bytes:  # noqa: PLR0911  # one line per type
    """Encode a value by its schema. In a union, None is null; other values take the first other branch."""
    if isinstance(schema, list):
        place = next(i for i, branch in enumerate(schema) if (branch == "null") == (value is None))
        return number(place) + encode(schema[place], value)
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    if kind == "record":
        return b"".join(encode(each["type"], value[each["name"]]) for each in schema["fields"])
    if kind == "array":
        items = b"".join(encode(schema["items"], item) for item in value)
        return (number(len(value)) + items if value else b"") + b"\0"
    if kind == "map":
        pairs = b"".join(encode("string", k) + encode(schema["values"], v) for k, v in value.items())
        return (number(len(value)) + pairs if value else b"") + b"\0"
    if kind == "enum":
        return number(schema["symbols"].index(value))
    if kind == "fixed":
        assert len(value) == schema["size"]
        return bytes(value)
    if kind in ("bytes", "string"):
        raw = value.encode() if isinstance(value, str) else value
        return number(len(raw)) + raw
    if isinstance(kind, (list, Mapping)):
        return encode(kind, value)
    plain = {
        "null": lambda: b"",
        "boolean": lambda: bytes([value]),
        "int": lambda: number(value),
        "long": lambda: number(value),
        "float": lambda: struct.pack("<f", value),
        "double": lambda: struct.pack("<d", value),
    }
    return plain[kind]()


def framed(schema_id: int, datum: bytes) -> bytes:
    """A datum with the five leading bytes of the schema registry's framing."""
    return b"\0" + schema_id.to_bytes(4, "big") + datum


def record(**fields: Any) -> dict[str, Any]:
    """A record's schema; a field's type may be a pair of type and default."""
    members = []
    for name, kind in fields.items():
        member = {"name": name, "type": kind}
        if isinstance(kind, tuple):
            member = {"name": name, "type": kind[0], "default": kind[1]}
        members.append(member)
    return {"type": "record", "name": "Event", "fields": members}


SYNC = bytes(range(16))


def container(
    schema: Any,
    blocks: Sequence[tuple[int, bytes]],
    codec: str = "null",
    compress: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """A container file of blocks: the number of records and their encoded bytes."""
    meta = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()}
    content = b"Obj\x01" + number(len(meta))
    content += b"".join(number(len(k)) + k + number(len(v)) + v for k, v in meta.items()) + number(0) + SYNC
    for count, data in blocks:
        stored = compress(data)
        content += number(count) + number(len(stored)) + stored + SYNC
    return content
