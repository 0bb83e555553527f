"""Keeping a table's files few and its disk small; part of ``common.delta``, the only writer of tables.

Neither changes a row: a stream that reads the table sees nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common import delta_direct
from common.delta import noting
from common.small import NEVER, Small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_FILE_BYTES = "spark.databricks.delta.optimize.maxFileSize"


def compact(
    spark: SparkSession, path: str, told: str, *, cluster_by: Sequence[str] = (), small: Small = NEVER
) -> None:
    """Make many small files few, or lay rows together by some columns.

    A table that was written anew as a whole has forgotten its columns, and is told them again.

    Args:
        spark: The session, which says how large files get (`common.spark_conf`).
        path: The table.
        told: The note of the commit.
        cluster_by: Columns by which rows are to lie together.
        small: What is done from the driver.
    """
    from delta.tables import DeltaTable  # noqa: PLC0415

    if not cluster_by and _compacted(path, told, small, int(spark.conf.get(_FILE_BYTES, "0") or 0)):
        return
    with noting(spark, told):
        if cluster_by:
            known = DeltaTable.forPath(spark, path).detail().select("clusteringColumns").first()
            if known is None or list(known[0] or ()) != list(cluster_by):
                columns = ", ".join(f"`{name}`" for name in cluster_by)
                spark.sql(f"ALTER TABLE {_named(path)} CLUSTER BY ({columns})")
        spark.sql(f"OPTIMIZE {_named(path)}")


def _compacted(path: str, told: str, small: Small, file_bytes: int) -> bool:
    """Whether that was done from the driver: Spark takes seconds to find that there is nothing to do."""
    from deltalake.exceptions import CommitFailedError  # noqa: PLC0415  # loaded where a table is small

    if not file_bytes:
        return False
    try:
        return delta_direct.written(
            path, small, told, lambda table: table.compact(told, file_bytes=file_bytes)
        )
    except CommitFailedError:
        return False  # another writer was first; Spark knows whether it matters


def vacuum(spark: SparkSession, path: str, told: str) -> int:
    """Delete the files that no version needs which the table's own retention keeps; how many they were."""
    from delta.tables import DeltaTable  # noqa: PLC0415

    with noting(spark, told):
        spark.sql(f"VACUUM {_named(path)}")
    done = DeltaTable.forPath(spark, path).history(2).where("operation = 'VACUUM END'").first()
    metrics = {} if done is None else done["operationMetrics"] or {}
    return int(metrics.get("numDeletedFiles", 0))


def _named(path: str) -> str:
    return "delta.`{}`".format(path.replace("`", "``"))
