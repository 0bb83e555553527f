"""Bronze to silver: parse, judge, deduplicate, write; one query per silver table."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from common import delta
from common.declare import Silver
from common.declaring import folder_of, source_of
from common.layout import Layout
from common.schema import ddl_or_json
from common.settings import Settings
from common.streaming import Stream
from silver import tables
from silver.dedupe import check_types, deduplicated
from silver.parse import parsed, shaped, struct_type
from silver.rules import check_rules, judged
from silver.source import bronze_stream
from silver.write import writer


def stream(
    spark: SparkSession, pipeline: str, silver: Silver, *, settings: Settings, layout: Layout
) -> Stream:
    """The query of one silver table; makes the table and its quarantine where there are none.

    Raises:
        PipelineError: The declaration does not fit the data's columns and types.
        TableShapeError: A table exists with other columns.
        HistoryGoneError: A first load is not possible any more.
    """
    checkpoint = layout.checkpoint_path(silver.table)
    bronze = bronze_stream(
        spark,
        table=silver.reads,
        path=layout.table_path(silver.reads),
        checkpoint=checkpoint,
        settings=settings.silver,
    )
    schema = struct_type(ddl_or_json(silver.value, folder_of(silver.value)))
    frame = rows(bronze, silver, schema)
    path, aside = layout.table_path(silver.table), layout.table_path(silver.quarantine)
    delta.ensure(spark, silver.table, path, tables.accepted(frame).schema, tables.PROPERTIES)
    delta.ensure(spark, silver.quarantine, aside, tables.rejected(frame).schema, tables.PROPERTIES)
    return Stream(
        pipeline=pipeline,
        name=silver.table,
        frame=frame,
        write=writer(path, aside),
        checkpoint=checkpoint,
        trigger=settings.silver.trigger,
    )


def rows(bronze: DataFrame, silver: Silver, schema: StructType) -> DataFrame:
    """Bronze rows judged and deduplicated: what one silver query reads, as one plan with one parse."""
    place, source = silver.table, source_of(silver)
    frame = shaped(parsed(bronze, schema), silver.columns, place, source)
    check_types(frame, key=silver.key, event_time=silver.event_time, place=place, source=source)
    check_rules(frame, silver.rules, place)
    reasoned = judged(
        frame, key=silver.key, event_time=silver.event_time, max_future=silver.max_future, rules=silver.rules
    )
    return deduplicated(reasoned, key=silver.key, event_time=silver.event_time, watermark=silver.watermark)
