"""What is registered in a catalog, in files that the jobs rewrite and ``status`` reads.

A file per job name, ``catalog/<name>.json`` in the pipeline's local folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A table in a catalog.

    Attributes:
        name: Its name there, with the database: ``dev_silver.orders``.
        registered_at: When its columns were written there last; None if they never were.
        error: Why the table, or its present columns, could not be registered; empty if they are.
    """

    name: str
    registered_at: datetime | None = None
    error: str = ""


def write_entries(folder: Path, job: str, entries: Mapping[str, CatalogEntry]) -> None:
    """Write a job's entries by table; readers see the old or the new ones, never a part.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = {table: asdict(entry) for table, entry in entries.items()}
    new = folder / f".{job}.json.new"
    new.write_text(json.dumps(content, default=_plain), encoding="utf-8")
    new.replace(folder / f"{job}.json")


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
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            found |= {table: _entry(entry) for table, entry in content.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _entry(content: Mapping[str, str | None]) -> CatalogEntry:
    at = content["registered_at"]
    when = None if at is None else datetime.fromisoformat(at)
    return CatalogEntry(str(content["name"]), when, str(content["error"] or ""))


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(type(value).__name__)
