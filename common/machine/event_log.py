"""Log events as JSON, one object per line, for ``log.format: json``; the same keys as Spark's JVM writes.

Keys: ``at``, ``level``, ``logger``, ``event``, ``pipeline``, ``run_id``, and where they are known ``job``,
``query``, ``batch_id``, ``rows``, ``duration_ms``, ``exception`` (its class). No key holds anything of a
record: an exception's message may quote a value and is left out, unless ``log.exception_messages`` is set.
"""

from __future__ import annotations

import json
import logging
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

RUN_ID = uuid.uuid4().hex[:12]
"""Identifies this run of the process, in logs, in the state of its job and in the history."""

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


@dataclass
class _Events:
    """Whether events are JSON, and what all of them say."""

    is_json: bool = False
    with_messages: bool = False
    always: dict[str, str] = field(default_factory=dict)


_events = _Events()


def write_json(pipeline: str, *, exception_messages: bool) -> None:
    """From now on the messages of this process are JSON on stderr, and so are the engine's warnings.

    Args:
        exception_messages: Whether the messages of exceptions are included, which may quote a value.
    """
    import structlog  # only where logs are JSON: text starts faster without it

    _events.is_json, _events.with_messages = True, exception_messages
    _events.always = {"pipeline": pipeline, "run_id": RUN_ID}
    logging.getLogger("medallion").setLevel(logging.INFO)
    structlog.configure(
        processors=[_of_structlog], logger_factory=lambda *_: structlog.PrintLogger(sys.stderr)
    )


def write_text() -> None:
    """Switch the log output from JSON back to text."""
    import structlog

    _events.is_json = False
    structlog.reset_defaults()


def is_json() -> bool:
    """Whether the messages of this process are JSON."""
    return _events.is_json


def emit(event: str, facts: Mapping[str, object], level: str = "info") -> None:
    """Write one event on stderr; a fact that is None is left out."""
    sys.stderr.write(line(event, level, "medallion", None, facts) + "\n")
    sys.stderr.flush()


def line(event: str, level: str, logger: str, at: datetime | None, facts: Mapping[str, object]) -> str:
    """One event as a line of JSON; ``at`` unset: now."""
    moment = (at or datetime.now(UTC)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    content: dict[str, Any] = {
        "at": moment,
        "level": level,
        "logger": logger,
        "event": event,
        **_events.always,
    }
    content |= {name: value for name, value in facts.items() if value is not None}
    return json.dumps(content, default=str, ensure_ascii=False)


class JsonLines(logging.Formatter):
    """Formats records of Python's logging as JSON; facts given by ``extra`` are keys."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        facts = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info and record.exc_info[0] is not None:
            facts["exception"] = record.exc_info[0].__name__
            if _events.with_messages:
                facts["exception_message"] = str(record.exc_info[1])
        at = datetime.fromtimestamp(record.created, UTC)
        return line(record.getMessage(), record.levelname.lower(), record.name, at, facts)


def _of_structlog(logger: object, method: str, event: Mapping[str, Any]) -> str:
    facts = {name: value for name, value in event.items() if name not in {"event", "error"}}
    if _events.with_messages and "error" in event:
        facts["exception_message"] = str(event["error"])
    return line(str(event.get("event", "")), method, "medallion", None, facts)
