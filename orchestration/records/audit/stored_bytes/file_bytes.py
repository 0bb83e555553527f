"""Compares data files with their sizes in the log, and with the digests of when they were written.

It comes first: values that have changed on a disk are a fault of the file that has them, and not of the
tables that were made of it. Bytes of bronze are compared row by row instead (``bronze_bytes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from common.delta.checksums import file_digests
from common.delta.commit import DataFile
from common.delta.log import LogReader
from common.errors import TableError
from common.machine.storage_folder import StorageFolder
from orchestration.records.audit.result import Fault
from orchestration.records.audit.table_log import TableLog

_SHOWN = 5
"""Most files that are named; the fault's count covers all of them."""


def changed_files(path: str, table: str, query: str, log: TableLog | None = None) -> Fault | None:
    """The fault of a table of which files are gone, or have other bytes than when they were written.

    Args:
        log: The commits whose files are compared; None: all live files are.
    """
    if not (wrong := wrong_files(path, log)):
        return None
    more = f", and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
    text = (
        f"{table}: {', '.join(wrong[:_SHOWN])}{more}. Nothing else was compared. Restore these files from "
        f"a copy; or have the rows made again from what {query} reads, with the jobs stopped: medallion "
        f"recover {query}"
    )
    return Fault("files", text, len(wrong), table=query)


def wrong_files(path: str, log: TableLog | None = None) -> list[str]:
    """What is wrong with the data files of a table, in words; see ``changed_files``."""
    if not StorageFolder(path).is_local:
        return []  # Spark writes all files there; to ask the store for each of them takes long
    digests = file_digests.noted(path)
    return [fault for file in _live(path, log) if (fault := file_digests.file_fault(path, file, digests))]


def without_digest(path: str, log: TableLog | None = None) -> int:
    """How many data files have no digest: Spark wrote them, or an earlier version of the engine."""
    digests = file_digests.noted(path)
    return sum(not file_digests.has_digest(file, digests) for file in _live(path, log))


def _live(path: str, log: TableLog | None) -> Iterable[DataFile]:
    try:
        files = LogReader(path).live_files()
    except TableError:
        return ()  # what is wrong with the log is told elsewhere
    if log is None or log.base is None:
        return files
    return _added(files, log)


def _added(files: Iterable[DataFile], log: TableLog) -> Iterator[DataFile]:
    added = {file.path for one in log.commits for file in one.commit.added}
    yield from (file for file in files if file.path in added)
