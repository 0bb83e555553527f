"""Bronze as a Delta stream.

By default a Delta stream reads a table's initial snapshot in the order of file modification times. After a
compaction old events would come last, and the watermark would drop them. Therefore the stream starts at a
commit: at the first commit of bronze's log, because the order of commits is the order of arrival, so that the
result is that of a job which has always run; or, where the log is incomplete, at the commit after the
snapshot that ``silver.write.first_load`` has loaded.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from common.config.settings import SilverSettings
from common.delta.log import LogReader
from common.errors import HistoryGoneError
from common.machine.storage_folder import StorageFolder


def bronze_stream(
    spark: SparkSession, *, path: str, starting_version: int, settings: SilverSettings
) -> DataFrame:
    """The stream of a bronze table, from a commit on; a query with a checkpoint continues there instead.

    With ``skipChangeCommits`` a deletion in bronze does not stop the stream. ``withEventTimeOrder`` is set
    for runtimes that support it; open-source Delta ignores it, and the engine does not rely on it.
    """
    reader = (
        spark.readStream.format("delta")
        .option("startingVersion", str(starting_version))
        .option("skipChangeCommits", "true")
        .option("withEventTimeOrder", "true")
        .option("maxFilesPerTrigger", str(settings.max_files_per_trigger))
    )
    if settings.max_bytes_per_trigger is not None:
        reader = reader.option("maxBytesPerTrigger", settings.max_bytes_per_trigger)
    return reader.load(path)


def needs_snapshot(how: str, table: str, bronze_path: str) -> bool:
    """Whether an empty silver table must be loaded from a snapshot of bronze.

    Args:
        how: The setting ``silver.first_load``: ``auto``, ``log`` or ``snapshot``.
        table: Name of the bronze table.
        bronze_path: Path of the bronze table.

    Raises:
        HistoryGoneError: The setting is ``log``, and bronze's log or files are incomplete.
    """
    if how == "snapshot":
        found = LogReader(bronze_path).snapshot()
        return found is not None and found.rows != 0
    missing = _missing_history(bronze_path)
    if missing and how == "log":
        raise HistoryGoneError(
            f"{table}: {missing}, so a first load in the order of arrival is not possible. Set "
            "silver.first_load to snapshot, which loads it by event time, or restore the missing files under "
            f"{bronze_path}."
        )
    return bool(missing)


def _missing_history(path: str) -> str:
    """What a stream from commit 0 would miss, in words; empty where nothing is missing."""
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
