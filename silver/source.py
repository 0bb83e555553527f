"""Bronze as a Delta stream, and the order of a table's first load.

A stock Delta stream reads a table's first state by file modification time. After any compaction that
feeds old events last, and a watermark then drops them. So the first load replays bronze's log from
commit 0: commit order is arrival order, and the result is what a job that had always run would have.
That needs the whole log; where it is gone, the start is refused in words.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from common.checkpoint import Checkpoint
from common.delta_log import LogReader
from common.errors import HistoryGoneError
from common.settings import SilverSettings


def bronze_stream(
    spark: SparkSession, *, table: str, path: str, checkpoint: str, settings: SilverSettings
) -> DataFrame:
    """The stream of a bronze table, from its first commit or from where the checkpoint stands.

    ``skipChangeCommits`` keeps a deletion in bronze from stopping the stream. ``withEventTimeOrder``
    is set for runtimes that have it; open-source Delta ignores it, and nothing here relies on it.

    Raises:
        HistoryGoneError: There is no checkpoint yet and bronze's log no longer begins at commit 0.
    """
    if Checkpoint(checkpoint).last_planned() is None and LogReader(path).commit(0) is None:
        raise HistoryGoneError(
            f"{table}: its log no longer begins at commit 0, so a first load in the order of arrival is not "
            f"possible. Restore the log under {path}/_delta_log, or fill a new bronze table from Kafka."
        )
    reader = (
        spark.readStream.format("delta")
        .option("startingVersion", "0")
        .option("skipChangeCommits", "true")
        .option("withEventTimeOrder", "true")
        .option("maxFilesPerTrigger", str(settings.max_files_per_trigger))
    )
    if settings.max_bytes_per_trigger is not None:
        reader = reader.option("maxBytesPerTrigger", settings.max_bytes_per_trigger)
    return reader.load(path)
