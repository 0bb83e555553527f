"""Bronze as a Delta stream.

A stock Delta stream reads a table's first state by file modification time. After any compaction that
feeds old events last, and a watermark then drops them. So the stream begins with a commit: the first of
bronze's log, since commit order is arrival order and the result is what a job that had always run would
have; or, where that log is not whole, the one after the snapshot that ``silver.write.first_load`` has loaded.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from common.config.settings import SilverSettings
from common.delta.log import LogReader
from common.errors import HistoryGoneError
from common.machine.storage_folder import StorageFolder


def bronze_stream(spark: SparkSession, *, path: str, begins: int, settings: SilverSettings) -> DataFrame:
    """The stream of a bronze table, from a commit on or from where its checkpoint stands.

    ``skipChangeCommits`` keeps a deletion in bronze from stopping the stream. ``withEventTimeOrder``
    is set for runtimes that have it; open-source Delta ignores it, and nothing here relies on it.
    """
    reader = (
        spark.readStream.format("delta")
        .option("startingVersion", str(begins))
        .option("skipChangeCommits", "true")
        .option("withEventTimeOrder", "true")
        .option("maxFilesPerTrigger", str(settings.max_files_per_trigger))
    )
    if settings.max_bytes_per_trigger is not None:
        reader = reader.option("maxBytesPerTrigger", settings.max_bytes_per_trigger)
    return reader.load(path)


def needs_snapshot(how: str, table: str, bronze_path: str) -> bool:
    """Whether a table that has nothing yet is to be loaded from a snapshot of bronze.

    Args:
        how: The setting: ``auto``, ``log`` or ``snapshot``.
        table: Bronze's name.
        bronze_path: Its place.

    Raises:
        HistoryGoneError: It is to be loaded from the log, which is not whole.
    """
    if how == "snapshot":
        found = LogReader(bronze_path).snapshot()
        return found is not None and found.rows != 0
    gone = _gone(bronze_path)
    if gone and how == "log":
        raise HistoryGoneError(
            f"{table}: {gone}, so a first load in the order of arrival is not possible. Set "
            "silver.first_load to snapshot, which loads it by event time, or restore what is gone under "
            f"{bronze_path}."
        )
    return bool(gone)


def _gone(path: str) -> str:
    """What a stream from commit 0 would miss, in words; empty where all is there."""
    log = LogReader(path)
    if log.commit(0) is None:
        return "its log no longer begins at commit 0"
    needed: list[str] = []
    is_rewritten = False
    for commit in log.commits():
        is_rewritten |= commit.removed_files > 0
        if not commit.is_change:
            needed += [file.path for file in commit.added]
    if not is_rewritten:
        return ""
    folder = StorageFolder(path)
    names = set(folder.names())
    missing = (name for name in needed if name not in names and not ("/" in name and folder.exists(name)))
    return f"a file that its log names is gone ({name})" if (name := next(missing, None)) else ""
