"""Kafka to bronze: every record appended as it came, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze import table as bronze_table
from bronze.batch_in_driver import DriverBatch
from bronze.beginning import begins_there
from bronze.kafka_options import options
from bronze.table import INGESTED
from common.config.pace import trigger_of
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Topic
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.rows.row_size import RowSizeEstimate
from common.streaming.query import Stream
from common.streaming.topic_identity import TopicIdentity


def build_query(  # noqa: PLR0913  # what it reads, where it writes, and under which settings
    spark: SparkSession,
    pipeline: str,
    topic: Topic,
    *,
    settings: Settings,
    layout: Layout,
    bootstrap_servers: str,
    client: Mapping[str, str],
    identity: TopicIdentity,
) -> Stream:
    """The query of one bronze table; creates the table where there is none.

    Every commit names the ids of the topics that ``identity`` knows.

    Raises:
        TableShapeError: The table exists with other columns.
    """
    path = layout.table_path(topic.table)
    bronze_table.ensure(spark, topic, path)
    topic = begins_there(topic, path, layout.checkpoint_path(topic.table))
    reader = spark.readStream.format("kafka")
    for name, value in options(topic, settings.bronze, bootstrap_servers, client).items():
        reader = reader.option(name, value)
    files = spark.sparkContext.defaultParallelism

    limits = settings.driver_limits
    driver_batch = DriverBatch(path, limits, RowSizeEstimate(limits.batch_bytes))

    def write(frame: DataFrame, batch: MicroBatch) -> None:
        batch = replace(batch, facts={**batch.facts, **identity.facts(batch.positions)})
        # One task per Kafka partition would make one small file per partition and batch.
        with driver_batch.rows(frame.coalesce(files), batch) as (rows, told):
            # After the driver has read the rows, if it does: they are of the history that is compared.
            identity.compare(told)
            delta_table.append(rows, path, told, "append", {})
            identity.learn(rows.arrow)

    return Stream(
        pipeline=pipeline,
        name=topic.table,
        frame=raw(reader.load(), _later_generations(identity)),
        write=write,
        checkpoint=layout.checkpoint_path(topic.table),
        trigger=trigger_of(topic, settings),
        source=f"Kafka at {bootstrap_servers}",
    )


def _later_generations(identity: TopicIdentity) -> dict[str, str]:
    """The topics that are not the first of their name, each with the value of its rows' column ``topic``."""
    return {name: state.coordinate(name) for name, state in identity.known.items() if state.generation > 1}


def raw(records: DataFrame, topics: Mapping[str, str] = MappingProxyType({})) -> DataFrame:
    """Kafka records as bronze rows; the ingest time is the micro-batch's, so a replay has the same.

    Args:
        records: The rows of Spark's Kafka source.
        topics: Names of topics that the column ``topic`` replaces, such as ``orders`` by ``orders#2``.
    """
    topic: Column = F.col("topic")
    for name, coordinate in topics.items():
        topic = F.when(F.col("topic") == name, coordinate).otherwise(topic)
    return records.select(
        topic.alias("topic"),
        "partition",
        "offset",
        F.col("timestamp").alias("kafka_timestamp"),
        F.col("timestampType").alias("kafka_timestamp_type"),
        F.current_timestamp().alias(INGESTED),
        "key",
        "value",
        "headers",
    )
