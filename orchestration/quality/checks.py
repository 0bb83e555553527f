"""Expectations whose facts are aggregates over the table: one query computes those of a whole suite."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from common.declare import (
    Expect,
    Freshness,
    InRange,
    InSet,
    Matches,
    Meets,
    NullShare,
    RowCount,
    Unique,
    ValueShare,
)
from common.declare.intervals import length_of
from common.declare.quality.expectations import Expectation
from common.errors import PipelineError
from common.sql.duckdb.pattern import pattern_fault
from common.sql.quoting import backquoted, spark_text
from orchestration.quality.judgement import Judgement, not_meeting, number, percent

COUNT = "count(*)"

Judge = Callable[[Sequence[Any], datetime], Judgement]


@dataclass(frozen=True)
class AggregateCheck:
    """An expectation that is judged by aggregates."""

    columns: tuple[str, ...]  # its columns
    expected: str  # what is expected, in words
    facts: tuple[str, ...]  # the aggregates, in Spark's SQL
    judge: Judge  # judges the values of the facts, in the same order; also gets the time of the run, UTC
    # Condition of a failing row, in Spark's SQL; None where it is not about single rows.
    failing: str | None = None


def aggregate_check(expectation: Expectation) -> AggregateCheck | None:
    """The check of an expectation; None for one that aggregates over this table cannot judge."""
    build = _CHECKS.get(type(expectation))
    return None if build is None else build(expectation)


def _row_count(expectation: RowCount) -> AggregateCheck:
    return _measure((), "rows", COUNT, (expectation.min, expectation.max))


def _in_set(expectation: InSet) -> AggregateCheck:
    condition = f"{backquoted(expectation.column)} IN ({', '.join(map(literal, expectation.values))})"
    return _values(
        expectation.column, f"one of {len(expectation.values)} values", condition, expectation.mostly
    )


def _matches(expectation: Matches) -> AggregateCheck:
    column, pattern = expectation.column, expectation.pattern
    condition = f"{backquoted(column)} RLIKE {spark_text(pattern)}"
    return _values(column, f"matches {pattern}", condition, expectation.mostly)


def _meets(expectation: Meets) -> AggregateCheck:
    """Rows that do not meet a condition; those for which it is null do not count."""
    from common.sql.expression import analyze  # loads a parser, which other expectations do not need

    # In brackets, and with a new line behind it: it may end with a comment.
    right, wrong = f"({expectation.condition}\n)", f"NOT ({expectation.condition}\n)"

    def judge(facts: Sequence[Any], _: datetime) -> Judgement:
        wrong, right, rows = facts
        is_met = not wrong or right / (wrong + right) >= expectation.mostly
        return Judgement(is_met, not_meeting(wrong, rows), wrong)

    names = dict.fromkeys(path[0] for path in analyze(expectation.condition).columns)
    shown = expectation.condition
    if expectation.mostly < 1:
        shown += f", at least {percent(expectation.mostly)}"
    return AggregateCheck(tuple(names), shown, (_filtered(wrong), _filtered(right), COUNT), judge, wrong)


def _filtered(condition: str) -> str:
    return f"count(*) FILTER (WHERE {condition})"


def _not_null(column: str) -> str:
    return f"count({backquoted(column)})"


def _values(column: str, expected: str, condition: str, mostly: float) -> AggregateCheck:
    """Rows whose value is not null and does not meet a condition."""
    failing = f"{backquoted(column)} IS NOT NULL AND NOT ({condition})"

    def judge(facts: Sequence[Any], _: datetime) -> Judgement:
        wrong, values, rows = facts
        is_met = not wrong or (values - wrong) / values >= mostly
        return Judgement(is_met, not_meeting(wrong, rows), wrong)

    facts = (_filtered(failing), _not_null(column), COUNT)
    shown = expected if mostly == 1 else f"{expected}, at least {percent(mostly)}"
    return AggregateCheck((column,), shown, facts, judge, failing)


def _in_range(expectation: InRange) -> AggregateCheck:
    name, parts = backquoted(expectation.column), []
    if expectation.min is not None:
        parts.append(f"{name} >= {literal(expectation.min)}")
    if expectation.max is not None:
        parts.append(f"{name} <= {literal(expectation.max)}")
    return _values(
        expectation.column, _bounds(expectation.min, expectation.max), " AND ".join(parts), expectation.mostly
    )


def _null_share(expectation: NullShare) -> AggregateCheck:
    def judge(facts: Sequence[Any], _: datetime) -> Judgement:
        values, rows = facts
        nulls = rows - values
        is_met = not nulls or nulls / rows <= expectation.max
        text = not_meeting(nulls, rows) and f"{nulls:,} of {rows:,} rows are null"
        return Judgement(is_met, text, nulls)

    expected = "never null" if not expectation.max else f"null in at most {percent(expectation.max)}"
    facts = (_not_null(expectation.column), COUNT)
    failing = f"{backquoted(expectation.column)} IS NULL"
    return AggregateCheck((expectation.column,), expected, facts, judge, failing)


def _value_share(expectation: ValueShare) -> AggregateCheck:
    def judge(facts: Sequence[Any], _: datetime) -> Judgement:
        found, rows = facts
        if not rows:
            return Judgement(is_met=True, observed="no rows")
        share = found / rows
        text = f"observed {percent(share)}, {found:,} of {rows:,} rows"
        return Judgement(expectation.min <= share <= expectation.max, text)

    count = _filtered(f"{backquoted(expectation.column)} = {literal(expectation.value)}")
    expected = f"{expectation.value!r} in {percent(expectation.min)} to {percent(expectation.max)}"
    return AggregateCheck((expectation.column,), expected, (count, COUNT), judge)


def _freshness(expectation: Freshness) -> AggregateCheck:
    oldest = length_of(expectation.within).seconds
    most = None if expectation.at_most_ahead is None else length_of(expectation.at_most_ahead).seconds
    at = f"cast({backquoted(expectation.column)} as timestamp)"

    def judge(facts: Sequence[Any], now: datetime) -> Judgement:
        newest, passed, ahead = facts
        micros = round((now - _EPOCH) / timedelta(microseconds=1))
        text = "no row has a time" if newest is None else "no row has a time that has passed"
        is_met = passed is not None and micros - passed <= oldest * 1_000_000
        if passed is not None:
            text = f"newest {_moment(passed)}, {_age(max(micros - passed, 0))} old"
        if ahead:
            last = f"the last by {_age(newest - micros)} ({_moment(newest)})"
            text += f"; {ahead:,} row{'' if ahead == 1 else 's'} ahead of now, {last}"
            is_met = is_met and (most is None or newest - micros <= most * 1_000_000)
        return Judgement(is_met, text)

    expected = f"at most {expectation.within} old"
    if expectation.at_most_ahead is not None:
        expected += f", at most {expectation.at_most_ahead} ahead"
    facts = (
        f"unix_micros(max({at}))",
        f"unix_micros(max({at}) filter (where {at} <= current_timestamp()))",
        f"count(*) filter (where {at} > current_timestamp())",
    )
    return AggregateCheck((expectation.column,), expected, facts, judge)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(micros: int) -> str:
    try:
        return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return "a year that no calendar of Python has"


_CHECKS: dict[type[Expectation], Callable[[Any], AggregateCheck]] = {
    RowCount: _row_count,
    Freshness: _freshness,
    NullShare: _null_share,
    InRange: _in_range,
    InSet: _in_set,
    Matches: _matches,
    Meets: _meets,
    ValueShare: _value_share,
}


def _age(micros: int) -> str:
    seconds = micros / 1_000_000
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} seconds"


def _measure(columns: tuple[str, ...], what: str, fact: str, bounds: tuple[Any, Any]) -> AggregateCheck:
    """One aggregate that must be within bounds, both included."""
    least, most = bounds

    def judge(facts: Sequence[Any], _: datetime) -> Judgement:
        value = facts[0]
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return Judgement(value is None, f"observed {number(value)}")
        is_met = (least is None or value >= _like(least, value)) and (
            most is None or value <= _like(most, value)
        )
        return Judgement(is_met, f"observed {number(value)}")

    return AggregateCheck(columns, f"{what} {_bounds(least, most)}", (fact,), judge)


def _like(bound: Any, value: Any) -> Any:
    """A bound as a type that compares with the value: Python does not mix some of them."""
    if isinstance(bound, datetime) and isinstance(value, datetime) and bound.tzinfo != value.tzinfo:
        return bound.replace(tzinfo=value.tzinfo)
    return bound


def _bounds(least: Any, most: Any) -> str:
    if least is None:
        return f"at most {number(most)}"
    if most is None:
        return f"at least {number(least)}"
    return f"{number(least)} to {number(most)}"


_STATISTICS = {
    "expect_column_max_to_be_between": "max",
    "expect_column_min_to_be_between": "min",
    "expect_column_mean_to_be_between": "avg",
    "expect_column_sum_to_be_between": "sum",
    "expect_column_unique_value_count_to_be_between": "count_distinct",
}


def short_form(expect: Expect) -> Expectation | None:
    """The short form with the meaning of an expectation; None where only the library can evaluate it."""
    given = {key: value for key, value in expect.arguments.items() if key not in _WITHOUT_EFFECT}
    build = _SHORT_FORMS.get(expect.name)
    if build is None or not given.keys() <= build[0]:
        return None
    if "regex" in given and pattern_fault(given["regex"]) is not None:
        return None
    if any(isinstance(value, dict) for value in given.values()):
        return None  # a parameter of the library
    try:
        return build[1](given)
    except PipelineError:  # such as a set with null
        return None


def statistic_check(expect: Expect) -> AggregateCheck | None:
    """The check of an expectation on one statistic of a column; None where it is none."""
    function = _STATISTICS.get(expect.name)
    given = {key: value for key, value in expect.arguments.items() if key not in _WITHOUT_EFFECT}
    least, most = given.get("min_value"), given.get("max_value")
    if function is None or not given.keys() <= {"column", "min_value", "max_value"}:
        return None
    if isinstance(least, dict | str) or isinstance(most, dict | str):
        return None
    column = given["column"]

    name = backquoted(column)
    fact = f"count(DISTINCT {name})" if function == "count_distinct" else f"{function}({name})"
    words = {"avg": "mean", "count_distinct": "distinct values"}
    return _measure((column,), words.get(function, function), fact, (least, most))


def _share_of_nulls(given: dict[str, Any]) -> Expectation:
    return NullShare(given["column"], max=round(1 - given.get("mostly", 1), 12))


def _range_of(given: dict[str, Any]) -> Expectation | None:
    least, most = given.get("min_value"), given.get("max_value")
    if least is None and most is None:
        return None
    return InRange(given["column"], min=least, max=most, mostly=given.get("mostly", 1))


def _rows_of(given: dict[str, Any]) -> Expectation | None:
    least, most = given.get("min_value"), given.get("max_value")
    return None if least is None and most is None else RowCount(least, most)


_WITHOUT_EFFECT = {"meta", "notes", "description", "severity"}
_SHORT_FORMS: dict[str, tuple[set[str], Callable[[dict[str, Any]], Expectation | None]]] = {
    "expect_table_row_count_to_be_between": ({"min_value", "max_value"}, _rows_of),
    "expect_table_row_count_to_equal": ({"value"}, lambda g: RowCount(g["value"], g["value"])),
    "expect_column_values_to_not_be_null": ({"column", "mostly"}, _share_of_nulls),
    "expect_column_values_to_be_unique": ({"column"}, lambda g: Unique([g["column"]])),
    "expect_compound_columns_to_be_unique": ({"column_list"}, lambda g: Unique(list(g["column_list"]))),
    "expect_column_values_to_be_between": ({"column", "min_value", "max_value", "mostly"}, _range_of),
    "expect_column_values_to_be_in_set": (
        {"column", "value_set", "mostly"},
        lambda g: InSet(g["column"], list(g["value_set"]), mostly=g.get("mostly", 1)),
    ),
    "expect_column_values_to_match_regex": (
        {"column", "regex", "mostly"},
        lambda g: Matches(g["column"], g["regex"], mostly=g.get("mostly", 1)),
    ),
}
"""Arguments that a short form can take, and the short form, by the expectation's name."""


def literal(value: Any) -> str:
    """A declared value in Spark's SQL."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return spark_text(value)
    if isinstance(value, datetime):
        return f"CAST('{value.isoformat(sep=' ')}' AS TIMESTAMP)"
    if isinstance(value, date):
        return f"CAST('{value.isoformat()}' AS DATE)"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
