"""The Delta table ``ops.dismissed_receipts``: records of receipts' topics that somebody knows to be wrong.

One row per record; nothing deletes from it. The audit goes on as if the record were not there, and says which
ones are dismissed, when and why. Columns: those of ``Dismissal``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from common.config.paths import DISMISSED, Layout
from common.declare import Pipeline, Topic
from common.delta.small_table import SmallTable, rows_of, schema_of
from common.errors import UsageError
from orchestration.access.kafka.receipts_topic import GivenReceipts

Receipts = Callable[[Topic], GivenReceipts]
"""Gives the receipts of a topic's producers; raises ``BrokerError`` where the broker does not answer."""


@dataclass(frozen=True, slots=True)
class Dismissal:
    """A record that counts for nothing."""

    topic: str  # of the receipts
    receipt: str  # the record's name, made of its bytes
    why: str
    dismissed_at: datetime

    def __str__(self) -> str:
        return f"{self.receipt} ({self.dismissed_at:%Y-%m-%d %H:%M:%SZ}: {self.why})"


def dismissals(layout: Layout, topic: str) -> tuple[Dismissal, ...]:
    """The dismissed records of a receipts' topic, in the order in which they were.

    Raises:
        TableError: The table cannot be read.
    """
    table = _table(layout).read(Dismissal.__slots__)
    found = (Dismissal(**row) for row in ([] if table is None else table.to_pylist()))
    own = (one for one in found if one.topic == topic)
    return tuple(sorted(own, key=lambda one: (one.dismissed_at, one.receipt)))


def dismiss(  # noqa: PLR0913  # the options of the command
    pipeline: Pipeline,
    layout: Layout,
    read: Receipts,
    names: Collection[str],
    why: str,
    *,
    unreadable: bool = False,
) -> Sequence[Dismissal]:
    """Dismiss records of the receipts' topics by their names; gives those that were not dismissed before.

    With ``unreadable`` also all records that are there now and are no receipts.

    Raises:
        BrokerError: The broker does not answer.
        UsageError: No topic has receipts, none of them has such a record, or no reason is given.
        TableError: The table cannot be written.
    """
    topics = {str(topic.receipts): topic for topic in pipeline.topics if topic.receipts}
    if not why.strip():
        raise UsageError("--why is empty: say why the receipts are wrong; the audit shows it.")
    if not topics:
        raise UsageError(f"no topic of {pipeline.name} has receipts: Topic(…, receipts=…) names theirs.")
    found: list[Dismissal] = []
    unknown = set(names)
    for name, topic in topics.items():
        given = read(topic)
        others = {one for wrong in given.wrong.values() for one in wrong}
        there = others | {one.name for one in given.receipts}
        known = {one.receipt for one in dismissals(layout, name)}
        chosen = (there & set(names)) | (others if unreadable else set())
        unknown -= there | known
        found += [Dismissal(name, one, why, datetime.now(UTC)) for one in sorted(chosen - known)]
    if unknown:
        raise UsageError(
            f"{' and '.join(topics)} has no record {', '.join(sorted(unknown))}; the faults of medallion "
            "audit name those that are wrong."
        )
    if found:
        _table(layout).write(rows_of(found, schema_of(Dismissal)))
    return found


def _table(layout: Layout) -> SmallTable:
    return SmallTable(layout.table_path(DISMISSED), {"delta.appendOnly": "true"})
