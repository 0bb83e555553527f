"""Expectations that need a query of their own: keys, distributions, other tables, the table's source."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from common.config.paths import Layout
from common.declare import Pipeline, References, SameAs, SameDistribution, SumsEqual, Unique
from common.declare.intervals import length_of
from common.declare.quality.expectations import Expectation
from common.errors import MedallionError, first_line
from common.sql.quoting import backquoted
from orchestration.quality.engines import Engine, Pinned
from orchestration.quality.judgement import Judgement, not_meeting, number, percent
from orchestration.records.reconcile.reconcile import Wanted, reconcile

RANGES = 20
"""Ranges of equal width in which numbers are compared."""
MOST_VALUES = 50
"""Values of a column that are compared one by one, the most frequent first."""

_NUMBERS = ("int", "double", "float", "decimal", "hugeint", "ubigint")
_RELATIVE = 1e-9
"""How much sums of floating-point numbers may differ: their order of addition is not fixed."""


@dataclass(frozen=True)
class Evidence:
    """What a query check reads."""

    engine: Engine
    relation: str  # the table, for a ``FROM`` clause
    columns: Mapping[str, str]  # its columns with their types
    others: Mapping[str, str]  # other tables of the pipeline by name, for a ``FROM`` clause
    # Details that the last run of the same expectation has kept; empty: there was none.
    last: Mapping[str, Any]


def columns_of(expectation: Expectation) -> tuple[str, ...]:
    """The columns of an expectation with a query of its own."""
    if isinstance(expectation, Unique | References):
        return tuple(expectation.columns)
    if isinstance(expectation, SameDistribution):
        return (expectation.column,)
    return (expectation.column,) if isinstance(expectation, SumsEqual) and expectation.column != "*" else ()


def expected_of(expectation: Expectation) -> str:
    """What is expected, in words."""
    if isinstance(expectation, SameDistribution):
        return f"at most {percent(expectation.max_change)} moved since the last run"
    if isinstance(expectation, References):
        return f"in {expectation.table}({', '.join(expectation.other_columns)})"
    if isinstance(expectation, SameAs):
        return f"the same rows as in {expectation.against.partition('?')[0]}"
    if isinstance(expectation, SumsEqual):
        return f"sum equals {expectation.other_column} of {expectation.table}"
    return "unique"


def judge(expectation: Expectation, evidence: Evidence) -> Judgement:
    """Judge an expectation by its own query."""
    if isinstance(expectation, Unique):
        return _unique(expectation, evidence)
    if isinstance(expectation, SameDistribution):
        return _distribution(expectation, evidence)
    if isinstance(expectation, References):
        return _references(expectation, evidence)
    if isinstance(expectation, SumsEqual):
        return _sums(expectation, evidence)
    raise AssertionError(f"{type(expectation).__name__} has no query of its own")


def same_as(expectation: SameAs, pipeline: Pipeline, layout: Layout, pinned: Pinned) -> Judgement:
    """Compare all rows of a table with its source; the numbers of keys, and no value of a row."""
    settle = 0.0 if expectation.settle is None else length_of(expectation.settle).seconds
    wanted = Wanted(
        pinned.table,
        expectation.against,
        key=tuple(expectation.key or ()),
        columns=tuple(expectation.columns or ()),
        expressions=expectation.map,
        version=None if settle else pinned.version,
        changed_at=expectation.changed_at,
        settle_seconds=settle,
        limit=0,
    )
    try:
        found = reconcile(pipeline, layout, wanted)
    except MedallionError as error:
        return Judgement(is_met=False, observed=f"cannot be evaluated: {first_line(error)}")
    result = found.result
    parts = [f"{count:,} {kind}" for kind, count in result.kinds.items() if count]
    parts += [f"{result.not_yet:,} not yet read"] if result.not_yet else []
    parts += [f"{result.settled:,} settled"] if result.settled else []
    text = f"keys: {', '.join([f'{result.equal:,} the same', *parts])}"
    if result.wrong:
        text += f"; see: medallion reconcile {pinned.table} --against …"
    return Judgement(not result.wrong, text, result.wrong)


def failing_rows_query(
    expectation: Expectation, evidence: Evidence, shown: Sequence[str], limit: int
) -> str | None:
    """A query for some failing rows; None where the expectation is not about single rows."""
    names = ", ".join(map(backquoted, shown))
    if isinstance(expectation, Unique):
        keys = ", ".join(map(backquoted, expectation.columns))
        return (
            f"SELECT {keys}, count(*) AS __rows FROM {evidence.relation} "  # noqa: S608  # quoted names only
            f"WHERE {_some_key(expectation.columns)} "
            f"GROUP BY {keys} HAVING count(*) > 1 ORDER BY {keys}, __rows LIMIT {limit}"
        )
    if isinstance(expectation, References):
        condition = _orphans(expectation, evidence)
        return (
            f"SELECT {names} FROM {evidence.relation} AS t WHERE {condition} ORDER BY {names} LIMIT {limit}"  # noqa: S608
        )
    return None


def _some_key(columns: Sequence[str]) -> str:
    return " OR ".join(f"{backquoted(name)} IS NOT NULL" for name in columns)


def _unique(expectation: Unique, evidence: Evidence) -> Judgement:
    keys = ", ".join(map(backquoted, expectation.columns))
    ((rows, wrong),) = evidence.engine.rows(
        "SELECT coalesce(sum(n), 0), coalesce(sum(n) FILTER (WHERE n > 1), 0) "  # noqa: S608  # quoted names only
        f"FROM (SELECT count(*) AS n FROM {evidence.relation} "
        f"WHERE {_some_key(expectation.columns)} GROUP BY {keys}) AS t"
    )
    return Judgement(not wrong, not_meeting(int(wrong), int(rows)), int(wrong))


def _orphans(expectation: References, evidence: Evidence) -> str:
    """Condition of rows of ``t`` that have no row in the other table."""
    given = " AND ".join(f"t.{backquoted(name)} IS NOT NULL" for name in expectation.columns)
    same = " AND ".join(
        f"o.{backquoted(other)} = t.{backquoted(own)}"
        for own, other in zip(expectation.columns, expectation.other_columns, strict=True)
    )
    other = evidence.others[expectation.table]
    return f"{given} AND NOT EXISTS (SELECT 1 FROM {other} AS o WHERE {same})"  # noqa: S608  # quoted names only


def _references(expectation: References, evidence: Evidence) -> Judgement:
    ((wrong,),) = evidence.engine.rows(
        f"SELECT count(*) FROM {evidence.relation} AS t WHERE {_orphans(expectation, evidence)}"  # noqa: S608
    )
    noun = "row has" if wrong == 1 else "rows have"
    text = f"{wrong:,} {noun} no row in {expectation.table}" if wrong else ""
    return Judgement(not wrong, text, int(wrong))


def _sums(expectation: SumsEqual, evidence: Evidence) -> Judgement:
    other = evidence.others[expectation.table]
    own = _sum(expectation.column, evidence.relation, evidence.engine)
    far = _sum(expectation.other_column, other, evidence.engine, expectation.where)
    text = f"{number(own)} here, {number(far)} in {expectation.table}"
    return Judgement(_agree(own, far, expectation.tolerance), text)


def _sum(column: str, relation: str, engine: Engine, where: str | None = None) -> Any:
    """The sum of a column; whole numbers may have a sum for which their own type has no room."""
    value = backquoted(column)
    if column != "*" and _is_whole(engine.columns(relation).get(column, "")):
        value = f"CAST({value} AS DECIMAL(38, 0))"
    fact = "count(*)" if column == "*" else f"sum({value})"
    kept = "" if where is None else f" FILTER (WHERE {where}\n)"
    ((found,),) = engine.rows(f"SELECT {fact}{kept} FROM {relation}")  # noqa: S608  # a declared condition
    return found


def _is_whole(kind: str) -> bool:
    return kind.endswith("int") or kind == "integer"


def _agree(own: Any, far: Any, tolerance: float) -> bool:
    own, far = own if own is not None else 0, far if far is not None else 0
    if isinstance(own, float) or isinstance(far, float):
        return math.isclose(float(own), float(far), rel_tol=_RELATIVE, abs_tol=tolerance)
    return abs(Decimal(own) - Decimal(far)) <= Decimal(str(tolerance))


def _distribution(expectation: SameDistribution, evidence: Evidence) -> Judgement:
    kind = evidence.columns.get(expectation.column, "")
    is_number = kind.startswith(_NUMBERS) or kind.endswith("int")
    now = (_ranges if is_number else _values)(expectation.column, evidence)
    before, rows = evidence.last.get("shares"), sum(now["counts"].values())
    shares = {key: round(count / rows, 9) for key, count in now["counts"].items()} if rows else {}
    details = {"shares": shares, "edges": now.get("edges")}
    if not before:
        return Judgement(is_met=True, observed="first run; nothing to compare with", details=details)
    if not shares:
        return Judgement(is_met=False, observed="no rows", details=dict(evidence.last))
    moved = sum(abs(shares.get(key, 0.0) - before.get(key, 0.0)) for key in {*shares, *before}) / 2
    return Judgement(
        moved <= expectation.max_change, f"{percent(moved)} moved since the last run", details=details
    )


def _ranges(column: str, evidence: Evidence) -> dict[str, Any]:
    """Rows per range of a column of numbers; the ranges of the last run, where there was one."""
    engine = evidence.engine
    quoted = backquoted(column)
    value = f"CAST({quoted} AS DOUBLE)"
    edges = evidence.last.get("edges")
    if not edges:
        finite = f"{quoted} IS NOT NULL AND NOT isnan({value}) AND abs({value}) < 1e300"
        ((least, most),) = engine.rows(
            f"SELECT min({value}) FILTER (WHERE {finite}), max({value}) FILTER (WHERE {finite}) "  # noqa: S608
            f"FROM {evidence.relation}"
        )
        edges = [float(least or 0), float(most or 0)]
    low, high = (f"CAST('{edge!r}' AS DOUBLE)" for edge in edges)
    width = (edges[1] - edges[0]) / RANGES or 1.0
    place = (
        f"CASE WHEN {quoted} IS NULL THEN -2 WHEN {value} < {low} THEN -1 "
        f"WHEN isnan({value}) OR {value} > {high} THEN {RANGES} "
        f"ELSE least({RANGES - 1}, floor(({value} - {low}) / CAST('{width!r}' AS DOUBLE))) END"
    )
    found = engine.rows(f"SELECT {place} AS place, count(*) AS n FROM {evidence.relation} GROUP BY 1")  # noqa: S608
    return {"counts": {str(key): int(count) for key, count in found}, "edges": edges}


def _values(column: str, evidence: Evidence) -> dict[str, Any]:
    """Rows per value of a column, for the most frequent values or for those of the last run."""
    engine, kind = evidence.engine, evidence.columns.get(column, "")
    value = f"CAST({backquoted(column)} AS STRING)"
    if kind == "date" or kind.startswith("timestamp"):  # no engine writes times as the other one does
        value = f"unix_date({backquoted(column)})" if kind == "date" else f"unix_micros({backquoted(column)})"
    before = evidence.last.get("shares")
    found = engine.rows(
        f"SELECT {value} AS value, count(*) AS n FROM {evidence.relation} "  # noqa: S608  # quoted names only
        f"GROUP BY 1 ORDER BY n DESC, value LIMIT {10 * MOST_VALUES if before else MOST_VALUES}"
    )
    ((rows,),) = engine.rows(f"SELECT count(*) FROM {evidence.relation}")  # noqa: S608
    counts: dict[str, int] = {}
    for found_value, count in found:
        key = "null" if found_value is None else f"={_written(found_value, kind)}"
        if not before or key in before:
            counts[key] = int(count)
    if rest := rows - sum(counts.values()):
        counts["other"] = rest
    return {"counts": counts}


def _written(value: Any, kind: str) -> str:
    """A value as a text that is the same whoever has read it."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    try:
        if kind == "date":
            return (epoch + timedelta(days=value)).date().isoformat()
        if kind.startswith("timestamp"):
            return str((epoch + timedelta(microseconds=value)).replace(tzinfo=None))
    except OverflowError:  # a year that Python's calendar does not have
        return str(value)
    return str(value)
