"""Compaction and vacuum of a table. Neither changes a row, and a stream that reads the table skips both.

A running job compacts a table again and again. If each compaction took all small files, a row that comes
seldom would have the largest of them written each time. So a compaction takes the files of one tier: those
smaller than a size, as soon as there are many of them. A row is then written a few times per tier, and a
table has a few times as many files as one tier may have, and one for each 64 MB of its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta import delta_rs
from common.delta.checksums import file_digests
from common.delta.log import LogReader
from common.delta.table import commit_metadata
from common.errors import TableError
from common.spark.session_conf import FULL_FILE, LOGGED_VACUUM, SMALL_FILE
from common.sql.quoting import backquoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MIB = 2**20
TIERS = (_MIB, 8 * _MIB, 64 * _MIB)
"""Sizes in bytes, ascending. Files smaller than one of them are compacted together; the last one is the size
of full files."""
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def compact(
    spark: SparkSession,
    path: str,
    metadata: str,
    *,
    cluster_by: Sequence[str] = (),
    limits: DriverLimits = NO_DRIVER,
) -> None:
    """Compact small files, or cluster rows by some columns; commits only where there is something to do.

    An overwrite of the whole table drops its clustering columns; they are set again before clustering.

    Args:
        spark: The session; its settings define a small file and the target size
            (``common.spark.session_conf``).
        cluster_by: Clustering columns; empty: compaction only.
        limits: Limits under which the driver has the table open already.

    Raises:
        TableError: Bytes of a file have changed since it was written.
    """
    from delta.tables import DeltaTable  # loaded with the first table

    if not cluster_by and _is_compact(path, limits, spark.conf.get(SMALL_FILE, "0") or "0"):
        return
    _refuse_changed_files(path)
    with commit_metadata(spark, metadata):
        if cluster_by:
            known = DeltaTable.forPath(spark, path).detail().select("clusteringColumns").first()
            if known is None or list(known[0] or ()) != list(cluster_by):
                columns = ", ".join(map(backquoted, cluster_by))
                spark.sql(f"ALTER TABLE delta.{backquoted(path)} CLUSTER BY ({columns})")
        spark.sql(f"OPTIMIZE delta.{backquoted(path)}")


def due_tier(sizes: Iterable[int], many: int) -> int | None:
    """The smallest tier that has many files; None where no tier has.

    A tier counts the files of less than half its size that no smaller tier counts: two of them always fit
    into one file.

    Args:
        sizes: Sizes of the table's live files, in bytes.
        many: Number of files from which on a tier is compacted.
    """
    counts = dict.fromkeys(TIERS, 0)
    for size in sizes:
        tier = next((tier for tier in TIERS if 2 * size < tier), None)
        if tier is not None:
            counts[tier] += 1
    return next((tier for tier, count in counts.items() if count >= many), None)


def compact_tier(spark: SparkSession, path: str, metadata: str, tier: int, limits: DriverLimits) -> None:
    """Compact the files that are smaller than a tier into files of at most that size.

    Args:
        spark: A session of the caller's own: its settings are changed.
        path: The table; it has no clustering columns.
        tier: One of ``TIERS``.
        limits: Limits under which the driver compacts by delta-rs, without a Spark job.

    Raises:
        TableError: Bytes of a file have changed since it was written.
    """
    _refuse_changed_files(path, tier)
    if delta_rs.try_write(path, limits, metadata, lambda table: table.compact(metadata, tier)):
        return
    spark.conf.set(SMALL_FILE, str(tier))
    spark.conf.set(FULL_FILE, str(tier))
    with commit_metadata(spark, metadata):
        spark.sql(f"OPTIMIZE delta.{backquoted(path)}")


def _refuse_changed_files(path: str, smaller_than: float = math.inf) -> None:
    """Refuse to write rows of files anew whose bytes have changed: the new file would hide it."""
    digests = file_digests.noted(path)
    for file in LogReader(path).live_files() if digests else ():
        fault = file_digests.file_fault(path, file, digests) if file.bytes < smaller_than else None
        if fault is not None:
            raise TableError(
                f"{path}: {fault}. It stays as it is; what can be done: medallion recover --plan"
            )


def delete_old_files(spark: SparkSession, path: str) -> None:
    """Delete the files that no version within the table's retention needs, without a commit.

    Args:
        spark: A session of the caller's own: its settings are changed.
        path: The table. Its query may write meanwhile: a file that is younger than the retention stays.
    """
    spark.conf.set(LOGGED_VACUUM, "false")
    spark.sql(f"VACUUM delta.{backquoted(path)}")
    file_digests.forget_others(path, LogReader(path).live_files())


def _is_compact(path: str, limits: DriverLimits, file_bytes: str) -> bool:
    """Whether fewer than two files are small. Looked up in the driver, because Spark takes seconds for it."""
    from deltalake.exceptions import DeltaError  # loaded where a table is small

    try:
        table = delta_rs.open_table(path, limits)
        return table is not None and table.files_smaller_than(int(file_bytes)) <= 1
    except (DeltaError, OSError, ValueError):
        return False  # then Spark finds out


def vacuum(spark: SparkSession, path: str, metadata: str, *, at_once: bool = False) -> int:
    """Delete the files that no version within the table's retention needs; returns how many were deleted.

    With ``at_once`` all files that the newest version does not need are deleted; the caller knows that nobody
    reads or writes another version.
    """
    from delta.tables import DeltaTable

    with commit_metadata(spark, metadata):
        if not at_once:
            spark.sql(f"VACUUM delta.{backquoted(path)}")
        else:
            spark.conf.set(_RETENTION_CHECK, "false")
            try:
                spark.sql(f"VACUUM delta.{backquoted(path)} RETAIN 0 HOURS")
            finally:
                spark.conf.unset(_RETENTION_CHECK)
    file_digests.forget_others(path, LogReader(path).live_files())
    done = DeltaTable.forPath(spark, path).history(2).where("operation = 'VACUUM END'").first()
    metrics = {} if done is None else done["operationMetrics"] or {}
    return int(metrics.get("numDeletedFiles", 0))
