"""Asks the job that holds a table's lease to do a command's work in its warm session."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import common.errors
from common.errors import MedallionError
from orchestration.access.channel.protocol import Line, Request, address

_CONNECT_SECONDS = 5.0


def fingerprint(file: Path | None) -> str:
    """Identifies the content of a pipeline file; empty where there is none."""
    try:
        return "" if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def ask(folder: Path, pid: int, request: Request, say: Callable[[str], None]) -> Any:
    """Have the job of a process do some work; its progress is reported by ``say``.

    Returns:
        The result, as JSON; None if the job has no channel or refuses, and the command does the work itself.

    Raises:
        MedallionError: The job could not do the work, for the reason that the command itself would give.
    """
    try:
        with address(folder, pid) as place:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(place)
    except OSError:
        return None
    connection.settimeout(None)
    line = Line(connection)
    try:
        return _conversation(line, request, say)
    finally:
        line.close()  # at Ctrl-C this cancels the work


def _conversation(line: Line, request: Request, say: Callable[[str], None]) -> Any:
    line.send(asdict(request))
    while (message := line.receive()) is not None:
        if "say" in message:
            say(str(message["say"]))
        elif "refused" in message:
            say(f"the running job is not asked: {message['refused']}")
            return None
        elif "error" in message:
            raise _error(message["error"])
        else:
            return message["result"]
    raise MedallionError("The job that was doing the work has ended. Start the job again, then this command.")


def _error(found: Mapping[str, Any]) -> MedallionError:
    """The engine's error of the same name, with the message and exit code that the job has sent."""
    kind = getattr(common.errors, str(found["type"]), MedallionError)
    is_known = isinstance(kind, type) and issubclass(kind, MedallionError)
    # Without __init__: the classes' own arguments are parts of the message.
    error: MedallionError = Exception.__new__(kind if is_known else MedallionError)
    error.args = (str(found["message"]),)
    error.exit_code = int(found["exit_code"])
    return error
