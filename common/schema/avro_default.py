"""What is wrong with the default of a field in an Avro schema.

The rules are those of Avro's specification. Avro's own libraries let some through, and then fail with the
first value that needs the default, or change it: a fixed that is too short is filled with zero bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

_INTEGERS = {"int": 31, "long": 63}
_LAST_BYTE = "\xff"
_SHOWN = 40


@dataclass(frozen=True)
class Defaults:
    """Judges defaults by a field's type.

    Args:
        named: Records, enums and fixed types by full name.
    """

    named: Mapping[str, Mapping[str, Any]]

    def fault(self, schema: Any, value: object, space: str) -> str | None:
        """Why the value is no default of the type, to be read after "the default"; ``None`` if it is one.

        Args:
            schema: A valid type.
            value: The default, as JSON gives it.
            space: The namespace that the type's names are in.
        """
        if isinstance(schema, list):
            is_one = any(self.fault(branch, value, space) is None for branch in schema)
            return None if is_one else f"{_shown(value)} is of no type of the union"
        if isinstance(schema, str):
            return self._of_name(schema, value, space)
        of_kind = {
            "record": self._of_record,
            "array": self._of_several,
            "map": self._of_several,
            "enum": self._of_enum,
            "fixed": self._of_fixed,
        }
        kind = schema["type"]
        known = of_kind.get(kind) if isinstance(kind, str) else None
        return known(schema, value, space) if known else self.fault(kind, value, space)

    def _of_enum(self, schema: Mapping[str, Any], value: object, _space: str) -> str | None:
        symbols = schema["symbols"]
        return None if value in symbols else f"{_shown(value)} is none of {', '.join(symbols)}"

    def _of_fixed(self, schema: Mapping[str, Any], value: object, _space: str) -> str | None:
        size = schema["size"]
        if isinstance(value, str) and len(value) == size and _are_bytes(value):
            return None
        return f"{_shown(value)} is no text of {size} characters up to U+00FF"

    def _of_name(self, name: str, value: object, space: str) -> str | None:
        full = name if "." in name or not space else f"{space}.{name}"
        found = self.named.get(full) or self.named.get(name)
        if found is not None:
            return self.fault(found, value, full.rpartition(".")[0])
        return None if _is_plain(name, value) else f"{_shown(value)} is no {name}"

    def _of_record(self, schema: Mapping[str, Any], value: object, space: str) -> str | None:
        if not isinstance(value, Mapping):
            return f"{_shown(value)} is no object"
        inside = str(schema.get("namespace", str(schema["name"]).rpartition(".")[0] or space))
        for member in schema["fields"]:
            name = member["name"]
            if name not in value and "default" not in member:
                return f"has no {name!r}"
            found = self.fault(member["type"], value.get(name, member.get("default")), inside)
            if found is not None:
                return f"of {name!r} within it, {found}"
        return None

    def _of_several(self, schema: Mapping[str, Any], value: object, space: str) -> str | None:
        is_array = schema["type"] == "array"
        if not isinstance(value, list if is_array else Mapping):
            return f"{_shown(value)} is no {'array' if is_array else 'object'}"
        inner = schema["items" if is_array else "values"]
        each = value if isinstance(value, list) else value.values()
        return next(filter(None, (self.fault(inner, one, space) for one in each)), None)


def _is_plain(name: str, value: object) -> bool:
    if name == "null":
        return value is None
    if name == "boolean":
        return isinstance(value, bool)
    if name in _INTEGERS:
        most = 1 << _INTEGERS[name]
        return isinstance(value, int) and not isinstance(value, bool) and -most <= value < most
    if name in ("float", "double"):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
    return isinstance(value, str) and (name == "string" or _are_bytes(value))


def _are_bytes(text: str) -> bool:
    """Whether each character stands for one byte."""
    return all(character <= _LAST_BYTE for character in text)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
