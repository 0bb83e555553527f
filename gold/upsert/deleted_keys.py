"""The keys of a gold table that were deleted, and by which version: ``gold.<name>__deleted``.

Grain: one row per key whose newest version is a delete; key and order columns. By its order an older version
that comes late is recognised as older, and does not bring the row back.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructField, StructType

from common.declare import ChangeFeed, Storage, Upsert
from gold.table import create
from gold.table.context import Context


def columns(key: Sequence[str], order: Sequence[str]) -> tuple[str, ...]:
    """The table's columns."""
    return tuple(dict.fromkeys((*key, *order)))


def ensure(context: Context, gold: Upsert | ChangeFeed, schema: StructType, order: Sequence[str]) -> None:
    """Create the table where there is none.

    Args:
        context: Where tables are.
        gold: The declaration of the table beside it.
        schema: The columns of that table.
        order: Columns that order the versions of a key.

    Raises:
        TableShapeError: The table has other columns.
    """
    kept = [StructField(name, schema[name].dataType) for name in columns(gold.key, order)]
    # A stream of the table may follow deletions by the same feed.
    storage = Storage(change_feed=gold.storage.change_feed)
    create.ensure(context, gold.deleted, StructType(kept), storage)
