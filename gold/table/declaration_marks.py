"""Marks of a gold table's declaration, one per attribute: commits have them, a start compares them.

Rows that no new event touches stay as an earlier declaration computed them. So a declaration whose meaning
has changed is refused before anything is written. Two texts mean the same only if their tokens are the same:
white space and comments outside of quotes are none, and words of SQL have no letters of their own.

A mark is ``<tokens>/<text>``: releases to 0.2.0 wrote the second part alone, of the text on one line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from common.declare import Custom, Gold, View
from common.declare.declared import ADDED_LATER
from common.declare.field_types import named
from common.sql.syntax import words_of

_PACE = {"trigger", "max_files_per_trigger", "max_bytes_per_trigger"}

_WITHOUT_MEANING = {"name", "storage", "reading", "watermark", "processor", "kept", *_PACE}
"""Name, layout, start of reading, watermark, pace, the way of keeping a view: existing rows are right under
any value of them. A processor has no text."""

_OPERATIONS = ("upserts", "deletes", "ignores")
"""Operations of a change feed: one that is added now was refused before, so no existing row depends on it."""

_NAMED = {"by", "columns", "on", "untracked"}
"""Attributes with expressions by name: in a list, each column has its own name."""

_TEXTS = {"unchanged"}
"""Attributes that are values and no SQL: each of their blanks counts."""


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
            meant = gold.statement if isinstance(gold, View) and field.name == "sql" else plain
            words = _whole if field.name in _TEXTS else words_of
            marks[field.name] = f"{_mark(meant, words)}/{_mark(plain, str.split)}"
    return marks


def _whole(text: str) -> tuple[str, ...]:
    return (text,)


def _mark(value: Any, words: Callable[[str], Sequence[str]]) -> str:
    text = json.dumps(_plain(value, words), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def changed_attributes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Attributes whose meaning differs."""
    new = {name for name in now if name.partition(" ")[0] not in _OPERATIONS}
    names = {*before, *new} - _WITHOUT_MEANING
    return tuple(sorted(name for name in names if not _is_same(before.get(name), now.get(name))))


def _is_same(before: str | None, now: str | None) -> bool:
    if before is None or now is None:
        return before == now
    tokens, _, text = now.partition("/")
    return before.partition("/")[0] == tokens if "/" in before else before == text


def is_of_former_release(marks: Mapping[str, str]) -> bool:
    """Whether a view's marks are those of a release to 0.2.0: they have no mark of its statement's tokens."""
    return "/" not in marks.get("sql", "")


def keeps_deleted_keys(marks: Mapping[str, str]) -> bool:
    """Whether a query of a declaration with these marks has a table of deleted keys."""
    return "delete_when" in marks or any(name.startswith("deletes ") for name in marks)


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def _plain(value: Any, words: Callable[[str], Sequence[str]]) -> Any:
    if isinstance(value, str):
        return " ".join(words(value))
    if isinstance(value, Mapping):
        return {name: _plain(each, words) for name, each in value.items()}
    if is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name), words)
            for field in fields(value)
            if not field.metadata.get(ADDED_LATER) or getattr(value, field.name) != field.default
        }
    if isinstance(value, Sequence):
        return [_plain(each, words) for each in value]
    return value
