"""Runs suites: computes the facts of all expectations of a suite in one pass where the engine can.

One query computes the aggregates of all expectations of a suite, each once. Keys, distributions and other
tables need a query each. Expectations that have no short form are evaluated by Great Expectations with Spark.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from common.config.paths import Layout
from common.declare import Expect, Pipeline, Quality, References, SameAs, SumsEqual, Unique
from common.declare.quality.expectations import Expectation
from common.errors import TableError
from common.sql.quoting import backquoted
from orchestration.quality import query_checks
from orchestration.quality.checks import COUNT, AggregateCheck, aggregate_check, short_form, statistic_check
from orchestration.quality.engines import Engine, Pinned
from orchestration.quality.judgement import ExpectationResult, Judgement, SuiteResult
from orchestration.quality.rule_counts import rule_results

Library = Callable[[Sequence[Expect], Pinned], Sequence[ExpectationResult]]
"""Evaluates expectations by Great Expectations, in order."""

Details = Mapping[tuple[str, str, str], Mapping[str, Any]]


@dataclass(frozen=True)
class SuiteRun:
    """What a run of one suite needs."""

    suite: Quality
    pipeline: Pipeline
    engine: Engine
    pinned: Pinned  # the table at its version
    others: Mapping[str, Pinned]  # other tables that the suite reads, by name
    library: Library  # evaluates what has no short form
    last: Details = field(default_factory=dict)  # details of the last runs
    now: datetime = field(default_factory=lambda: datetime.now(UTC))  # the time of the run, UTC
    # Whether distributions are compared with nothing, and become those of the next comparison.
    accept: bool = False
    layout: Layout | None = None  # paths of the tables; needed where the table is compared with its source


@dataclass(frozen=True)
class Planned:
    """One declared expectation with what evaluates it: aggregates, a query of its own, or the library."""

    declared: Expectation
    short: Expectation
    check: AggregateCheck | None

    @property
    def is_for_library(self) -> bool:
        """Whether only Great Expectations can evaluate it."""
        return isinstance(self.short, Expect) and self.check is None

    @property
    def name(self) -> str:
        """The name in results."""
        if isinstance(self.declared, Expect):
            return self.declared.name
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self.declared).__name__).lower()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the expectation."""
        if self.check is not None:
            return self.check.columns
        return query_checks.columns_of(self.short)


def plan(suite: Quality) -> tuple[Planned, ...]:
    """What evaluates each expectation of a suite, in declared order."""
    planned: list[Planned] = []
    for declared in suite.expectations:
        if not isinstance(declared, Expectation):
            continue  # unreachable: a declaration turns every expectation into one of its own
        short, check = declared, None
        if isinstance(declared, Expect):
            short = short_form(declared) or declared
            check = statistic_check(declared)
        planned.append(Planned(declared, short, check or aggregate_check(short)))
    return tuple(planned)


def run_suite(run: SuiteRun) -> SuiteResult:
    """Evaluate a suite on one version of its table.

    Raises:
        TableError: The table cannot be read.
        SettingsError: Great Expectations does not accept the arguments of an expectation.
    """
    began = time.monotonic()
    relation = run.engine.relation(run.pinned)
    planned = plan(run.suite)
    rows, results = _aggregates(run, relation, planned)
    results |= _queries(run, relation, planned)
    for_library = [place for place, one in enumerate(planned) if one.is_for_library]
    if for_library:
        expects = [one for place in for_library if isinstance(one := planned[place].short, Expect)]
        found = run.library(expects, run.pinned)
        for place, result in zip(for_library, found, strict=True):
            results[place] = replace(result, severity=planned[place].declared.severity)
    rules = rule_results(run.pipeline, run.pinned, run.last)
    checked = (*(results[place] for place in range(len(planned))), *rules)
    return SuiteResult(
        run.suite.table,
        run.pinned.version,
        rows,
        not any(one.is_failure for one in checked),
        checked,
        since=run.pinned.since,
        seconds=time.monotonic() - began,
        engine=run.engine.asked,
        at=run.now,
    )


def _aggregates(
    run: SuiteRun, relation: str, planned: Sequence[Planned]
) -> tuple[int, dict[int, ExpectationResult]]:
    """The number of rows, and the results of expectations on aggregates, by their places."""
    checks = {place: one.check for place, one in enumerate(planned) if one.check is not None}
    began = time.monotonic()
    facts = _Facts(run.engine, relation, list(checks.values()))
    each = (time.monotonic() - began) / max(len(checks), 1)
    results: dict[int, ExpectationResult] = {}
    for place, check in checks.items():
        found = facts.of(check)
        judged = found if isinstance(found, Judgement) else check.judge(found, run.now)
        results[place] = _result(planned[place], check.expected, judged, each)
    return facts.rows, results


class _Facts:
    """The values of the aggregates of a suite, each computed once."""

    def __init__(self, engine: Engine, relation: str, checks: Sequence[AggregateCheck]) -> None:
        self._engine, self._relation = engine, relation
        facts = list(dict.fromkeys([COUNT, *(fact for check in checks for fact in check.facts)]))
        self._values: dict[str, Any] = {}
        self._one_by_one = False
        try:
            self._values = self._query(facts)
        except TableError:
            # One expectation does not fit its column. The others are evaluated all the same.
            self._one_by_one = True
            self._values = self._query([COUNT])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self._values[COUNT])

    def of(self, check: AggregateCheck) -> Sequence[Any] | Judgement:
        """The facts of a check, or the judgement that they cannot be computed."""
        try:
            values = self._query(dict.fromkeys(check.facts)) if self._one_by_one else self._values
        except TableError as error:
            return Judgement(is_met=False, observed=f"cannot be evaluated: {error}")
        return [values[fact] for fact in check.facts]

    def _query(self, facts: Collection[str]) -> dict[str, Any]:
        (row,) = self._engine.rows(facts_query(facts, self._relation))
        return dict(zip(facts, row, strict=True))


def facts_query(facts: Collection[str], relation: str) -> str:
    """The statement that computes facts."""
    return f"SELECT {', '.join(facts)} FROM {relation}"  # noqa: S608  # quoted names


def _queries(run: SuiteRun, relation: str, planned: Sequence[Planned]) -> dict[int, ExpectationResult]:
    """The results of expectations with a query of their own, by their places."""
    own = {place: one for place, one in enumerate(planned) if one.check is None and not one.is_for_library}
    if not own:
        return {}
    columns = run.engine.columns(relation)
    others = {
        name: run.engine.relation(pinned)
        for name, pinned in run.others.items()
        if any(isinstance(one.short, References | SumsEqual) for one in own.values())
    }
    results: dict[int, ExpectationResult] = {}
    for place, one in own.items():
        last = {} if run.accept else run.last.get((run.suite.table, one.name, ", ".join(one.columns)), {})
        evidence = query_checks.Evidence(run.engine, relation, columns, others, last)
        began = time.monotonic()
        try:
            if isinstance(one.short, SameAs) and run.layout is not None:
                judged = query_checks.same_as(one.short, run.pipeline, run.layout, run.pinned)
            else:
                judged = query_checks.judge(one.short, evidence)
        except TableError as error:
            judged = Judgement(is_met=False, observed=f"cannot be evaluated: {error}")
        expected = query_checks.expected_of(one.short)
        results[place] = _result(one, expected, judged, time.monotonic() - began)
    return results


def _result(one: Planned, expected: str, judged: Judgement, seconds: float) -> ExpectationResult:
    return ExpectationResult(
        expectation=one.name,
        column=", ".join(one.columns),
        is_met=judged.is_met,
        observed=judged.observed,
        severity=one.declared.severity,
        expected=expected,
        failing_rows=judged.failing_rows,
        seconds=seconds,
        details=judged.details,
    )


@dataclass(frozen=True)
class FailingRows:
    """Examples of rows that do not meet an expectation, by their keys; ``columns`` names the values."""

    expectation: str
    column: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def failing_rows(run: SuiteRun, checked: Sequence[ExpectationResult], limit: int) -> Iterator[FailingRows]:
    """Up to ``limit`` rows per expectation that has some, in the order of their keys.

    The key is the declared one, and that of the suite's ``Unique`` where the declaration has none.
    """
    relation = run.engine.relation(run.pinned)
    columns = run.engine.columns(relation)
    keys = key_columns(run.pipeline, run.suite, columns)
    failing = {(one.expectation, one.column) for one in checked if one.failing_rows}
    for one in plan(run.suite):
        if (one.name, ", ".join(one.columns)) not in failing:
            continue
        shown = tuple(dict.fromkeys((*keys, *one.columns)))
        floats = [name for name in one.columns if columns.get(name) in _FLOATS]
        if (
            sql := _failing_rows_query(run, one, _unskipped(relation, shown, floats), shown, limit)
        ) is not None:
            if isinstance(one.short, Unique):
                shown = (*one.columns, "rows")
            yield FailingRows(one.name, ", ".join(one.columns), shown, tuple(run.engine.rows(sql)))


_FLOATS = ("float", "double")


def _unskipped(relation: str, shown: Sequence[str], floats: Sequence[str]) -> str:
    """The relation, with numbers that may be NaN as no statistics of a file describe them."""
    if not floats:
        return relation
    names = {name: backquoted(name) for name in shown}
    listed = (f"nanvl({n}, {n}) AS {n}" if name in floats else n for name, n in names.items())
    return f"(SELECT {', '.join(listed)} FROM {relation}) AS t"  # noqa: S608  # quoted names


def _failing_rows_query(
    run: SuiteRun, one: Planned, relation: str, shown: Sequence[str], limit: int
) -> str | None:
    if one.check is not None and one.check.failing is not None:
        names = ", ".join(map(backquoted, shown))
        return f"SELECT {names} FROM {relation} WHERE {one.check.failing} ORDER BY {names} LIMIT {limit}"  # noqa: S608
    if one.check is not None or one.is_for_library:
        return None
    others = {name: run.engine.relation(pinned) for name, pinned in run.others.items()}
    evidence = query_checks.Evidence(run.engine, relation, {}, others, {})
    return query_checks.failing_rows_query(one.short, evidence, shown, limit)


def duplicate_rows(engine: Engine, pinned: Pinned, key: Sequence[str]) -> int:
    """Number of rows of a table that share a key."""
    evidence = query_checks.Evidence(engine, engine.relation(pinned), {}, {}, {})
    return query_checks.judge(Unique(list(key)), evidence).failing_rows or 0


def key_columns(pipeline: Pipeline, suite: Quality, columns: Collection[str]) -> tuple[str, ...]:
    """The columns that identify a row of a suite's table; of a side table none."""
    declared = next((one for one in pipeline.tables if one.table == suite.table), None)
    key = getattr(declared, "key", None) or getattr(declared, "by", None) or ()
    names = [*key, *(("window_start",) if getattr(declared, "window", None) is not None else ())]
    if not names:
        names = next((list(one.columns) for one in plan(suite) if one.name == "unique"), [])
    return tuple(name for name in names if name in columns)
