"""Compares bronze's rows with the digests in its commits: bits that have changed on a disk.

A micro-batch of which rows are gone, because they expired or were erased, is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bronze.digest import DIGEST, row_hash, text
from bronze.table import INGESTED
from common.delta.checksums import file_digests
from common.delta.commit import RESTORE
from orchestration.records.audit.result import Fault
from orchestration.records.audit.stored_bytes.file_bytes import without_digest, wrong_files
from orchestration.records.audit.table_log import TableCommit, TableLog, put_back, taken_back

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
    # other rows have it than have been written with it.
    wrong: frozenset[int]
    partial: Mapping[int, int]  # of those that rows have left, or more rows have now: how many have it


def proven(spark: SparkSession, bronze: TableLog) -> Proven:
    """Which micro-batches of a bronze table have the bytes with which they were read."""
    wanted = _digests(bronze.commits)
    now = _digests_now(_since(spark, bronze, wanted)) if wanted else {}
    rows = {at: now[at][0] if at in now else 0 for at in wanted}
    held = {at for at, one in wanted.items() if rows[at] == one.rows}
    wrong = frozenset(at for at in held if text(now[at][1]) != text(wanted[at].xor))
    return Proven(frozenset(held - wrong), wrong, {at: rows[at] for at in wanted if at not in held})


def byte_faults(
    spark: SparkSession, bronze: TableLog, *, is_counted: bool
) -> tuple[Sequence[Fault], Sequence[str]]:
    """Faults of rows of the covered commits that are not as they were read from the source, and notes.

    Where commits have no digest of their rows, files are compared with theirs.

    Args:
        is_counted: Whether each offset has its row: a missing one is told with its offset.
    """
    found, wanted = proven(spark, bronze), _digests(bronze.commits)
    faults, notes = list[Fault](), list[str]()
    if found.wrong:
        shown = {moment: wanted[moment] for moment in sorted(found.wrong)[:_SHOWN]}
        table = _since(spark, bronze, wanted)
        places = "; ".join(_places(table.where(F.unix_millis(INGESTED).isin([*shown])), shown))
        rows = sum(wanted[moment].rows for moment in found.wrong)
        text = f"of {rows:,} rows of {bronze.table} some have other bytes than when they were read: {places}"
        faults.append(_fault(bronze, text, len(found.wrong)))
    if _has_taken_rows(bronze):
        if some := sum(0 < rows < wanted[at].rows for at, rows in found.partial.items()):
            notes.append(
                f"of {some:,} micro-batches of {bronze.table} rows have expired or were erased: the bytes of "
                "their other rows were not compared"
            )
    elif found.partial and is_counted:
        parts = (
            f"version {', '.join(map(str, wanted[at].versions))} wrote {wanted[at].rows:,}, and "
            f"{found.partial[at]:,} have it"
            for at in sorted(found.partial)[:_SHOWN]
        )
        text = f"not all rows of {bronze.table} have the time of ingestion with which they were written: "
        faults.append(_fault(bronze, text + "; ".join(parts), len(found.partial)))
    if not faults and _by_spark(bronze) and (files := wrong_files(bronze.path)):
        text = f"{bronze.table}: {', '.join(files[:_SHOWN])}{', …' if len(files) > _SHOWN else ''}"
        faults.append(_fault(bronze, text, len(files)))
    return faults, notes


def _fault(bronze: TableLog, text: str, count: int) -> Fault:
    command = put_back(bronze)
    remedy = command or (
        "Restore these files, or the table, from a copy. Without one, if the source still has all records, "
        f"stop the jobs and move the table ({bronze.path}) and its checkpoint away: the next start reads "
        "them again. Then: medallion recover"
    )
    return Fault("bytes", f"{text}. {remedy}", count, table=bronze.table, command=command)


def _has_taken_rows(bronze: TableLog) -> bool:
    """Whether the engine has taken rows out of the table, or a RESTORE may have, without saying which."""
    return any(
        (one.commit.operation == RESTORE and one.commit.restored_to is None)
        if one.is_foreign
        else (one.commit.removed and one.by != "compaction")
        for one in bronze.commits
    )


def _since(spark: SparkSession, bronze: TableLog, wanted: Mapping[int, _Digest]) -> DataFrame:
    """The rows from the first time of ingestion on that has a digest."""
    table = spark.read.format("delta").option("versionAsOf", bronze.version).load(bronze.path)
    return table.where(F.col(INGESTED) >= F.timestamp_millis(F.lit(min(wanted))))


def _digests_now(table: DataFrame) -> Mapping[int, tuple[int, int]]:
    """By time of ingestion, the number of rows and the exclusive or of their hashes."""
    micros = F.unix_micros(INGESTED)
    at = F.when(micros % 1000 == 0, F.unix_millis(INGESTED)).alias("at")  # as they are written
    hashes = table.select(at, row_hash().alias("hash")).groupBy("at")
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


def _digests(commits: Sequence[TableCommit]) -> Mapping[int, _Digest]:
    found: dict[int, _Digest] = {}
    gone = taken_back([one.commit for one in commits])
    for one in commits:
        told = one.metadata.get(DIGEST)
        if isinstance(told, dict) and told["rows"] and one.version not in gone:
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
