"""Compares receipts of producers with the rows of bronze, and with what the broker has for it to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from common.streaming.topic_identity import BrokerTopic, TopicState, read_ends, recorded_topics
from orchestration.access.kafka.receipts import Receipt, Span

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BUCKET = 10_000

Partition = tuple[str, int]
"""The topic of bronze's rows, and the partition."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A receipt whose records are not as it says.

    Attributes:
        receipt: The receipt.
        records: How many of its records are not there, or all where other bytes are.
        why: What is there instead.
    """

    receipt: Receipt
    records: int
    why: str

    def __str__(self) -> str:
        one = self.receipt
        place = f"{one.topic}/{one.partition}, offsets {one.offsets[0][0]:,} to {one.offsets[-1][1]:,}"
        return f"{place}: producer {one.producer} has a receipt for {one.records:,} records; {self.why}"


@dataclass(frozen=True, slots=True)
class Sorted:
    """Receipts by what can be said of them.

    Attributes:
        due: Those of offsets that bronze has read, each with the topic of its rows.
        waiting: Those of offsets that bronze has not read yet.
        left_out: How many are of records that bronze rightly has no more, or of an earlier topic of the name.
    """

    due: tuple[tuple[Receipt, str], ...]
    waiting: tuple[Receipt, ...]
    left_out: int


def sort_receipts(
    receipts: Sequence[Receipt],
    last: Mapping[str, Any] | None,
    begins: Mapping[Partition, int],
    lost: Mapping[Partition, Sequence[Span]],
) -> Sorted:
    """Sort receipts by what bronze has read.

    Args:
        receipts: The receipts of its topics.
        last: The metadata of bronze's newest micro-batch: what has been read by it.
        begins: Before which offset bronze has no records, as it should, by its topic and partition.
        lost: The offsets that were accepted as lost, by the same.
    """
    ends, known = read_ends(last), recorded_topics(last)
    due: list[tuple[Receipt, str]] = []
    waiting: list[Receipt] = []
    left_out = 0
    for one in receipts:
        state = known.get(one.topic, TopicState())
        place = state.coordinate(one.topic), one.partition
        if not _may_be_same(one.topic_id, state.id):
            left_out += 1
        elif one.offsets[-1][1] >= ends.get(one.topic, {}).get(one.partition, 0):
            waiting.append(one)
        elif one.offsets[0][0] < begins.get(place, 0) or _overlap(one.offsets, lost.get(place, ())):
            left_out += 1
        else:
            due.append((one, place[0]))
    return Sorted(tuple(due), tuple(waiting), left_out)


def without_records(waiting: Sequence[Receipt], now: Mapping[str, BrokerTopic]) -> Iterator[Wrong]:
    """The receipts of acknowledged records that the broker does not have, and that bronze has not read.

    Args:
        waiting: Receipts of offsets that bronze has not read.
        now: The topics as the broker has them. It was asked after the receipts were read: what they say was
            acknowledged before.
    """
    for one in waiting:
        topic = now.get(one.topic)
        if topic is None:
            yield Wrong(one, one.records, "they were acknowledged, and the broker shows no such topic")
        elif not _may_be_same(one.topic_id, topic.id):
            continue  # the audit of topics says that it was created again
        elif one.partition not in topic.end:
            yield Wrong(one, one.records, "they were acknowledged, and the topic has no such partition")
        elif (end := topic.end[one.partition]) <= one.offsets[-1][1]:
            lost = sum(last - max(first, end) + 1 for first, last in one.offsets if last >= end)
            why = f"the topic ends at offset {end:,}, before {lost:,} of them, which were acknowledged"
            yield Wrong(one, lost, why)


@dataclass(frozen=True, slots=True)
class InBronze:
    """What comparing receipts with bronze has found.

    Attributes:
        receipts: How many receipts were compared.
        records: How many records they are of.
        wrong: Those that bronze does not have so.
        erased: How many were left out, because a record of them was erased.
    """

    receipts: int = 0
    records: int = 0
    wrong: tuple[Wrong, ...] = ()
    erased: int = 0


def in_bronze(
    spark: SparkSession, bronze: DataFrame, due: Sequence[tuple[Receipt, str]], gone: DataFrame | None
) -> InBronze:
    """Compare receipts with bronze.

    Args:
        bronze: Bronze, at least at the version by which they were sorted: topic, partition, offset, key,
            value.
        due: The receipts, each with the topic of its rows.
        gone: The records that were erased: topic, partition, offset; None: none.
    """
    if not due:
        return InBronze()
    spans = _spans(spark, due)
    rows = {int(row["receipt"]): row for row in _digests(bronze, spans).collect()}
    erased = (
        set()
        if gone is None
        else {int(row[0]) for row in _within(gone, spans).select("receipt").distinct().collect()}
    )
    compared = [(number, one) for number, (one, _) in enumerate(due) if number not in erased]
    wrong = []
    for number, one in compared:
        row = rows.get(number)
        read = 0 if row is None else int(row["records"])
        if read != one.records:
            wrong.append(Wrong(one, one.records - read, f"bronze has {read:,} of them"))
        elif row is None or row["sha256"] != one.sha256:
            why = "bronze has a record at each offset, but other bytes than were sent"
            wrong.append(Wrong(one, one.records, why))
    records = sum(one.records for _, one in compared)
    return InBronze(len(compared), records, tuple(wrong), len(erased))


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Records of bronze, of one partition, that no receipt is of: their number, first and last offset."""

    topic: str
    partition: int
    records: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}: {self.records:,}, offsets {self.first:,} to {self.last:,}"


def uncovered(
    spark: SparkSession,
    bronze: DataFrame,
    receipts: Sequence[Receipt],
    last: Mapping[str, Any] | None,
    topics: Callable[[str], bool],
) -> tuple[Uncovered, ...]:
    """The records that bronze has read and no receipt is of, by topic and partition.

    Args:
        bronze: Bronze: topic, partition, offset.
        receipts: All receipts of its topics.
        last: The metadata of bronze's newest micro-batch: what has been read by it.
        topics: Whether the topic of this name is read by the declaration.
    """
    known, free = recorded_topics(last), list[tuple[int, str, int, int, int]]()
    of_partition: dict[Partition, list[Receipt]] = {}
    for one in receipts:
        of_partition.setdefault((one.topic, one.partition), []).append(one)
    for name, ends in read_ends(last).items():
        state = known.get(name, TopicState())
        for partition, end in ends.items() if topics(name) else ():
            own = of_partition.get((name, partition), ())
            given = [span for one in own if _may_be_same(one.topic_id, state.id) for span in one.offsets]
            spans = _between(sorted(given), end)
            free += [(0, state.coordinate(name), partition, first, until) for first, until in spans]
    if not free:
        return ()
    own_rows = _within(bronze, _bucketed(spark, free))
    of_each = own_rows.groupBy("topic", "partition").agg(
        F.count("*").alias("n"), F.min("offset").alias("first"), F.max("offset").alias("last")
    )
    rows = of_each.orderBy("topic", "partition").collect()
    return tuple(Uncovered(row[0], row[1], row["n"], row["first"], row["last"]) for row in rows)


def _between(spans: Sequence[Span], end: int) -> Iterator[Span]:
    """What some spans, in order, leave of the offsets below an end."""
    begin = 0
    for first, last in spans:
        if begin < min(first, end):
            yield begin, min(first, end) - 1
        begin = max(begin, last + 1)
    if begin < end:
        yield begin, end - 1


def _overlap(spans: Sequence[Span], others: Sequence[Span]) -> bool:
    """Whether an offset is in both."""
    return any(first <= end and begin <= last for first, last in spans for begin, end in others)


def _may_be_same(topic_id: str, known: str) -> bool:
    """Whether two ids can be of the same topic; an empty one is not known."""
    return not topic_id or not known or topic_id == known


def _spans(spark: SparkSession, due: Sequence[tuple[Receipt, str]]) -> DataFrame:
    """The offsets of the receipts: one row per receipt, span and bucket of offsets."""
    rows = [
        (number, topic, one.partition, first, last)
        for number, (one, topic) in enumerate(due)
        for first, last in one.offsets
    ]
    return _bucketed(spark, rows)


def _bucketed(spark: SparkSession, rows: Sequence[tuple[int, str, int, int, int]]) -> DataFrame:
    """Spans of offsets, one row per bucket of each."""
    given = spark.createDataFrame(rows, "receipt int, topic string, partition int, first bigint, last bigint")
    buckets = F.expr(f"sequence(first div {_BUCKET}, last div {_BUCKET})")
    return given.withColumn("bucket", F.explode(buckets))


def _within(rows: DataFrame, spans: DataFrame) -> DataFrame:
    """The rows whose offset is in a receipt, with the receipt's number."""
    held = rows.withColumn("bucket", F.expr(f"offset div {_BUCKET}"))
    joined = held.join(F.broadcast(spans), ["topic", "partition", "bucket"])
    return joined.where("offset between first and last")


def _digests(bronze: DataFrame, spans: DataFrame) -> DataFrame:
    """Number of offsets and joint digest per receipt; see ``orchestration.access.kafka.receipts``."""
    text = F.concat(_hex("key"), F.lit(":"), _hex("value"))
    each = _within(bronze, spans).select("receipt", "offset", F.sha2(text, 256).alias("digest"))
    in_order = F.array_sort(F.collect_set(F.struct("offset", "digest")))
    joint = F.array_join(F.transform(in_order, lambda one: one["digest"]), "")
    return each.groupBy("receipt").agg(
        F.countDistinct("offset").alias("records"), F.sha2(joint, 256).alias("sha256")
    )


def _hex(name: str) -> Column:
    return F.coalesce(F.hex(name), F.lit("-"))
