"""Compares receipts of producers with the rows of bronze: whether each record that was sent is there.

What Kafka itself loses or puts in another place, after it has acknowledged it, is seen by nobody else: the
offsets that a reader sees have no hole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from common.streaming.topic_identity import read_ends, recorded_topics
from orchestration.access.kafka.receipts import Receipt

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BUCKET = 10_000


@dataclass(frozen=True, slots=True)
class Wrong:
    """A receipt that bronze does not have as it says.

    Attributes:
        receipt: The receipt.
        read: How many of its offsets bronze has.
    """

    receipt: Receipt
    read: int

    def __str__(self) -> str:
        one = self.receipt
        place = f"{one.topic}/{one.partition}, offsets {one.offsets[0][0]:,} to {one.offsets[-1][1]:,}"
        sent = f"{place}: producer {one.producer} has a receipt for {one.records:,} records; bronze has "
        if self.read == one.records:
            return f"{sent}a record at each offset, but other bytes than were sent"
        return f"{sent}{self.read:,} of them"


@dataclass(frozen=True, slots=True)
class Compared:
    """What comparing receipts has found.

    Attributes:
        receipts: How many receipts were compared.
        records: How many records they are of.
        wrong: Those that bronze does not have so.
        waiting: Receipts of offsets that bronze has not read yet.
        left_out: Receipts of records that were erased or have expired, or of an earlier topic of the name.
    """

    receipts: int = 0
    records: int = 0
    wrong: tuple[Wrong, ...] = ()
    waiting: int = 0
    left_out: int = 0


def compare_receipts(  # noqa: PLR0913  # what may be gone is said by name
    spark: SparkSession,
    bronze: DataFrame,
    receipts: Sequence[Receipt],
    *,
    last: Mapping[str, Any] | None,
    gone: DataFrame | None,
    expired: Mapping[tuple[str, int], int],
) -> Compared:
    """Compare receipts with bronze.

    Args:
        spark: The session.
        bronze: Bronze at one version: topic, partition, offset, key, value.
        receipts: The receipts of its topics.
        last: The metadata of the micro-batch of that version: what has been read by it.
        gone: The records that were erased: topic, partition, offset; None: none.
        expired: Before which offset records have expired, by bronze's topic and partition.
    """
    ends, known = read_ends(last), recorded_topics(last)
    due: list[tuple[Receipt, str]] = []
    waiting = left_out = 0
    for one in receipts:
        if one.topic not in ends:
            continue
        state = known.get(one.topic)
        coordinate = one.topic if state is None else state.coordinate(one.topic)
        if state is not None and one.topic_id not in {"", state.id}:
            left_out += 1
        elif one.offsets[-1][1] >= ends[one.topic].get(one.partition, 0):
            waiting += 1
        elif one.offsets[0][0] < expired.get((coordinate, one.partition), 0):
            left_out += 1
        else:
            due.append((one, coordinate))
    if not due:
        return Compared(waiting=waiting, left_out=left_out)
    spans = _spans(spark, due)
    found = {int(row["receipt"]): row for row in _digests(bronze, spans).collect()}
    erased = (
        set()
        if gone is None
        else {int(row[0]) for row in _within(gone, spans).select("receipt").distinct().collect()}
    )
    compared = [(number, one) for number, (one, _) in enumerate(due) if number not in erased]
    wrong = []
    for number, one in compared:
        row = found.get(number)
        if row is None or row["records"] != one.records or row["sha256"] != one.sha256:
            wrong.append(Wrong(one, 0 if row is None else int(row["records"])))
    records = sum(one.records for _, one in compared)
    return Compared(len(compared), records, tuple(wrong), waiting, left_out + len(due) - len(compared))


def _spans(spark: SparkSession, due: Sequence[tuple[Receipt, str]]) -> DataFrame:
    """The offsets of the receipts: one row per receipt, span and bucket of offsets."""
    rows = [
        (number, topic, one.partition, first, last)
        for number, (one, topic) in enumerate(due)
        for first, last in one.offsets
    ]
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
