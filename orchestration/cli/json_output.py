"""JSON for programs: one object on stdout with the version of its form, also where a command is used wrongly.

Keys may be added within a version; a key that goes, or gets another meaning, makes a new version. The rows of
``medallion query`` are data and no document: an array, as ``--csv`` prints lines. So are the records of
``medallion topic tail``: a line each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from common.codes import code_of
from common.errors import MedallionError
from orchestration.cli.problems_output import documents

VERSION = 1
"""The version of the documents of all commands."""

_STATE = {"is_wanted": False, "is_printed": False}
"""Whether the command is to print JSON, and whether it has."""


def begin(*, is_wanted: bool) -> None:
    """A command begins, with ``--json`` or without."""
    _STATE.update(is_wanted=is_wanted, is_printed=False)


def print_document(content: Mapping[str, Any]) -> None:
    """Print the document of a command."""
    _STATE["is_printed"] = True
    sys.stdout.write(f"{document_text(content)}\n")


def document_text(content: Mapping[str, Any]) -> str:
    """The text of a document, with the version of its form."""
    return json.dumps({"document_version": VERSION, **content}, indent=2, default=_as_text)


def print_error(error: MedallionError) -> None:
    """Print the document of an error where JSON is wanted and the command has printed no document yet."""
    if not _STATE["is_wanted"] or _STATE["is_printed"]:
        return
    content = {
        "code": code_of(error),
        "message": str(error),
        "exit_code": error.exit_code,
        "problems": documents(getattr(error, "problems", ())),
    }
    print_document({"ok": False, "error": content})


def _as_text(value: object) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
