"""What a gold table's declaration means, as a mark per attribute: commits have them, a start compares them.

Rows that no new event touches stay as an earlier declaration made them. So one whose meaning has changed is
told before anything is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from common.declare import Custom, Gold
from gold.table.sql_columns import named

_WITHOUT_MEANING = {"name", "storage", "reading", "watermark"}
"""Name, layout, where reading begins, how long is waited: rows that are there are right under any of them."""

_OPERATIONS = ("upserts", "deletes", "ignores")
"""What operations of a change feed do: one that is named besides the others was refused until then."""

_NAMED = {"by", "columns", "on"}
"""Lists of columns or expressions by name: a list is the columns under their own names."""


def meaning(gold: Gold) -> Mapping[str, str]:
    """A mark per attribute that has another value than its default; none for functions: they have no text."""
    if isinstance(gold, Custom):
        return {}
    found: dict[str, str] = {}
    for field in fields(gold):
        value = getattr(gold, field.name)
        if field.name in _OPERATIONS:
            found |= {f"{field.name} {operation!r}": "" for operation in value}
        elif field.name not in _WITHOUT_MEANING and value != _default(field):
            told = named(value) if field.name in _NAMED and value is not None else value
            text = json.dumps(_plain(told), sort_keys=True)
            found[field.name] = hashlib.sha256(text.encode()).hexdigest()[:8]
    return found


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Attributes whose meaning differs."""
    new = {name for name in now if name.partition(" ")[0] not in _OPERATIONS}
    return tuple(sorted(name for name in {*before, *new} if before.get(name) != now.get(name)))


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())  # SQL is the same on one line
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Sequence):
        return [_plain(each) for each in value]
    return value
