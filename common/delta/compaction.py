"""Keeping a table's files few and its disk small; part of ``common.delta.table``, the only writer of tables.

Neither changes a row: a stream that reads the table sees nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta import delta_rs
from common.delta.table import commit_metadata
from common.spark.session_conf import SMALL_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(
    spark: SparkSession,
    path: str,
    told: str,
    *,
    cluster_by: Sequence[str] = (),
    limits: DriverLimits = NO_DRIVER,
) -> None:
    """Make many small files few, or lay rows together by some columns; no commit where nothing is to be done.

    A table that was written anew as a whole has forgotten its columns, and is told them again.

    Args:
        spark: The session, which says what a small file is and how large
            they get (`common.spark.session_conf`).
        path: The table.
        told: The note of the commit.
        cluster_by: Columns by which rows are to lie together.
        limits: What the driver may open.
    """
    from delta.tables import DeltaTable  # loaded with the first table

    if not cluster_by and _is_compact(path, limits, spark.conf.get(SMALL_FILE, "0") or "0"):
        return
    with commit_metadata(spark, told):
        if cluster_by:
            known = DeltaTable.forPath(spark, path).detail().select("clusteringColumns").first()
            if known is None or list(known[0] or ()) != list(cluster_by):
                columns = ", ".join(f"`{name}`" for name in cluster_by)
                spark.sql(f"ALTER TABLE {_named(path)} CLUSTER BY ({columns})")
        spark.sql(f"OPTIMIZE {_named(path)}")


def _is_compact(path: str, limits: DriverLimits, file_bytes: str) -> bool:
    """Whether no two files are small, as far as the driver can tell: Spark takes seconds to find that out."""
    from deltalake.exceptions import DeltaError  # loaded where a table is small

    try:
        table = delta_rs.open_table(path, limits)
        return table is not None and table.files_smaller_than(int(file_bytes)) <= 1
    except (DeltaError, OSError, ValueError):
        return False  # Spark knows


def vacuum(spark: SparkSession, path: str, told: str) -> int:
    """Delete the files that no version needs which the table's own retention keeps; how many they were."""
    from delta.tables import DeltaTable

    with commit_metadata(spark, told):
        spark.sql(f"VACUUM {_named(path)}")
    done = DeltaTable.forPath(spark, path).history(2).where("operation = 'VACUUM END'").first()
    metrics = {} if done is None else done["operationMetrics"] or {}
    return int(metrics.get("numDeletedFiles", 0))


def _named(path: str) -> str:
    return "delta.`{}`".format(path.replace("`", "``"))
