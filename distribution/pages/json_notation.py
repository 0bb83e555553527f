"""A notation of JSON documents, read as JSON Schema and as a table.

A value is a text: its type, then two spaces and its meaning. Types are ``text``, ``int``, ``number``,
``bool``, ``time`` (ISO 8601 in UTC), ``any``; with ``?`` null is possible. A dictionary is an object;
one with the key ``*`` maps names that the data has. A list of one is an array of it. ``Maybe(…)`` is
null where there is nothing. A key with ``?`` at its end is not always there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_TYPES: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string"},
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "any": {},
}


@dataclass(frozen=True)
class Maybe:
    """A value that is null where there is nothing."""

    of: Any


@dataclass(frozen=True)
class Again:
    """The value of another name: a part that contains parts of its own kind."""

    name: str


def schema(value: Any) -> dict[str, Any]:
    """The JSON Schema of a value."""
    if isinstance(value, str):
        kind, _, meaning = value.partition("  ")
        found = dict(_TYPES[kind.rstrip("?")])
        if kind.endswith("?") and found:
            found["type"] = [found["type"], "null"]
        return found | ({"description": meaning} if meaning else {})
    if isinstance(value, Maybe):
        return {"anyOf": [schema(value.of), {"type": "null"}]}
    if isinstance(value, Again):
        return {"$ref": f"#/$defs/{value.name}"}
    if isinstance(value, list):
        return {"type": "array", "items": schema(value[0])}
    if set(value) == {"*"}:
        return {"type": "object", "additionalProperties": schema(value["*"])}
    return {
        "type": "object",
        "required": [name for name in value if not name.endswith("?")],
        "properties": {name.rstrip("?"): schema(each) for name, each in value.items()},
    }


def rows(value: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, type and meaning of each leaf, in order."""
    if isinstance(value, str):
        kind, _, meaning = value.partition("  ")
        yield path, kind, meaning
    elif isinstance(value, Maybe):
        yield from ((at, kind, meaning) for at, kind, meaning in rows(value.of, f"{path}?"))
    elif isinstance(value, Again):
        yield path, f"as `{value.name}`", ""
    elif isinstance(value, list):
        yield from rows(value[0], f"{path}[]")
    else:
        for name, each in value.items():
            yield from rows(each, f"{path}.{name}" if path else name)


def strict(value: Any) -> Any:
    """A schema that takes no key which it does not name, for a comparison with what the code prints."""
    if isinstance(value, list):
        return [strict(each) for each in value]
    if not isinstance(value, dict):
        return value
    closed = {name: strict(each) for name, each in value.items()}
    if "properties" in value and "additionalProperties" not in value:
        closed["additionalProperties"] = False
    return closed
