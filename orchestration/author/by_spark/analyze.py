"""Has Spark analyze every SQL text of a pipeline, over tables without rows, in one session.

Each text is analyzed alone, so that each has its own error: over the columns that it may name, with their
types as the declarations say them and as Spark has found them for the tables before. No table is read or
written, and no function of the user is called but that of silver's columns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from common.declare.author_texts import AuthorText, spot_of, texts_of
from common.sql.spark_messages import in_plain_words
from common.streaming.sql_failures import sql_failure
from pyspark.errors import PySparkException

from common.declare import (
    Aggregate,
    Custom,
    Gold,
    Join,
    KafkaSink,
    Meets,
    Pipeline,
    Publish,
    Silver,
    SumsEqual,
    View,
)
from common.declare.declared import source_of
from common.errors import Fault, Problem, SqlError
from common.schema.ddl import Field
from orchestration.access.declaration.lineage import in_data_order
from orchestration.author.by_spark.tables import define, fields_of, nulls, view_of
from orchestration.author.check.gold import gold_scopes
from orchestration.author.check.names import named
from orchestration.author.check.pipeline import table_scopes, value_scope
from orchestration.author.check.publish import message_texts
from orchestration.author.check.view import read_view
from orchestration.author.check.visible_columns import KAFKA, KAFKA_OF_ELEMENT, Scope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CODE = "MED-4014"
_BOUNDS = tuple(Field(name, "timestamp") for name in ("window_start", "window_end"))


@dataclass(frozen=True, slots=True)
class Refusals:
    """What Spark says of the SQL of a pipeline.

    Attributes:
        problems: What it refuses, in the order of the pipeline's tables.
        unasked: Tables whose texts it was not asked for: their columns, or those of a table that they read,
            are known at a start only.
    """

    problems: tuple[Problem, ...]
    unasked: tuple[str, ...]


def refusals(spark: SparkSession, pipeline: Pipeline, told: Collection[str] = ()) -> Refusals:
    """Has Spark analyze every SQL text of a pipeline.

    Args:
        spark: A session of its own, in which views are made.
        pipeline: The pipeline.
        told: The places of mistakes that are known without Spark; the texts there are not asked.
    """
    asking = _Asking(spark, pipeline, frozenset(told), dict(table_scopes(pipeline)))
    for silver in pipeline.silver:
        asking.silver(silver)
    for gold in in_data_order(pipeline.gold):
        asking.gold(gold)
    for silver in pipeline.silver:
        asking.rules(silver)
    for publish in pipeline.publish:
        asking.publish(publish)
    asking.suites()
    return Refusals(tuple(dict.fromkeys(asking.problems)), tuple(dict.fromkeys(asking.unasked)))


@dataclass
class _Asking:
    """Asks Spark, table by table.

    Attributes:
        scopes: The columns of each table, with the types that Spark has found.
        doubtful: Columns without a type that Spark knows, by table: their own text is wrong.
    """

    spark: SparkSession
    pipeline: Pipeline
    told: frozenset[str]
    scopes: dict[str, Scope]
    doubtful: dict[str, set[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)

    # Tables

    def silver(self, silver: Silver) -> None:
        """Ask for the columns of a silver table, and for the condition on its records."""
        value = value_scope(silver)
        seen = self._define(f"value of {silver.table}", value)
        if seen is None:
            self.unasked.append(silver.table)
            self.scopes[silver.table] = Scope(silver.table, None)
            return
        found = {}
        for text in texts_of(silver):
            if text.what.startswith("column") or text.what == "where":
                found[text.what] = self._ask(silver.table, text, seen, ())
        if callable(silver.columns):
            self.scopes[silver.table] = Scope(silver.table, self._by_function(silver, seen))
        else:
            self._learn(silver.table, self.scopes[silver.table], found)

    def _by_function(self, silver: Silver, seen: str) -> tuple[Field, ...] | None:
        try:
            frame: DataFrame = silver.columns(self.spark.sql(f"SELECT * FROM {seen}"))  # type: ignore[operator]
        except PySparkException as error:
            self._refused(f"{silver.table}, columns", error, AuthorText("columns", "", silver))
            return None
        return tuple(fields_of(frame))

    def rules(self, silver: Silver) -> None:
        """Ask for the rules of a silver table, and for what looks rows up for them."""
        own = self.scopes[silver.table].fields
        if own is None:
            return
        kafka = KAFKA if silver.each is None else KAFKA_OF_ELEMENT
        rows = (*(each for each in own if not each.name.startswith("_")), *kafka)
        seen = self._define(f"rows of {silver.table}", Scope(silver.table, rows))
        looked_up = []
        for lookup in silver.lookups:
            for column, sql in named(lookup.on).items():
                text = AuthorText(f"lookup {lookup.name!r}, on {column!r}", sql, lookup)
                self._ask(silver.table, text, seen or "", (silver.table,))
            found = self.scopes.get(lookup.table, Scope(lookup.table, None)).fields
            looked_up.append(None if found is None else Field(lookup.name, "struct", found))
        if seen is None or None in looked_up:
            self.unasked.append(silver.table)
            return
        judged = Scope(silver.table, (*rows, *filter(None, looked_up)))
        seen = self._define(f"judged rows of {silver.table}", judged)
        for text in texts_of(silver):
            if text.what.startswith("rule") and seen is not None:
                self._ask(silver.table, text, seen, (silver.table,))

    def gold(self, gold: Gold) -> None:
        """Ask for the texts of a gold table, and learn its columns."""
        scopes = gold_scopes(gold, self.scopes)
        found: dict[str, Field | None] = {}
        if isinstance(gold, View):
            self._view(gold)
            return
        reads = self.scopes.get(gold.reads, Scope(gold.reads, None))
        seen = self._define(gold.reads, reads)
        if seen is None and not isinstance(gold, Custom):
            self.unasked.append(gold.table)
        for text in texts_of(gold) if seen is not None else ():
            over = self._over(gold, text, seen or "")
            if over is not None:
                found[text.what] = self._ask(gold.table, text, over, self._read_by(gold))
        for table, scope in scopes.items():
            self._learn(table, scope, found)

    def _read_by(self, gold: Gold) -> Sequence[str]:
        return (gold.reads, gold.joins) if isinstance(gold, Join) else (gold.reads,)

    def _over(self, gold: Gold, text: AuthorText, seen: str) -> str | None:
        """What a text of a gold table is over, as what stands behind FROM; None where it is not known."""
        if isinstance(gold, Aggregate) and text.what.startswith("measure"):
            return self._groups(gold, seen)
        if isinstance(gold, Join) and text.what.startswith("column") and gold.how != "semi":
            joined = self.scopes.get(gold.joins, Scope(gold.joins, None)).fields
            if joined is None or not all(each.type for each in joined):
                self.unasked.append(gold.table)
                return None
            row = nulls([Field(gold.joined, "struct", joined)])
            return f"(SELECT *, {row} FROM {seen})"
        return seen

    def _groups(self, gold: Aggregate, seen: str) -> str:
        """The groups of an aggregate, in which a measure is one value."""
        own = self.scopes[gold.reads]
        bounds = [each for each in _BOUNDS if gold.window is not None and not own.has(each.name)]
        over = f"(SELECT *, {nulls(bounds)} FROM {seen})" if bounds else seen
        wrong = self.doubtful.get(f"by of {gold.table}", set())
        by = [f"({sql}\n)" for name, sql in named(gold.by or ()).items() if name not in wrong]
        by += [each.name for each in bounds]
        return f"{over} GROUP BY {', '.join(by)}" if by else over

    def _view(self, view: View) -> None:
        try:
            statement = read_view(view, self.scopes)
        except SqlError:
            statement = None  # told without Spark
        views = (
            []
            if statement is None
            else [
                self._define(table, self.scopes[table]) for table in statement.tables if table in self.scopes
            ]
        )
        if statement is None or None in views or len(views) != len(statement.tables):
            self.unasked.append(view.table)
            self.scopes[view.table] = Scope(view.table, None)
            return
        text = statement.over_inputs
        for place, each in enumerate(views):
            text = text.replace(f"__in{place}__", str(each))
        names = [name for table in statement.tables for name in self.doubtful.get(table, ())]
        self.scopes[view.table] = Scope(view.table, None)
        if view.table in self.told or _names_one(view.statement, names):
            return
        try:
            found = fields_of(self.spark.sql(text))
        except PySparkException as error:
            self._refused(view.table, error, *texts_of(view))
            return
        fields = (
            Field(name, each.type, each.nested) for name, each in zip(statement.columns, found, strict=True)
        )
        self.scopes[view.table] = Scope(view.table, tuple(fields))

    def publish(self, publish: Publish) -> None:
        """Ask for the texts of a publication, and for those of its messages."""
        seen = self._define(publish.reads, self.scopes.get(publish.reads, Scope(publish.reads, None)))
        if seen is None:
            self.unasked.append(publish.table)
            return
        found = {
            text.what: self._ask(publish.table, text, seen, (publish.reads,)) for text in texts_of(publish)
        }
        if not isinstance(publish.to, KafkaSink):
            return
        if publish.columns is not None:
            columns = [
                Field(name, each.type, each.nested) if (each := found.get(f"column {name!r}")) else None
                for name in named(publish.columns)
            ]
            sent = (
                None
                if None in columns
                else self._define(publish.table, Scope(publish.table, tuple(filter(None, columns))))
            )
        else:
            sent = seen
        for what, sql in message_texts(publish.to) if sent is not None else ():
            self._ask(publish.table, AuthorText(what, sql, publish.to), sent or "", (publish.reads,))

    def suites(self) -> None:
        """Ask for the conditions of suites."""
        for suite in self.pipeline.quality:
            for each in suite.expectations:
                over, sql = suite.table, each.condition if isinstance(each, Meets) else None
                if isinstance(each, SumsEqual):
                    over, sql = each.table, each.where
                seen = self._define(over, self.scopes.get(over, Scope(over, None)))
                if sql is not None and seen is not None:
                    place = getattr(each, "name", type(each).__name__)
                    self._ask(f"quality of {suite.table}", AuthorText(place, sql, each), seen, (over,))

    # Texts

    def _define(self, table: str, scope: Scope) -> str | None:
        """Make the view of a table; None where a type of its columns is not known."""
        if not scope.fields or not all(_is_known(each) for each in scope.fields):
            return None
        define(self.spark, table, scope.fields)
        return view_of(table)

    def _learn(self, table: str, scope: Scope, found: dict[str, Field | None]) -> None:
        """Take the types that Spark has found for the columns of a table."""
        if scope.fields is None:
            self.scopes[table] = scope
            return
        fields = []
        for each in scope.fields:
            asked = [
                what
                for what in (f"column {each.name!r}", f"by {each.name!r}", f"measure {each.name!r}")
                if what in found
            ]
            known = found[asked[0]] if asked else each
            if known is None:
                self.doubtful.setdefault(table, set()).add(each.name)
                known = Field(each.name, "string")
            fields.append(Field(each.name, known.type, known.nested))
        self.scopes[table] = Scope(table, tuple(fields))

    def _ask(self, table: str, text: AuthorText, over: str, reads: Iterable[str]) -> Field | None:
        """The type of a text; None where Spark refuses it, or was not asked."""
        place = f"{table}, {text.what}"
        names = [name for each in reads for name in self.doubtful.get(each, ())]
        if place in self.told or _names_one(text.text, names):
            found = None
        else:
            found = self._analyzed(place, text, over)
        if found is None and text.what.startswith("by "):
            self.doubtful.setdefault(f"by of {table}", set()).add(text.what.removeprefix("by ").strip("'"))
        return found

    def _analyzed(self, place: str, text: AuthorText, over: str) -> Field | None:
        try:
            (found,) = fields_of(self.spark.sql(f"SELECT ({text.text}\n) AS c FROM {over}"))
        except PySparkException as error:
            self._refused(place, error, text)
            return None
        return found

    def _refused(self, place: str, error: PySparkException, text: AuthorText) -> None:
        """Note what Spark refuses, at its place in the author's file."""
        failure = sql_failure(error)
        words = in_plain_words(error if failure is None else failure.message or str(error))
        part = "" if failure is None else failure.part
        spot = None if failure is None else spot_of([text], part, failure.read, failure.begin)
        source = spot.place if spot is not None and spot.place else text.place(0) or source_of(text.declared)
        shown = f": {' '.join(part.split())}" if part and part not in words else ""
        self.problems.append(Problem(place, Fault(_CODE, f"Spark refuses it: {words}{shown}", source)))


def _is_known(found: Field) -> bool:
    return bool(found.type) and all(_is_known(each) for each in found.nested)


def _names_one(text: str, names: Sequence[str]) -> bool:
    """Whether a text has one of these names."""
    return bool(names) and re.search(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)", text) is not None
