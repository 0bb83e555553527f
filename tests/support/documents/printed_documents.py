"""Holds what commands print with ``--json`` against the documents that the reference lists.

In the test's own process every document is looked at when it is printed; what another process has printed is
looked at by ``printed``.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import CodeType
from typing import Any

import pytest
import typer

from distribution.pages.json_documents import ERROR, LINES, names_of
from distribution.pages.json_notation import strict
from distribution.pages.json_reference import definition, document_schema
from orchestration.cli import json_output

# A check of IRIs, which no document has: its grammar takes seconds to load, in each process of the tests.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
jsonschema: Any = importlib.import_module("jsonschema")

_OPTION = "--json"
_found: list[str] = []
_times = jsonschema.FormatChecker(())


@_times.checks("date-time", raises=ValueError)
def _is_utc(value: object) -> bool:
    """Whether a text is a time in UTC, as ISO 8601 has it."""
    return not isinstance(value, str) or datetime.fromisoformat(value).utcoffset() == timedelta(0)


def wrong(name: str, document: Any) -> list[str]:
    """What of a document its definition does not say, or says otherwise."""
    return [f"{error.json_path}: {error.message[:200]}" for error in _checker(name).iter_errors(document)]


def unlisted(command: str, document: Any) -> list[str]:
    """What of a document is in none of the definitions of a command: by the one that is nearest."""
    found = [wrong(name, document) for name in (*names_of(command), ERROR)]
    return min(found, key=len)


def printed(words: Sequence[str], text: str) -> Any:
    """What a process of ``medallion`` has printed with ``--json``, as data, after it was looked at."""
    command = _command_of(words)
    if any(name in LINES for name in names_of(command)):
        lines = [json.loads(line) for line in text.splitlines()]
        faults = [fault for line in lines for fault in unlisted(command, line)]
        assert faults == [], f"{command} {_OPTION}: {faults}"
        return lines
    document = json.loads(text)
    if not isinstance(document, list):  # the rows of `query`
        faults = unlisted(command, document)
        assert faults == [], f"{command} {_OPTION}: {faults}"
    return document


def listen(patch: pytest.MonkeyPatch) -> None:
    """Look at every document that is printed in this process, from now on; ``taken`` says what is wrong."""
    text_of = json_output.document_text

    def looked_at(content: Mapping[str, Any]) -> str:
        text = text_of(content)
        command = _running()
        _found.extend(f"{command} {_OPTION}: {fault}" for fault in unlisted(command, json.loads(text)))
        return text

    patch.setattr(json_output, "document_text", looked_at)


def taken() -> list[str]:
    """What was wrong since the last call."""
    found = list(_found)
    _found.clear()
    return found


def commands() -> Iterator[tuple[str, Any]]:
    """The commands of the command line with their objects of click, such as ``medallion quality run``."""
    from orchestration.cli.main import app

    def below(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        yield name, command
        for word, inner in getattr(command, "commands", {}).items():
            yield from below(inner, f"{name} {word}")

    return below(typer.main.get_command(app), "medallion")


@functools.cache
def _checker(name: str) -> Any:
    """Knows a definition, and takes no key that it does not name."""
    closed = strict(document_schema())
    defined = {"$ref": f"#/$defs/{definition(name)}", "$defs": closed["$defs"]}
    return jsonschema.Draft202012Validator(defined, format_checker=_times)


@functools.cache
def _functions() -> Mapping[CodeType, str]:
    """The commands by the code of their functions: a test may call one by an app of its own."""
    found = {name: inspect.unwrap(command.callback) for name, command in commands() if command.callback}
    return {function.__code__: name for name, function in found.items()}


def _running() -> str:
    """The command that calls; the words that stand for none where an error is printed after its end."""
    frame = inspect.currentframe()
    while frame is not None:
        if (name := _functions().get(frame.f_code)) is not None:
            return name
        frame = frame.f_back
    return " ".join(["medallion", *sys.argv[1:3]])


def _command_of(words: Sequence[str]) -> str:
    known = {name for name, _ in commands()}
    command = "medallion"
    for word in words:
        if (longer := f"{command} {word}") in known:
            command = longer
    return command
