"""Reports failures and restarts of queries: on the console, in the job's log, in a file for ``status``."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from common.errors import (
    BrokerAwayError,
    DiskLowError,
    MedallionError,
    RegistryError,
    TransientFailureError,
)
from common.machine.console import say
from common.streaming.failure_cause import BROKER, REGISTRY
from orchestration.access.progress.query_states import (
    QueryState,
    Restart,
    State,
    clear_state,
    iso_now,
    kept,
    write_state,
)
from orchestration.run.failures.restart_schedule import Restarts

_log = logging.getLogger("medallion.supervisor")


class RestartNotices:
    """Prints the first failure of a row and its end, and logs and records every failure and restart."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._states: dict[str, QueryState] = {}

    def clear(self, query: str) -> None:
        """Forget what an earlier run recorded of a query."""
        if self._folder is not None:
            clear_state(self._folder, query)

    def waits(self, query: str, failure: MedallionError, restarts: Restarts) -> None:
        """A query failed for a transient cause and waits for its restart."""
        seconds = 0.0 if restarts.due is None else max(0.0, restarts.due - restarts.clock())
        _log.warning("%s; restart %d in %.1f s", failure, restarts.total + 1, seconds)
        if restarts.in_a_row == 1:
            say(
                f"{_sentence(failure)} {query} waits and is restarted; the other queries go on",
                level="warning",
            )
        due = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
        self._write(replace(self._after(query, failure, "waits"), next_restart_at=due))

    def restarted(self, query: str, failure: MedallionError, restarts: Restarts) -> None:
        """A query is restarted now."""
        _log.warning("%s: restart %d", query, restarts.total)
        after = self._after(query, failure, "restarted")
        last = kept((*after.last_restarts, Restart(iso_now(), _subject(failure))))
        self._write(replace(after, restarts=restarts.total, last_restarts=last))

    def works(self, query: str, seconds: float | None = None) -> None:
        """A restarted query works again, so many seconds after its failure if that is known."""
        after = "" if seconds is None else f", after {seconds:.0f} s"
        say(f"{query}: works again{after}")
        _log.warning("%s: works again%s", query, after)
        known = self._states.get(query)
        if known is not None:
            self._write(replace(known, state="works", next_restart_at=None))

    def failed(self, query: str, failure: MedallionError, *, is_told: bool, may_heal: bool = False) -> None:
        """A query failed for good.

        Args:
            is_told: Whether that was said before, or the command prints it at its end.
            may_heal: Whether the query goes on by itself if the row is corrected at which it has failed.
        """
        _log.error("%s; %s is not restarted (%s)", failure, query, failure.cause_kind)
        if not is_told:
            end = "The" if may_heal else f"{query} stays stopped until the next start; the"
            say(f"{_sentence(failure)} {end} other queries go on", level="error", query=query)
        self._write(self._after(query, failure, "failed"))

    def wait_for(self, queries: Sequence[str], failed: str) -> None:
        """Queries wait for one that has failed."""
        verb = "waits" if len(queries) == 1 else "wait"
        text = f"{', '.join(queries)} {verb} for {failed}, which has failed"
        _log.error("%s", text)
        say(text, level="warning")

    def await_table(self, query: str, table: str) -> None:  # a notice
        """A query waits for a table that is not there."""
        say(f"{query}: waiting for {table}: the job of the layer before has not created the table yet")

    def _after(self, query: str, failure: MedallionError, state: State) -> QueryState:
        """The state of a query after a failure."""
        known = self._states.get(query)
        is_in_a_row = known is not None and known.state in {"waits", "restarted"}
        return QueryState(
            query=query,
            pid=os.getpid(),
            state=state,
            kind=failure.cause_kind,
            subject=_subject(failure),
            error=str(failure),
            since=known.since if known is not None and is_in_a_row else iso_now(),
            restarts=0 if known is None else known.restarts,
            last_restarts=() if known is None else known.last_restarts,
        )

    def _write(self, state: QueryState) -> None:
        self._states[state.query] = state
        if self._folder is not None:
            write_state(self._folder, state)


def _sentence(failure: MedallionError) -> str:
    return f"{str(failure).rstrip('.')}."


def _subject(failure: MedallionError) -> str:
    if isinstance(failure, RegistryError):
        return REGISTRY
    if isinstance(failure, BrokerAwayError):
        return BROKER
    if isinstance(failure, DiskLowError):
        return "free space"
    return failure.subject if isinstance(failure, TransientFailureError) else ""
