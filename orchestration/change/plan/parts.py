"""The parts in which two texts of an attribute differ: of a format its attributes, of a schema its fields.

The texts are those of ``orchestration.access.declaration.last_declaration``. Pure.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from common.schema.ddl import DdlError, Field, parse

_SCHEMAS = frozenset({"schema", "row", "output", "tables"})
"""Attributes whose texts are columns: DDL, or Spark's JSON."""

Part = tuple[str, str, str]
"""A name, the former text and the text now; an empty text where there is none."""


def parts(name: str, value: object, old: str, new: str) -> Iterator[Part]:
    """The parts of an attribute that differ; the attribute itself where it has none.

    Args:
        name: The attribute, such as ``value`` or ``tables.alarms``.
        value: What it is now; None of an attribute that has gone.
    """
    base = name.rpartition(".")[2] if "." in name and name.partition(".")[0] not in _SCHEMAS else name
    if base.partition(".")[0] in _SCHEMAS and (known := _fields(old)) and (now := _fields(new)):
        found = list(_differences(name, known, now))
        yield from found or [(name, old, new)]
        return
    before, after = (_attributes(value, text) for text in (old, new))
    if before is None or after is None:
        yield name, old, new
        return
    for each in dict.fromkeys([*before, *after]):
        if before.get(each) != after.get(each):
            inner = getattr(value, each, None)
            yield from parts(f"{name}.{each}", inner, before.get(each, ""), after.get(each, ""))


def _attributes(value: object, text: str) -> Mapping[str, str] | None:
    """The texts of a declaration's attributes in its text; None where it is none of its class."""
    whole = re.fullmatch(rf"{type(value).__name__}\((.*)\)", text, re.DOTALL)
    if whole is None or not dataclasses.is_dataclass(value):
        return None
    names = "|".join(each.name for each in dataclasses.fields(value))
    found = [
        each
        for each in re.finditer(rf"(?:^|, )((?:{names})(?:\.[\w.]+)?)=", whole[1])
        if _depth(whole[1][: each.start()]) == 0
    ]
    ends = [*(each.start() for each in found[1:]), len(whole[1])]
    return {each[1]: whole[1][each.end() : end] for each, end in zip(found, ends, strict=True)}


def _depth(text: str) -> int:
    return sum(text.count(sign) for sign in "([{") - sum(text.count(sign) for sign in ")]}")


def _fields(text: str) -> Sequence[Field]:
    """The fields of a schema's text; none where it is a file, or no schema."""
    try:
        return _of_document("", json.loads(text)).nested if text.startswith("{") else parse(text)
    except (DdlError, ValueError, TypeError, KeyError):
        return ()


def _of_document(name: str, kind: object) -> Field:
    """A field of Spark's JSON."""
    if not isinstance(kind, Mapping):
        return Field(name, str(kind))
    if kind["type"] == "struct":
        return Field(
            name, "struct", tuple(_of_document(each["name"], each["type"]) for each in kind["fields"])
        )
    inner = [
        _of_document(part, kind[part]) for part in ("elementType", "keyType", "valueType") if part in kind
    ]
    return Field(name, f"{kind['type']}<{','.join(each.type for each in inner)}>", tuple(inner))


def _differences(place: str, old: Sequence[Field], new: Sequence[Field]) -> Iterator[Part]:
    before, now = ({each.name: each for each in fields} for fields in (old, new))
    for name in dict.fromkeys([*before, *now]):
        one, other = before.get(name), now.get(name)
        inner = [_struct(each) for each in (one, other) if each is not None]
        if len(inner) == 2 and all(inner):  # noqa: PLR2004
            yield from _differences(f"{place}.{name}", inner[0], inner[1])
        elif one is None or other is None or one.type != other.type:
            yield f"{place}.{name}", one.type if one else "", other.type if other else ""


def _struct(field: Field) -> Sequence[Field]:
    """The fields of a struct, or of the structs that an array has."""
    while field.kind == "array" and field.nested:
        field = field.nested[0]
    return field.nested if field.kind == "struct" else ()
