"""Which queries an operator has stopped: a file per query, beside its checkpoint.

Beside the checkpoint and not in it, because a rebuild moves the checkpoint; and not in the pipeline's local
folder, because the next job may run on another host.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from common.config.paths import Layout
from common.machine.storage_folder import StorageFolder


def keep_stopped(layout: Layout, query: str) -> None:
    """Note that a query is stopped from now on; one that is stopped already keeps its time."""
    folder, name = _file(layout, query)
    if not folder.exists(name):
        folder.write(name, json.dumps({"at": datetime.now(UTC).isoformat()}).encode())


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
    content = folder.read(name)
    if content is None:
        return None
    try:
        return datetime.fromisoformat(json.loads(content)["at"])
    except (ValueError, LookupError, TypeError):
        return datetime.now(UTC)  # the file says that it is stopped, also where its time cannot be read


def _file(layout: Layout, query: str) -> tuple[StorageFolder, str]:
    folder, _, name = layout.checkpoint_path(query).rpartition("/")
    return StorageFolder(folder), f"{name}__stopped.json"
