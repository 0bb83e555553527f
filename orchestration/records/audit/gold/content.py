"""Compares gold tables with their definitions over the versions of their sources that their commits name.

Only that shows what readers see: a row of an aggregate may be stale although every offset has its place.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Aggregate, Gold, History, Join, Pipeline, View
from common.delta.checkpoint import DeltaPosition
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.delta.table import FEED
from common.streaming.spark_errors import is_version_gone
from gold.query import (
    Context,
    Defined,
    changed_attributes,
    defined,
    is_approximate,
    leaves_open,
    marks_of,
    other_ways,
    why_undefined,
)
from orchestration.records.audit.gold.compare import PARTS, Difference, difference, key_range, open_rows
from orchestration.records.audit.result import Fault, GoldTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_COMMITS = 1_000
"""Commits of a gold table that are searched for one whose micro-batch read its sources to a commit's end."""


@dataclass(frozen=True, slots=True)
class GoldProof:
    """Whether and how an audit compares gold tables with their definitions.

    Attributes:
        settings: The pipeline's.
        is_whole: Whether large tables are compared whole, not only a range of their keys.
        few_rows: Tables with so many rows are compared whole in any case.
    """

    settings: Settings
    is_whole: bool = False
    few_rows: int = 10_000


@dataclass(frozen=True, slots=True)
class _State:
    """A version of a gold table after a micro-batch that read each source to a commit's end.

    Attributes:
        version: The version; what others have changed since is in it.
        batch: The micro-batch.
        metadata: The metadata of its commit.
    """

    version: int
    batch: MicroBatch
    metadata: Mapping[str, Any]


class _UnprovableError(Exception):
    """Something cannot be compared; the message says why."""


@dataclass(frozen=True)
class ContentAudit:
    """Compares gold tables with their definitions.

    Attributes:
        spark: The session.
        pipeline: The pipeline.
        layout: Paths of the tables.
        proof: How they are compared.
    """

    spark: SparkSession
    pipeline: Pipeline
    layout: Layout
    proof: GoldProof

    def compared(self, tables: Sequence[Gold]) -> Iterator[tuple[GoldTable, Fault | None]]:
        """Each table of these queries that exists: how it was compared, and its fault."""
        for gold in tables:
            for table in (gold.table, *gold.side_tables):
                if LogReader(self.layout.table_path(table)).latest_version() is not None:
                    yield self._one(gold, table)

    def _one(self, gold: Gold, table: str) -> tuple[GoldTable, Fault | None]:
        try:
            state = self._state(gold, gold.table)
            shown = GoldTable(table, self._version_of(gold, table, state))
            return self._compare(gold, state, shown)
        except _UnprovableError as found:
            return GoldTable(table, None, why=str(found)), None
        except (PySparkException, Py4JJavaError) as error:
            if not is_version_gone(str(error)) or self.layout.table_path(table) in str(error):
                raise
            why = f"a version of {gold.reads} that it was made of has been cleaned away"
            return GoldTable(table, None, why=why), None

    def _compare(self, gold: Gold, state: _State, shown: GoldTable) -> tuple[GoldTable, Fault | None]:
        context = Context(self.spark, self.pipeline, self.proof.settings, self.layout)
        versions = _read_to(gold, state)
        wanted = next(one for one in defined(context, gold, versions) if one.table == shown.table)
        reader = self.spark.read.format("delta").option("versionAsOf", shown.version)
        have, want = reader.load(self.layout.table_path(shown.table)), wanted.rows
        if wanted.until is not None:
            last = have.agg(F.unix_micros(F.max(wanted.until))).collect()[0][0]
            want = want.where(F.unix_micros(wanted.until) <= F.lit(last))
        column, condition = None, F.lit(True)
        if not self.proof.is_whole and have.count() > self.proof.few_rows:
            part = random.randrange(PARTS)  # noqa: S311  # which part is looked at is no secret
            column = _column_of_range(wanted, have.columns)
            if (found_range := key_range(have, column, part)) is None:
                column = None
            else:
                condition = found_range
        have, want = have.where(condition), want.where(condition)
        without = ",".join(sorted(wanted.inexact))
        shown = replace(shown, range_of=column or "", without=without)
        found = difference(have, want, key=wanted.key, without=wanted.inexact)
        if found is None:
            return shown, None
        if isinstance(gold, View) and leaves_open(gold):
            ways = ([one.where(condition) for one in some] for some in other_ways(context, gold, versions))
            if (others := open_rows(have, want, *ways)) is not None:
                return replace(shown, open_rows=others), None
        if why := self._why_it_may_differ(gold, state):
            raise _UnprovableError(why)
        return shown, _fault(gold, shown, found, dict(zip(_sources(gold), versions, strict=True)))

    def _state(self, gold: Gold, table: str) -> _State:
        """The newest version whose rows follow from whole commits of the sources.

        Raises:
            _UnprovableError: There is none, or the declaration is another one than it was written by.
        """
        if why := why_undefined(gold):
            raise _UnprovableError(why)
        after = self._newest(table) + 1
        for version, metadata in self._own_commits(gold, table, after - 1):
            positions = metadata.get("positions")
            batch = MicroBatch(
                "", gold.table, metadata["query_id"], metadata["batch_id"], tuple(positions or ())
            )
            if self._is_whole(gold, batch, metadata):
                before = metadata.get("declared")
                if before and (changed := changed_attributes(before, marks_of(gold))):
                    raise _UnprovableError(f"its declaration has changed since: {', '.join(changed)}")
                return _State(after - 1, batch, metadata)
            after = version
        raise _UnprovableError("no commit of it ends with a commit of its source")

    def _version_of(self, gold: Gold, table: str, state: _State) -> int:
        """The version of one of the query's tables after the same micro-batch."""
        if table == gold.table:
            return state.version
        after = self._newest(table) + 1
        own = (state.batch.query_id, state.batch.batch_id)
        for version, metadata in self._own_commits(gold, table, after - 1):
            if metadata["query_id"] == own[0] and metadata["batch_id"] <= own[1]:
                break
            after = version
        return after - 1

    def _newest(self, table: str) -> int:
        """The newest version of a table; -1 where there is none."""
        latest = LogReader(self.layout.table_path(table)).latest_version()
        return -1 if latest is None else latest

    def _own_commits(
        self, gold: Gold, table: str, last: int, most: int | None = _MOST_COMMITS
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The commits of the query's micro-batches up to a version, newest first."""
        log = LogReader(self.layout.table_path(table))
        for version in range(last, -1, -1)[:most]:
            if (commit := log.commit(version)) is None:
                return
            metadata = commit.metadata
            if metadata.get("query") == gold.table and "query_id" in metadata and "batch_id" in metadata:
                yield version, metadata

    def _is_whole(self, gold: Gold, batch: MicroBatch, metadata: Mapping[str, Any]) -> bool:
        if isinstance(gold, View):
            return _VERSIONS in metadata.get("counts", {})
        for place, table in enumerate(_sources(gold)):
            end = batch.end(place)
            if batch.in_commit(place):
                return False
            if end is None or not end.in_snapshot or _writes_first_state(gold, metadata, end.version):
                continue
            after = DeltaPosition(end.version + 1, -1, end.table_id, in_snapshot=False)
            path = self.layout.table_path(table)
            if LogReader(path).backlog_between(end, after).files:
                return False
        return True

    def _why_it_may_differ(self, gold: Gold, state: _State) -> str:
        """Why a table may rightly differ from its definition; empty where it may not."""
        if isinstance(gold, View) and is_approximate(gold):
            return "its statement approximates"
        accepted = self.proof.settings.gold.accept_commits
        if taken := [one for one in accepted if one.partition("@")[0] in {gold.table, *gold.side_tables}]:
            return f"gold.accept_commits takes {', '.join(taken)} as it is"
        if why := self._why_kept(gold, state) or self._why_late(gold, state):
            return why
        if gold.takes_rows_back and gold.reading.changes != "appends":
            path = self.layout.table_path(gold.reads)
            if LogReader(path).properties().get(FEED) == "true":
                return ""
        log = LogReader(self.layout.table_path(gold.reads))
        oldest = log.oldest_version() or 0
        last = state.batch.source_version() or 0
        removed = next((one.version for one in log.commits(oldest, last) if one.is_change), None)
        if removed is not None:
            return f"version {removed} of {gold.reads} took rows away, which it does not follow"
        return f"the first commits of {gold.reads} were cleaned away" if oldest > 0 else ""

    def _why_kept(self, gold: Gold, state: _State) -> str:
        """Whether the table keeps rows of an earlier declaration, in words."""
        if gold.table in self.proof.settings.gold.accept_changed:
            return "gold.accept_changed keeps rows of an earlier declaration"
        for version, metadata in self._own_commits(gold, gold.table, state.version, most=None):
            if metadata["query_id"] != state.batch.query_id:
                break  # the first micro-batch of a query replaces all rows
            before = metadata.get("declared")
            if before and (changed := changed_attributes(before, marks_of(gold))):
                return f"version {version} and those before are of another declaration: {', '.join(changed)}"
        return ""

    def _why_late(self, gold: Gold, state: _State) -> str:
        """Whether rows came too late for a table with a watermark, in words."""
        if getattr(gold, "watermark", None) is None and getattr(gold, "within", None) is None:
            return ""
        own = self._own_commits(gold, gold.table, state.version, most=None)
        if late := sum(int(metadata["counts"].get("late", 0)) for _, metadata in own):
            return f"{late:,} rows came too late for it"
        oldest = LogReader(self.layout.table_path(gold.table)).oldest_version()
        return "its first commits, which count late rows, were cleaned away" if oldest else ""


_VERSIONS, _COVERS = "versions", "covers"


def _sources(gold: Gold) -> Sequence[str]:
    """The tables that a query reads as streams, in the order of its positions."""
    if isinstance(gold, View):
        return gold.sources
    return (gold.reads, gold.joins) if isinstance(gold, Join) else (gold.reads,)


def _read_to(gold: Gold, state: _State) -> list[int | None]:
    """The version of each source whose rows the table has."""
    counts = state.metadata.get("counts", {})
    if isinstance(gold, View):
        return [counts[_VERSIONS].get(table) for table in gold.sources]
    found = [state.batch.source_version(place) for place in range(len(_sources(gold)))]
    return [counts[_COVERS]] if isinstance(gold, Aggregate) and counts.get(_COVERS) is not None else found


def _writes_first_state(gold: Gold, metadata: Mapping[str, Any], version: int) -> bool:
    """Whether the first micro-batch of a table writes what its source has at a version, whatever it reads."""
    if isinstance(gold, History) or (isinstance(gold, Aggregate | Join) and gold.mode == "recompute"):
        return True
    return bool(metadata.get("counts", {}).get(_COVERS) == version)


def _column_of_range(wanted: Defined, columns: Sequence[str]) -> str:
    offset = "_kafka_offset"
    return offset if offset in wanted.key else (*wanted.key, *columns)[0]


def _fault(gold: Gold, shown: GoldTable, found: Difference, versions: Mapping[str, int | None]) -> Fault:
    of = " and ".join(f"{table} at version {version}" for table, version in versions.items())
    parts = (("changed", found.changed), ("missing", found.missing), ("not its own", found.extra))
    text = ", ".join(f"{count:,} {what}" for what, count in parts if count)
    where = f", in a range of {shown.range_of}" if shown.range_of else ""
    return Fault(
        "content",
        f"{shown.table} at version {shown.version} is not what its declaration gives over {of}{where}: rows "
        f"{text}. To fill it again: medallion rebuild {gold.table}",
        found.count,
        keys=found.keys,
    )
