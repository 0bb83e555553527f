"""The JSON documents of commands, in the notation of ``json_notation``: what programs may rely on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from distribution.pages.documents import access, author, change, install, observe, quality, records, run
from distribution.pages.documents.shared import PROBLEMS

VERSION = {"document_version": "int  version of the form of all documents"}

ERROR = "an error, of any command"

PARTS: Mapping[str, Any] = records.PARTS
"""Parts that contain parts of their own kind."""

LINES: Mapping[str, Any] = access.LINES
"""Lines of commands that print a stream; they have no version."""

DOCUMENTS: Mapping[str, Any] = {
    ERROR: {
        "ok": "bool  false",
        "error": {"code": "text?", "message": "text", "exit_code": "int", "problems": PROBLEMS},
    },
    **author.DOCUMENTS,
    **change.DOCUMENTS,
    **run.DOCUMENTS,
    **observe.DOCUMENTS,
    **quality.DOCUMENTS,
    **records.DOCUMENTS,
    **install.DOCUMENTS,
    **access.DOCUMENTS,
}
"""Documents by command, with what makes it print this one; in the order of the help."""


def names_of(command: str) -> Iterator[str]:
    """The names of all documents and lines of a command, such as ``medallion rebuild``."""
    for name in (*DOCUMENTS, *LINES):
        if name == command or name.startswith((f"{command} ", f"{command},")):
            rest = name.removeprefix(command).strip()
            if not rest or not rest[0].islower():
                yield name
