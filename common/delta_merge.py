"""Writes that look for a key in the table: MERGE, pruned by the literal bounds of what it brings.

Part of ``common.delta``, which is the only writer of tables: each is idempotent in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from common import delta
from common.broadcast import small_side
from common.literals import ORDERED, literal, told

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_FEW = 16
"""Up to so many values of a key column are listed; with 64 planning takes four times as long."""

DO, _THERE = "__do", "__there"
"""What is to be done with a row, and whether it is there."""

INSERTED, UPDATED, DELETED = "inserted", "updated", "deleted"


def merge_new(  # noqa: PLR0913
    frame: DataFrame,
    path: str,
    batch: delta.MicroBatch,
    step: str,
    counts: Mapping[str, Any],
    *,
    key: Sequence[str],
) -> None:
    """Insert a batch's rows whose key the table lacks, as ``insert_new`` does; once per identity and step.

    Without such a row there is a commit all the same, which says so.

    Args:
        frame: At most one row per key; keys are not null. Persist it, it is read twice.
        path: The table.
        batch: The batch's identity; one whose step the table has is skipped.
        step: What the write is to its query; a batch has one commit per step.
        counts: What became of the batch's rows, for the commit's metadata.
        key: Columns that are compared.
    """
    if not delta.is_written(path, batch, step):
        insert_new(frame, path, batch.metadata(step, counts), key=key)


def merge_newest(  # noqa: PLR0913
    frame: DataFrame,
    path: str,
    batch: delta.MicroBatch,
    counts: Mapping[str, Any],
    *,
    key: Sequence[str],
    order: Sequence[str],
    step: str = delta.MERGE,
) -> None:
    """Insert rows with a new key; replace a row where the new one is later in ``order``; else write nothing.

    Args:
        frame: At most one row per key.
        path: The table.
        batch: The batch's identity; one whose step the table has is skipped.
        counts: For the commit's metadata.
        key: Columns compared null-safe; the table's files are pruned by their literal bounds.
        order: Columns compared from left to right; null is lowest. Equal rows are left as they are.
        step: What the write is to its query.
    """
    if delta.is_written(path, batch, step):
        return
    same = reduce(and_, (F.col(f"t.`{name}`").eqNullSafe(F.col(f"s.`{name}`")) for name in key))
    same = reduce(and_, bounds(frame, key, "t"), same)
    later = "{} > {}".format(*(f"struct({', '.join(f'{side}.`{c}`' for c in order)})" for side in "st"))
    with delta.noting(frame.sparkSession, batch.metadata(step, counts)):
        _merge(frame, path, same).whenMatchedUpdateAll(condition=later).whenNotMatchedInsertAll().execute()


def insert_new(frame: DataFrame, path: str, told: str, *, key: Sequence[str]) -> None:
    """Insert the rows whose key the table lacks, by an insert-only MERGE; nothing else is touched.

    The commit only adds files, so a stream reads it as it reads an append. Files are pruned by the
    literal bounds of the frame's keys; persist the frame, it is read twice.

    Args:
        frame: At most one row per key; keys are not null. Its columns are the table's.
        path: The table.
        told: The commit's metadata.
        key: Columns that are compared.
    """
    with delta.noting(frame.sparkSession, told):
        _merge(frame, path, _same_key(frame, key)).whenNotMatchedInsertAll().execute()


def delete_matching(frame: DataFrame, path: str, told: str, *, key: Sequence[str]) -> None:
    """Delete the table's rows whose key is in the frame, by a MERGE pruned by the keys' literal bounds.

    Args:
        frame: Has the key columns.
        path: The table.
        told: The commit's metadata.
        key: Columns that are compared; not null.
    """
    keys = frame.select(*key).distinct()
    with delta.noting(frame.sparkSession, told):
        _merge(keys, path, _same_key(frame, key)).whenMatchedDelete().execute()


def replace_groups(  # noqa: PLR0913
    frame: DataFrame,
    path: str,
    batch: delta.MicroBatch,
    counts: Mapping[str, Any],
    *,
    touched: DataFrame,
    group: Sequence[str],
    key: Sequence[str],
    step: str = delta.MERGE,
) -> Mapping[str, int]:
    """Make the table's rows of some groups those of the frame; write only the rows that differ.

    A row of a touched group that the frame lacks is deleted. Files are pruned by the literal bounds of the
    groups. A batch that changes nothing leaves an empty commit all the same, which says so.

    Args:
        frame: All rows that the touched groups are to have, and no others. Its columns are the table's.
        path: The table.
        batch: The batch's identity; one whose step the table has is skipped.
        counts: For the commit's metadata; what is returned is added.
        touched: The groups, with the columns ``group``; one row per group. Persist it.
        group: Columns that name a group; compared null-safe.
        key: Columns that name a row, ``group`` among them; compared null-safe, unique in frame and table.
        step: What the write is to its query.

    Returns:
        Rows ``inserted``, ``updated`` and ``deleted``; empty where the step was there already.
    """
    if delta.is_written(path, batch, step):
        return {}
    table = frame.sparkSession.read.format("delta").load(path)
    have = of_groups(table, touched, group)
    changes = _differences(have, frame, key).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        done = {row[DO]: row["count"] for row in changes.groupBy(DO).count().collect()}
        told = {what: done.get(what, 0) for what in (INSERTED, UPDATED, DELETED)}
        write_changes(changes, path, batch.metadata(step, {**counts, **told}), key=key, numbers=told)
        return told
    finally:
        changes.unpersist()


def write_changes(  # noqa: PLR0913
    changes: DataFrame,
    path: str,
    told: str,
    *,
    key: Sequence[str],
    numbers: Mapping[str, int],
    near: Sequence[Column] | None = None,
) -> None:
    """Do with the table's rows what the column ``__do`` of ``changes`` says: insert, update or delete.

    Rows that are all new are appended, without a look at the table. Not idempotent by itself. Without a
    row there is a commit all the same.

    Args:
        changes: At most one row per key, with the table's columns beside ``__do``. Persist it.
        path: The table.
        told: The commit's metadata.
        key: Columns that name a row; compared null-safe.
        numbers: How many rows are ``inserted``, ``updated`` and ``deleted``.
        near: Literal bounds of the keys, of the alias ``t``; unset: those of the changes.
    """
    if not numbers.get(UPDATED) and not numbers.get(DELETED):
        delta.append_told(delta.packed(changes.drop(DO), numbers.get(INSERTED, 0), key), path, told)
        return
    same = reduce(and_, (F.col(f"t.`{n}`").eqNullSafe(F.col(f"s.`{n}`")) for n in key))
    same = reduce(and_, bounds(changes, key, "t") if near is None else near, same)
    values: dict[str, str | Column] = {f"`{n}`": F.col(f"s.`{n}`") for n in changes.columns if n != DO}
    with delta.noting(changes.sparkSession, told):
        (
            _merge(delta.packed(changes, sum(numbers.values())), path, same)
            .whenMatchedDelete(F.col(f"s.{DO}") == DELETED)
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert(values=values)
            .execute()
        )


def of_groups(
    table: DataFrame, touched: DataFrame, group: Sequence[str], *, rows: int | None = None
) -> DataFrame:
    """A table's rows of some groups, compared null-safe; files are pruned by the groups' literal bounds.

    Args:
        table: A Delta table, at any version.
        touched: The groups, with the columns ``group``; one row per group. Persist it.
        group: Columns that name a group.
        rows: How many groups there are, if that is known.
    """
    groups = small_side(touched.select(*group), touched.count() if rows is None else rows)
    near = table.where(reduce(and_, bounds(touched, group), F.lit(True))).alias("t")
    same = reduce(and_, (F.col(f"t.`{n}`").eqNullSafe(F.col(f"g.`{n}`")) for n in group))
    return near.join(groups.alias("g"), same, "left_semi")


def _differences(have: DataFrame, want: DataFrame, key: Sequence[str]) -> DataFrame:
    """Rows to be inserted, updated or deleted so that a table has what it should, and which of it."""
    there = F.lit(True).alias(_THERE)
    old, new = have.select("*", there).alias("t"), want.select("*", there).alias("s")
    same = reduce(and_, (F.col(f"t.`{n}`").eqNullSafe(F.col(f"s.`{n}`")) for n in key))
    values = [n for n in want.columns if n not in key]
    is_equal = reduce(and_, (_equal(n, want.schema[n].dataType) for n in values), F.lit(True))
    do = (
        F.when(F.col(f"t.{_THERE}").isNull(), INSERTED)
        .when(F.col(f"s.{_THERE}").isNull(), DELETED)
        .when(~is_equal, UPDATED)
    )
    row = [
        F.when(F.col(f"s.{_THERE}").isNull(), F.col(f"t.`{n}`")).otherwise(F.col(f"s.`{n}`")).alias(n)
        if n in key
        else F.col(f"s.`{n}`").alias(n)
        for n in want.columns
    ]
    return old.join(new, same, "full_outer").select(*row, do.alias(DO)).where(F.col(DO).isNotNull())


def _equal(name: str, kind: DataType) -> Column:
    """Whether table and frame have one value; maps and variants Spark cannot compare: they are written."""
    if any(word in kind.simpleString() for word in ("map<", "variant")):
        return F.lit(False)
    return F.col(f"t.`{name}`").eqNullSafe(F.col(f"s.`{name}`"))


def bounds(frame: DataFrame, key: Sequence[str], table: str = "") -> list[Column]:
    """What the table's keys lie between, so that only the files are read that may hold them.

    Where a column has few values in the frame, they are listed too: files between two of them are not
    read either. All are literals: only of those does Delta skip files in a MERGE. Null keys stay in where
    the frame has one.

    Args:
        frame: Has the key columns.
        key: Columns; those of other types than integers, text, dates and times bound nothing.
        table: The table's alias, if it has one.
    """
    return measured(frame, key, table)[0]


def measured(
    frame: DataFrame, key: Sequence[str], table: str = "", more: Sequence[Column] = ()
) -> tuple[list[Column], Row]:
    """What ``bounds`` gives, and further aggregates of the frame by their names, in one look at it.

    Args:
        frame: Has the key columns.
        key: As ``bounds`` takes them.
        table: The table's alias, if it has one.
        more: Aggregates, each with an alias.
    """
    of = f"{table}." if table else ""
    kinds = {name: frame.schema[name].dataType for name in key}
    plain = [name for name in key if isinstance(kinds[name], ORDERED)]
    asked = [
        end
        for place, name in enumerate(plain)
        for end in (
            told(F.min(f"`{name}`"), kinds[name]).alias(f"low{place}"),
            told(F.max(f"`{name}`"), kinds[name]).alias(f"high{place}"),
            F.bool_or(F.col(f"`{name}`").isNull()).alias(f"null{place}"),
            F.approx_count_distinct(f"`{name}`").alias(f"values{place}"),
        )
    ]
    if not asked and not more:
        return [], Row()
    ends = frame.agg(*asked, *more).collect()[0]
    few = [name for place, name in enumerate(plain) if 1 < ends[f"values{place}"] <= _FEW]
    listed = _listed(frame, {name: kinds[name] for name in few})
    found = []
    for place, name in enumerate(plain):
        if ends[f"low{place}"] is None:
            continue
        column, kind = F.col(f"{of}`{name}`"), kinds[name]
        among = column.between(literal(ends[f"low{place}"], kind), literal(ends[f"high{place}"], kind))
        if name in listed:
            # Not as an IN list: of that Delta takes the least and the greatest value alone.
            among &= reduce(or_, (column == literal(value, kind) for value in listed[name]))
        found.append(among | column.isNull() if ends[f"null{place}"] else among)
    return found, ends


def _listed(frame: DataFrame, kinds: Mapping[str, DataType]) -> Mapping[str, Sequence[Any]]:
    """All values but null of columns that have few."""
    if not kinds:
        return {}
    sets = (F.collect_set(told(F.col(f"`{name}`"), kind)).alias(name) for name, kind in kinds.items())
    found = frame.agg(*sets).first()
    return {} if found is None else {name: found[name] for name in kinds}


def _merge(frame: DataFrame, path: str, condition: Column) -> DeltaMergeBuilder:
    """A MERGE of a frame, ``s``, into a table, ``t``; what it does is yet to be said."""
    from delta.tables import DeltaTable  # noqa: PLC0415

    return DeltaTable.forPath(frame.sparkSession, path).alias("t").merge(frame.alias("s"), condition)


def _same_key(frame: DataFrame, key: Sequence[str]) -> Column:
    """Table and frame have one key, and the table's lies within the bounds of the frame's."""
    same = (F.col(f"t.`{name}`") == F.col(f"s.`{name}`") for name in key)
    return reduce(and_, bounds(frame, key, "t"), reduce(and_, same))
