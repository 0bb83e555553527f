"""Compares receipts of producers with the rows of bronze, and with what the broker has for it to read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from common.delta.commit import from_epoch_ms
from common.streaming.topic_identity import BrokerTopic, TopicState, read_ends, recorded_topics
from orchestration.access.kafka.receipts import Receipt, Span

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BUCKET = 10_000

Partition = tuple[str, int]
"""The topic of bronze's rows, and the partition."""


class Start(NamedTuple):
    """Where an audit starts: in words, which are empty at the beginning, and by partition the first offset.

    Receipts that begin before are left out, but for those in ``again``, whose names are known to be wrong.
    """

    text: str = ""
    offsets: Mapping[Partition, int] = MappingProxyType({})
    again: Collection[str] = ()

    def leaves_out(self, receipt: Receipt, place: Partition) -> bool:
        """Whether the records of a receipt begin before."""
        return receipt.offsets[0][0] < self.offsets.get(place, 0) and receipt.name not in self.again

    def within(self, bronze: DataFrame) -> DataFrame:
        """The rows of bronze from there on."""
        before = (_is_in(*place) & (F.col("offset") < begin) for place, begin in self.offsets.items())
        return bronze.where(~reduce(or_, before, F.lit(False))) if self.offsets else bronze


BEGINNING = Start()
"""Of an audit of all records."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A receipt whose records are not as it says."""

    receipt: Receipt
    records: int  # how many of them are not there, or all where other bytes are
    why: str  # what is there instead

    def __str__(self) -> str:
        one = self.receipt
        place = f"{one.topic}/{one.partition}, offsets {one.offsets[0][0]:,} to {one.offsets[-1][1]:,}"
        name = f" {one.name}" if one.name else ""
        return f"{place}: producer {one.producer} has a receipt{name} for {one.records:,} records; {self.why}"


@dataclass(frozen=True, slots=True)
class Sorted:
    """Receipts by what can be said of them."""

    due: tuple[tuple[Receipt, str], ...]  # of offsets that bronze has read, each with the topic of its rows
    waiting: tuple[Receipt, ...]  # of offsets that bronze has not read yet
    left_out: int  # of records that are rightly gone, of an earlier topic of the name, or before the start


def sort_receipts(
    receipts: Sequence[Receipt],
    last: Mapping[str, Any] | None,
    begins: Mapping[Partition, int],
    lost: Mapping[Partition, Sequence[Span]],
    start: Start = BEGINNING,
) -> Sorted:
    """Sort receipts by what bronze has read.

    Args:
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
        elif (
            one.offsets[0][0] < begins.get(place, 0)
            or start.leaves_out(one, place)
            or _overlap(one.offsets, lost.get(place, ()))
        ):
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
    """What comparing receipts with bronze has found."""

    receipts: int = 0  # how many were compared
    records: int = 0  # how many records these are of
    wrong: tuple[Wrong, ...] = ()  # those that bronze does not have so
    erased: int = 0  # how many were left out, because a record of them was erased


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
    """Records of a partition of bronze that no receipt is of: number, first and last offset, oldest time."""

    topic: str
    partition: int
    records: int
    first: int
    last: int
    oldest: datetime | None = None

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}: {self.records:,}, offsets {self.first:,} to {self.last:,}"


class Generation(NamedTuple):
    """A topic of a name that bronze has read: its id, and how bronze's rows name it."""

    name: str
    id: str
    coordinate: str


def generations(commits: Iterable[Mapping[str, Any]], topics: Callable[[str], bool]) -> frozenset[Generation]:
    """All topics that the metadata of bronze's commits name, those that were deleted among them.

    Args:
        topics: Whether the topic of this name is read by the declaration.
    """
    found = {
        Generation(name, state.id, state.coordinate(name))
        for metadata in commits
        for name in read_ends(metadata)
        if topics(name)
        for state in (recorded_topics(metadata).get(name, TopicState()),)
    }
    named = {one.coordinate for one in found if one.id}
    return frozenset(one for one in found if one.id or one.coordinate not in named)


def uncovered(
    spark: SparkSession,
    bronze: DataFrame,
    receipts: Sequence[Receipt],
    last: Mapping[str, Any] | None,
    read: Collection[Generation],
) -> tuple[Uncovered, ...]:
    """The records that bronze has read and no receipt is of, by topic and partition.

    Args:
        bronze: Bronze: topic, partition, offset, kafka_timestamp.
        last: The metadata of bronze's newest micro-batch: what has been read by it.
    """
    if not read:
        return ()
    by_name: dict[str, list[Generation]] = {}
    for each in read:
        by_name.setdefault(each.name, []).append(each)
    covered = [
        (0, each.coordinate, one.partition, *span)
        for one in receipts
        for each in by_name.get(one.topic, ())
        if _may_be_same(one.topic_id, each.id)
        for span in one.offsets
    ]
    known = recorded_topics(last)
    beyond = [  # what bronze has read since, of which receipts may have come since, too
        _is_in(known.get(name, TopicState()).coordinate(name), partition) & (F.col("offset") >= end)
        for name, ends in read_ends(last).items()
        for partition, end in ends.items()
    ]
    own = bronze.where(F.col("topic").isin(*{each.coordinate for each in read}))
    own = own.where(~reduce(or_, beyond, F.lit(False))).withColumn("bucket", _bucket())
    spans = F.broadcast(_bucketed(spark, covered))
    same = [own[name] == spans[name] for name in ("topic", "partition", "bucket")]
    alone = own.join(spans, [*same, own["offset"].between(spans["first"], spans["last"])], "left_anti")
    of_each = alone.groupBy("topic", "partition").agg(
        F.count("*"), F.min("offset"), F.max("offset"), F.unix_millis(F.min("kafka_timestamp"))
    )
    return tuple(
        Uncovered(topic, partition, records, first, last, None if ms is None else from_epoch_ms(ms))
        for topic, partition, records, first, last, ms in of_each.orderBy("topic", "partition").collect()
    )


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


def _is_in(topic: str, partition: int) -> Column:
    return (F.col("topic") == topic) & (F.col("partition") == partition)


def _bucket() -> Column:
    return F.expr(f"offset div {_BUCKET}")


def _within(rows: DataFrame, spans: DataFrame) -> DataFrame:
    """The rows whose offset is in a receipt, with the receipt's number."""
    held = rows.withColumn("bucket", _bucket())
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
