"""A silver table as a Delta stream of appended rows."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from common.settings import GoldSettings


def silver_stream(spark: SparkSession, path: str, settings: GoldSettings) -> DataFrame:
    """The stream of a silver table: first its state, in any order, then its commits.

    Order does not matter here: aggregates do not depend on it, and upserts carry their own.
    """
    reader = (
        spark.readStream.format("delta")
        .option("skipChangeCommits", "true")
        .option("maxFilesPerTrigger", str(settings.max_files_per_trigger))
    )
    if settings.max_bytes_per_trigger is not None:
        reader = reader.option("maxBytesPerTrigger", settings.max_bytes_per_trigger)
    return reader.load(path)
