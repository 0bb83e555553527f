"""Keeping a table's files few and its disk small; part of ``common.delta``, the only writer of tables.

Neither changes a row: a stream that reads the table sees nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.delta import noting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(spark: SparkSession, path: str, told: str, *, cluster_by: Sequence[str] = ()) -> None:
    """Make many small files few, or lay rows together by some columns; ``told`` is the note.

    How large files get, the session says (`common.spark_conf`). A table that was written anew as a whole has
    forgotten its columns, and is told them again.
    """
    from delta.tables import DeltaTable  # noqa: PLC0415

    with noting(spark, told):
        if cluster_by:
            known = DeltaTable.forPath(spark, path).detail().select("clusteringColumns").first()
            if known is None or list(known[0] or ()) != list(cluster_by):
                columns = ", ".join(f"`{name}`" for name in cluster_by)
                spark.sql(f"ALTER TABLE {_named(path)} CLUSTER BY ({columns})")
        spark.sql(f"OPTIMIZE {_named(path)}")


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
