"""What became of the queries of a job: failures, restarts and their causes, in one small file per query.

The job that runs a query writes the file, and deletes it at its next start; ``status`` reads it. A file has
the last restarts only, so it does not grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from common.machine.files.state_file import StateFile

State = Literal["works", "waits", "restarted", "failed"]

_KEPT = 20


@dataclass(frozen=True, slots=True)
class Restart:
    """One restart of a query: its time, in ISO 8601, and what had failed."""

    at: str
    subject: str


@dataclass(frozen=True, slots=True)
class QueryState:
    """The failures of one query since its job started."""

    query: str  # the query's name
    pid: int  # the process of the job
    # ``waits``: for its restart; ``restarted``: not known yet whether it works; ``works``: again; ``failed``:
    # for good.
    state: State
    kind: str  # kind of the newest failure: transient, data, operator or unknown
    subject: str  # what failed, such as ``the Kafka broker``; empty if it is not known
    error: str  # message of the newest failure
    since: str  # time of the first failure in a row, in ISO 8601
    next_restart_at: str | None = None  # time of the next restart; None unless the query waits
    restarts: int = 0  # restarts since the job started
    last_restarts: tuple[Restart, ...] = field(default=())  # the newest restarts, oldest first

    def restarts_within(self, seconds: float, at: datetime) -> int:
        """Number of restarts in the last seconds before ``at``, as far as they are kept."""
        return sum(self.causes_within(seconds, at).values())

    def causes_within(self, seconds: float, at: datetime) -> Mapping[str, int]:
        """The same by what had failed; an empty text where that is not known."""
        recent = [
            one.subject
            for one in self.last_restarts
            if (at - datetime.fromisoformat(one.at)).total_seconds() <= seconds
        ]
        return Counter(recent)


_FILE = StateFile(QueryState)


def kept(restarts: tuple[Restart, ...]) -> tuple[Restart, ...]:
    """The restarts that a file keeps."""
    return restarts[-_KEPT:]


def write_state(folder: Path, state: QueryState) -> None:
    """Write the state of a query; a reader sees the file before or after."""
    _FILE.write(folder, f"{state.query}.json", state)


def clear_state(folder: Path, query: str) -> None:
    """Delete the state of a query."""
    (folder / f"{query}.json").unlink(missing_ok=True)


def read_state(folder: Path, query: str) -> QueryState | None:
    """The state of a query; None if it has not failed since its job started."""
    return _FILE.read_or_none(folder, f"{query}.json")


def iso_now() -> str:
    """The time now, in UTC, as the states have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
