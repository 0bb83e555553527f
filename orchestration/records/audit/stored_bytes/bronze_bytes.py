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
from orchestration.records.audit.result import Fault
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


def byte_faults(spark: SparkSession, bronze: TableLog) -> Iterator[Fault]:
    """A fault if rows of the covered commits have other bytes than when they were read from the source."""
    wanted = _digests(bronze.commits)
    if not wanted:
        return
    table = spark.read.format("delta").option("versionAsOf", bronze.version).load(bronze.path)
    at = F.unix_millis(INGESTED)
    table = table.where(F.col(INGESTED) >= F.timestamp_millis(F.lit(min(wanted))))
    hashes = table.select(at.alias("at"), row_hash().alias("hash")).groupBy("at")
    found = hashes.agg(F.count("*").alias("rows"), F.bit_xor("hash").alias("xor")).toArrow()
    now = {row["at"]: (row["rows"], row["xor"]) for row in found.to_pylist()}
    bad = {
        moment: one
        for moment, one in wanted.items()
        if moment in now and now[moment][0] == one.rows and text(now[moment][1]) != text(one.xor)
    }
    if bad:
        shown = dict(sorted(bad.items())[:_SHOWN])
        places = "; ".join(_places(table.where(at.isin([*shown])), shown))
        rows = sum(one.rows for one in bad.values())
        yield Fault(
            "bytes",
            f"of {rows:,} rows of {bronze.table} some have other bytes than when they were read: {places}",
            len(bad),
        )


def undigested(bronze: TableLog) -> int:
    """How many micro-batches with rows have no digest: by Spark, or an earlier version of the engine."""
    own = (one for one in bronze.commits if one.batch_id is not None and one.commit.added)
    return sum(DIGEST not in one.metadata for one in own)


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
