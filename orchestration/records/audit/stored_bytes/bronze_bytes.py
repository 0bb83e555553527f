"""Compares bronze's rows with the digests in its commits: bits that have changed on a disk.

A micro-batch of which rows are gone, because they expired or were erased, is not compared. Rows that are
missing without a reason are found by their offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bronze.digest import DIGEST, row_hash, text
from bronze.table import INGESTED
from common.delta.checksums import file_digests
from orchestration.records.audit.result import Fault
from orchestration.records.audit.stored_bytes.file_bytes import without_digest, wrong_files
from orchestration.records.audit.table_log import TableCommit, TableLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN = 5
"""Most micro-batches that are named; the fault's count covers all of them."""


@dataclass(frozen=True, slots=True)
class _Digest:
    """What commits say of the rows of one time of ingestion."""

    rows: int
    xor: int
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Proven:
    """Times of ingestion, in milliseconds since the epoch."""

    right: frozenset[int]  # of micro-batches whose rows have the bytes with which they were read
    # Of those of which some rows have other bytes. Of any other time nothing is known: there is no digest, or
    # rows of it have expired or were erased
    wrong: frozenset[int]


def proven(spark: SparkSession, bronze: TableLog) -> Proven:
    """Which micro-batches of a bronze table have the bytes with which they were read."""
    wanted = _digests(bronze.commits)
    now = _digests_now(_since(spark, bronze, wanted)) if wanted else {}
    held = {moment for moment, one in wanted.items() if moment in now and now[moment][0] == one.rows}
    wrong = frozenset(at for at in held if text(now[at][1]) != text(wanted[at].xor))
    return Proven(frozenset(held - wrong), wrong)


def byte_faults(spark: SparkSession, bronze: TableLog) -> Iterator[Fault]:
    """A fault if rows of the covered commits have other bytes than when they were read from the source.

    Where commits have no digest of their rows, files are compared with theirs.
    """
    wrong, wanted = proven(spark, bronze).wrong, _digests(bronze.commits)
    if wrong:
        shown = {moment: wanted[moment] for moment in sorted(wrong)[:_SHOWN]}
        table = _since(spark, bronze, wanted)
        places = "; ".join(_places(table.where(F.unix_millis(INGESTED).isin([*shown])), shown))
        rows = sum(wanted[moment].rows for moment in wrong)
        yield Fault(
            "bytes",
            f"of {rows:,} rows of {bronze.table} some have other bytes than when they were read: {places}",
            len(wrong),
            table=bronze.table,
        )
    elif _by_spark(bronze) and (files := wrong_files(bronze.path)):
        text = f"{bronze.table}: {', '.join(files[:_SHOWN])}{', …' if len(files) > _SHOWN else ''}"
        yield Fault("bytes", text, len(files), table=bronze.table)


def _since(spark: SparkSession, bronze: TableLog, wanted: Mapping[int, _Digest]) -> DataFrame:
    """The rows from the first time of ingestion on that has a digest."""
    table = spark.read.format("delta").option("versionAsOf", bronze.version).load(bronze.path)
    return table.where(F.col(INGESTED) >= F.timestamp_millis(F.lit(min(wanted))))


def _digests_now(table: DataFrame) -> Mapping[int, tuple[int, int]]:
    """By time of ingestion, the number of rows and the exclusive or of their hashes."""
    at = F.unix_millis(INGESTED)
    hashes = table.select(at.alias("at"), row_hash().alias("hash")).groupBy("at")
    found = hashes.agg(F.count("*").alias("rows"), F.bit_xor("hash").alias("xor")).toArrow()
    return {row["at"]: (row["rows"], row["xor"]) for row in found.to_pylist()}


def undigested(bronze: TableLog) -> int:
    """How many micro-batches with rows have no digest, neither of the rows nor of all files."""
    if not without_digest(bronze.path, bronze):
        return 0
    digests = file_digests.noted(bronze.path)
    files = (one.commit.added for one in _by_spark(bronze))
    return sum(not all(file_digests.has_digest(file, digests) for file in each) for each in files)


def _by_spark(bronze: TableLog) -> list[TableCommit]:
    """The micro-batches with rows whose commits have no digest of them."""
    own = (one for one in bronze.commits if one.batch_id is not None and one.commit.added)
    return [one for one in own if DIGEST not in one.metadata]


def _digests(commits: Iterable[TableCommit]) -> Mapping[int, _Digest]:
    found: dict[int, _Digest] = {}
    for one in commits:
        told = one.metadata.get(DIGEST)
        if isinstance(told, dict) and told["rows"]:
            before = found.get(told["at"], _Digest(0, 0, ()))
            xor, versions = before.xor ^ int(told["xor"], 16), (*before.versions, one.version)
            found[told["at"]] = _Digest(before.rows + told["rows"], xor, versions)
    return found


def _places(rows: DataFrame, bad: Mapping[int, _Digest]) -> Iterator[str]:
    """Files and coordinates of micro-batches, in words."""
    at = F.unix_millis(INGESTED).alias("at")
    spans = rows.groupBy(at, F.col("_metadata.file_path").alias("file"), "topic", "partition")
    found = spans.agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    for row in found.orderBy("at", "topic", "partition").collect():
        versions = ", ".join(map(str, bad[row["at"]].versions))
        span = f"offsets {row['first']} to {row['last']} of {row['topic']}, partition {row['partition']}"
        yield f"version {versions}, {span}, in {row['file']}"
