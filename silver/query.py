"""Bronze to silver: parse, judge, deduplicate, write; one query per silver table."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Silver
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.rows.row_size import Weight
from common.spark.session import registry_conf
from common.streaming.query import Stream
from silver.judge import lookups
from silver.judge.dedupe import drop_duplicates
from silver.judge.judge import judge, read_rows, without_message_bytes
from silver.judge.late_verdict import mark_late
from silver.judge.rules import ACCEPT, LATE, VERDICT, rules_version
from silver.read.bronze_stream import bronze_stream, needs_snapshot
from silver.read.parse import META
from silver.write import first_load, table_columns
from silver.write.first_load import FirstLoad
from silver.write.foreign_changes import ChangeWatch
from silver.write.known_keys import HandOver, known_until_ms
from silver.write.late_rows import LateRows, late_schema
from silver.write.writer import Writer


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
    checkpoint, bronze_path = layout.checkpoint_path(silver.table), layout.table_path(silver.reads)
    names = (silver.table, silver.quarantine, silver.late_table)
    path, aside, late = (layout.table_path(name) for name in names)

    asked = lookups.lookup_frames(spark, silver, layout)

    def judged(given: DataFrame) -> DataFrame:
        return judge(read_rows(given, silver), silver, asked)

    rule_version = rules_version(silver)

    def set_aside(frame: DataFrame) -> DataFrame:
        return table_columns.rejected(frame, rule_version)

    grows = silver.unknown_fields == "evolve"

    def made(frame: DataFrame) -> None:
        columns = table_columns.accepted(frame).schema
        delta_table.ensure(
            spark, silver.table, path, columns, table_columns.properties(), may_have_more=grows
        )
        table_columns.check_change_feed(spark, silver, path)
        delta_table.ensure(spark, silver.quarantine, aside, set_aside(frame).schema, table_columns.PROPERTIES)
        delta_table.ensure(spark, silver.late_table, late, late_schema(columns), table_columns.PROPERTIES)

    loaded, how = first_load.mark(path), settings.silver.first_load
    has_begun = Checkpoint(checkpoint).last_planned() is not None
    is_part = loaded is not None and not loaded.is_done
    if is_part or not (has_begun or loaded or not needs_snapshot(how, silver.reads, bronze_path)):
        made(judged(spark.read.format("delta").load(bronze_path)))
        FirstLoad(
            pipeline=pipeline,
            silver=silver,
            silver_path=path,
            quarantine_path=aside,
            bronze_path=bronze_path,
            staging=f"{checkpoint}.first_load",
            rows_per_part=settings.silver.first_load_rows,
            judged=judged,
            rejected=set_aside,
        ).run(spark)
        loaded = first_load.mark(path)
    begins = loaded.begins if loaded else 0
    watch = ChangeWatch(
        silver.table,
        silver.reads,
        path=bronze_path,
        checkpoint=checkpoint,
        begins=begins,
        accepted=settings.silver.accept_changes,
    )
    watch.look()
    bronze = bronze_stream(spark, path=bronze_path, starting_version=begins, settings=settings.silver)
    frame = rows(bronze, silver, asked)
    made(frame)
    late_rows = LateRows(
        silver=silver,
        silver_path=path,
        late_path=late,
        bronze_path=bronze_path,
        bronze_schema=bronze.schema,
        checkpoint=checkpoint,
        begins=begins,
        judged=judged,
    )
    hand_over = HandOver(silver, path, known_until_ms(silver, path, loaded))
    return Stream(
        pipeline=pipeline,
        name=silver.table,
        frame=frame,
        write=Writer(
            silver,
            bronze_path,
            path,
            aside,
            late_rows,
            hand_over,
            watch,
            settings.small,
            Weight(settings.small.batch_bytes),
            rule_version,
        ),
        checkpoint=checkpoint,
        trigger=settings.silver.trigger,
    )


def rows(bronze: DataFrame, silver: Silver, asked: Mapping[str, DataFrame] | None = None) -> DataFrame:
    """Bronze rows judged and deduplicated: what one silver query reads, as one plan with one parse.

    Under ``dedupe="exact"`` duplicates are still among them: they are found as the table is written.
    """
    judged = judge(read_rows(bronze, silver), silver, asked)
    if silver.dedupe != "exact":
        judged = mark_late(judged)
    # Raw bytes are most of a row; a row that goes to silver takes none through shuffle, state and cache.
    judged = judged.withColumn(META, without_message_bytes(F.col(VERDICT).isin(ACCEPT, LATE)))
    return judged if silver.dedupe == "exact" else drop_duplicates(judged, silver.watermark)
