"""Has Spark analyze one SQL text at a time, over tables without rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from common.declare.author_texts import AuthorText, spot_of
from common.declare.declared import source_of
from common.errors import Fault, Problem
from common.schema.ddl import Field
from common.spark.sql_messages import in_plain_words
from common.streaming.sql_failures import SqlFailure, sql_failure
from orchestration.author.by_spark.tables import define, fields_of, view_of
from orchestration.author.check.visible_columns import Scope

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CODE = "MED-4014"
_BEFORE = "SELECT ("
_FUNCTION = re.compile(r"The `(\w+)` requires ")
_AT = re.compile(r"; line (\d+) pos (\d+)")
"""Where a part begins in the text that Spark has read, where it does not show the part."""


@dataclass
class Texts:
    """The texts that Spark has analyzed."""

    spark: SparkSession  # a session of its own, in which views are made
    told: frozenset[str]  # the places of mistakes that are known without Spark; the texts there are not asked
    problems: list[Problem] = field(default_factory=list)  # what Spark refuses
    # Columns whose type is not known since their own text is wrong, by table.
    untyped: dict[str, set[str]] = field(default_factory=dict)
    _tables: dict[str, tuple[Field, ...]] = field(default_factory=dict)

    def table(self, scope: Scope) -> str | None:
        """Have Spark know a table, and give its name; None where a type of its columns is not known."""
        if not scope.fields or not all(map(_is_typed, scope.fields)):
            return None
        if self._tables.get(scope.what) != scope.fields:
            define(self.spark, scope.what, scope.fields)
            self._tables[scope.what] = scope.fields
        return view_of(scope.what)

    def learnt(self, scope: Scope, found: dict[str, Field | None]) -> Scope:
        """The columns of a table with the types that Spark has found for their texts.

        Args:
            scope: The columns, as they are known without Spark.
            found: By the name of a column what Spark has found; None where it was not asked, or refuses.
        """
        if scope.fields is None:
            return scope
        fields = []
        for each in scope.fields:
            known = found.get(each.name, each)
            if known is None:
                self.untyped.setdefault(scope.what, set()).add(each.name)
                known = Field(each.name, "string")
            fields.append(Field(each.name, known.type, known.nested))
        return Scope(scope.what, tuple(fields))

    def expression(self, place: str, text: AuthorText, over: str, reads: Iterable[str] = ()) -> Field | None:
        """The type of an expression; None where Spark refuses it, or was not asked.

        Args:
            place: Where a problem of it is.
            over: What stands behind FROM.
            reads: The tables whose columns it names.
        """
        sql = f"{_BEFORE}{text.text}\n) AS c FROM {over}"
        found = self.statement(place, text, sql, reads)
        return None if found is None else found[0]

    def statement(
        self, place: str, text: AuthorText, sql: str, reads: Iterable[str]
    ) -> Sequence[Field] | None:
        """The columns of a statement; None where Spark refuses it, or was not asked.

        Args:
            place: Where a problem of it is.
            sql: The same as Spark reads it.
            reads: The tables whose columns it names.
        """
        if place in self.told or _names_one(text.text, [each for one in reads for each in self._of(one)]):
            return None
        try:
            return fields_of(self.spark.sql(sql))
        except PySparkException as error:
            self.problems.append(Problem(place, *_refused(error, text, sql)))
        return None

    def _of(self, table: str) -> Iterable[str]:
        return self.untyped.get(table, ())


def _refused(error: PySparkException, text: AuthorText, sql: str) -> tuple[Fault, str]:
    """What Spark refuses of a text, and where its author wrote it."""
    failure = sql_failure(error)
    if failure is None:
        return Fault(_CODE, f"Spark refuses it: {in_plain_words(error)}"), _place(
            text, _called_at(text, error)
        )
    words = in_plain_words(failure.message)
    part = " ".join(failure.part.split())
    shown = f": {part}" if part and part not in words else ""
    if failure.begin is None and (at := _AT.search(str(error))) is not None:
        lines = sql.split("\n")[: int(at[1]) - 1]
        failure = replace(failure, read=sql, begin=sum(len(line) + 1 for line in lines) + int(at[2]))
    return Fault(_CODE, f"Spark refuses it: {words}{shown}"), _where(text, failure, error)


def _where(text: AuthorText, failure: SqlFailure, error: PySparkException) -> str:
    if failure.begin is not None and failure.read.startswith(_BEFORE + text.text):
        at = failure.begin - len(_BEFORE)
        return _place(text, min(max(at, 0), len(text.text.rstrip()) - 1))
    spot = spot_of([text], failure.part, failure.read, failure.begin)
    return spot.place if spot is not None else _place(text, _called_at(text, error))


def _called_at(text: AuthorText, error: PySparkException) -> int:
    """Where a text calls the function that Spark names without a place; its begin where that is not clear."""
    named = _FUNCTION.search(str(error))
    calls = list(re.finditer(rf"\b{named[1]}\s*\(", text.text, re.IGNORECASE)) if named is not None else []
    return calls[0].start() if len(calls) == 1 else 0


def _place(text: AuthorText, at: int) -> str:
    return text.place(at) or source_of(text.declared)


def _is_typed(found: Field) -> bool:
    return bool(found.type) and all(map(_is_typed, found.nested))


def _names_one(text: str, names: Sequence[str]) -> bool:
    """Whether a text has one of these names."""
    one = "|".join(map(re.escape, names))
    return bool(names) and re.search(rf"(?<!\w)(?:{one})(?!\w)", text, re.IGNORECASE) is not None
