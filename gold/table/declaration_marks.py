"""Marks of a gold table's declaration, one per attribute: commits have them, a start compares them.

Rows that no new event touches stay as an earlier declaration computed them. So a declaration whose meaning
has changed is refused before anything is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from common.declare import Custom, Gold, View
from common.declare.declared import ADDED_LATER
from common.errors import SqlError
from common.sql.canonical import canonical
from gold.table.sql_columns import named

_PACE = {"trigger", "max_files_per_trigger", "max_bytes_per_trigger"}

_WITHOUT_MEANING = {"name", "storage", "reading", "watermark", "processor", "kept", *_PACE}
"""Name, layout, start of reading, watermark, pace, the way of keeping a view: existing rows are right under
any value of them. A processor has no text."""

_STATEMENT = "statement"
"""The mark of a view's statement without comments, wherever it is; ``sql`` is its text or its file's name."""

_OPERATIONS = ("upserts", "deletes", "ignores")
"""Operations of a change feed: one that is added now was refused before, so no existing row depends on it."""

_NAMED = {"by", "columns", "on", "untracked"}
"""Attributes with expressions by name: in a list, each column has its own name."""


def meaning(gold: Gold) -> Mapping[str, str]:
    """A mark per attribute whose value is not the default; none for functions, which have no text."""
    if isinstance(gold, Custom):
        return {}
    marks: dict[str, str] = {}
    for field in fields(gold):
        value = getattr(gold, field.name)
        if field.name in _OPERATIONS:
            marks |= {f"{field.name} {operation!r}": "" for operation in value}
        elif field.name not in _WITHOUT_MEANING and value != _default(field):
            plain = named(value) if field.name in _NAMED and value is not None else value
            marks[field.name] = _mark(plain)
    if isinstance(gold, View):
        with suppress(SqlError):  # one that is refused
            marks[_STATEMENT] = _mark(canonical(gold.statement))
    return marks


def _mark(value: Any) -> str:
    text = json.dumps(_plain(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Attributes whose meaning differs."""
    new = {name for name in now if name.partition(" ")[0] not in _OPERATIONS}
    # A commit of a release before the mark of statements has their text only.
    names = {*before, *new} - _WITHOUT_MEANING - {"sql" if _STATEMENT in before else _STATEMENT}
    differ = {name for name in names if before.get(name) != now.get(name)}
    return tuple(sorted({"sql" if name == _STATEMENT else name for name in differ}))


def keeps_deleted_keys(marks: Mapping[str, str]) -> bool:
    """Whether a query of a declaration with these marks has a table of deleted keys."""
    return "delete_when" in marks or any(name.startswith("deletes ") for name in marks)


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
        return {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if not field.metadata.get(ADDED_LATER) or getattr(value, field.name) != field.default
        }
    if isinstance(value, Sequence):
        return [_plain(each) for each in value]
    return value
