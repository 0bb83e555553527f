"""Where a query begins that does not read a Delta table from its first version.

``latest`` is the version after the newest one at the query's first start. It is written beside the
checkpoint, because Spark keeps no position before the first micro-batch: a query that is stopped before that
would else begin later than it was told, and miss rows.
"""

from __future__ import annotations

from typing import Literal

from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.machine.storage_folder import StorageFolder

FILE = "medallion_starting_version"
"""Name of the file in the query's checkpoint."""

Wanted = int | Literal["latest"] | None


def starting_version(checkpoint: str, path: str, wanted: Wanted) -> int:
    """The first version of a table that a query reads; 0 if its declaration names none.

    Args:
        path: Path or URI of the table that it reads.
    """
    if wanted != "latest":
        return wanted or 0
    folder = StorageFolder(checkpoint)
    if (content := folder.read(FILE)) is not None:
        return int(content)
    newest = LogReader(path).latest_version()
    version = 0 if newest is None else newest + 1
    folder.write(FILE, str(version).encode())
    return version


def starting_option(checkpoint: str, path: str, wanted: Wanted) -> str:
    """The option ``startingVersion`` of Delta's source, which refuses the number of a version to come."""
    version = starting_version(checkpoint, path, wanted)
    is_to_come = wanted == "latest" and (LogReader(path).latest_version() or 0) < version
    return "latest" if is_to_come else str(version)


def is_awaited(checkpoint: str, path: str, wanted: Wanted) -> bool:
    """Whether a query waits for the first version that it reads; it is built again once that is there."""
    if wanted != "latest" or Checkpoint(checkpoint).last_planned() is not None:
        return False
    return starting_option(checkpoint, path, wanted) == "latest"
