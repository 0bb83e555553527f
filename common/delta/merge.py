"""Writes that look up keys in the table: MERGE, pruned by the literal bounds of the rows' keys.

A micro-batch that merges is written once, as by ``common.delta.written_once``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.delta import delta_rs
from common.delta import table as delta_table
from common.delta.changes import changes_between, exactly_same, same
from common.delta.delta_rs import ACTION, DELETED, INSERTED, UPDATED
from common.delta.micro_batch import MicroBatch
from common.delta.written_once import is_written
from common.rows.arrow_rows import ArrowRows
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from common.spark.broadcast import broadcast_if_small

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder


def insert_new(frame: DataFrame, path: str, metadata: str, *, key: Sequence[str]) -> None:
    """Insert the rows whose key the table lacks, by an insert-only MERGE; nothing else is changed.

    The commit only adds files, so a stream reads it like an append. Files are pruned by the literal bounds of
    the frame's keys; persist the frame, it is read twice.

    Args:
        frame: At most one row per key; keys are not null. Its columns are the table's.
    """
    with delta_table.commit_metadata(frame.sparkSession, metadata):
        _merge(frame, path, _same_key(frame, key)).whenNotMatchedInsertAll().execute()


def delete_matching(
    frame: DataFrame, path: str, metadata: str, *, key: Sequence[str], nullable: Sequence[str] = ()
) -> None:
    """Delete the table's rows whose key is in the frame, by a MERGE pruned by the keys' literal bounds.

    Args:
        frame: Has the key columns.
        key: Columns that are compared; not null.
        nullable: Further columns that are compared, null-safe.
    """
    keys = frame.select(*key, *nullable).distinct()
    condition = _same_key(frame, key) & same(nullable) if nullable else _same_key(frame, key)
    with delta_table.commit_metadata(frame.sparkSession, metadata):
        _merge(keys, path, condition).whenMatchedDelete().execute()


def replace_groups(  # noqa: PLR0913
    frame: DataFrame,
    path: str,
    batch: MicroBatch,
    counts: Mapping[str, Any],
    *,
    touched: Rows,
    group: Sequence[str],
    key: Sequence[str],
    step: str = delta_table.MERGE,
) -> Mapping[str, int]:
    """Make the table's rows of some groups those of the frame; write only the rows that differ.

    A row of a touched group that the frame lacks is deleted. Files are pruned by the literal bounds of the
    groups. A batch that changes nothing leaves an empty commit all the same.

    Args:
        frame: All rows that the touched groups are to have, and no others. Its columns are the table's.
        batch: The batch's identity; one whose step the table has is skipped.
        counts: For the commit's metadata; what is returned is added.
        touched: The groups, with the columns ``group``; one row per group.
        group: Columns that identify a group; compared null-safe.
        key: Columns that identify a row, ``group`` among them; compared null-safe, unique in frame and table.
        step: Names the write among the query's writes.

    Returns:
        Rows ``inserted``, ``updated`` and ``deleted``; empty if the table contains the step already.
    """
    if is_written(path, batch, step):
        return {}
    before = rows_with_keys(path, touched, group).frame
    with touched.derive(changes_between(before, frame, key)).kept() as changes:
        actions = changes.count_by(ACTION)
        numbers = {action: actions.get(action, 0) for action in (INSERTED, UPDATED, DELETED)}
        write_changes(changes, path, batch.metadata(step, {**counts, **numbers}), key=key, numbers=numbers)
    return numbers


def write_changes(  # noqa: PLR0913
    changes: Rows,
    path: str,
    metadata: str,
    *,
    key: Sequence[str],
    numbers: Mapping[str, int],
    keys: Rows | None = None,
) -> None:
    """Insert, update or delete rows of a table as the column ``ACTION`` of each change says.

    Rows that are all new are appended, without a look at the table. Not idempotent by itself. Without a
    row there is a commit all the same.

    Args:
        changes: At most one row per key, with the table's columns beside ``ACTION``.
        key: Columns that identify a row; compared null-safe.
        numbers: How many rows are ``inserted``, ``updated`` and ``deleted``.
        keys: Rows whose keys include those of the changes, and whose bounds may be known already; unset: the
            changes.
    """
    only_inserts = not numbers.get(UPDATED) and not numbers.get(DELETED)
    arrow = changes.arrow

    if arrow is not None:

        def by_delta_rs(table: delta_rs.DeltaRsTable) -> None:
            if only_inserts:
                table.append(arrow.drop_columns([ACTION]), metadata)
            else:
                table.change(arrow, metadata, key=key)

        if delta_rs.try_write(path, changes.limits, metadata, by_delta_rs):
            return
    frame = changes.frame
    if only_inserts:
        inserted = SparkRows(frame.drop(ACTION), numbers.get(INSERTED, 0))
        delta_table.append_with_metadata(inserted.packed(key), path, metadata)
        return
    bounded = changes if arrow is not None or keys is None else keys
    is_same = reduce(and_, bounded.bounds(key, "t"), same(key))
    values: dict[str, str | Column] = {f"`{n}`": F.col(f"s.`{n}`") for n in frame.columns if n != ACTION}
    with delta_table.commit_metadata(frame.sparkSession, metadata):
        (
            _merge(SparkRows(frame, sum(numbers.values())).packed(), path, is_same)
            .whenMatchedDelete(F.col(f"s.{ACTION}") == DELETED)
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert(condition=F.col(f"s.{ACTION}") != DELETED, values=values)
            .execute()
        )


def write_copies(frame: DataFrame, path: str, metadata: str) -> None:
    """Delete all of the table's rows that are the same as one, and insert others; not idempotent by itself.

    Args:
        frame: The table's columns beside ``ACTION``: ``DELETED`` once per value, ``INSERTED`` once per row.
            All columns are compared, as ``grouped_exactly`` tells rows apart.
    """
    columns = frame.drop(ACTION).schema
    is_same = reduce(and_, SparkRows(frame).bounds(columns.names, "t"), exactly_same(columns))
    values: dict[str, str | Column] = {f"`{name}`": F.col(f"s.`{name}`") for name in columns.names}
    with delta_table.commit_metadata(frame.sparkSession, metadata):
        (
            _merge(frame, path, is_same & (F.col(f"s.{ACTION}") == DELETED))
            .whenMatchedDelete()
            .whenNotMatchedInsert(condition=F.col(f"s.{ACTION}") == INSERTED, values=values)
            .execute()
        )


def rows_with_keys(path: str, keys: Rows, key: Sequence[str], columns: Sequence[str] | None = None) -> Rows:
    """A table's rows that have one of some keys, as they are now; compared null-safe.

    Args:
        keys: The keys, with the columns ``key``.
        key: Columns that identify a row, or a group of rows.
        columns: Those that are read, ``key`` among them; unset: all.
    """
    if keys.arrow is not None:
        arrow = delta_rs.rows_with_keys(path, keys.arrow.select(list(key)), keys.limits, columns)
        if arrow is not None:
            return ArrowRows(keys, arrow)
    frame = frame_with_keys(delta_table.newest(keys.session, path), keys, key)
    return keys.derive(frame if columns is None else frame.select(*(F.col(f"`{name}`") for name in columns)))


def frame_with_keys(table: DataFrame, keys: Rows, key: Sequence[str]) -> DataFrame:
    """A table's rows that have one of some keys; files are pruned by the keys' literal bounds.

    Args:
        table: A Delta table, at any version.
        keys: The keys, with the columns ``key``.
        key: Columns that identify a row, or a group of rows; compared null-safe.
    """
    wanted = broadcast_if_small(keys.frame.select(*(F.col(f"`{name}`") for name in key)), keys.count)
    rows = table.alias("t").where(reduce(and_, keys.bounds(key, "t"), F.lit(True)))
    return rows.join(wanted.alias("s"), same(key), "left_semi")


def _merge(frame: DataFrame, path: str, condition: Column) -> DeltaMergeBuilder:
    """A MERGE of a frame, ``s``, into a table, ``t``, without clauses yet."""
    from delta.tables import DeltaTable

    return DeltaTable.forPath(frame.sparkSession, path).alias("t").merge(frame.alias("s"), condition)


def _same_key(frame: DataFrame, key: Sequence[str]) -> Column:
    """Table and frame have one key, and the table's key lies within the bounds of the frame's."""
    same = (F.col(f"t.`{name}`") == F.col(f"s.`{name}`") for name in key)
    return reduce(and_, SparkRows(frame).bounds(key, "t"), reduce(and_, same))
