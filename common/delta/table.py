"""The only module that writes tables, with ``common.delta.merge``; each write once per micro-batch.

A commit says in its metadata which query (by the id that lives in its checkpoint) and which batch wrote
it. Spark replays at most one batch: the one that was running when the query ended, as the first of its
next run. So the first batch of a run asks the table's log whether it is there already, and every later
one is new: a table has one writer, which holds its lease. A batch may have several commits in one table,
each a step of its own: a replay does the steps that the table lacks. Delta's own transaction ids say the
same, but have the whole state of the table rebuilt at every commit: five times the CPU of a small append.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from common.config.driver_limits import NO_DRIVER, DriverLimits
from common.delta import delta_rs
from common.delta.checkpoint_match import own_commits
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import TableShapeError
from common.machine.storage_folder import Folder
from common.rows.materialized import Settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

_ROWS_PER_FILE = 250_000

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

BY = ("first load", "replay", "erasure", "repair", "compaction", "evolution")
"""Who writes a table outside its query's micro-batches: a commit's metadata names one of these."""

MERGE = "merge"
"""The step of a batch that is merged; one that turns out to change nothing leaves its mark by the same."""


def exists(path: str) -> bool:
    """Whether there is a Delta table at a path, made by whomever a moment ago.

    Asked of the log itself: `DeltaTable.isDeltaTable` keeps what it saw first, so one that looked while
    another process was making the table would never see it.
    """
    return LogReader(path).latest_version() is not None


def ensure(  # noqa: PLR0913
    spark: SparkSession,
    table: str,
    path: str,
    schema: StructType,
    properties: Mapping[str, str],
    *,
    may_have_more: bool = False,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
) -> None:
    """Make an empty table where there is none; check the columns of one that exists.

    Properties and layout are set at creation only: afterwards they belong to whoever operates it. With
    ``may_have_more`` it may have columns beside those of the schema.

    Raises:
        TableShapeError: The table has other columns or types than ``schema``.
    """
    from delta.tables import DeltaTable

    if not exists(path):
        builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(schema)
        for key, value in properties.items():
            builder = builder.property(key, value)
        if partition_by:
            builder = builder.partitionedBy(*partition_by)
        if cluster_by:
            builder = builder.clusterBy(*cluster_by)
        builder.execute()
        return
    found = DeltaTable.forPath(spark, path).toDF().schema
    have = {f.name: f.dataType.simpleString() for f in found.fields}
    want = {f.name: f.dataType.simpleString() for f in schema.fields}
    if may_have_more:
        have = {name: kind for name, kind in have.items() if name in want}
    if have != want:
        raise TableShapeError(
            f"{table} at {path} has other columns than the pipeline declares: {_difference(have, want)}. "
            "Give the changed table a new name, or move the old table and its checkpoint away and start anew."
        )


def columns(spark: SparkSession, path: str) -> tuple[str, ...]:
    """A table's columns; none where there is no table."""
    return tuple(spark.read.format("delta").load(path).columns) if exists(path) else ()


def properties(spark: SparkSession, path: str) -> Mapping[str, str]:
    """A table's properties."""
    from delta.tables import DeltaTable

    if Folder(path).is_plain:
        return LogReader(path).properties()
    found = DeltaTable.forPath(spark, path).detail().select("properties").first()
    return {} if found is None else dict(found[0])


def change_feed_missing(reader: str, table: str, path: str) -> TableShapeError:
    """A reader needs a table's change data feed, and the table keeps none."""
    return TableShapeError(
        f"{reader} reads the change data feed of {table}, and the table at {path} keeps none. Have it keep "
        f"one from now on, and start again: {enable_feed_statement(path)}. What the table holds by then is "
        "read first, so nothing is left out; if "
        f"{reader} has a checkpoint already: medallion rebuild {reader}."
    )


def enable_feed_statement(path: str) -> str:
    """The statement that has a table keep a change data feed from now on."""
    escaped = path.replace("`", "``")
    return f"ALTER TABLE delta.`{escaped}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"


def add_columns(
    spark: SparkSession, pipeline: str, table: str, path: str, columns: Sequence[StructField]
) -> None:
    """Add columns at a table's end; rows that are there have nulls in them."""
    metadata = maintenance_metadata(pipeline, table, "evolution", columns=[field.name for field in columns])
    texts = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in columns)
    escaped = path.replace("`", "``")
    with commit_metadata(spark, metadata):
        spark.sql(f"ALTER TABLE delta.`{escaped}` ADD COLUMNS ({texts})")


def set_property(spark: SparkSession, path: str, told: str, name: str, value: str) -> None:
    """Set one property of a table; streams that read the table go on."""
    escaped = path.replace("`", "``")
    with commit_metadata(spark, told):
        spark.sql(f"ALTER TABLE delta.`{escaped}` SET TBLPROPERTIES ('{name}' = '{value}')")


def append(  # noqa: PLR0913  # a write has this many parts
    rows: DataFrame | Settled,
    path: str,
    batch: MicroBatch,
    step: str,
    counts: Mapping[str, Any],
    *,
    mode: str = "append",
    by: Sequence[str] = (),
    small: DriverLimits = NO_DRIVER,
) -> None:
    """Append a batch, or put it in place of the whole table with ``mode="overwrite"``; once per identity.

    Args:
        rows: A frame as it is partitioned; or one that was worked out, which is ``packed``.
        path: The table.
        batch: The batch's identity; one whose step the table has is skipped.
        step: What the write is to its query; a batch has one commit per step.
        counts: What became of the batch's rows, for the same.
        mode: ``append`` or ``overwrite``.
        by: Columns that rows are packed by.
        small: What is written from the driver.
    """
    if is_written(path, batch, step):
        return
    told = batch.metadata(step, counts)
    few = rows.arrow if isinstance(rows, Settled) else None
    if few is None or not delta_rs.try_write(path, small, told, lambda to: to.append(few, told, mode=mode)):
        frame = packed(rows.frame, rows.rows, by) if isinstance(rows, Settled) else rows
        # All of the table, whatever the session says of partitions.
        writer = frame.write.format("delta").mode(mode).option("partitionOverwriteMode", "static")
        writer.option("userMetadata", told).save(path)


def append_nothing(  # noqa: PLR0913, PLR0917
    spark: SparkSession,
    path: str,
    batch: MicroBatch,
    step: str,
    counts: Mapping[str, Any],
    small: DriverLimits,
) -> None:
    """A commit without rows: the mark of a batch that has nothing to do."""
    told = batch.metadata(step, counts)
    if is_written(path, batch, step) or delta_rs.try_write(
        path, small, told, lambda to: to.append(None, told)
    ):
        return
    append_with_metadata(spark.read.format("delta").load(path).limit(0), path, told)


def packed(frame: DataFrame, rows: int, by: Sequence[str] = ()) -> DataFrame:
    """The frame in as few files as its rows fill, not one per partition.

    Args:
        frame: The rows.
        rows: How many there are.
        by: Where there are several files, each has a range of these columns; none: as the rows lie.
    """
    files = -(-rows // _ROWS_PER_FILE)
    if files > 1 and by:
        return frame.repartitionByRange(files, *(F.col(f"`{name}`") for name in by))
    return frame.coalesce(max(1, files))


def is_written(path: str, batch: MicroBatch, step: str) -> bool:
    """Whether the table has a step of a batch: the process that wrote it ended before Spark noted so.

    Searched from the newest commit down, and no further than the batch before.
    """
    if not batch.is_first:
        return False
    for told in own_commits(path, batch.query):
        if told["query_id"] != batch.query_id or told["batch_id"] < batch.batch_id:
            return False
        if told["batch_id"] > batch.batch_id or told.get("step") == step:
            return True
    return False


def maintenance_metadata(pipeline: str, table: str, by: str, **facts: Any) -> str:
    """What a commit outside any micro-batch says of itself; ``by`` is one of ``BY``.

    It names no query, so that none takes it for its own.
    """
    if by not in BY:
        raise AssertionError(f"{by!r} is none of {BY}")
    return json.dumps({"pipeline": pipeline, "table": table, "by": by, **facts})


def append_with_metadata(frame: DataFrame, path: str, told: str) -> None:
    """Append rows outside any micro-batch; ``told`` is the commit's metadata. Not idempotent by itself."""
    frame.write.format("delta").mode("append").option("userMetadata", told).save(path)


def replace_all(frame: DataFrame, path: str, told: str, *, partition_by: str) -> None:
    """Put rows and columns in place of all that a table has, or make it; ``told`` is the metadata."""
    writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.partitionBy(partition_by).option("userMetadata", told).save(path)


@contextmanager
def commit_metadata(spark: SparkSession, told: str) -> Iterator[None]:
    """Commits in here say this of themselves.

    What takes no options, such as MERGE, reads the session that runs it: a query's own clone.
    """
    spark.conf.set(_METADATA, told)
    try:
        yield
    finally:
        spark.conf.unset(_METADATA)


def _difference(have: Mapping[str, str], want: Mapping[str, str]) -> str:
    parts = [f"{name} {want[name]} is missing" for name in want if name not in have]
    parts += [f"{name} {have[name]} is not declared" for name in have if name not in want]
    parts += [
        f"{name} is {have[name]}, declared {want[name]}"
        for name in want
        if name in have and have[name] != want[name]
    ]
    return "; ".join(parts)
