"""A Delta table to bronze: every row as it is, typed, once, whoever writes the table."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bronze.typed_query import typed_query
from common.config.object_store import require_jars
from common.config.pace import NO_LIMIT, source_limits
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import DeltaTable
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.errors import TableMissingError, UsageError, first_line
from common.streaming import starting_version
from common.streaming.query import Stream

_CHANGES = {
    "appends": "skipChangeCommits",
    "ignore_deletes": "ignoreDeletes",
    "ignore_changes": "ignoreChanges",
    "feed": "readChangeFeed",
}
"""Delta's option for what an update or a deletion in the source does."""

_TRACKED = "medallion_source_columns"
"""Name of the folder in the checkpoint in which Delta writes down the columns of a source that maps them."""

_GOES_ON = ("allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange")
"""Delta's options to go on with other columns: bronze's own columns say what becomes of them."""


def build_query(
    spark: SparkSession, pipeline: str, declared: DeltaTable, *, settings: Settings, layout: Layout
) -> Stream:
    """The query of one bronze table of a Delta table; creates the table where there is none.

    Raises:
        TableMissingError: There is no Delta table in the declared folder.
        TableShapeError: A column of the source has another type than before.
        UsageError: The source is on S3, whose jars are not loaded; or it cannot be read as declared.
    """
    folder = layout.table_path(declared.reads)
    require_jars(f"{declared.table} reads", folder, settings)
    return typed_query(
        spark,
        pipeline,
        declared,
        _source(spark, declared, folder, layout.checkpoint_path(declared.table)),
        settings=settings,
        layout=layout,
        reads=f"the Delta table in {folder}",
        time="_commit_timestamp" if declared.changes == "feed" else None,
        order=declared.event_time_order,
    )


def is_awaited(declared: DeltaTable, layout: Layout) -> bool:
    """Whether the first version that a query reads is still to come."""
    checkpoint = layout.checkpoint_path(declared.table)
    folder = layout.table_path(declared.reads)
    return starting_version.is_awaited(checkpoint, folder, declared.starting_version)


def _source(spark: SparkSession, declared: DeltaTable, folder: str, checkpoint: str) -> DataFrame:
    """The source as a stream."""
    if not delta_table.exists(folder):
        raise TableMissingError(
            f"the Delta table that {declared.table} reads", folder, "Create it, or correct path."
        )
    limits = source_limits(declared.max_files_per_trigger, declared.max_bytes_per_trigger)
    if declared.event_time_order is not None and Checkpoint(checkpoint).last_planned() is None:
        limits = NO_LIMIT
    reader = spark.readStream.format("delta").options(**limits)
    if LogReader(folder).properties().get("delta.columnMapping.mode", "none") != "none":
        reader = reader.option("schemaTrackingLocation", f"{checkpoint}/{_TRACKED}")
        reader = reader.options(**dict.fromkeys(_GOES_ON, "always"))
    if declared.changes in _CHANGES:
        reader = reader.option(_CHANGES[declared.changes], "true")
    if Checkpoint(checkpoint).last_planned() is None:  # later starts go on from the checkpoint
        wanted = declared.starting_version
        if wanted is not None:
            option = starting_version.starting_option(checkpoint, folder, wanted)
            reader = reader.option("startingVersion", option)
        elif declared.starting_timestamp is not None:
            reader = reader.option("startingTimestamp", declared.starting_timestamp)
    try:
        return reader.load(folder)
    except (PySparkException, Py4JJavaError) as error:
        why = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
        raise UsageError(
            f"{declared.table}: the Delta table in {folder} cannot be read as declared: {first_line(why)}"
        ) from error
