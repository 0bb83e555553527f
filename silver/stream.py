"""Bronze to silver: parse, judge, deduplicate, write; one query per silver table."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from common import delta
from common.declare import Silver
from common.layout import Layout
from common.settings import Settings
from common.spark import registry_conf
from common.streaming import Stream
from silver import lookups, tables
from silver.changes import ChangeWatch
from silver.dedupe import deduplicated
from silver.judge import judge, read
from silver.late import LateRows, late_schema
from silver.rules import version
from silver.source import bronze_stream
from silver.write import writer


def stream(
    spark: SparkSession, pipeline: str, silver: Silver, *, settings: Settings, layout: Layout
) -> Stream:
    """The query of one silver table; makes the table and those beside it where there are none.

    Raises:
        PipelineError: The declaration does not fit the data's columns and types.
        TableShapeError: A table exists with other columns.
        TableMissingError: There is no table of a lookup.
        HistoryGoneError: A first load is not possible any more.
        ForeignChangeError: Somebody else changed rows of bronze.
    """
    for name, value in registry_conf(settings).items():
        spark.conf.set(name, value)
    checkpoint = layout.checkpoint_path(silver.table)
    bronze = bronze_stream(
        spark,
        table=silver.reads,
        path=layout.table_path(silver.reads),
        checkpoint=checkpoint,
        settings=settings.silver,
    )
    watch = ChangeWatch(
        silver.table,
        silver.reads,
        path=layout.table_path(silver.reads),
        checkpoint=checkpoint,
        accepted=settings.silver.accept_changes,
    )
    watch.look()
    asked = lookups.frames(spark, silver, layout)
    frame = rows(bronze, silver, asked)
    names = (silver.table, silver.quarantine, silver.late_table)
    path, aside, late = (layout.table_path(name) for name in names)
    columns, set_aside = tables.accepted(frame).schema, tables.rejected(frame, version(silver)).schema
    grows = silver.unknown_fields == "evolve"
    delta.ensure(spark, silver.table, path, columns, tables.properties(silver), may_have_more=grows)
    tables.check_change_feed(spark, silver, path)
    delta.ensure(spark, silver.quarantine, aside, set_aside, tables.PROPERTIES)
    delta.ensure(spark, silver.late_table, late, late_schema(columns), tables.PROPERTIES)
    late_rows = LateRows(
        silver=silver,
        silver_path=path,
        late_path=late,
        bronze_path=layout.table_path(silver.reads),
        bronze_schema=bronze.schema,
        checkpoint=checkpoint,
        begins=0,
        judged=lambda given: judge(read(given, silver), silver, asked),
    )
    return Stream(
        pipeline=pipeline,
        name=silver.table,
        frame=frame,
        write=writer(silver, path, aside, late_rows, watch),
        checkpoint=checkpoint,
        trigger=settings.silver.trigger,
    )


def rows(bronze: DataFrame, silver: Silver, asked: Mapping[str, DataFrame] | None = None) -> DataFrame:
    """Bronze rows judged and deduplicated: what one silver query reads, as one plan with one parse.

    Under ``dedupe="exact"`` duplicates are still among them: they are found as the table is written.
    """
    judged = judge(read(bronze, silver), silver, asked)
    return judged if silver.dedupe == "exact" else deduplicated(judged, silver.watermark)
