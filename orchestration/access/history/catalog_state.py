"""What is registered in a catalog, in files that the jobs rewrite and ``status`` reads.

A file per job name, ``catalog/<name>.json`` in the pipeline's local folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from common.machine.files.state_file import StateFile


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A table in a catalog."""

    name: str  # its name there, with the database: ``dev_silver.orders``
    registered_at: datetime | None = None  # when its columns were written there last; None if they never were
    error: str = ""  # why the table, or its present columns, could not be registered; empty if they are


_FILE = StateFile(dict[str, CatalogEntry])


def write_entries(folder: Path, job: str, entries: Mapping[str, CatalogEntry]) -> None:
    """Write a job's entries by table; readers see the old or the new ones, never a part.

    Raises:
        OSError: The folder cannot be written.
    """
    _FILE.write(folder, f"{job}.json", dict(entries))


def forget_entries(folder: Path, job: str) -> None:
    """Delete a job's entries: it registers its tables no more.

    Raises:
        OSError: The file cannot be deleted.
    """
    (folder / f"{job}.json").unlink(missing_ok=True)


def read_entries(folder: Path) -> dict[str, CatalogEntry]:
    """The entries of all jobs by table; of two jobs with one table, those of the file written last."""
    found: dict[str, CatalogEntry] = {}
    for file in sorted(folder.glob("[!.]*.json"), key=_modified):
        found |= _FILE.read_or_none(folder, file.name) or {}
    return found


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
