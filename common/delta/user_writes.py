"""Idempotent writes of users' functions, by Delta's transaction ids.

The engine's own writes (``common.delta.table``) look for the micro-batch in the table's commits before they
write. A user's function writes at any time and by any API, so its writes carry a transaction id, and Delta
skips a write whose id the table already has. The ids are settings of a session. An id that stays set would
make Delta silently skip another write, so ids are set for one write and removed after it.
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

from common.delta.changes import differs, same
from common.delta.table import commit_metadata
from common.errors import ChangeRefusedError
from common.rows.key_bounds import is_alike
from common.rows.spark_rows import SparkRows
from common.rows.typed_columns import field_of
from common.spark.broadcast import broadcast_if_small

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

APPLICATION = "spark.databricks.delta.write.txnAppId"
VERSION = "spark.databricks.delta.write.txnVersion"
_RESET = "spark.databricks.delta.write.txnVersion.autoReset.enabled"


@contextmanager
def idempotent_write(spark: SparkSession, application: str, version: int, metadata: str) -> Iterator[None]:
    """Delta skips the write in this context if the table has it; by DataFrame, SQL or DeltaTable alike.

    A second write in the same context raises Delta's ``DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS``, because
    the first write removes the version from the session.

    Args:
        spark: The session that writes; writes of other sessions are not affected.
        application: The transaction's application id; its versions only increase.
    """
    clear_transaction_ids(spark)
    spark.conf.set(_RESET, "true")
    spark.conf.set(APPLICATION, application)
    spark.conf.set(VERSION, str(version))
    try:
        with commit_metadata(spark, metadata):
            yield
    finally:
        clear_transaction_ids(spark)


def clear_transaction_ids(spark: SparkSession) -> None:
    """Remove the transaction id from a session, whichever code has set it."""
    spark.conf.unset(APPLICATION)
    spark.conf.unset(VERSION)


def write_frame(frame: DataFrame, path: str, mode: str) -> None:
    """Write a DataFrame into a table: ``append`` adds its rows, ``overwrite`` replaces all rows."""
    frame.write.format("delta").mode(mode).save(path)


def merge(
    frame: DataFrame,
    path: str,
    *,
    on: Sequence[str],
    update_when: str | None = None,
    delete_when: str | None = None,
) -> None:
    """Insert rows whose key is not in the table; update rows whose values differ; leave equal rows.

    Files are pruned by literal bounds of the frame's keys.

    Args:
        frame: At most one row per key, with all of the table's columns; further columns are ignored.
        on: Key columns; compared null-safe.
        update_when: SQL condition over the table's row ``t`` and the frame's row ``s``; other rows are not
            updated.
        delete_when: SQL condition over ``s``; a row that meets it is deleted from the table, or not inserted.

    Raises:
        ChangeRefusedError: The frame has several rows of one key, and no order says which of them counts.
    """
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(frame.sparkSession, path)
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows = _count_unique(kept, on, path)
        own = table.toDF().schema
        prune = SparkRows(kept).bounds([name for name in on if _is_alike(own, kept.schema, name)], "t")
        is_same = same(on)
        deleted = F.lit(False) if delete_when is None else _is_true(delete_when)
        changes = differs(one for one in own if one.name not in on)
        if update_when is not None:
            changes &= _is_true(update_when)
        # MERGE rewrites every file in which a key matches, even if no row changes.
        current = table.toDF().alias("t").where(reduce(and_, prune, F.lit(True)))
        pairs = current.join(kept.alias("s"), is_same).where(~(deleted | changes))
        unchanged = pairs.select(*(f"t.`{name}`" for name in on)).alias("t")
        to_write = kept.alias("s").join(broadcast_if_small(unchanged, rows), is_same, "left_anti")
        (
            table.alias("t")
            .merge(SparkRows(to_write, rows).packed().alias("s"), reduce(and_, prune, is_same))
            .whenMatchedDelete(deleted)
            .whenMatchedUpdateAll(changes)
            .whenNotMatchedInsertAll(~deleted)
            .execute()
        )
    finally:
        kept.unpersist()


def _is_alike(own: StructType, theirs: StructType, name: str) -> bool:
    mine, its = field_of(own, name), field_of(theirs, name)
    return mine is not None and its is not None and is_alike(mine, its.dataType)


def _count_unique(frame: DataFrame, key: Sequence[str], path: str) -> int:
    """The number of rows, each of which must have a key of its own; null counts as a key."""
    row = frame.agg(F.count("*"), F.count_distinct(F.struct(*(F.col(f"`{name}`") for name in key)))).first()
    rows, keys = (0, 0) if row is None else (int(row[0]), int(row[1]))
    if keys < rows:
        raise ChangeRefusedError(
            path,
            f"{rows} rows are to be merged by {', '.join(key)}, and they have {keys} keys only. Reduce "
            "them to one row per key, by an order that says which of them counts. Nothing was written.",
        )
    return rows


def _is_true(condition: str) -> Column:
    return F.coalesce(F.expr(f"({condition})"), F.lit(False))
