"""One Avro schema of a schema and those whose named types it uses, as a registry keeps them apart.

Pure. Avro's own parser takes the schemas one after the other; a file has one schema, so each type is written
where it is first used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_NAMED = ("record", "error", "enum", "fixed")
_OF_AVRO = {
    *_NAMED, "array", "map", "null", "boolean", "int", "long", "float", "double", "bytes", "string",
}  # fmt: skip
"""Names that no type of a schema has."""

_INNER = ("items", "values", "type")
"""The attributes of a type, and of a field, that hold a type."""


def with_types(text: str, others: Sequence[str]) -> str:
    """A schema's JSON text that needs no other schema.

    Args:
        others: The schemas whose types it names, itself or by another of them.

    Raises:
        ValueError: One of them is no JSON text.
        RecursionError: One of them is nested too deeply.
    """
    if not others:
        return text
    types: dict[str, tuple[Mapping[str, Any], str]] = {}
    for other in others:
        _collect(json.loads(other), "", types)
    return json.dumps(_Whole(types).type(json.loads(text), ""))


def _collect(schema: object, space: str, types: dict[str, tuple[Mapping[str, Any], str]]) -> None:
    """Add the named types of a schema by full name, each with the namespace around it."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, space, types)
    if not isinstance(schema, Mapping):
        return
    inside = space
    if (name := _full(schema, space)) is not None:
        types.setdefault(name, (schema, space))
        inside = name.rpartition(".")[0]
    for attribute in _INNER:
        _collect(schema.get(attribute), inside, types)
    for field in _fields(schema):
        _collect(field, inside, types)


class _Whole:
    """Writes a schema with the types that it names."""

    def __init__(self, types: Mapping[str, tuple[Mapping[str, Any], str]]) -> None:
        self.types = types
        self.written: set[str] = set()

    def type(self, schema: object, space: str) -> Any:  # JSON
        """A type, within a namespace."""
        if isinstance(schema, list):
            return [self.type(branch, space) for branch in schema]
        if isinstance(schema, str):
            return self._name(schema, space)
        if not isinstance(schema, Mapping):
            return schema
        found, inside = dict(schema), space
        if (name := _full(schema, space)) is not None:
            if name in self.written:
                return name
            self.written.add(name)
            inside, _, found["name"] = name.rpartition(".")
            found["namespace"] = inside
        found |= {part: self.type(schema[part], inside) for part in _INNER if part in schema}
        if "fields" in schema:
            found["fields"] = [self._field(field, inside) for field in _fields(schema)]
        return found

    def _field(self, field: Mapping[str, Any], space: str) -> dict[str, Any]:
        return dict(field) | ({"type": self.type(field["type"], space)} if "type" in field else {})

    def _name(self, name: str, space: str) -> Any:  # JSON
        """The type of a name where it is used first, else its name."""
        if name in _OF_AVRO:
            return name
        full = name if "." in name or not space else f"{space}.{name}"
        for known in (full, name):
            if known in self.written:
                return known
            if known in self.types:
                return self.type(*self.types[known])
        return name


def _full(schema: Mapping[str, Any], space: str) -> str | None:
    """The full name of a type that has one."""
    name = schema.get("name")
    if schema.get("type") not in _NAMED or not isinstance(name, str):
        return None
    own = schema.get("namespace", space)
    return name if "." in name or not own else f"{own}.{name}"


def _fields(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    fields = schema.get("fields")
    return [field for field in fields if isinstance(field, Mapping)] if isinstance(fields, list) else []
