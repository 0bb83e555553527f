"""How gold tables are created: their properties and layout.

The files of a partitioned table are in folders of random names (``RANDOM_FOLDERS``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType, TimestampNTZType, VariantType

from common.declare import Aggregate, Custom, Gold, Storage
from common.declare.field_types import named
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.errors import TableShapeError
from common.spark.types import contains_type
from gold.table.context import Context
from gold.table.sql_columns import columns
from gold.table.stored_text import stored

PROPERTIES = {
    # What any reader of Delta can read; a table leaves this only by name.
    "delta.minReaderVersion": "1",
    "delta.minWriterVersion": "2",
    "delta.enableDeletionVectors": "false",
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 7 days",
}

REPLACED_FILES_KEPT = "interval 1 hour"
"""How long a table of which every micro-batch replaces all rows keeps its old files.

Each micro-batch leaves a whole copy of the table, and no stream can read the table.
"""


def properties(storage: Storage, *, is_replaced: bool = False) -> Mapping[str, str]:
    """Properties of a new gold table; ``is_replaced``: every micro-batch replaces all rows."""
    found = dict(PROPERTIES)
    if is_replaced:
        found["delta.deletedFileRetentionDuration"] = REPLACED_FILES_KEPT
    if storage.partition_by:
        found[delta_table.RANDOM_FOLDERS] = "true"
    if storage.change_feed:
        found |= {"delta.minWriterVersion": "4", delta_table.FEED: "true"}
    if storage.deletion_vectors or storage.newer_types:
        # Delta raises the protocol to what these features need.
        del found["delta.minReaderVersion"], found["delta.minWriterVersion"]
    if storage.deletion_vectors:
        found["delta.enableDeletionVectors"] = "true"
    return found


def by_as_stored(gold: Aggregate, source: DataFrame) -> Aggregate:
    """The aggregate grouped by texts as the table stores them, so that its groups are the table's.

    Raises:
        PySparkException: A text of ``by`` does not fit the source.
    """
    by, parts = named(gold.by or ()), gold.storage.partition_by
    if parts is None:
        return gold
    found = source.select(*columns({name: sql for name, sql in by.items() if name in parts}))
    texts = [name for name in found.columns if delta_table.is_text(found, name)]
    if not texts:
        return gold
    return replace(gold, by={**by, **{name: stored(by[name]) for name in texts}})


def ensure(  # noqa: PLR0913  # what a table is created with
    context: Context,
    table: str,
    schema: StructType,
    storage: Storage,
    *,
    may_have_more: bool = False,
    is_replaced: bool = False,
) -> None:
    """Create a gold table where there is none; check the columns of one that exists.

    With ``is_replaced`` every micro-batch replaces all rows of the table. A table that its query is about to
    fill again may have other columns: the first micro-batch replaces them too.

    Raises:
        TableShapeError: The table has other columns or types than ``schema`` and is not filled again; or it
            would have types that not every reader knows.
    """
    newer = [field.name for field in schema if contains_type(field.dataType, TimestampNTZType, VariantType)]
    if newer and not storage.newer_types:
        raise TableShapeError(
            f"{table}: {', '.join(newer)} would be of a type (timestamp_ntz, variant) that only readers of "
            "Delta's reader version 3 know. Cast it, as in cast(at as timestamp) or to_json(document); or "
            "leave the other readers behind by name: storage=Storage(newer_types=True)."
        )
    if storage.change_feed or table in context.pipeline.with_feed:
        storage = replace(storage, change_feed=True)
        _keep_feed(context, table)
    gold = _filling(context, table)
    begins = gold is not None and begins_anew(context, gold)
    delta_table.ensure(
        context.spark,
        table,
        context.path(table),
        schema,
        properties(storage, is_replaced=is_replaced),
        may_have_more=may_have_more,
        adds=context.pipeline.name if begins else None,
        refill=f"medallion rebuild {gold.table}" if gold is not None and not begins else "",
        refill_replaces_columns=gold is not None and gold.replaces_columns,
        partition_by=storage.partition_by or (),
        cluster_by=storage.cluster_by or (),
    )


def _keep_feed(context: Context, table: str) -> None:
    """Turn on the change data feed of a table that was created without one."""
    path = context.path(table)
    if not delta_table.exists(path):
        return
    if delta_table.properties(context.spark, path).get(delta_table.FEED) != "true":
        metadata = delta_table.maintenance_metadata(
            context.pipeline.name, table, "evolution", **{delta_table.BEGINS_FEED: True}
        )
        delta_table.set_property(context.spark, path, metadata, delta_table.FEED, "true")


def begins_anew(context: Context, gold: Gold) -> bool:
    """Whether the next micro-batch of a gold table's query is its first one."""
    return Checkpoint(context.layout.checkpoint_path(gold.table)).last_committed() is None


def _filling(context: Context, table: str) -> Gold | None:
    """The declaration whose query fills a table or has it as a side table; None for a function of a user."""
    for gold in context.pipeline.gold:
        if not isinstance(gold, Custom) and table in {gold.table, *gold.side_tables}:
            return gold
    return None
