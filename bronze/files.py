"""Files to bronze: every record appended as it stands in its file, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from bronze import table as bronze_table
from bronze.batch_in_driver import DriverBatch
from bronze.query import raw
from common.config.object_store import require_jars
from common.config.pace import trigger_of
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Files
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.rows.row_size import RowSizeEstimate
from common.streaming.file_source import SOURCE, source_options
from common.streaming.query import Stream


def build_query(  # noqa: PLR0913  # what it reads, where it writes, and under which settings
    spark: SparkSession,
    pipeline: str,
    files: Files,
    *,
    settings: Settings,
    layout: Layout,
    line_readers: Sequence[str] = (),
) -> Stream:
    """The query of one bronze table of files; creates the table where there is none.

    Args:
        line_readers: The declarations of silver's readers of CSV, as JSON texts. A file with ``header=True``
            whose first line has none of their names is set aside whole: its first line may be a record.

    Raises:
        TableShapeError: The table exists with other columns.
        UsageError: The files are on S3, whose jars are not loaded.
    """
    require_jars(f"{files.table} reads", files.path, settings)
    path = layout.table_path(files.table)
    bronze_table.ensure(spark, files, path)
    folder = files.folder
    options = {
        **source_options(files, folder, layout.file_list_path(files.table), line_readers),
        "maxRows": str(files.max_rows_per_trigger or settings.bronze.max_offsets_per_trigger),
        **({} if files.only is None else {"only": files.only}),
        **({} if files.clean_source is None else {"clean": files.clean_source}),
        **({} if files.archive is None else {"archive": files.archive}),
    }
    limits = settings.driver_limits
    driver_batch = DriverBatch(path, limits, RowSizeEstimate(limits.batch_bytes))
    tasks = spark.sparkContext.defaultParallelism

    def write(frame: DataFrame, batch: MicroBatch) -> None:
        if files.into is not None:
            batch = replace(batch, facts={**batch.facts, "by": delta_table.FILES_APPENDED})
        with driver_batch.rows(frame.coalesce(tasks), batch) as (rows, told):
            delta_table.append(rows, path, told, "append", {})

    return Stream(
        pipeline=pipeline,
        name=files.table,
        frame=raw(spark.readStream.format(SOURCE).options(**options).load()),
        write=write,
        checkpoint=layout.checkpoint_path(files.table),
        trigger=trigger_of(files, settings),
        source=f"files in {folder}",
    )
