"""Keeping a table's files few and its disk small; part of ``common.delta``, the only writer of tables.

Neither changes a row: a stream that reads the table sees nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from common.delta import noting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MIB = 1024 * 1024

_SIZES = {
    # A MERGE writes whole files anew, and a reader of few keys reads whole files: neither wants huge ones.
    "spark.databricks.delta.optimize.maxFileSize": str(64 * _MIB),
    "spark.databricks.delta.optimize.minFileSize": str(48 * _MIB),
    # Up to here rows that are clustered already are clustered again with new ones.
    "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold": str(1024 * _MIB),
    "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize": str(1536 * _MIB),
}


def compact(spark: SparkSession, path: str, told: str, *, cluster_by: Sequence[str] = ()) -> None:
    """Make many small files few, or lay rows together by some columns; ``told`` is the note.

    A table that was written anew as a whole has forgotten its columns, and is told them again.
    """
    from delta.tables import DeltaTable  # noqa: PLC0415

    with _set(spark, _SIZES), noting(spark, told):
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


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, former in before.items():
            if former is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, former)


def _named(path: str) -> str:
    return "delta.`{}`".format(path.replace("`", "``"))
