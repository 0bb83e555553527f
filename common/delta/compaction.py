"""Compaction and vacuum of a table. Neither changes a row, and a stream that reads the table skips both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta import delta_rs
from common.delta.table import commit_metadata
from common.spark.session_conf import SMALL_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        path: The table.
        metadata: Metadata of the commit.
        cluster_by: Clustering columns; empty: compaction only.
        limits: Limits under which the driver has the table open already.
    """
    from delta.tables import DeltaTable  # loaded with the first table

    if not cluster_by and _is_compact(path, limits, spark.conf.get(SMALL_FILE, "0") or "0"):
        return
    with commit_metadata(spark, metadata):
        if cluster_by:
            known = DeltaTable.forPath(spark, path).detail().select("clusteringColumns").first()
            if known is None or list(known[0] or ()) != list(cluster_by):
                columns = ", ".join(f"`{name}`" for name in cluster_by)
                spark.sql(f"ALTER TABLE {_table_identifier(path)} CLUSTER BY ({columns})")
        spark.sql(f"OPTIMIZE {_table_identifier(path)}")


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
            spark.sql(f"VACUUM {_table_identifier(path)}")
        else:
            spark.conf.set(_RETENTION_CHECK, "false")
            try:
                spark.sql(f"VACUUM {_table_identifier(path)} RETAIN 0 HOURS")
            finally:
                spark.conf.unset(_RETENTION_CHECK)
    done = DeltaTable.forPath(spark, path).history(2).where("operation = 'VACUUM END'").first()
    metrics = {} if done is None else done["operationMetrics"] or {}
    return int(metrics.get("numDeletedFiles", 0))


def _table_identifier(path: str) -> str:
    return "delta.`{}`".format(path.replace("`", "``"))
