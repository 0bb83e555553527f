"""The raw table: everything of a Kafka record, nothing parsed. Grain: one row per Kafka offset.

Coordinates and times come first: only a table's first columns get min/max statistics.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from common.declare import Bronze
from common.delta import table as delta_table

INGESTED = "ingested_at"
"""The column that all rows of a micro-batch share: when it was planned."""

PROPERTIES = {
    # A stray UPDATE must fail here rather than break every stream that reads the table.
    "delta.appendOnly": "true",
    "delta.dataSkippingStatsColumns": f"topic,partition,offset,kafka_timestamp,{INGESTED}",
    # A first load of silver replays the log from its beginning: keep both log and files long enough.
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 14 days",
    "delta.checkpointInterval": "100",
    "delta.enableDeletionVectors": "false",
}


_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("kafka_timestamp", TimestampType()),
        StructField("kafka_timestamp_type", IntegerType()),
        StructField(INGESTED, TimestampType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", ArrayType(_HEADER)),
    ]
)
"""``key`` and ``value`` are the bytes that were sent; a timestamp's type is Kafka's: 0 create, 1 append."""


def with_value(kind: StructType) -> StructType:
    """The columns of a bronze table whose ``value`` is a struct of a source's typed columns."""
    return StructType([StructField("value", kind) if each.name == "value" else each for each in SCHEMA])


def ensure(spark: SparkSession, declared: Bronze, path: str, schema: StructType = SCHEMA) -> None:
    """Create a bronze table where there is none.

    Raises:
        TableShapeError: The table exists with other columns.
    """
    by = declared.storage.cluster_by or ()
    delta_table.ensure(spark, declared.table, path, schema, PROPERTIES, cluster_by=by)
