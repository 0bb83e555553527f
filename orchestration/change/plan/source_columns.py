"""What the next start does where the columns of a Delta table that bronze reads are others than before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from common.config.paths import Layout
from common.declare import DeltaTable, Pipeline
from common.declare.typed_sources import FEED_COLUMNS
from common.delta.log import LogReader
from orchestration.change.plan.change import Change


def source_changes(declared: DeltaTable, pipeline: Pipeline, layout: Layout) -> Iterator[Change]:
    """How the source's columns differ from those that bronze has, by both logs; nothing without either."""
    have = _columns(layout.table_path(declared.table), "value")
    now = _columns(layout.table_path(declared.reads))
    if not have or not now:
        return
    silver = [one.table for one in pipeline.silver if declared.table in one.sources]
    readers = " and ".join([declared.table, *silver])
    for name, (shown, kind) in now.items():
        if name not in have:
            why = "value gets it; silver reads it once it is declared, with Columns() at once"
            yield Change(f"source column {shown}", "", _text(kind), "new column", why)
        elif (known := have[name][1]) != kind:
            why = "rows of both types cannot be in one column: declare the source again under another name"
            yield Change(f"source column {shown}", _text(known), _text(kind), "refused", why)
    for name, (shown, kind) in have.items():
        if name not in now and name not in FEED_COLUMNS:
            why = f"rows that are read from then on have null there, in {readers}"
            yield Change(f"source column {shown}", _text(kind), "", "next start", why)


def _columns(path: str, struct: str = "") -> Mapping[str, tuple[str, Any]]:
    """Names and types of a table's columns, or of the fields of one, by the names in small letters."""
    text = LogReader(path).schema()
    fields = json.loads(text)["fields"] if text else []
    if struct:
        kind = next((one["type"] for one in fields if one["name"] == struct), None)
        fields = kind["fields"] if isinstance(kind, dict) else []
    return {one["name"].lower(): (one["name"], _plain(one["type"])) for one in fields}


def _plain(kind: Any) -> Any:
    """A type without what belongs to its table: whether it may be null, comments, mapped names."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        # A field of a struct comes and goes as a column does.
        return "struct"
    inner = ("elementType", "keyType", "valueType")
    return {"type": kind["type"]} | {name: _plain(kind[name]) for name in inner if name in kind}


def _text(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])
