"""Whether bronze still has the commits and files that a first load in the order of arrival reads.

After an erasure or a retention they are not read, although they may still be there: they hold rows that were
deleted.
"""

from __future__ import annotations

from common.delta.foreign_commits import brings_rows_back
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_text, expired_topics
from common.delta.table import ERASED
from common.errors import HistoryGoneError
from common.machine.storage_folder import StorageFolder


def needs_snapshot(how: str, table: str, bronze_path: str) -> bool:
    """Whether an empty silver table must be loaded from a snapshot of bronze.

    Args:
        how: The setting ``silver.first_load``: ``auto``, ``log`` or ``snapshot``.

    Raises:
        HistoryGoneError: The setting is ``log``, and bronze's log or files are incomplete, or hold rows that
            were erased or have expired.
    """
    if how == "snapshot":
        found = LogReader(bronze_path).snapshot()
        return found is not None and found.rows != 0
    missing = _missing_history(bronze_path)
    if missing and how == "log":
        raise HistoryGoneError(
            f"{table}: {missing}, so a first load in the order of arrival is not possible. Set "
            "silver.first_load to snapshot, which loads it by event time; or, if files are missing, restore "
            f"them under {bronze_path}."
        )
    return bool(missing)


def expired_records(bronze_path: str) -> str:
    """The records that retention has deleted from a bronze table, in one line; empty if there are none."""
    return expired_text(expired_topics(LogReader(bronze_path).properties()))


def _missing_history(path: str) -> str:
    """Why no stream may begin at commit 0, in words; empty where one may."""
    log = LogReader(path)
    if (erased_at := log.properties().get(ERASED)) is not None:
        return f"rows were erased from it at {erased_at}, and files of its older versions hold them"
    if expired := expired_topics(log.properties()):
        return f"retention has deleted records: {expired_text(expired)}"
    if log.commit(0) is None:
        return "its log no longer begins at commit 0"
    needed: list[str] = []
    is_rewritten = False
    for commit in log.commits():
        if brings_rows_back(commit):
            return f"version {commit.version} is a RESTORE, so that its commits have some rows twice"
        is_rewritten |= commit.removed_files > 0
        if not commit.is_change:
            needed += [file.path for file in commit.added]
    if not is_rewritten:
        return ""
    folder = StorageFolder(path)
    names = set(folder.names())
    missing = (name for name in needed if name not in names and not ("/" in name and folder.exists(name)))
    return f"a file that its log names is gone ({name})" if (name := next(missing, None)) else ""
