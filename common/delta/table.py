"""Creates tables and writes micro-batches into them; each write once per micro-batch.

``written_once`` says why no micro-batch is written twice.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    StringType,
    StructType,
    TimeType,
    YearMonthIntervalType,
)

from common.delta import delta_rs
from common.delta.log import LogReader, is_creation_cut_off
from common.delta.micro_batch import FORMAT, MicroBatch, fenced
from common.delta.written_once import is_written
from common.errors import MedallionError, TableShapeError
from common.machine.storage_folder import StorageFolder
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from common.spark.types import contains_type, is_grown, missing_fields, with_nulls_in_elements
from common.sql.quoting import backquoted, spark_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

FILES_APPENDED = "files"
"""Micro-batches of a query that appends files' records to the bronze table of a topic."""

BY = (
    "first load",
    "replay",
    "restatement",
    "erasure",
    "repair",
    "compaction",
    "evolution",
    "lease",
    "retention",
    FILES_APPENDED,
)
"""Kinds of writes outside a query's micro-batches: such a commit's metadata names one of them."""

FEED = "delta.enableChangeDataFeed"
"""Property of a table that keeps a change data feed."""

BEGINS_FEED = "begins_feed"
"""The entry of the metadata of the engine's commit that turned a table's change data feed on."""

APPEND_ONLY = "delta.appendOnly"
"""Property of a table that refuses to lose or change a row; an erasure and a retention lift it."""

ERASED = "medallion.erasedAt"
"""Property of a table from which an erasure has removed rows: when, as an ISO time. Files of older versions
may still hold these rows, so a new reader must not begin with an older commit."""

RANDOM_FOLDERS = "delta.randomizeFilePrefixes"
"""The property with which Spark puts new files into folders of random names and not of partition values.

By default Delta names the folder after the value, and a value that no folder can be named after would end the
query at every start: a text with a NUL, or of more than some 240 bytes. Readers of Delta take the values from
the log.
"""

MERGE = "merge"
"""The step of a batch that is merged, also of one that turns out to change nothing."""


def exists(path: str) -> bool:
    """Whether there is a Delta table at a path, also one that another process has just created.

    Reads the log itself: `DeltaTable.isDeltaTable` caches its first answer, so a process that looked before
    another one created the table would never see it.
    """
    return LogReader(path).latest_version() is not None


_NO_COLUMNS: Mapping[str, tuple[Callable[[DataType], bool], str]] = {
    "an interval": (
        lambda kind: contains_type(kind, CalendarIntervalType, DayTimeIntervalType, YearMonthIntervalType),
        "Write a number, such as unix_micros(b) - unix_micros(a).",
    ),
    "a time of day": (lambda kind: contains_type(kind, TimeType), "Cast it to string."),
    "a text of a collation": (
        lambda kind: "string collate " in kind.simpleString(),
        "Cast it to string.",
    ),
}
"""What no column of a Delta table is: how its type is recognized, and what to do instead."""


def _refuse_types(table: str, schema: StructType) -> None:
    """Refuse columns of a type that a Delta table cannot have."""
    for words, (is_such, advice) in _NO_COLUMNS.items():
        if found := [one for one in schema if is_such(one.dataType)]:
            shown = ", ".join(f"{one.name} ({one.dataType.simpleString()})" for one in found)
            raise TableShapeError(
                f"{table}: {shown} would be {words}, and a Delta table has no such columns. {advice}"
            )


def ensure(  # noqa: PLR0913
    spark: SparkSession,
    table: str,
    path: str,
    schema: StructType,
    properties: Mapping[str, str],
    *,
    may_have_more: bool = False,
    adds: str | None = None,
    refill: str = "",
    refill_replaces_columns: bool = False,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
) -> None:
    """Create an empty table where there is none; check the columns of one that exists.

    Properties and layout are set at creation only: afterwards they belong to the table's operator. With
    ``may_have_more`` the table may have columns beside those of the schema. With ``adds``, the pipeline's
    name, columns that the table lacks are added to it, and fields at the ends of structs, if that is the only
    difference. ``refill`` is the command that fills the table again, for the message of the error: with
    ``adds`` or ``refill_replaces_columns`` it helps whatever differs, otherwise if columns are missing. With
    both of them columns that differ are left to the query's first micro-batch, which replaces the table
    (``append``).

    Raises:
        TableShapeError: The table has other columns or types than ``schema``, or would have an interval.
    """
    from delta.tables import DeltaTable

    if not exists(path):
        _refuse_types(table, schema)
        if is_creation_cut_off(path):
            shutil.rmtree(Path(StorageFolder(path).path, "_delta_log"))
        _create(spark, path, schema, properties, partition_by, cluster_by)
        return
    want = column_types(schema)
    if not shape_difference(logged_types(path), want, may_have_more=may_have_more):
        return  # to load the table in Spark takes half a CPU second
    have = column_types(DeltaTable.forPath(spark, path).toDF().schema)
    difference = shape_difference(have, want, may_have_more=may_have_more)
    if adds is not None and (difference.is_growth or refill_replaces_columns):
        if difference.is_growth:
            add_fields(spark, adds, table, path, _missing(path, schema))
        return
    if difference:
        is_any = adds is not None or refill_replaces_columns
        helps = refill and (is_any or not (difference.undeclared or difference.retyped))
        raise TableShapeError(
            f"{table} at {path} has other columns than the pipeline declares: {difference.text}. "
            + (f"Fill the table again with the declared columns: {refill}. Or give" if helps else "Give")
            + " the changed table a new name, or move the old table and its checkpoint away and start the "
            "query again."
        )


def logged_types(path: str) -> dict[str, str]:
    """The types of a table's columns by its log; none where only Spark can read them."""
    log = LogReader(path)
    try:
        return log.column_types() if StorageFolder(path).is_local else log.column_types_by_checksum()
    except (MedallionError, OSError, ValueError, LookupError):
        return {}


@dataclass(frozen=True, slots=True)
class ShapeDifference:
    """How a table's columns differ from declared ones; false if they do not. The order does not count."""

    missing: Mapping[str, str]  # declared columns that the table lacks, with their types
    undeclared: Mapping[str, str]  # columns that only the table has, with their types
    retyped: Mapping[str, tuple[str, str]]  # columns of another type: the table's, then the declared one

    def __bool__(self) -> bool:
        return bool(self.missing or self.undeclared or self.retyped)

    @property
    def grown(self) -> frozenset[str]:
        """Columns of another type that only has further fields at the ends of its structs."""
        return frozenset(name for name, (have, want) in self.retyped.items() if is_grown(have, want))

    @property
    def is_growth(self) -> bool:
        """Whether the table lacks columns, and fields of structs, and differs in nothing else."""
        return bool(self) and not self.undeclared and self.grown == self.retyped.keys()

    @property
    def text(self) -> str:
        """The differences in words."""
        parts = [f"{name} {kind} is missing" for name, kind in self.missing.items()]
        parts += [f"{name} {kind} is not declared" for name, kind in self.undeclared.items()]
        parts += [f"{name} is {have}, declared {want}" for name, (have, want) in self.retyped.items()]
        return "; ".join(parts)


def column_types(schema: StructType) -> dict[str, str]:
    """The columns of a schema with their types as Spark's ``simpleString``, in their order."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def shape_difference(
    have: Mapping[str, str], want: Mapping[str, str], *, may_have_more: bool = False
) -> ShapeDifference:
    """How a table's columns differ from the declared columns.

    Args:
        have: The table's columns with their types, as Spark's ``simpleString`` has them.
        may_have_more: The table may have columns that are not declared.
    """
    return ShapeDifference(
        missing={name: kind for name, kind in want.items() if name not in have},
        undeclared={n: kind for n, kind in have.items() if n not in want and not may_have_more},
        retyped={n: (have[n], kind) for n, kind in want.items() if n in have and have[n] != kind},
    )


def newest(spark: SparkSession, path: str) -> DataFrame:
    """A table's rows, at the version that is its newest now.

    A write takes out of Spark's cache every frame that reads the table without a version: a frame that a
    micro-batch has kept would be computed again, from what it has just written.
    """
    return spark.read.format("delta").option("versionAsOf", LogReader(path).latest_version()).load(path)


def columns(spark: SparkSession, path: str) -> tuple[str, ...]:
    """A table's columns; none where there is no table."""
    if not exists(path):
        return ()
    return tuple(logged_types(path)) or tuple(spark.read.format("delta").load(path).columns)


def properties(spark: SparkSession, path: str) -> Mapping[str, str]:
    """A table's properties."""
    from delta.tables import DeltaTable

    if StorageFolder(path).is_plain:
        return LogReader(path).properties()
    found = DeltaTable.forPath(spark, path).detail().select("properties").first()
    return {} if found is None else dict(found[0])


def change_feed_missing(reader: str, table: str, path: str) -> TableShapeError:
    """The error of a reader that needs the change data feed of a table that keeps none."""
    return TableShapeError(
        f"{reader} reads the change data feed of {table}, and the table at {path} keeps none. Have it keep "
        f"one from now on, and start again: {enable_feed_statement(path)}. What the table holds by then is "
        "read first, so nothing is left out; if "
        f"{reader} has a checkpoint already: medallion rebuild {reader}."
    )


def enable_feed_statement(path: str) -> str:
    """The statement that makes a table keep a change data feed from now on."""
    return f"ALTER TABLE delta.{backquoted(path)} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"


def add_columns(
    spark: SparkSession, pipeline: str, table: str, path: str, columns: Sequence[StructField]
) -> None:
    """Add columns at a table's end; existing rows have nulls in them."""
    add_fields(spark, pipeline, table, path, {(field.name,): field.dataType for field in columns})


def _create(
    spark: SparkSession,
    path: str,
    schema: StructType,
    properties: Mapping[str, str],
    *layout: Sequence[str],
) -> None:
    """Create an empty table; its layout is the columns by which it is partitioned and clustered."""
    from delta.tables import DeltaTable

    builder = DeltaTable.createIfNotExists(spark).location(path)
    builder = builder.addColumns(with_nulls_in_elements(schema))
    for key, value in properties.items():
        builder = builder.property(key, value)
    partition_by, cluster_by = layout
    if partition_by:
        builder = builder.partitionedBy(*partition_by)
    if cluster_by:
        builder = builder.clusterBy(*cluster_by)
    builder.execute()


def _missing(path: str, schema: StructType) -> dict[tuple[str, ...], DataType]:
    """The columns and fields of structs of a schema that a table's log does not have, by their places."""
    return dict(missing_fields(StructType.fromJson(json.loads(LogReader(path).schema())), schema))


def add_fields(
    spark: SparkSession, pipeline: str, table: str, path: str, fields: Mapping[tuple[str, ...], DataType]
) -> None:
    """Add columns, and fields of structs, each by its place and type; existing rows have nulls in them."""
    names = [".".join(place) for place in fields]
    metadata = maintenance_metadata(pipeline, table, "evolution", columns=names)
    texts = ", ".join(
        f"{'.'.join(map(backquoted, place))} {kind.simpleString()}" for place, kind in fields.items()
    )
    with commit_metadata(spark, metadata):
        spark.sql(f"ALTER TABLE delta.{backquoted(path)} ADD COLUMNS ({texts})")


def add_missing_fields(  # noqa: PLR0913, PLR0917  # the table, and what it is to have
    spark: SparkSession, pipeline: str, table: str, path: str, column: str, want: StructType
) -> tuple[str, ...]:
    """Add to a column of structs the fields that it lacks; nothing where it is no column of structs.

    Returns:
        The paths of the fields below the column.
    """
    have = struct_of(path, column)
    if have is None or not (added := dict(missing_fields(have, want))):
        return ()
    add_fields(spark, pipeline, table, path, {(column, *place): kind for place, kind in added.items()})
    return tuple(".".join(place) for place in added)


def struct_of(path: str, column: str) -> StructType | None:
    """The type of a table's column of structs by its log; None where there is no such column."""
    text = LogReader(path).schema()
    schema = StructType.fromJson(json.loads(text)) if text else StructType()
    kind = schema[column].dataType if column in schema.names else None
    return kind if isinstance(kind, StructType) else None


def set_property(spark: SparkSession, path: str, metadata: str, name: str, value: str) -> None:
    """Set one property of a table; streams that read the table go on."""
    set_properties(spark, path, metadata, {name: value})


def set_properties(spark: SparkSession, path: str, metadata: str, values: Mapping[str, str]) -> None:
    """Set properties of a table by one commit; streams that read the table go on."""
    texts = ", ".join(f"{spark_text(name)} = {spark_text(value)}" for name, value in values.items())
    with commit_metadata(spark, metadata):
        spark.sql(f"ALTER TABLE delta.{backquoted(path)} SET TBLPROPERTIES ({texts})")


def append(  # noqa: PLR0913  # a write has this many parts
    rows: Rows | DataFrame,
    path: str,
    batch: MicroBatch,
    step: str,
    counts: Mapping[str, Any],
    *,
    mode: str = "append",
    by: Sequence[str] = (),
) -> None:
    """Append a batch, or replace the whole table with ``mode="overwrite"``; once per identity.

    The first micro-batch of a query also replaces the columns of a table where they differ from those of its
    rows; the table then is partitioned by what is left of its partition columns.

    Args:
        rows: The rows; those whose number is known fill as few files as they can, others one per partition.
        batch: The batch's identity; one whose step the table has is skipped.
        step: Names the write among the query's writes; a batch has one commit per step.
        counts: For the commit's metadata: what became of the batch's rows.
        mode: ``append`` or ``overwrite``.
        by: Columns that rows are laid together by, where they fill several files.
    """
    if is_written(path, batch, step):
        return
    metadata = batch.metadata(step, counts)
    if isinstance(rows, DataFrame):
        rows = SparkRows(rows)
    has_other_columns = mode == "overwrite" and batch.batch_id == 0 and _has_other_columns(path, rows)
    if not has_other_columns:
        rows = rows.collected()
    arrow = None if has_other_columns else rows.arrow
    if arrow is not None and delta_rs.try_write(
        path, rows.limits, metadata, lambda table: table.append(arrow, metadata, mode=mode)
    ):
        return
    # The whole table, whatever the session says of partitions.
    writer = rows.packed(by).write.format("delta").mode(mode).option("partitionOverwriteMode", "static")
    if has_other_columns:
        kept = [name for name in _partition_columns(rows.session, path) if name in rows.columns]
        writer = writer.option("overwriteSchema", "true").partitionBy(*kept)
    writer.option("userMetadata", metadata).save(path)


def _has_other_columns(path: str, rows: Rows) -> bool:
    """Whether a table has other columns or types than rows."""
    have = logged_types(path) or column_types(rows.session.read.format("delta").load(path).schema)
    return bool(shape_difference(have, column_types(rows.schema)))


_NULLS = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts that are null in a partition column: the second is Hive's name of the folder of nulls."""


def as_stored(frame: DataFrame, partition_by: Sequence[str] | None) -> DataFrame:
    """The frame with null for texts in a partition column that Spark writes as null, and delta-rs as text."""
    texts = {name: F.col(f"`{name}`") for name in partition_by or () if is_text(frame, name)}
    return frame.withColumns({name: F.when(~text.isin(*_NULLS), text) for name, text in texts.items()})


def is_text(frame: DataFrame, name: str) -> bool:
    """Whether a frame has a column of text of this name."""
    return name in frame.columns and isinstance(frame.schema[name].dataType, StringType)


def _partition_columns(spark: SparkSession, path: str) -> list[str]:
    from delta.tables import DeltaTable

    found = DeltaTable.forPath(spark, path).detail().select("partitionColumns").first()
    return [] if found is None else list(found[0])


def append_nothing(rows: Rows, path: str, batch: MicroBatch, step: str, counts: Mapping[str, Any]) -> None:
    """Commit a batch that has nothing to write: a table without any commit of a batch is not its query's.

    Args:
        rows: The batch's rows; only their session and their limits are used.
        batch: The batch's identity; one whose step the table has is skipped.
        step: Names the write among the query's writes.
    """
    metadata = batch.metadata(step, counts)
    if is_written(path, batch, step) or delta_rs.try_write(
        path, rows.limits, metadata, lambda table: table.append(None, metadata)
    ):
        return
    append_with_metadata(rows.session.read.format("delta").load(path).limit(0), path, metadata)


def maintenance_metadata(pipeline: str, table: str, by: str, **facts: Any) -> str:
    """The metadata of a commit outside any micro-batch; ``by`` is one of ``BY``.

    It names no query, so that no query takes the commit for its own.
    """
    if by not in BY:
        raise AssertionError(f"{by!r} is none of {BY}")
    named: dict[str, Any] = {"format": FORMAT, "pipeline": pipeline, "table": table, "by": by}
    return json.dumps(named | fenced() | facts)


def append_with_metadata(frame: DataFrame, path: str, metadata: str) -> None:
    """Append rows outside any micro-batch. Not idempotent by itself."""
    frame.write.format("delta").mode("append").option("userMetadata", metadata).save(path)


def replace_all(frame: DataFrame, path: str, metadata: str, *, partition_by: str = "") -> None:
    """Replace all rows and columns of a table, which keeps its partition columns; or create it."""
    writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    if partition_by:
        writer = writer.partitionBy(partition_by)
    elif exists(path):
        kept = [name for name in _partition_columns(frame.sparkSession, path) if name in frame.columns]
        writer = writer.partitionBy(*kept)
    writer.option("userMetadata", metadata).save(path)


@contextmanager
def commit_metadata(spark: SparkSession, metadata: str) -> Iterator[None]:
    """All commits in the block have this metadata.

    For writes that take no options, such as MERGE: they read the session that runs them, a query's own clone.
    """
    spark.conf.set(_METADATA, metadata)
    try:
        yield
    finally:
        spark.conf.unset(_METADATA)
