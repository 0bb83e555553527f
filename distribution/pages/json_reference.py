"""``docs/reference/json.md`` and ``docs/reference/json.schema.json``: the documents that ``--json`` prints.

``python -m distribution.pages.json_reference`` writes both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from distribution.pages.json_documents import DOCUMENTS, LINES, PARTS, VERSION
from distribution.pages.json_notation import rows, schema

FOLDER = Path(__file__).parents[2] / "docs" / "reference"

_FEW = 2
"""Most keys of an object that are shown again wherever it is."""

_HEAD = """\
# JSON documents

With `--json` a command prints one object on stdout. Its first key is `document_version`, now 1. Keys may be
added within a version; one that goes, or gets another meaning, makes a new version
([what a new version may change](../install/versions.md)). Times are ISO 8601 in UTC; null is what is not
known.
[json.schema.json](json.schema.json) has the same as JSON Schema (draft 2020-12), a definition per command:
`{"$ref": "json.schema.json#/$defs/medallion_status"}`.

Each line is a key, its type and, where the name does not say it, its meaning. A key without a type is a text.
`a.b` is a key of an object, `a[]` an element of an array, `a.*` any name that the data has. `a?`, and a type
with `?`, may be null; a key that ends in `?` is not always there. *as X*: the keys that X has there.

Two commands print data, which have no version: `medallion query "select …" --json` an array of rows,
`medallion topic tail --json` an object per line.

Written by `python -m distribution.pages.json_reference`.
"""


def document_schema() -> dict[str, Any]:
    """The JSON Schema of all documents."""
    documents = {definition(name): schema({**VERSION, **value}) for name, value in DOCUMENTS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Documents that medallion prints with --json, version 1",
        "description": "Keys that are not listed may be there; a reader ignores them.",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in documents],
        "$defs": {
            **documents,
            **{definition(name): schema(value) for name, value in {**LINES, **PARTS}.items()},
        },
    }


def definition(name: str) -> str:
    """The name of a document's definition."""
    return re.sub(r"\W+", "_", name).strip("_")


def schema_text() -> str:
    """The text of the schema's file."""
    return json.dumps(document_schema(), indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """The text of the page."""
    told: dict[tuple[str, ...], str] = {}
    parts = {**DOCUMENTS, **LINES, **PARTS}
    return _HEAD + "".join(_section(name, value, told) for name, value in parts.items())


def _section(name: str, value: Any, told: dict[tuple[str, ...], str]) -> str:
    title = f"`{name}`" if name.startswith("medallion ") else (name[0].upper() + name[1:]).replace("_", " ")
    found = list(_untold(list(rows(value)), name, told))
    wide = max(len(path) for path, _, _ in found)
    kinds = max((len(kind) for _, kind, _ in found), default=0)
    lines = [f"{path:<{wide}}  {kind:<{kinds}}  {meaning}".rstrip() for path, kind, meaning in found]
    return "\n".join(["", f"## {title}", "", "```text", *lines, "```", ""])


def _untold(
    found: list[tuple[str, str, str]], name: str, told: dict[tuple[str, ...], str]
) -> Iterator[tuple[str, str, str]]:
    """The rows of a document; a run of rows of one array or object that another has is one row."""
    begins = [(path.rpartition(".")[0], row) for path, *row in found]
    groups = groupby(zip(begins, found, strict=True), key=lambda pair: pair[0][0])
    for begin, group in groups:
        members = [row for _, row in group]
        shape = tuple(str((path.rpartition(".")[2], *rest)) for path, *rest in members)
        place = 0
        while place < len(members):
            run = _told_run(shape[place:], told, is_whole=place == 0)
            path, kind, meaning = members[place]
            if run:
                last = members[place + run - 1][0].rpartition(".")[2]
                part = "" if run == len(members) else f", {path.rpartition('.')[2]} to {last}"
                yield f"{begin}.…".lstrip("."), "", f"as {told[shape[place : place + run]]}{part}"
            else:
                yield path, "" if kind == "text" else kind, meaning
            place += run or 1
        if begin:
            for first in range(len(shape)):
                for end in range(first + _FEW + 1, len(shape) + 1):
                    told.setdefault(shape[first:end], f"{begin} of {name}")


def _told_run(shape: tuple[str, ...], told: dict[tuple[str, ...], str], *, is_whole: bool) -> int:
    """How many of the rows another array or object has: all, or at least so many that one line is shorter."""
    longest = next((end for end in range(len(shape), _FEW, -1) if shape[:end] in told), 0)
    return longest if longest > _FEW + 1 or (is_whole and longest == len(shape)) else 0


if __name__ == "__main__":
    (FOLDER / "json.schema.json").write_text(schema_text(), encoding="utf-8")
    (FOLDER / "json.md").write_text(page(), encoding="utf-8")
