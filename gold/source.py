"""A silver table as a Delta stream of rows, each as it was when it came."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from common.settings import GoldSettings

_OF_THE_FEED = ("_change_type", "_commit_version", "_commit_timestamp")


def silver_stream(
    spark: SparkSession, path: str, settings: GoldSettings, *, is_replaced: bool = False
) -> DataFrame:
    """The stream of a silver table: first its state, in any order, then its commits.

    Order does not matter here: aggregates do not depend on it, and upserts carry their own. Of a table
    whose rows are replaced its change feed is read: each new row, and each as it is after its replacement.
    """
    how = "readChangeFeed" if is_replaced else "skipChangeCommits"
    reader = (
        spark.readStream.format("delta")
        .option(how, "true")
        .option("maxFilesPerTrigger", str(settings.max_files_per_trigger))
    )
    if settings.max_bytes_per_trigger is not None:
        reader = reader.option("maxBytesPerTrigger", settings.max_bytes_per_trigger)
    rows = reader.load(path)
    if not is_replaced:
        return rows
    return rows.where(F.col("_change_type").isin("insert", "update_postimage")).drop(*_OF_THE_FEED)
