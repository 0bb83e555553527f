"""Where a query begins that does not read its table from the first version.

``starting_version="latest"`` is the version after the newest one at the query's first start. It is written
beside the checkpoint, because Spark keeps no position before the first micro-batch: a query that is stopped
before that would else begin later than it was told, and miss rows.
"""

from __future__ import annotations

from common.declare import Gold, Publish, Reading
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.machine.storage_folder import StorageFolder
from gold.table.context import Context

FILE = "medallion_starting_version"
"""Name of the file in the query's checkpoint."""


def starting_version(context: Context, declared: Gold | Publish, path: str, reading: Reading) -> int:
    """The first version of a table that a query reads; 0 if its declaration names none."""
    if reading.starting_version != "latest":
        return reading.starting_version or 0
    folder = StorageFolder(context.checkpoint(declared))
    if (content := folder.read(FILE)) is not None:
        return int(content)
    newest = LogReader(path).latest_version()
    version = 0 if newest is None else newest + 1
    folder.write(FILE, str(version).encode())
    return version


def starting_option(context: Context, declared: Gold | Publish, path: str, reading: Reading) -> str:
    """The option ``startingVersion`` of Delta's source, which refuses the number of a version to come."""
    version = starting_version(context, declared, path, reading)
    is_to_come = reading.starting_version == "latest" and (LogReader(path).latest_version() or 0) < version
    return "latest" if is_to_come else str(version)


def is_awaited(context: Context, declared: Gold | Publish) -> bool:
    """Whether a query waits for the first version that it reads; it is built again once that is there."""
    if declared.reading.starting_version != "latest":
        return False
    if Checkpoint(context.checkpoint(declared)).last_planned() is not None:
        return False
    path = context.path(declared.reads)
    return starting_option(context, declared, path, declared.reading) == "latest"
