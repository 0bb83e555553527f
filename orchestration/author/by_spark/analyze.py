"""Has Spark analyze every SQL text of a pipeline, over tables without rows, in one session.

Each text is analyzed alone, so that each has its own error: over the columns that it may name, with their
types as the declarations say them and as Spark has found them for the tables before. No table is read or
written, and no function of the user is called but that of silver's columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from common.declare import (
    Aggregate,
    Custom,
    Gold,
    Join,
    KafkaSink,
    Meets,
    Pipeline,
    Publish,
    Quality,
    Silver,
    SumsEqual,
    View,
)
from common.declare.author_texts import AuthorText, texts_of
from common.declare.declared import source_of
from common.declare.field_types import named
from common.errors import PipelineError, Problem, SqlError
from common.schema.ddl import Field
from common.sql.relations import with_inputs
from orchestration.access.declaration.lineage import in_data_order
from orchestration.author.by_spark.tables import fields_of
from orchestration.author.by_spark.texts import Texts
from orchestration.author.check.gold import gold_scopes, with_bounds, with_joined
from orchestration.author.check.pipeline import silver_scope, table_scopes, value_scope
from orchestration.author.check.publish import message_texts
from orchestration.author.check.view import columns_of, read_view, view_problems
from orchestration.author.check.visible_columns import (
    KAFKA,
    KAFKA_OF_ELEMENT,
    LATE,
    METADATA,
    OF_ELEMENT,
    Scope,
)
from silver.read.column_names import META
from silver.read.declared_columns import select_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BOUNDS = ("window_start", "window_end")
_COLUMNS = ("column ", "by ", "measure ")
"""What texts that are a column of their table are called, before its name."""


@dataclass(frozen=True, slots=True)
class Refusals:
    """What Spark says of the SQL of a pipeline."""

    problems: tuple[Problem, ...]  # what it refuses, in the order of the pipeline's tables
    # Tables some of whose texts it was not asked for: columns of them, or of a table that they read, are
    # known at a start only.
    unasked: tuple[str, ...]


def refusals(spark: SparkSession, pipeline: Pipeline, told: Collection[str] = ()) -> Refusals:
    """Has Spark analyze every SQL text of a pipeline.

    Args:
        spark: A session of its own, in which views are made.
        told: The places of mistakes that are known without Spark; the texts there are not asked.
    """
    asking = _Asking(pipeline, Texts(spark, frozenset(told)), dict(table_scopes(pipeline)))
    for silver in pipeline.silver:
        asking.silver(silver)
    for silver in pipeline.silver:
        asking.rules(silver)
    for gold in in_data_order(pipeline.gold):
        asking.view(gold) if isinstance(gold, View) else asking.gold(gold)
    for publish in pipeline.publish:
        asking.publish(publish)
    for suite in pipeline.quality:
        asking.suite(suite)
    return Refusals(tuple(dict.fromkeys(asking.texts.problems)), tuple(dict.fromkeys(asking.unasked)))


@dataclass
class _Asking:
    """Asks Spark, table by table."""

    pipeline: Pipeline
    texts: Texts
    scopes: dict[str, Scope]  # the columns of each table, with the types that Spark has found
    unasked: list[str] = field(default_factory=list)

    def silver(self, silver: Silver) -> None:
        """Ask for the columns of a silver table, and for the condition on its records."""
        value = value_scope(silver)
        over = self._known(silver.table, value)
        if over is None:
            self.scopes[silver.table] = Scope(silver.table, None)
            return
        if callable(silver.columns):
            self.scopes[silver.table] = self._by_function(silver, over)
        texts = [each for each in texts_of(silver) if each.what == "where" or each.what.startswith(_COLUMNS)]
        found = {each.what: self.texts.expression(_place(silver, each), each, over) for each in texts}
        if not callable(silver.columns):
            self._learn(silver_scope(silver, value), found)
        if self.scopes[silver.late_table].fields is not None:
            late = (*(self.scopes[silver.table].fields or ()), *LATE)
            self.scopes[silver.late_table] = Scope(silver.late_table, late)

    def _by_function(self, silver: Silver, over: str) -> Scope:
        """The columns that a function of the user makes."""
        try:
            made = select_columns(
                self.texts.spark.table(over), silver.columns, silver.table, source_of(silver)
            )
        except PipelineError as error:
            self.texts.problems += error.problems
            return Scope(silver.table, None)
        beside = (*METADATA, *(OF_ELEMENT if silver.each is not None else ()))
        return Scope(silver.table, (*(each for each in fields_of(made) if each.name != META), *beside))

    def rules(self, silver: Silver) -> None:
        """Ask for the rules of a silver table, and for what looks rows up for them."""
        own = self.scopes[silver.table].fields
        if own is None:
            return
        kafka = KAFKA if silver.each is None else KAFKA_OF_ELEMENT
        rows = (*(each for each in own if each not in {*METADATA, *OF_ELEMENT}), *kafka)
        over = self._known(silver.table, Scope(silver.table, rows))
        looked_up = []
        for lookup in silver.lookups:
            for column, sql in named(lookup.on).items():
                text = AuthorText(f"lookup {lookup.name!r}, on {column!r}", sql, lookup)
                self._ask(silver, text, over, (silver.table,))
            found = self.scopes.get(lookup.table, Scope(lookup.table, None)).fields
            looked_up.append(Field(lookup.name, "struct" if found else "", found or ()))
        judged = self._known(silver.table, Scope(silver.table, (*rows, *looked_up)))
        reads = (silver.table, *(lookup.table for lookup in silver.lookups))
        for text in texts_of(silver):
            if text.what.startswith("rule "):
                self._ask(silver, text, judged, reads)

    def gold(self, gold: Gold) -> None:
        """Ask for the texts of a gold table, and learn its columns."""
        scopes = gold_scopes(gold, self.scopes)
        found: dict[str, Field | None] = {}
        for text in () if isinstance(gold, Custom) else texts_of(gold):
            found[text.what] = self._ask(gold, text, self._over(gold, text, found), gold.sources)
        for scope in scopes.values():
            self._learn(scope, found)

    def _over(self, gold: Gold, text: AuthorText, found: Mapping[str, Field | None]) -> str | None:
        """What a text of a gold table is over, as what stands behind FROM; None where it is not known."""
        seen = self._of(gold.reads)
        if isinstance(gold, Aggregate) and text.what.startswith("measure "):
            return self._groups(gold, self._known(gold.table, with_bounds(gold, seen)), found)
        if isinstance(gold, Join) and text.what.startswith("column "):
            seen = with_joined(gold, seen, self._of(gold.joins))
        return self._known(gold.table, seen)

    def _groups(self, gold: Aggregate, over: str | None, found: Mapping[str, Field | None]) -> str | None:
        """The groups of an aggregate, in which a measure is one value."""
        by = [f"({sql}\n)" for name, sql in named(gold.by or ()).items() if found.get(f"by {name!r}")]
        by += _BOUNDS if gold.window is not None else ()
        return f"{over} GROUP BY {', '.join(by)}" if over is not None and by else over

    def view(self, view: View) -> None:
        """Ask for the statement of a view, and learn its columns."""
        self.scopes[view.table] = Scope(view.table, None)
        try:
            statement = read_view(view, self.scopes)
        except SqlError:
            if view.table not in self.texts.told:  # it reads columns that Spark alone knows
                self.texts.problems += view_problems(view, self.scopes)
            return
        tables = () if statement is None else statement.tables
        columns = columns_of(view, self.scopes)
        inputs = [self._known(view.table, Scope(table, tuple(columns[table]))) for table in tables]
        if statement is None or None in inputs:
            self.unasked.append(view.table)
            return
        sql = with_inputs(statement.over_inputs, [str(each) for each in inputs])
        found = self.texts.statement(view.table, texts_of(view)[0], sql, tables)
        if found is not None:
            # Spark alone names the columns of a pivot.
            names = statement.columns or [each.name for each in found]
            named_types = zip(names, found, strict=True)
            fields = tuple(Field(name, each.type, each.nested) for name, each in named_types)
            self.scopes[view.table] = Scope(view.table, fields)

    def publish(self, publish: Publish) -> None:
        """Ask for the texts of a publication, and for those of its messages."""
        seen = self._of(publish.reads)
        over = self._known(publish.table, seen)
        texts = texts_of(publish)
        found = {each.what: self._ask(publish, each, over, (publish.reads,)) for each in texts}
        if not isinstance(publish.to, KafkaSink):
            return
        columns = named(publish.columns) if publish.columns is not None else None
        if columns is not None:
            seen = Scope(publish.table, tuple(Field(name, "") for name in columns))
            seen = self.texts.learnt(seen, _by_column(found))
            over = self.texts.table(seen)
        for what, sql in message_texts(publish.to):
            self._ask(publish, AuthorText(what, sql, publish.to), over, (publish.reads, publish.table))

    def suite(self, suite: Quality) -> None:
        """Ask for the conditions of a suite."""
        for each in suite.expectations:
            over, sql = suite.table, each.condition if isinstance(each, Meets) else None
            if isinstance(each, SumsEqual):
                over, sql = each.table, each.where
            if sql is not None:
                place = f"quality of {suite.table}"
                text = AuthorText(getattr(each, "name", type(each).__name__), sql, each)
                seen = self._known(place, self._of(over))
                if seen is not None:
                    self.texts.expression(f"{place}, {text.what}", text, seen, (over,))

    def _of(self, table: str) -> Scope:
        return self.scopes.get(table, Scope(table, None))

    def _known(self, asker: str, scope: Scope) -> str | None:
        """The table in Spark; None where a type of it is not known, so that texts over it are not asked."""
        found = self.texts.table(scope)
        if found is None:
            self.unasked.append(asker)
        return found

    def _ask(
        self, declared: Silver | Gold | Publish, text: AuthorText, over: str | None, reads: Sequence[str]
    ) -> Field | None:
        if over is None:
            return None
        return self.texts.expression(_place(declared, text), text, over, reads)

    def _learn(self, scope: Scope, found: Mapping[str, Field | None]) -> None:
        self.scopes[scope.what] = self.texts.learnt(scope, _by_column(found))


def _place(declared: Silver | Gold | Publish, text: AuthorText) -> str:
    return f"{declared.table}, {text.what}"


def _by_column(found: Mapping[str, Field | None]) -> dict[str, Field | None]:
    """What was found for texts that are a column, by the column's name."""
    return dict(_columns(found))


def _columns(found: Mapping[str, Field | None]) -> Iterator[tuple[str, Field | None]]:
    for what, each in found.items():
        before = next((one for one in _COLUMNS if what.startswith(one)), "")
        if before:
            yield what.removeprefix(before)[1:-1], each
