"""The account of the receipts of a topic's producers: whether each record that was sent is there.

What Kafka itself loses or puts in another place, after it has acknowledged it, is seen by nobody else: the
offsets that a reader sees have no hole.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from common.declare import Topic
from common.errors import BrokerError
from common.streaming.topic_identity import BrokerTopic, read_ends
from orchestration.access.history.receipts_state import ReceiptsState
from orchestration.access.kafka.receipts import Receipt, Span
from orchestration.access.kafka.receipts_topic import GivenReceipts
from orchestration.records.receipts.compare import (
    BEGINNING,
    InBronze,
    Partition,
    Start,
    Uncovered,
    Wrong,
    generations,
    in_bronze,
    sort_receipts,
    uncovered,
    without_records,
)
from orchestration.records.receipts.dismiss import Dismissal
from orchestration.records.receipts.numbers import Uncounted, named, uncounted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = 3
_PAUSE_SECONDS = 1.0
_TIME = "%Y-%m-%d %H:%M:%SZ"
_MOST_SHOWN = 5
"""Most partitions with records without a receipt, and most dismissed records, that are named."""

Ask = Callable[[Collection[str]], Mapping[str, BrokerTopic]]
"""Gives the topics of these names as the broker has them; raises ``BrokerError`` where it does not answer."""


@dataclass(frozen=True, slots=True)
class ReceiptsAccount:
    """What comparing receipts has found."""

    topic: str  # of the receipts
    compared: InBronze  # those of records that bronze has read
    lost: Sequence[Wrong]  # of records that bronze has not read, and that the broker does not have
    waiting: int  # of records that bronze has not read yet
    why_waiting: str  # why the broker was not asked for these; empty if it was
    left_out: int  # of records that are gone as they should, of an earlier topic, or before the start
    numbers: Sequence[Uncounted]  # that are not those of one receipt each
    cut: int  # how many receipts retention has deleted from the topic
    wrong: Mapping[str, Sequence[str]]  # the names of its records that are no receipts, by why
    uncovered: Sequence[Uncovered] = ()  # records of bronze that no receipt is of
    newest: datetime | None = None  # when the newest receipt was written
    dismissed: Sequence[Dismissal] = ()  # records of the topic that count for nothing
    start: Start = BEGINNING

    def faults(self, most: int) -> Iterator[tuple[str, int]]:
        """Text and count of each fault; of one kind at most so many, then how many more."""
        records = [*self.compared.wrong, *self.lost]
        yield from ((str(one), max(one.records, 1)) for one in records[:most])
        if more := len(records[most:]):
            yield f"and {more:,} more receipts", more
        yield from ((f"{self.topic}: {one}", one.receipts) for one in self.numbers[:most])
        if more := len(self.numbers[most:]):
            yield f"{self.topic}: and {more:,} more ranges of numbers", more
        yield from (
            (f"{self.topic}: {len(names):,} of its records: {why}{named(names)}", len(names))
            for why, names in self.wrong.items()
        )

    @property
    def notes(self) -> Iterator[str]:
        """How many receipts were compared, what has none, and what is dismissed."""
        yield self.note
        yield self.coverage
        if self.dismissed:
            some = "; ".join(map(str, self.dismissed[-_MOST_SHOWN:]))
            more = "…; " if len(self.dismissed) > _MOST_SHOWN else ""
            yield f"{self.topic}: {len(self.dismissed):,} dismissed: {more}{some}"

    @property
    def without(self) -> int:
        """How many records of bronze have no receipt."""
        return sum(one.records for one in self.uncovered)

    @property
    def oldest(self) -> datetime | None:
        """Kafka's time of the oldest of them."""
        return min((one.oldest for one in self.uncovered if one.oldest is not None), default=None)

    @property
    def state(self) -> ReceiptsState:
        """What of it is kept."""
        names = tuple(one.receipt.name for one in self.compared.wrong)
        faults = len([*names, *self.lost, *self.numbers, *self.wrong])
        now = datetime.now(UTC)
        return ReceiptsState(now, self.coverage, self.without, self.oldest, faults, names)

    @property
    def note(self) -> str:
        """How many receipts were compared, and how many were not."""
        wrong = len(self.compared.wrong)
        as_sent = f"; {wrong:,} are not as sent" if wrong else ", and read as they were sent"
        if not self.compared.receipts:
            as_sent = ": nothing was compared"
        sent = f"{self.compared.records:,} records sent in {self.compared.receipts:,} receipts"
        texts = [f"receipts in {self.topic}: {sent}{as_sent}"]
        if self.lost:
            texts.append(f"{len(self.lost):,} are of records that the broker has lost")
        if self.waiting:
            why = f", which were not looked for: {self.why_waiting}" if self.why_waiting else ""
            texts.append(f"{self.waiting:,} are of records not read yet{why}")
        if self.left_out:
            before = f" or begin before {self.start.text}" if self.start.text else ""
            texts.append(f"{self.left_out:,} are of records that are gone{before}")
        if self.cut:
            texts.append(f"retention of {self.topic} has deleted {self.cut:,}")
        return "; ".join(texts)

    @property
    def coverage(self) -> str:
        """How many records of bronze have no receipt, and when the newest one came."""
        newest = f"the newest is of {self.newest:{_TIME}}" if self.newest else "there is no receipt"
        read = f" since {self.start.text}" if self.start.text else ""
        if not self.uncovered:
            return f"{self.topic}: each record of bronze{read} has a receipt; {newest}"
        some = "; ".join(map(str, self.uncovered[:_MOST_SHOWN]))
        more = "; …" if len(self.uncovered) > _MOST_SHOWN else ""
        oldest = f", the oldest of {self.oldest:{_TIME}}" if self.oldest else ""
        found = f"{self.without:,} records of bronze{read} have no receipt{oldest}"
        return f"{self.topic}: {found} ({some}{more}); {newest}"


def compare_receipts(  # noqa: PLR0913  # what may be gone is said by name
    spark: SparkSession,
    topic: Topic,
    given: GivenReceipts,
    *,
    bronze: DataFrame,
    last: Mapping[str, Any] | None,
    commits: Iterable[Mapping[str, Any]],
    gone: DataFrame | None,
    begins: Mapping[Partition, int],
    accepted: Mapping[Partition, Sequence[Span]],
    ask: Ask | None,
    dismissed: Sequence[Dismissal] = (),
    start: Start = BEGINNING,
) -> ReceiptsAccount:
    """Compare receipts with bronze and with the broker.

    Args:
        given: The receipts of its topics, read before the broker is asked.
        bronze: Bronze: topic, partition, offset, key, value.
        last: The metadata of its newest micro-batch, read before bronze is.
        commits: The metadata of all its commits that the log still has.
        gone: The records that were erased: topic, partition, offset; None: none.
        begins: Before which offset bronze has no records, as it should: they have expired, or the table
            begins there. By the topic of its rows and the partition.
        accepted: The offsets that somebody has accepted as lost, by the same.
        ask: Asks the broker; None: it is not asked.
        dismissed: Those that count for nothing.
    """
    counted = given.without({one.receipt for one in dismissed})
    others = set(given.receipts).difference(counted.receipts)
    own = [one for one in counted.receipts if _is_declared(topic, one) or one.topic in read_ends(last)]
    found = sort_receipts(own, last, begins, accepted, start)
    lost, why = _lost([one for one in found.waiting if _is_declared(topic, one)], ask)
    numbers = list(uncounted(own, others))
    cut = [one for one in numbers if given.is_cut and one.first == 1 and not one.is_twice]
    compared = in_bronze(spark, bronze, found.due, gone)
    return ReceiptsAccount(
        topic=str(topic.receipts),
        compared=compared,
        lost=lost,
        waiting=len(found.waiting) - len(lost),
        why_waiting=why,
        left_out=found.left_out + compared.erased,
        numbers=[one for one in numbers if one not in cut],
        cut=sum(one.receipts for one in cut),
        wrong=counted.wrong,
        uncovered=uncovered(
            spark,
            start.within(bronze),
            own,
            last,
            generations(commits, lambda name: _reads(topic, name)),
        ),
        newest=given.newest,
        dismissed=dismissed,
        start=start,
    )


def _is_declared(topic: Topic, receipt: Receipt) -> bool:
    """Whether bronze reads the topic of a receipt."""
    return _reads(topic, receipt.topic)


def _reads(topic: Topic, name: str) -> bool:
    """Whether bronze reads the topic of a name."""
    matches = topic.pattern is not None and re.fullmatch(topic.pattern, name) is not None
    return matches or name in topic.topic_names


def _lost(waiting: Sequence[Receipt], ask: Ask | None) -> tuple[list[Wrong], str]:
    """Those that the broker does not have, and why it was not asked.

    It is asked again: after a change of leader it may for a moment have fewer records than before.
    """
    names = {one.topic for one in waiting}
    if not names:
        return [], ""
    if ask is None:
        return [], "no broker was asked"
    found: list[Wrong] = []
    try:
        for attempt in range(_ATTEMPTS):
            time.sleep(_PAUSE_SECONDS if attempt else 0.0)
            if not (found := list(without_records(waiting, ask(names)))):
                break
    except BrokerError as error:
        return [], str(error).partition(". ")[0]
    return found, ""
