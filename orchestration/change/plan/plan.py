"""What the next start of a pipeline does with each table, checkpoint and publication, without starting it.

A plan reads logs, checkpoints and the declarations that the checkpoints have kept; it writes nothing. The
columns of a changed expression have types that Spark alone knows: then it builds the queries over empty
copies of the tables (``orchestration.change.plan.declared_columns``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Bronze, DeltaTable, Gold, Pipeline, Publish, Silver, Table
from common.delta.checkpoint import Checkpoint
from common.delta.lease.lease_holder import Holders
from common.delta.log import LogReader, column_types
from common.delta.table import FEED
from common.errors import MedallionError
from common.machine.storage_folder import StorageFolder
from orchestration.access.declaration.last_declaration import described, recorded
from orchestration.access.declaration.lineage import in_data_order, sources
from orchestration.access.history.effort import effort_of
from orchestration.change.plan.change import Change, QueryPlan
from orchestration.change.plan.declared_columns import DeclaredColumns, declared_columns
from orchestration.change.plan.judge import (
    PACE,
    column_changes,
    differences,
    shape_of,
    without_types,
)
from orchestration.change.plan.source_columns import source_changes
from orchestration.run.start_checks import (
    LastCommit,
    check_checkpoint_and_tables,
    cut_off_refusal,
    declaration_problem,
    unrecorded_changes,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WITHOUT_COLUMNS = {
    "rule",
    "lookup",
    "watermark",
    "max_future",
    "max_future_after",
    "late",
    "where",
    "reading",
    "storage",
    "keep",
    "delete_when",
    "truncates",
    "processor",
    "write",
    *PACE,
    "setting spark",
    "setting silver",
    "setting gold",
}
"""Attributes that decide no column and no type."""

_REPLACED = "a stream cannot read on where columns were replaced"
_PUBLISHED_ON = (
    ". Declare the publication under a new name, with the version at which it is to begin; or move its "
    "checkpoint away, to send all rows again"
)
_KEPT = re.compile(r"__before_|__(shadow|files)$")
"""In the name of a folder beside the checkpoints: moved aside, of a rebuild, or the list of files read."""


def plan(
    pipeline: Pipeline,
    settings: Settings,
    layout: Layout,
    spark: Callable[[], SparkSession] | None = None,
    *,
    exact: bool = False,
) -> tuple[QueryPlan, ...]:
    """What the next start does, for each query in data order, then for tables without a declaration.

    Args:
        pipeline: The pipeline as it is to be started.
        spark: Gives a session, and starts it where none runs; called only if types of columns have to be
            found. None: types are not compared.
        exact: Compare the columns of all tables, also of those whose declarations did not change.
    """
    queries = (*pipeline.bronze, *pipeline.silver, *in_data_order(pipeline.gold), *pipeline.publish)
    found = [_without_columns(each, pipeline, settings, layout) for each in queries]
    found = [
        replace(each, changes=(*each.changes, *_feed_changes(each, declaration, layout, pipeline.with_feed)))
        for each, declaration in zip(found, queries, strict=True)
    ]
    if spark is not None and (exact or any(_may_change_columns(each) for each in found)):
        declared = declared_columns(spark(), pipeline, settings, layout)
        found = [
            _with_columns(each, declaration, declared, layout)
            for each, declaration in zip(found, queries, strict=True)
        ]
    elif spark is None:
        found = [
            replace(each, changes=without_types(declaration, each.changes))
            for each, declaration in zip(found, queries, strict=True)
        ]
    found = list(with_replaced_sources(found, queries))
    found = [_with_effort(each, one, layout) for each, one in zip(found, queries, strict=True)]
    return (*found, *_not_declared(pipeline, layout))


def _without_columns(
    declared: Table | Publish, pipeline: Pipeline, settings: Settings, layout: Layout
) -> QueryPlan:
    """The plan of one query by its declaration, its tables' commits and its checkpoint."""
    checkpoint = Checkpoint(layout.checkpoint_path(declared.table))
    is_new = not checkpoint.exists() and (
        isinstance(declared, Publish) or LogReader(layout.table_path(declared.table)).latest_version() is None
    )
    if layout.bronze is not None and isinstance(declared, Bronze):
        return QueryPlan(declared.table)  # a sandbox only reads it
    if is_new:
        read = declared.read_text if isinstance(declared, Silver) else getattr(declared, "reads", "")
        reads = "" if isinstance(declared, Bronze) else f"reads {read} from its first row"
        return QueryPlan(declared.table, (Change("table", "", declared.table, "new", reads),))
    last: LastCommit | None = None
    if not isinstance(declared, Publish):
        try:
            last = check_checkpoint_and_tables(layout, declared)
        except MedallionError as error:
            return QueryPlan(declared.table, (Change("checkpoint", "", "", "refused", str(error)),))
        if last is None and checkpoint.last_committed() is None and not isinstance(declared, Bronze | Silver):
            text = "its first micro-batch replaces all rows of the table"
            return QueryPlan(declared.table, (Change("checkpoint", "", "", "new", text),))
    changes = _declaration_changes(declared, settings, layout, last)
    if isinstance(declared, DeltaTable):
        changes = (*changes, *source_changes(declared, pipeline, layout))
    # A micro-batch that a job is writing now is not cut off: it ends before the next start.
    is_written = Holders(layout).find(declared.table) is not None
    refusal = cut_off_refusal(layout, declared, last) if isinstance(declared, Silver) else None
    if refusal is not None and not is_written:
        changes = (*changes, Change("cut-off micro-batch", "", "", "refused", refusal.message))
    return QueryPlan(declared.table, (*changes, *_partition_changes(settings, checkpoint)))


def _declaration_changes(
    declared: Table | Publish, settings: Settings, layout: Layout, last: LastCommit | None
) -> tuple[Change, ...]:
    before = recorded(layout.checkpoint_path(declared.table))
    now = described(declared, settings)
    refused: Sequence[str] = ()
    if not isinstance(declared, Publish):
        problem = declaration_problem(declared, last, settings.gold.accept_changed)
        refused = () if problem is None else problem.place.partition(", ")[2].split(" and ")
    if before is not None:
        here = replace(layout, locations={}).table_path(declared.table)
        found = tuple(
            replace(one, old=one.old or here, new=one.new or here) if one.name == "location" else one
            for one in differences(declared, before, now, refused=refused)
        )
    elif isinstance(declared, Silver):
        text = "the former text was not recorded; rows that the next start reads are judged by the new one"
        found = tuple(Change(one, "", "", "next start", text) for one in unrecorded_changes(declared, last))
    else:
        found = ()
    known = {each.name.partition(".")[0] for each in found}
    former = "(not recorded)" if before is None else ""
    further = [
        Change(name, former, now.attributes.get(name, ""), "rebuild", "")
        for name in refused
        if name.partition(" ")[0] not in known
    ]
    return (*found, *further)


def _feed_changes(
    found: QueryPlan, declared: Table | Publish, layout: Layout, with_feed: Collection[str]
) -> Iterator[Change]:
    """The change data feed that the next start turns on, where no other difference says so."""
    if not isinstance(declared, Gold) or any(one.name == "storage" for one in found.changes):
        return
    has = LogReader(layout.table_path(declared.table)).properties()
    if declared.table in with_feed and has and has.get(FEED) != "true":
        yield Change("change data feed", "", "on", "next start", "the table keeps one from then on")


def _partition_changes(settings: Settings, checkpoint: Checkpoint) -> Iterator[Change]:
    has = checkpoint.state_partitions()
    wanted = settings.spark.shuffle_partitions
    if has is not None and has != wanted:
        text = "the first start of the query has fixed the number of its state partitions"
        yield Change("setting spark.shuffle_partitions", str(has), str(wanted), "no effect", text)


def _may_change_columns(found: QueryPlan) -> bool:
    if any(each.effect == "new" and each.name == "table" for each in found.changes):
        return False
    return not found.query.startswith(("bronze.", "publish.")) and any(
        each.name.partition(" ")[0].partition(".")[0] not in _WITHOUT_COLUMNS
        and each.name.partition(".")[0] not in _WITHOUT_COLUMNS
        for each in found.changes
    )


def _with_columns(
    found: QueryPlan, declared: Table | Publish, columns: DeclaredColumns, layout: Layout
) -> QueryPlan:
    """The plan with the differences of the columns of the query's tables."""
    if isinstance(declared, Bronze | Publish) or found.effect == "new":
        return found
    if (fault := columns.faults.get(declared.table)) is not None:
        return replace(found, changes=(*found.changes, Change("declaration", "", "", "refused", fault)))
    more: list[Change] = []
    for table in (declared.table, *declared.side_tables):
        have, want = column_types(layout.table_path(table)), columns.columns.get(table)
        if have and want is not None:
            more += column_changes(declared, table, shape_of(declared, table, have, want))
    return replace(found, changes=(*found.changes, *more))


def with_replaced_sources(
    found: Sequence[QueryPlan], queries: Sequence[Table | Publish]
) -> Iterator[QueryPlan]:
    """The plans, with what follows for queries whose source loses a column or gets another type.

    A rebuild of silver fills its gold tables again by itself.
    """
    replaced = {
        each.query
        for each in found
        if any(one.name.startswith("column ") and one.old and one.effect == "rebuild" for one in each.changes)
    }
    for each, declared in zip(found, queries, strict=True):
        read = set() if isinstance(declared, Bronze | Silver) else replaced & set(sources(declared))
        more: list[Change] = []
        for name in sorted(read if each.effect != "new" else ()):
            if isinstance(declared, Publish):
                more.append(Change(f"columns of {name}", "", "", "refused", _REPLACED + _PUBLISHED_ON))
            elif name.startswith("gold."):
                more.append(Change(f"columns of {name}", "", "", "rebuild", _REPLACED))
        yield replace(each, changes=(*each.changes, *more))


def _with_effort(found: QueryPlan, declared: Table | Publish, layout: Layout) -> QueryPlan:
    if isinstance(declared, Bronze) or found.effect not in {"new", "rebuild"}:
        return found
    effort = effort_of(layout, declared.table, sources(declared))
    # A source that the same start creates has no rows that could be counted.
    return found if effort.rows is None and found.effect == "new" else replace(found, effort=effort)


def _not_declared(pipeline: Pipeline, layout: Layout) -> Iterator[QueryPlan]:
    """Queries that have a checkpoint and no declaration."""
    names = {declared.table for declared in (*pipeline.tables, *pipeline.publish)}
    found = (name for root in layout.checkpoint_roots for name in StorageFolder(root).names())
    for name in sorted(set(found)):
        layer, _, table = name.partition(".")
        is_query = layer in {"bronze", "silver", "gold", "publish"} and table and "." not in table
        if is_query and not _KEPT.search(table) and name not in names:
            text = "its tables and its checkpoint stay as they are, and no query writes them"
            yield QueryPlan(name, (Change("declaration", name, "", "not declared", text),))
