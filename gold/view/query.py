"""The query of a view: its table equals the statement over its sources, at the versions that commits name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import structlog
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from common.declare import Aggregate, Join, View
from common.declare.declared import is_outside
from common.declare.gold_statement import statement_of
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.source_match import Source, commits_at
from common.errors import SqlError, TableMissingError, UsageError
from common.rows.rows import Rows
from common.sql.cost import TAKEN, Sizes, chosen
from common.sql.narrowed import narrowed
from common.sql.relations import Relation, RowWise, nested
from common.sql.statement import Statement, read_statement
from common.sql.way import Way, note, way_of
from common.streaming.query import Stream
from gold.source.stream import at_version, keeps_feed, stream
from gold.table import create
from gold.table.context import Context
from gold.table.defined import Defined, computed_columns, inexact_columns
from gold.table.identity import identity
from gold.table.maintained import Maintained, Work
from gold.view import multiset, open_rows
from gold.view.analyzed import NO_TYPES, analyzed
from gold.view.copied import copied_columns
from gold.view.delta_rule import DeltaRule, Key, Touched, Types, consolidated, sql
from gold.view.versions import Versions, rows_now
from gold.view.written_before import refuse_other_meaning

_VERSIONS = "versions"
"""In the counts of each commit: the version of every source whose rows the table has."""

_log = structlog.get_logger(__name__)


def build_query(context: Context, gold: View) -> Stream:
    """The query of one view; creates its table where there is none.

    A micro-batch only says to which version each source was read; the changes since the versions of the
    last commit are read by those numbers. So a commit that comes in several micro-batches is taken whole
    with the first of them, and the others have nothing to do.

    A table that is named by its path may keep no change data feed: then all rows are computed again when its
    version has moved.

    Raises:
        SqlError: The statement names a column that there is not.
        UsageError: It is declared to be kept in a way in which its changes cannot be computed.
        TableMissingError: There is no table at a path that it names.
        TableShapeError: The table exists with other columns, or a source keeps no change data feed that the
            way of keeping it needs.
    """
    paths = {table: context.path(table) for table in gold.sources}
    without_feed = _without_feed(context, gold, paths)
    tables = {name: context.spark.read.format("delta").load(path) for name, path in paths.items()}
    statement = read_statement(gold.statement, {name: frame.columns for name, frame in tables.items()})
    refuse_other_meaning(context, gold, statement, [tables[name] for name in statement.tables])
    if statement.relation is not None:
        statement = replace(statement, relation=narrowed(statement.relation))
    schema = _columns(_all_of(statement, (tables[name] for name in statement.tables)))
    by, way = gold.storage.cluster_by or (), _way(gold, statement, without_feed, tables, schema)
    create.ensure(context, gold.table, schema, gold.storage)
    changes = (
        stream(context, gold, path, gold.reading, feed=table not in without_feed).select(
            F.lit(place).alias("source")
        )
        for place, (table, path) in enumerate(paths.items())
    )
    logs = {
        table: LogReader(path) for table, path in (*paths.items(), (gold.table, context.path(gold.table)))
    }
    target = _Kept(context.path(gold.table), by, statement, *way, paths, logs, gold)
    return context.query(gold, reduce(DataFrame.unionByName, changes), target.write)


def _columns(rows: DataFrame) -> StructType:
    """The columns of a result, without what tables note of theirs, such as a length that a union exceeds."""
    return StructType([StructField(each.name, each.dataType, each.nullable) for each in rows.schema])


def _way(
    gold: View,
    statement: Statement,
    without_feed: Sequence[str],
    tables: Mapping[str, DataFrame],
    schema: StructType,
) -> tuple[Way, Types]:
    """The way in which a view is kept, and what Spark says of its relations."""
    way = way_of(statement, without_feed, declared=gold.kept)
    if way.kept == "whole" or statement.relation is None:
        return way, NO_TYPES
    found, types = analyzed(statement.relation, way, tables, schema)
    if found.kept == way.kept:
        return way, types
    if gold.kept is not None:
        raise UsageError(
            f"{gold.table}: kept={gold.kept!r}, but the statement is kept {found.kept}: {found.why}. Leave "
            "kept out, or write the statement otherwise."
        )
    _log.warning("a view is kept whole", table=gold.table, why=found.why)
    return found, types


def _without_feed(context: Context, gold: View, paths: Mapping[str, str]) -> tuple[str, ...]:
    """The tables that are named by their paths and keep no change data feed."""
    found = []
    for table, path in paths.items():
        is_other = is_outside(table)
        if is_other and not delta_table.exists(path):
            advice = f"{gold.table} reads it: create it first, or name another one."
            raise TableMissingError(table, path, advice)
        if keeps_feed(context, path):
            continue
        if not is_other or gold.kept not in {None, "whole"}:
            raise delta_table.change_feed_missing(gold.table, table, path)
        found.append(table)
    return tuple(found)


def defined(context: Context, gold: View | Aggregate | Join, versions: Sequence[int | None]) -> Defined:
    """The rows that a table must have at versions of its sources: those of its statement.

    Of an aggregate with ``mode="append"`` windows after the last one that was closed come later.
    """
    tables, until = _at_versions(context, gold, versions), None
    if isinstance(gold, Aggregate):
        gold = create.by_as_stored(gold, tables[gold.reads])
        until = "window_end" if gold.mode == "append" else None
    statement = _statement(gold, tables)
    rows = _all_of(statement, (tables[name] for name in statement.tables))
    rounded = computed_columns(gold)
    if isinstance(gold, View):
        rounded = frozenset(rows.columns) - copied_columns(statement)
    key = identity(context.pipeline, gold.table)
    return Defined(gold.table, rows, key, inexact_columns(gold), until, rounded)


def other_ways(
    context: Context, gold: View, versions: Sequence[int | None]
) -> tuple[Sequence[DataFrame], Sequence[DataFrame]]:
    """The rows as a statement may give them too: over rows in other orders; with other places of rows."""
    tables = _at_versions(context, gold, versions)
    ordered = zip(*map(open_rows.orders, tables.values()), strict=True)
    orders = [_over(gold, dict(zip(tables, frames, strict=True))) for frames in ordered]
    return orders, [_over(each, tables) for each in open_rows.by_places(gold)]


def _at_versions(
    context: Context, gold: View | Aggregate | Join, versions: Sequence[int | None]
) -> Mapping[str, DataFrame]:
    return {
        table: at_version(context.spark, context.path(table), version)
        for table, version in zip(gold.sources, versions, strict=True)
    }


def _over(gold: View, tables: Mapping[str, DataFrame]) -> DataFrame:
    statement = _statement(gold, tables)
    return _all_of(statement, (tables[name] for name in statement.tables))


def _statement(gold: View | Aggregate | Join, tables: Mapping[str, DataFrame]) -> Statement:
    columns = {name: frame.columns for name, frame in tables.items()}
    return read_statement(str(statement_of(gold, columns)), columns)


@dataclass(frozen=True)
class _Kept(Maintained):
    """A view."""

    statement: Statement  # its statement
    way: Way  # how it is kept
    types: Types  # what Spark says of its relations
    paths: Mapping[str, str]  # the path of each of its tables, in the order of the query's sources
    logs: Mapping[str, LogReader]  # the log of each of them, and its own
    declared: View  # the view

    def whole(self, work: Work) -> Rows | None:
        versions = work.found = self._versions(work)
        work.counts |= {_VERSIONS: versions.now}
        if self.way.kept == "whole" != self.declared.kept and self.statement.relation is not None:
            work.counts |= note(self.statement, self.way)
        if work.batch.batch_id > 0 and versions.before is not None:
            return None
        return work.keep(work.rows.derive(self._all_rows(versions)), whole=True)

    def touched(self, work: Work) -> Rows | None:
        """The changes of the rows, by row; the touched keys, by key; the micro-batch itself for the whole."""
        versions: Versions = work.found
        if not any(versions.changed(table) for table in self.paths):
            return None
        way = self._chosen(versions)
        work.found = versions, way
        if way is not self.way:
            work.counts |= {TAKEN: {"way": way.kept, "why": way.why}}
        if way.kept == "whole" or self.statement.relation is None:
            return work.rows
        rule = self._rule(work, versions)
        if way.top is None:
            change = rule.change(self.statement.relation)
            found = None if change is None else work.keep(work.rows.derive(consolidated(change)))
        else:
            keys = rule.touched(way.top)
            found = None if keys is None else keys.keys
        return found if found is not None and found.count else None

    def recompute(self, touched: Rows, work: Work) -> None:
        versions, way = work.found
        if way.kept == "by row":
            multiset.change(touched, self.path, work.batch, work.counts)
            return
        if way.kept == "whole" or way.top is None or self.statement.relation is None:
            rows = work.rows.derive(self._all_rows(versions))
            multiset.replace(rows, None, self.path, work.batch, work.counts)
            return
        if not way.top.keys:
            computed = self._rule(work, versions).rows_of(way.top)
            rows = work.rows.derive(sql(f"SELECT * FROM {_above(self.statement.relation)}", computed))  # noqa: S608
            multiset.replace(rows, None, self.path, work.batch, work.counts)
            return
        places = list(dict.fromkeys(way.keys.values()))
        own = {f"__key{place}": name for name, place in way.keys.items()}
        shown = touched.renamed({f"__key{place}": own[f"__key{place}"] for place in places})
        # Of all expressions of the key no two rows are the same.
        is_whole = len(places) == len(way.top.keys)
        keys = shown if is_whole else work.keep(shown.derive(shown.frame.distinct()))
        by = [way.top.keys[place] for place in places]
        again = keys.renamed({own[f"__key{place}"]: f"__key{at}" for at, place in enumerate(places)})
        computed = self._rule(work, versions).rows_of(way.top, Touched(again, Key(by, by)))
        rows = work.rows.derive(sql(f"SELECT * FROM {_above(self.statement.relation)}", computed))  # noqa: S608
        work.counts |= {"keys": keys.count}
        multiset.replace(rows, keys, self.path, work.batch, work.counts)

    def _chosen(self, versions: Versions) -> Way:
        """The way that a micro-batch takes: unless one is declared, the cheaper one by what the logs say."""
        if self.declared.kept is not None or self.way.kept == "whole":
            return self.way
        changed = {table: versions.changed_rows(table, self.logs[table]) for table in self.paths}
        rows = {table: rows_now(self.logs[table]) for table in self.paths}
        return chosen(
            self.statement, self.way, Sizes(rows, changed, rows_now(self.logs[self.declared.table]))
        )

    def _rule(self, work: Work, versions: Versions) -> DeltaRule:
        return DeltaRule(versions, lambda frame: work.keep(work.rows.derive(frame)), self.types)

    def _all_rows(self, versions: Versions) -> DataFrame:
        tables = (
            at_version(versions.session, versions.paths[name], versions.now[name])
            for name in self.statement.tables
        )
        return _all_of(self.statement, tables)

    def _versions(self, work: Work) -> Versions:
        """The versions of the last commit, read from the table's log, and those of the micro-batch."""
        last = last_commit_metadata(self.path, work.batch.query)
        is_own = last is not None and last["query_id"] == work.batch.query_id
        known = last["counts"].get(_VERSIONS) if last is not None and is_own else None
        before = None if known is None else {table: known.get(table) for table in self.paths}
        now: dict[str, int | None] = {}
        for place, (table, path) in enumerate(self.paths.items()):
            version, covered = work.batch.source_version(place), (before or {}).get(table)
            if work.batch.failed_at_row and version is not None:
                version = LogReader(path).latest_version()  # it may have the row corrected
            now[table] = covered if version is None or (covered or 0) > version else version
        if now != {table: work.batch.source_version(place) for place, table in enumerate(self.paths)}:
            sources = [Source(*each) for each in self.paths.items()]
            work.batch = replace(work.batch, source_commits=commits_at(list(now.values()), sources))
        return Versions(work.rows.session, self.paths, before, now, is_again=work.batch.failed_at_row)


def _all_of(statement: Statement, tables: Iterable[DataFrame]) -> DataFrame:
    """All rows of a statement over its tables, in the order of its text."""
    rows = sql(statement.over_inputs, *tables)
    if not statement.columns:
        return rows
    read, found = ([name.lower() for name in each] for each in (statement.columns, rows.columns))
    # Of an expression without an alias Spark may have another name.
    if len(found) != len(read) or [each for each in found if each in read] != [
        each for each in read if each in found
    ]:
        raise SqlError(
            f"has the columns {', '.join(rows.columns)}, and was read with {', '.join(statement.columns)}; "
            "write each column by itself instead of a star, with its table and a name by AS"
        )
    return rows.toDF(*statement.columns)


def _above(relation: Relation) -> str:
    """The text of a relation over its topmost key, which it names ``__in0__``."""
    return nested(relation.text(), _above(relation.input)) if isinstance(relation, RowWise) else "__in0__"
