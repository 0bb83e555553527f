"""Where a query begins that does not read its table from the first version."""

from __future__ import annotations

from common.declare import Gold, Publish, Reading
from common.streaming import starting_version as common_start
from gold.table.context import Context


def starting_version(context: Context, declared: Gold | Publish, path: str, reading: Reading) -> int:
    """The first version of a table that a query reads; 0 if its declaration names none."""
    return common_start.starting_version(context.checkpoint(declared), path, reading.starting_version)


def starting_option(context: Context, declared: Gold | Publish, path: str, reading: Reading) -> str:
    """The option ``startingVersion`` of Delta's source, which refuses the number of a version to come."""
    return common_start.starting_option(context.checkpoint(declared), path, reading.starting_version)


def is_awaited(context: Context, declared: Gold | Publish) -> bool:
    """Whether a query waits for the first version that it reads; it is built again once that is there."""
    wanted = declared.reading.starting_version
    return common_start.is_awaited(context.checkpoint(declared), context.path(declared.reads), wanted)
