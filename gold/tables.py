"""How gold tables are made: their properties and layout."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from common import delta
from common.declare import Storage
from gold.context import Context

PROPERTIES = {
    # What any reader of Delta can read; a table leaves this only by name.
    "delta.minReaderVersion": "1",
    "delta.minWriterVersion": "2",
    "delta.enableDeletionVectors": "false",
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}


def properties(storage: Storage) -> Mapping[str, str]:
    """Properties of a new gold table."""
    found = dict(PROPERTIES)
    if storage.change_feed:
        found |= {"delta.minWriterVersion": "4", "delta.enableChangeDataFeed": "true"}
    if storage.deletion_vectors:
        # Delta raises the protocol to what this feature needs.
        del found["delta.minReaderVersion"], found["delta.minWriterVersion"]
        found["delta.enableDeletionVectors"] = "true"
    return found


def ensure(
    context: Context, table: str, schema: StructType, storage: Storage, *, may_have_more: bool = False
) -> None:
    """Make a gold table where there is none; check the columns of one that exists.

    Raises:
        TableShapeError: The table has other columns or types than ``schema``.
    """
    delta.ensure(
        context.spark,
        table,
        context.path(table),
        schema,
        properties(storage),
        may_have_more=may_have_more,
        partition_by=storage.partition_by or (),
        cluster_by=storage.cluster_by or (),
    )
