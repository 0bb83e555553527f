"""Writes that happen once by Delta's own transaction ids: for functions that are not the engine's.

What ``common.delta.table`` writes is known by its commit's note, which the engine asks for before it writes.
Code of somebody else writes when it likes and how it likes, so here the table itself is asked, by Delta, in
every write: one that it has already is skipped. The ids are settings of a session, and one that is left
behind makes Delta skip another write without a word: they are set around one write, and gone after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Column
from pyspark.sql import functions as F

from common.delta.merge import comparable
from common.delta.table import commit_metadata
from common.errors import ChangeRefusedError
from common.rows.rows import SparkRows
from common.spark.broadcast import small_side

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APPLICATION = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"


@contextmanager
def once(spark: SparkSession, application: str, version: int, told: str) -> Iterator[None]:
    """One write in here is skipped where its table has it: by DataFrame, SQL or DeltaTable alike.

    A second write in here is Delta's error ``DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS``: the first one takes
    the version with it.

    Args:
        spark: The session that writes; no other one's writes are meant.
        application: Names the write; of one name, versions never go down.
        version: Which of its writes this is.
        told: What the commit says of itself.
    """
    forget(spark)
    spark.conf.set(_RESET, "true")
    spark.conf.set(APPLICATION, application)
    spark.conf.set(VERSION, str(version))
    try:
        with commit_metadata(spark, told):
            yield
    finally:
        forget(spark)


def forget(spark: SparkSession) -> None:
    """Take every transaction id out of a session, whoever left it there."""
    spark.conf.unset(APPLICATION)
    spark.conf.unset(VERSION)


def put(frame: DataFrame, path: str, mode: str) -> None:
    """Write a frame into a table: ``append``, or ``overwrite`` for all that it has."""
    frame.write.format("delta").mode(mode).save(path)


def merge(
    frame: DataFrame,
    path: str,
    *,
    on: Sequence[str],
    update_when: str | None = None,
    delete_when: str | None = None,
) -> None:
    """Insert the rows whose key the table lacks; replace those it has; rows that are the same stay.

    Files are pruned by the literal bounds of the frame's keys.

    Args:
        frame: At most one row per key; all of the table's columns, and perhaps more.
        path: The table.
        on: The key; compared null-safe.
        update_when: SQL text over the table's row ``t`` and the frame's ``s``: which rows are replaced.
        delete_when: SQL text over ``s``: such a row is deleted, or not inserted.

    Raises:
        ChangeRefusedError: The frame has a key twice: which row counts, nobody has said.
    """
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(frame.sparkSession, path)
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows, keys = _rows_and_keys(kept, on)
        if keys < rows:
            raise ChangeRefusedError(
                path,
                f"{rows} rows are to be merged by {', '.join(on)}, and they have {keys} keys only. Reduce "
                "them to one row per key, by an order that says which of them counts. Nothing was written.",
            )
        near = SparkRows(kept).bounds(on, "t")
        same = _same(on)
        columns = table.toDF().schema
        values = [field.name for field in columns if field.name not in on and comparable(field.dataType)]
        is_told = len(values) == len(columns) - len(on)
        gone = F.lit(False) if delete_when is None else F.coalesce(F.expr(f"({delete_when})"), F.lit(False))
        changes = ~_same(values) if is_told else F.lit(True)  # of maps nobody can say: they are written
        if update_when is not None:
            changes &= F.coalesce(F.expr(f"({update_when})"), F.lit(False))
        # MERGE writes a file anew in which a key matches, even where it then changes nothing.
        have = table.toDF().alias("t").where(reduce(and_, near, F.lit(True)))
        pairs = have.join(kept.alias("s"), same).where(~(gone | changes))
        idle = pairs.select(*(f"t.`{name}`" for name in on)).alias("t")
        fresh = kept.alias("s").join(small_side(idle, rows), same, "left_anti")
        (
            table.alias("t")
            .merge(SparkRows(fresh, rows).packed().alias("s"), reduce(and_, near, same))
            .whenMatchedDelete(gone)
            .whenMatchedUpdateAll(changes)
            .whenNotMatchedInsertAll(~gone)
            .execute()
        )
    finally:
        kept.unpersist()


def _rows_and_keys(frame: DataFrame, key: Sequence[str]) -> tuple[int, int]:
    """How many rows a frame has, and how many keys; null is one."""
    row = frame.agg(F.count("*"), F.count_distinct(F.struct(*(F.col(f"`{name}`") for name in key)))).first()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def _same(names: Sequence[str]) -> Column:
    return reduce(
        and_, (F.col(f"t.`{name}`").eqNullSafe(F.col(f"s.`{name}`")) for name in names), F.lit(True)
    )
