"""What a person should look at, in words, from the model alone: worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from common.machine.terminal import count_of
from orchestration.access.history.takeovers import kills, takeover_text, without_standby
from orchestration.observe.status.model import NEEDS_A_PERSON, UNKNOWN_SECONDS, Status, TableStatus
from orchestration.observe.status.words.state import (
    LATER_SECONDS,
    SOON_SECONDS,
    deletes_words,
    duration,
)

Severity = Literal["critical", "warning"]

OPEN_TRANSACTION_SECONDS = 60.0
"""A stable offset that stands still for so long, with records behind it, is a hanging transaction."""

_NAMED = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem; ``table`` is empty where it concerns the pipeline. The text holds nothing of a record."""

    severity: Severity
    table: str
    text: str


def problems(status: Status) -> tuple[Problem, ...]:
    """The problems of a pipeline now, critical ones first, then in the order of data flow."""
    found = [
        problem
        for table in status.tables
        for problem in (*_of_table(table), *_of_freshness(table, status), *_of_source(table))
    ]
    found += [Problem("warning", "", takeover_text(job)) for job in kills(status.jobs, status.at)]
    found += [Problem("warning", "", text) for text in without_standby(status.jobs, status.awaited)]
    if status.broker_note and any(table.holder for table in status.tables):
        found.insert(0, Problem("warning", "", f"Kafka: {status.broker_note}"))
    return tuple(sorted(found, key=lambda problem: problem.severity != "critical"))


def together(tables: Sequence[str]) -> str:
    """The tables that one text is about, two of them by name: ``a and b``, ``a, b and 3 more``."""
    first, more = tables[:_NAMED], len(tables) - _NAMED
    return " and ".join(first) if more <= 0 else f"{', '.join(first)} and {more} more"


def _of_table(table: TableStatus) -> Iterator[Problem]:
    name, query = table.table, table.query
    if query.state in NEEDS_A_PERSON:
        yield Problem("critical", name, f"the query is {query.state}: {query.error or query.phase}")
    elif query.state == "restarting":
        yield Problem("warning", name, f"the query failed and is restarted: {query.error}")
    elif query.state == "stopped" and table.lag.count:
        why = query.phase if query.is_held or query.waits_for else "no job runs"
        verb = "waits" if table.lag.count == 1 else "wait"
        yield Problem("warning", name, f"{why}, and {count_of(table.lag.count, table.lag.unit)} {verb}")
    if table.fault:
        yield Problem("critical", name, table.fault)
    loss = table.loss
    if loss.seconds is not None and loss.seconds < LATER_SECONDS:
        severity: Severity = "critical" if loss.seconds < SOON_SECONDS else "warning"
        yield Problem(severity, name, deletes_words(loss))
    open_ = table.uncommitted
    if open_ is not None and open_.records and open_.seconds >= OPEN_TRANSACTION_SECONDS:
        yield Problem(
            "warning",
            name,
            f"a transaction is open for {duration(open_.seconds)}: {open_.records:,} records behind it "
            "cannot be read, and the lag does not count them",
        )
    if table.catalog is not None and table.catalog.error:
        yield Problem("warning", name, f"not registered as {table.catalog.name}: {table.catalog.error}")
    if table.late is not None and table.late.is_many:
        yield Problem("warning", name, f"{table.late.count:,} {table.late.unit} came after the watermark")
    if table.fields is not None and table.fields.is_rename:
        yield Problem("warning", name, f"a field was probably renamed: {table.fields.text()}")


def _of_freshness(table: TableStatus, status: Status) -> Iterator[Problem]:
    """What `/readyz` says of a table's freshness, while a job writes the table."""
    fresh, goal = table.freshness, status.freshness_goal
    if fresh is None or table.holder is None:
        return
    waiting, unknown = fresh.waiting_seconds(status.at), fresh.unknown_seconds(status.at)
    if waiting is not None and goal is not None and waiting > goal:
        text = f"a record waits for {duration(waiting)}, the goal is {duration(goal)}"
        yield Problem("warning", table.table, text)
    if unknown > UNKNOWN_SECONDS:
        yield Problem("warning", table.table, f"not known for {duration(unknown)} whether a record waits")


def _of_source(table: TableStatus) -> Iterator[Problem]:
    if table.receipts is not None and table.receipts.faults:
        faults = f"faults of receipts ({table.receipts.faults:,})"
        yield Problem("warning", table.table, f"the newest audit found {faults}: medallion audit names them")
    for text in () if table.source_files is None else table.source_files.problems():
        yield Problem("warning", table.table, text)
