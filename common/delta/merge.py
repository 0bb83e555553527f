"""Writes that look for a key in the table: MERGE, pruned by the literal bounds of what it brings.

Part of ``common.delta.table``, which is the only writer of tables: each is idempotent in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StringType, VariantType

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta import delta_rs
from common.delta import table as delta_table
from common.delta.delta_rs import ACTION, DELETED, INSERTED, UPDATED
from common.delta.micro_batch import MicroBatch
from common.rows.materialized import Settled, local, settled
from common.spark.broadcast import small_side
from common.spark.literals import FEW, ORDERED, literal, told
from common.spark.types import holds

if TYPE_CHECKING:
    from delta.tables import DeltaMergeBuilder
    from pyspark.sql.types import DataType

_THERE = "__there"
"""Whether a row is there."""


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
    with delta_table.commit_metadata(frame.sparkSession, told):
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
    with delta_table.commit_metadata(frame.sparkSession, told):
        _merge(keys, path, _same_key(frame, key)).whenMatchedDelete().execute()


def replace_groups(  # noqa: PLR0913
    frame: DataFrame,
    path: str,
    batch: MicroBatch,
    counts: Mapping[str, Any],
    *,
    touched: Settled,
    group: Sequence[str],
    key: Sequence[str],
    step: str = delta_table.MERGE,
    small: DriverLimits = NO_DRIVER,
) -> Mapping[str, int]:
    """Make the table's rows of some groups those of the frame; write only the rows that differ.

    A row of a touched group that the frame lacks is deleted. Files are pruned by the literal bounds of the
    groups. A batch that changes nothing leaves an empty commit all the same, which says so.

    Args:
        frame: All rows that the touched groups are to have, and no others. Its columns are the table's.
        path: The table.
        batch: The batch's identity; one whose step the table has is skipped.
        counts: For the commit's metadata; what is returned is added.
        touched: The groups, with the columns ``group``; one row per group.
        group: Columns that name a group; compared null-safe.
        key: Columns that name a row, ``group`` among them; compared null-safe, unique in frame and table.
        step: What the write is to its query.
        small: What is read and written from the driver.

    Returns:
        Rows ``inserted``, ``updated`` and ``deleted``; empty where the step was there already.
    """
    if delta_table.is_written(path, batch, step):
        return {}
    have = rows_of(path, touched, group, small)
    with settled(_differences(have, frame, key), small) as changes:
        done = counted(changes, ACTION)
        told = {what: done.get(what, 0) for what in (INSERTED, UPDATED, DELETED)}
        write_changes(
            changes, path, batch.metadata(step, {**counts, **told}), key=key, numbers=told, small=small
        )
    return told


def counted(rows: Settled, column: str) -> Mapping[Any, int]:
    """How many rows have each value of a column."""
    if rows.arrow is None:
        return {row[column]: row["count"] for row in rows.frame.groupBy(column).count().collect()}
    return {one["values"]: one["counts"] for one in rows.arrow[column].value_counts().to_pylist()}


def write_changes(  # noqa: PLR0913
    changes: Settled,
    path: str,
    told: str,
    *,
    key: Sequence[str],
    numbers: Mapping[str, int],
    near: Sequence[Column] | None = None,
    small: DriverLimits = NO_DRIVER,
) -> None:
    """Do with the table's rows what the column ``__do`` of ``changes`` says: insert, update or delete.

    Rows that are all new are appended, without a look at the table. Not idempotent by itself. Without a
    row there is a commit all the same.

    Args:
        changes: At most one row per key, with the table's columns beside ``__do``.
        path: The table.
        told: The commit's metadata.
        key: Columns that name a row; compared null-safe.
        numbers: How many rows are ``inserted``, ``updated`` and ``deleted``.
        near: Literal bounds of the keys, of the alias ``t``; unset: those of the changes.
        small: What is written from the driver.
    """
    rows = changes.arrow
    grows = not numbers.get(UPDATED) and not numbers.get(DELETED)
    if rows is not None:
        write = _appending(rows.drop_columns([ACTION]), told) if grows else _changing(rows, told, key)
        if delta_rs.try_write(path, small, told, write):
            return
    frame = changes.frame
    if grows:
        delta_table.append_with_metadata(
            delta_table.packed(frame.drop(ACTION), numbers.get(INSERTED, 0), key), path, told
        )
        return
    same = reduce(and_, (F.col(f"t.`{n}`").eqNullSafe(F.col(f"s.`{n}`")) for n in key))
    same = reduce(and_, bounds(changes, key, "t") if near is None else near, same)
    values: dict[str, str | Column] = {f"`{n}`": F.col(f"s.`{n}`") for n in frame.columns if n != ACTION}
    with delta_table.commit_metadata(frame.sparkSession, told):
        (
            _merge(delta_table.packed(frame, sum(numbers.values())), path, same)
            .whenMatchedDelete(F.col(f"s.{ACTION}") == DELETED)
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert(condition=F.col(f"s.{ACTION}") != DELETED, values=values)
            .execute()
        )


def _appending(rows: pa.Table, told: str) -> Callable[[delta_rs.DeltaRsTable], None]:
    return lambda table: table.append(rows, told)


def _changing(rows: pa.Table, told: str, key: Sequence[str]) -> Callable[[delta_rs.DeltaRsTable], None]:
    return lambda table: table.change(rows, told, key=key)


def part(changes: Settled, what: str, columns: Sequence[str], rows: int) -> Settled:
    """The rows for which a column says what is to be done, with that as ``__do``.

    Args:
        changes: Says so of several tables.
        what: The column of one of them.
        columns: Those of the table.
        rows: How many rows there are.
    """

    def made() -> DataFrame:
        frame = changes.frame.where(F.col(what).isNotNull())
        return frame.select(*(F.col(f"`{name}`") for name in columns), F.col(what).alias(ACTION))

    if changes.arrow is None:
        return Settled(made(), rows)
    arrow = changes.arrow.filter(pc.is_valid(changes.arrow[what])).select([*columns, what])
    return Settled.of(changes.session, arrow.rename_columns([*columns, ACTION]), made)


def rows_of(  # noqa: PLR0913
    path: str,
    touched: Settled,
    group: Sequence[str],
    small: DriverLimits,
    near: Sequence[Column] | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """A table's rows of some groups as they are now, compared null-safe.

    Args:
        path: The table.
        touched: The groups, with the columns ``group``; one row per group.
        group: Columns that name a group.
        small: What is read from the driver.
        near: Literal bounds of the groups, of the alias ``t``; unset: those of ``touched``.
        columns: Those that are read, ``group`` among them; unset: all.
    """
    session = touched.session
    if touched.arrow is not None:
        rows = delta_rs.rows_with_keys(path, touched.arrow.select(list(group)), small, columns)
        if rows is not None:
            return local(session, rows).frame
    found = of_groups(session.read.format("delta").load(path), touched, group, near)
    return found if columns is None else found.select(*(F.col(f"`{name}`") for name in columns))


def of_groups(
    table: DataFrame, touched: Settled, group: Sequence[str], near: Sequence[Column] | None = None
) -> DataFrame:
    """A table's rows of some groups, compared null-safe; files are pruned by the groups' literal bounds.

    Args:
        table: A Delta table, at any version.
        touched: The groups, with the columns ``group``; one row per group.
        group: Columns that name a group.
        near: Literal bounds of the groups, of the alias ``t``; unset: those of ``touched``.
    """
    groups = small_side(touched.frame.select(*group), touched.rows)
    among = bounds(touched, group, "t") if near is None else near
    rows = table.alias("t").where(reduce(and_, among, F.lit(True)))
    same = reduce(and_, (F.col(f"t.`{n}`").eqNullSafe(F.col(f"g.`{n}`")) for n in group))
    return rows.join(groups.alias("g"), same, "left_semi")


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
    return old.join(new, same, "full_outer").select(*row, do.alias(ACTION)).where(F.col(ACTION).isNotNull())


def _equal(name: str, kind: DataType) -> Column:
    """Whether table and frame have one value; maps and variants Spark cannot compare: they are written."""
    if not comparable(kind):
        return F.lit(False)
    return F.col(f"t.`{name}`").eqNullSafe(F.col(f"s.`{name}`"))


def comparable(kind: DataType) -> bool:
    """Whether Spark can tell two values of a type apart: not maps and variants, nor what has some in it."""
    return not holds(kind, MapType, VariantType)


def bounds(frame: DataFrame | Settled, key: Sequence[str], table: str = "") -> list[Column]:
    """What the table's keys lie between, so that only the files are read that may hold them.

    Where a column has few values in the frame, they are listed too: files between two of them are not
    read either. All are literals: only of those does Delta skip files in a MERGE. Null keys stay in where
    the frame has one.

    Args:
        frame: Has the key columns.
        key: Columns; those of other types than integers, text, dates and times bound nothing.
        table: The table's alias, if it has one.
    """
    if isinstance(frame, DataFrame):
        return measured(frame, key, table)[0]
    if frame.arrow is None:
        return measured(frame.frame, key, table)[0]
    found = []
    for name in key:
        kind, values = frame.schema[name].dataType, _held(frame.arrow[name])
        ends = pc.min_max(values)
        if isinstance(kind, ORDERED) and ends["min"].is_valid:
            few = pc.unique(values.drop_null())
            try:
                listed = few.to_pylist() if 1 < len(few) <= FEW else None
                low, high = ends["min"].as_py(), ends["max"].as_py()
            except UnicodeDecodeError:
                continue  # text that is none, such as a binary key cast to one: no literal says it
            found.append(_near(name, table, kind, low, high, listed, has_null=values.null_count > 0))
    return found


def _held(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Days and times as numbers, as ``told`` gives them."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values


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
            _is_text(name, kinds[name]).alias(f"told{place}"),
        )
    ]
    if not asked and not more:
        return [], Row()
    ends = frame.agg(*asked, *more).collect()[0]
    few = [
        name for place, name in enumerate(plain) if 1 < ends[f"values{place}"] <= FEW and ends[f"told{place}"]
    ]
    listed = _listed(frame, {name: kinds[name] for name in few})
    found = []
    for place, name in enumerate(plain):
        low, high = ends[f"low{place}"], ends[f"high{place}"]
        if low is not None and ends[f"told{place}"]:
            has_null = ends[f"null{place}"]
            found.append(_near(name, table, kinds[name], low, high, listed.get(name), has_null=has_null))
    return found, ends


def _is_text(name: str, kind: DataType) -> Column:
    """Whether a literal can say all values: bytes that are no text come to Python as others."""
    if not isinstance(kind, StringType):
        return F.lit(True)
    return F.coalesce(F.bool_and(F.is_valid_utf8(F.col(f"`{name}`"))), F.lit(True))


def _near(  # noqa: PLR0913, PLR0917
    name: str,
    table: str,
    kind: DataType,
    low: Any,
    high: Any,
    listed: Sequence[Any] | None,
    *,
    has_null: bool,
) -> Column:
    """A condition on a column of the table, of values as ``told`` gives them."""
    column = F.col(f"{table}.`{name}`" if table else f"`{name}`")
    among = column.between(literal(low, kind), literal(high, kind))
    if listed is not None:
        # Not as an IN list: of that Delta takes the least and the greatest value alone.
        among &= reduce(or_, (column == literal(value, kind) for value in listed))
    return among | column.isNull() if has_null else among


def _listed(frame: DataFrame, kinds: Mapping[str, DataType]) -> Mapping[str, Sequence[Any]]:
    """All values but null of columns that have few."""
    if not kinds:
        return {}
    sets = (F.collect_set(told(F.col(f"`{name}`"), kind)).alias(name) for name, kind in kinds.items())
    found = frame.agg(*sets).first()
    return {} if found is None else {name: found[name] for name in kinds}


def _merge(frame: DataFrame, path: str, condition: Column) -> DeltaMergeBuilder:
    """A MERGE of a frame, ``s``, into a table, ``t``; what it does is yet to be said."""
    from delta.tables import DeltaTable

    return DeltaTable.forPath(frame.sparkSession, path).alias("t").merge(frame.alias("s"), condition)


def _same_key(frame: DataFrame, key: Sequence[str]) -> Column:
    """Table and frame have one key, and the table's lies within the bounds of the frame's."""
    same = (F.col(f"t.`{name}`") == F.col(f"s.`{name}`") for name in key)
    return reduce(and_, bounds(frame, key, "t"), reduce(and_, same))
