"""Bronze as a Delta stream.

By default a Delta stream reads a table's initial snapshot in the order of file modification times. After a
compaction old events would come last, and the watermark would drop them. Therefore the stream starts at a
commit: at the first commit of bronze's log, because the order of commits is the order of arrival, so that the
result is that of a job which has always run; or, where the log is incomplete, at the commit after the
snapshot that ``silver.write.first_load`` has loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession


def bronze_stream(
    spark: SparkSession, *, path: str, starting_version: int, limits: Mapping[str, str]
) -> DataFrame:
    """The stream of a bronze table, from a commit on; a query with a checkpoint continues there instead.

    With ``skipChangeCommits`` a deletion in bronze does not stop the stream. ``withEventTimeOrder`` is set
    for runtimes that support it; open-source Delta ignores it, and the engine does not rely on it.
    ``limits`` are the options for how much a micro-batch reads.
    """
    reader = (
        spark.readStream.format("delta")
        .option("startingVersion", str(starting_version))
        .option("skipChangeCommits", "true")
        .option("withEventTimeOrder", "true")
        .options(**limits)
    )
    return reader.load(path)
