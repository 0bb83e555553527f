"""Documents of commands that prepare a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JARS = {
    "cache": "text",
    "jars": [
        {
            "set": "text",
            "coordinate": "text",
            "size_bytes": "int",
            "sha256": "text",
            "path": "text",
            "state": "text  ok, missing or altered",
        }
    ],
}

DOCUMENTS: Mapping[str, Any] = {
    "medallion doctor": {
        "ok": "bool",
        "findings": [
            {"area": "text", "name": "text", "state": "text", "value": "text", "advice": "text"},
        ],
    },
    "medallion setup": {
        "java": {"home": "text", "version": "int", "origin": "text  where it was found"},
        "jars": ["text  path"],
        "class_archive": "text?  null: this Java cannot record one",
        "value_reader": "text  path",
    },
    "medallion jars list": JARS,
    "medallion jars verify": JARS,
    "medallion jars fetch": {**JARS, "fetched": ["text  coordinate"]},
    "medallion jars export": {"bundle": "text", "jars": ["text  path"]},
}
