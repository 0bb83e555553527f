"""Which queries an operator has stopped: a file per query, beside its checkpoint.

Beside the checkpoint and not in it, because a rebuild moves the checkpoint; and not in the pipeline's local
folder, because the next job may run on another host.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from common.config.paths import Layout
from common.machine.files.state_file import StateFile
from common.machine.storage_folder import StorageFolder


@dataclass(frozen=True, slots=True)
class _Stopped:
    at: datetime


_FILE = StateFile(_Stopped)


def keep_stopped(layout: Layout, query: str) -> None:
    """Note that a query is stopped from now on; one that is stopped already keeps its time."""
    folder, name = _file(layout, query)
    if not folder.exists(name):
        _FILE.write(folder, name, _Stopped(datetime.now(UTC)))


def keep_started(layout: Layout, query: str) -> bool:
    """Note that a query may run again; whether it was stopped."""
    folder, name = _file(layout, query)
    was_stopped = folder.exists(name)
    if was_stopped:
        folder.delete(name)
    return was_stopped


def stopped_since(layout: Layout, query: str) -> datetime | None:
    """When a query was stopped; None if it was not, or was started again."""
    folder, name = _file(layout, query)
    try:
        found = _FILE.read(folder, name)
    except ValueError:
        return datetime.now(UTC)  # the file says that it is stopped, also where its time cannot be read
    return None if found is None else found.at


def _file(layout: Layout, query: str) -> tuple[StorageFolder, str]:
    folder, _, name = layout.checkpoint_path(query).rpartition("/")
    return StorageFolder(folder), f"{name}__stopped.json"
