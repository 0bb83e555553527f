"""Compares gold tables with their definitions over the versions of their sources that their commits name.

Only that shows what readers see: a row of an aggregate may be stale although every offset has its place.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Gold, Pipeline, View
from common.declare.gold_statement import why_undefined
from common.delta.log import LogReader
from common.errors import TableError
from common.streaming.spark_errors import is_version_gone
from gold.aggregate.stateful import CLOSED
from gold.query import defined
from gold.table.context import Context
from gold.table.defined import Defined
from gold.view.open_rows import is_approximate, leaves_open
from gold.view.query import other_ways
from orchestration.records.audit.gold.compare import PARTS, Difference, difference, key_range, open_rows
from orchestration.records.audit.gold.state import (
    GoldState,
    declared_anew,
    excuse_of,
    newest_state,
    version_of,
)
from orchestration.records.audit.gold.touched import untouched
from orchestration.records.audit.result import Fault, GoldTable
from orchestration.records.audit.table_log import most_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class GoldProof:
    """Whether and how an audit compares gold tables with their definitions."""

    settings: Settings  # the pipeline's
    is_whole: bool = False  # whether large tables are compared whole, not only a range of their keys
    few_rows: int = 10_000  # tables with so many rows are compared whole in any case


Compared = tuple[GoldTable, Fault | None]
"""How a gold table was compared, and its fault."""


class _UnprovableError(Exception):
    """Something cannot be compared; the message says why."""


@dataclass(frozen=True)
class ContentAudit:
    """Compares gold tables with their definitions."""

    spark: SparkSession
    pipeline: Pipeline
    layout: Layout  # paths of the tables
    proof: GoldProof  # how they are compared

    def compared(self, tables: Sequence[Gold]) -> Iterator[Compared]:
        """Each table of these queries that exists: how it was compared, and its fault."""
        for gold in tables:
            for table in (gold.table, *gold.side_tables):
                if LogReader(self.layout.table_path(table)).latest_version() is not None:
                    yield self.one(gold, table)

    def one(self, gold: Gold, table: str) -> Compared:
        """One table of a query."""
        try:
            state = self._state(gold)
            shown = GoldTable(table, version_of(gold, self.layout, table, state), left_out=state.left_out)
            return self._compare(gold, state, shown)
        except _UnprovableError as found:
            return GoldTable(table, None, why=str(found)), None
        except (PySparkException, Py4JJavaError) as error:
            if not is_version_gone(str(error)) or self.layout.table_path(table) in str(error):
                raise
            why = f"a version of {gold.reads} that it was made of has been cleaned away"
            return GoldTable(table, None, why=why), None

    def _compare(self, gold: Gold, state: GoldState, shown: GoldTable) -> Compared:
        context = Context(self.spark, self.pipeline, self.proof.settings, self.layout)
        versions = list(state.sources.values())
        wanted = next(one for one in defined(context, gold, versions) if one.table == shown.table)
        path = self.layout.table_path(shown.table)
        reader = self.spark.read.format("delta").option("versionAsOf", shown.version)
        have, want = reader.load(path), wanted.rows
        if wanted.until is not None:
            closed = state.metadata["counts"].get(CLOSED)
            newest = have.agg(F.unix_micros(F.max(wanted.until))).collect()[0][0]
            last = newest if closed is None else closed * 1000
            want = want.where(F.unix_micros(wanted.until) <= F.lit(last))
        column, condition = None, F.lit(True)
        if not self.proof.is_whole and most_rows(path, shown.version) > self.proof.few_rows:
            part = random.randrange(PARTS)  # noqa: S311  # which part is looked at is no secret
            column = _column_of_range(wanted, have.columns)
            if (found_range := key_range(have, column, part)) is None:
                column = None
            else:
                condition = found_range
        have, want = have.where(condition), want.where(condition)
        without = ",".join(sorted(wanted.inexact))
        shown = replace(shown, range_of=column or "", without=without)
        found = difference(have, want, key=wanted.key, without=wanted.inexact, rounded=wanted.rounded)
        if found is None:
            return shown, None
        if isinstance(gold, View) and leaves_open(gold):
            ways = ([one.where(condition) for one in some] for some in other_ways(context, gold, versions))
            if (others := open_rows(have, want, *ways, rounded=wanted.rounded)) is not None:
                return replace(shown, open_rows=others), None
        if isinstance(gold, View) and is_approximate(gold):
            raise _UnprovableError("its statement approximates")
        found = self._not_excused(context, gold, state, (have, want), wanted) or found
        return shown, _fault(gold, shown, found, state.sources)

    def _not_excused(
        self, context: Context, gold: Gold, state: GoldState, frames: Sequence[DataFrame], wanted: Defined
    ) -> Difference | None:
        """The difference in rows that no excuse says anything of; None where there is no excuse.

        Raises:
            _UnprovableError: There is none in those rows, or nobody can name them.
        """
        excuse = excuse_of(gold, self.layout, state, self.proof.settings.gold)
        if excuse is None:
            return None
        if (rest := untouched(context, gold, excuse)) is None:
            raise _UnprovableError(excuse.why)
        have, want = map(rest, frames)
        found = difference(have, want, key=wanted.key, without=wanted.inexact, rounded=wanted.rounded)
        if found is None:
            raise _UnprovableError(f"{excuse.why}; groups without such rows were compared")
        return found

    def _state(self, gold: Gold) -> GoldState:
        """The newest version whose rows follow from whole commits of the sources.

        Raises:
            _UnprovableError: There is none, or the declaration is another one than it was written by.
        """
        if why := why_undefined(gold):
            raise _UnprovableError(why)
        try:
            state = newest_state(gold, self.layout)
        except TableError as error:
            raise _UnprovableError(str(error)) from error
        if why := declared_anew(gold, state):
            raise _UnprovableError(why)
        return state


def _column_of_range(wanted: Defined, columns: Sequence[str]) -> str:
    offset = "_kafka_offset"
    return offset if offset in wanted.key else (*wanted.key, *columns)[0]


def _fault(gold: Gold, shown: GoldTable, found: Difference, versions: Mapping[str, int | None]) -> Fault:
    of = " and ".join(f"{table} at version {version}" for table, version in versions.items())
    parts = (("changed", found.changed), ("missing", found.missing), ("not its own", found.extra))
    text = ", ".join(f"{count:,} {what}" for what, count in parts if count)
    where = f", in a range of {shown.range_of}" if shown.range_of else ""
    command = f"To fill it again: medallion rebuild {gold.table}"
    return Fault(
        "content",
        f"{shown.table} at version {shown.version} is not what its declaration gives over {of}{where}: rows "
        f"{text}. {command}",
        found.count,
        keys=found.keys,
        table=gold.table,
        command=command,
    )
