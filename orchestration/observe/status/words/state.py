"""What is said of a table: by the page, ``status``, alerts, problems, and the lines of a run.

Each sentence about a table's state stands here once, and is made of facts alone: what its query does, what it
and the tables above it have yet to read, and what a run has read and written. Whoever shows a table chooses
which of the sentences; nobody else words one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from common.machine.terminal import count_of
from orchestration.observe.status.model import Lag, QueryNow, Status, TableStatus, TimeToLoss

SOON_SECONDS, LATER_SECONDS = 24 * 3600.0, 7 * 24 * 3600.0
"""A loss that comes sooner than the first is critical; one that comes later than the second is no problem."""

WAITS = "waits for data"
"""The phase of a query between two micro-batches, by its job; ``doing`` says what it waits for."""

_DIGITS = ((9.95, 0), (0.05, 1), (0.005, 2))
"""From which rate on it has how many digits behind the point; below them it has three."""

Tone = Literal["good", "plain", "warn", "bad"]
"""Whether it is as it should be; says nothing; should be looked at; needs a person."""


@dataclass(frozen=True, slots=True)
class Said:
    """A table's state in words; an empty text has nothing to say."""

    unread: str  # how far the table is, in at most 14 letters unless it has a number
    unread_tone: Tone
    loss: str  # what becomes of unread data
    loss_tone: Tone
    rows_per_second: float | None  # None while a micro-batch runs whose rows are not counted yet


def said(status: Status) -> Mapping[str, Said]:
    """What is said of each table."""
    return {table.table: _said(table, lags_above(status, table)) for table in status.tables}


def lags_above(status: Status, table: TableStatus) -> Sequence[Lag]:
    """What the tables above a table have yet to read, up to the topics; without its own."""
    by_name = {one.table: one for one in status.tables}
    by_name |= {one.quarantine.table: one for one in status.tables if one.quarantine is not None}
    found, left = dict[str, Lag](), [*table.reads]
    while left:
        above = by_name.get(left.pop())
        if above is not None and above.table not in found and above.table != table.table:
            found[above.table] = above.lag
            left += above.reads
    return tuple(found.values())


def doing(query: QueryNow, lag: Lag) -> str:
    """What a query does: as its job says, and between two micro-batches by what is unread."""
    if query.state != "waiting" or query.phase != WAITS or lag.count == 0:
        return query.phase
    if lag.count is None:
        return "waits for its next micro-batch"
    return f"{count_of(lag.count, lag.unit)} to read by its next micro-batch"


def _said(table: TableStatus, above: Sequence[Lag]) -> Said:
    unread, unread_tone = _unread(table, above)
    loss, loss_tone = loss_words(table.loss, table.lag, is_running=table.holder is not None)
    rate = table.rows_per_second
    is_counted_later = rate == 0 and table.query.state == "working"
    return Said(unread, unread_tone, loss, loss_tone, None if is_counted_later else rate)


def _unread(table: TableStatus, above: Sequence[Lag]) -> tuple[str, Tone]:
    """How far a table is. One that has read its source lacks what the tables above have yet to read."""
    lag = table.lag
    if lag.count is None:
        has_begun = table.now is not None or table.last_batch_id is not None
        return ("unknown", "warn") if has_begun else ("", "plain")
    if lag.count:
        return count_of(lag.count, lag.unit), "warn"
    if any(one.count for one in above):
        return "source behind", "warn"
    if table.now is None and table.last_batch_id is None:
        return "", "plain"
    if table.late is not None and table.late.left_out and table.late.is_many:
        return "up to date !", "warn"  # it has read every row, and left many out
    return ("source read", "plain") if any(one.count is None for one in above) else ("up to date", "good")


def loss_words(loss: TimeToLoss, lag: Lag, *, is_running: bool) -> tuple[str, Tone]:
    """What becomes of the rows that a query has yet to read; nothing where that needs nobody's thought.

    A job that runs reads them long before a loss that is weeks away. Of a stopped one it is told until when
    it has to be started.
    """
    if not lag.count or loss.seconds is None or loss.is_never:
        return "", "plain"
    if loss.seconds >= LATER_SECONDS:
        return "" if is_running else f"unread data is kept for another {duration(loss.seconds)}", "plain"
    tone: Tone = "bad" if loss.seconds < SOON_SECONDS else "warn"
    if loss.seconds == 0:
        return "unread data is being deleted", tone
    return f"unread data is lost in {duration(loss.seconds)}", tone


def deletes_words(loss: TimeToLoss) -> str:
    """What deletes unread data, and when; the loss is known, and is not never."""
    when = "now" if loss.seconds == 0 else f"in {duration(loss.seconds or 0.0)} at the present rates"
    return f"{loss.cause} deletes unread data {when}"


def layer_words(tables: Iterable[TableStatus]) -> str:
    """What the tables of a layer do together."""
    own = tuple(tables)
    states = [table.query.state for table in own]
    rate = sum(table.rows_per_second or 0.0 for table in own)
    halted = sum(table.query.is_faulty or table.query.state == "stopped" for table in own)
    counts = [table.lag.count for table in own]
    unread = sum(count or 0 for count in counts)
    words = (
        (all(state == "stopped" for state in states), "stopped"),
        (rate, f"{rate_words(rate)} read"),
        ("working" in states, "a micro-batch runs"),
        (halted, f"{halted} of {len(own)} do not run"),
        ("starting" in states, "starts"),
        (unread, f"{count_of(unread, own[0].lag.unit)} to read"),
        (None in counts, "not known what is unread"),
    )
    return next((text for is_so, text in words if is_so), "nothing to read")


def to_count_words(sources: Sequence[str], waiting: int | None) -> str:
    """What a query of a run will read, where a source of the run is counted only as it is read.

    Args:
        sources: The tables that it reads; none where it is such a source itself.
        waiting: Rows that these tables have for it already; None if that is not known.
    """
    if not sources:
        return "reads a source whose records are counted on the way"
    brings = f"what the run brings to {' and '.join(sources)}"
    return f"reads {count_of(waiting, 'rows')} that wait, and {brings}" if waiting else f"reads {brings}"


@dataclass(frozen=True, slots=True)
class Ran:
    """What queries have done in a run that has ended."""

    read: int  # rows or offsets that they have read, as far as they can be counted
    unit: str  # ``rows`` or ``offsets``
    seconds: float
    changed: int = 0  # tables that they have changed
    written: int = 0  # rows in the files that they have added


def table_ran(ran: Ran) -> str:
    """What the query of one table has done, behind ``up to date,``."""
    if ran.read:
        return f"{count_of(ran.read, ran.unit)} read, {rate_words(ran.read / max(ran.seconds, 0.001))}"
    if ran.changed:  # no position counts rows that were updated in the source, or loaded before the query
        return f"{count_of(ran.written, 'rows')} written"
    return "nothing to read"


def layer_ran(layer: str, ran: Ran) -> str:
    """What a layer has done, in a line."""
    took = f"{ran.seconds:.1f} s"
    if ran.read:
        rate = rate_words(ran.read / max(ran.seconds, 0.001))
        return f"{layer}: {count_of(ran.read, 'rows')} in {took} ({rate})"
    if ran.changed:
        tables = count_of(ran.changed, "tables")
        return f"{layer}: {tables} changed, {count_of(ran.written, 'rows')} written in {took}"
    return f"{layer}: nothing to read, {took}"


def rate_words(per_second: float) -> str:
    """A rate with as many digits as it takes: what was read, however slowly, is not 0 rows/s."""
    digits = next((count for least, count in _DIGITS if per_second >= least), 0 if not per_second else 3)
    return f"{max(per_second, 0.001 if per_second else 0.0):,.{digits}f} rows/s"


def unread_words(count: int, unit: str) -> str:
    """``1 record is unread``, ``2 records are unread``."""
    return f"{count_of(count, unit)} {'is' if count == 1 else 'are'} unread"


def duration(seconds: float) -> str:
    """A duration for people in its two largest units: ``3 h 12 min``, ``45 s``."""
    left = max(0, round(seconds))
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count or (unit == "s" and not parts):
            parts.append(f"{count:,} {unit}")
    return " ".join(parts[:2])
