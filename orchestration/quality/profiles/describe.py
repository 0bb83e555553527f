"""Describes the columns of one version of a table: nulls, distinct values, bounds and frequent values.

One query computes the figures of all columns. A second one computes shares and means of slices of the table
in the order of time, which say how much they change from one slice to the next. Distinct values and quantiles
are approximate, as the engine has them. Columns of the engine, which begin with an underscore, and nested
columns are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from common.sql.quoting import backquoted, double_quoted
from orchestration.quality.engines import Engine, Pinned

MOST_VALUES = 20
"""Frequent values that are looked up per column."""
BINS = 24
_SAMPLE = 2_000
_QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)
SLICES = 8
_LEAST_SHARE = 40
"""A slice with less than this part of the rows says nothing about the others."""
_GAP_QUANTILES = (0.05, 0.95)
_NUMBERS = ("int", "double", "float", "decimal", "hugeint", "ubigint")


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """The figures of one column."""

    name: str
    kind: str  # ``number``, ``text``, ``time``, ``date`` or ``flag``
    type: str  # the engine's name of its type
    rows: int
    nulls: int
    distinct: int  # number of distinct values; approximate unless ``is_exact``
    least: Any  # the smallest value; None without values
    most: Any  # the greatest value
    # Values at 1, 25, 50, 75 and 99 percent, of numbers and of the lengths of texts.
    quantiles: tuple[float, ...] = ()
    # Values with the number of their rows, the most frequent first.
    frequent: tuple[tuple[Any, int], ...] = ()
    bins: tuple[int, ...] = ()  # rows per range of equal width between least and greatest, of numbers only
    sample: tuple[str, ...] = ()  # distinct values of a text column, up to 2,000
    hours: tuple[int, ...] = ()  # rows per hour of the day, of times only
    # Figures of slices of the table in the order of time: the share of ``null``; of texts the share of
    # ``blank`` ones among the values, of flags that of ``true`` ones, of numbers that of ``broken`` ones,
    # which are not whole, and the ``mean``.
    slices: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """Whether ``distinct`` is exact."""
        return self.kind in {"text", "flag"} and self.distinct == len(self.frequent) <= MOST_VALUES

    @property
    def values(self) -> int:
        """Rows with a value."""
        return self.rows - self.nulls


@dataclass(frozen=True, slots=True)
class Gap:
    """The time between two columns of times, in rows that have both."""

    earlier: str
    later: str
    rows: int  # number of these rows
    backward: int  # rows in which the later one comes first
    low: float  # the time that all but one row in twenty exceed, in seconds; negative where it goes back
    high: float  # the time that one row in twenty exceeds


@dataclass(frozen=True, slots=True)
class TableProfile:
    """The figures of one version of a table."""

    table: str
    version: int
    rows: int
    columns: tuple[ColumnProfile, ...]
    left_out: tuple[str, ...]
    gaps: tuple[Gap, ...] = ()


def profile(engine: Engine, pinned: Pinned, event_time: str = "") -> TableProfile:
    """Describe a version of a table.

    Args:
        event_time: The column by which slices are made; unset: the first column of times.

    Raises:
        TableError: The table cannot be read.
    """
    relation = engine.relation(pinned)
    types = engine.columns(relation)
    kinds = {name: kind_of(type_) for name, type_ in types.items() if not name.startswith("_")}
    described = {name: kind for name, kind in kinds.items() if kind}
    facts = [fact for name, kind in described.items() for fact in _facts(engine, name, kind)]
    (row,) = engine.own_rows(f"SELECT count(*), {', '.join(facts) or '0'} FROM {relation}")  # noqa: S608  # quoted
    rows, found = int(row[0]), iter(row[1:])
    columns = []
    slices = _slices(engine, relation, described, event_time)
    for name in described:
        figures = {fact: next(found) for fact in ("values", "distinct", "least", "most", "quantiles")}
        figures["rows"] = rows
        column = _column(engine, relation, name, types[name], figures)
        columns.append(replace(column, slices=slices.get(name, {})))
    left_out = tuple(name for name, kind in kinds.items() if not kind)
    return TableProfile(
        pinned.table, pinned.version, rows, tuple(columns), left_out, _gaps(engine, relation, columns)
    )


def kind_of(type_: str) -> str:
    """The kind of a column by the engine's name of its type; empty for nested ones."""
    if type_.endswith("]") or type_.startswith(("struct", "map", "array", "variant", "blob", "binary")):
        return ""
    if type_.startswith(_NUMBERS) or type_.endswith("int"):
        return "number"
    if type_.startswith("timestamp"):
        return "time"
    return {"date": "date", "boolean": "flag", "varchar": "text", "string": "text"}.get(type_, "")


def _facts(engine: Engine, name: str, kind: str) -> Sequence[str]:
    quoted = _quoted(engine, name)
    ends = [f"CAST({end}({quoted}) AS STRING)" for end in ("min", "max")]
    if kind == "number":
        ends = [f"{end}({quoted})" for end in ("min", "max")]
    quantiles = "NULL"
    if kind == "number":
        quantiles = _quantiles(engine, f"CAST({quoted} AS DOUBLE)", _QUANTILES)
    elif kind == "text":
        quantiles = _quantiles(engine, f"CAST(length({quoted}) AS DOUBLE)", _QUANTILES)
    return (f"count({quoted})", f"approx_count_distinct({quoted})", *ends, quantiles)


def _quantiles(engine: Engine, value: str, places: Sequence[float]) -> str:
    listed = ", ".join(map(str, places))
    if engine.name == "duckdb":
        return f"approx_quantile({value}, [{listed}])"
    return f"percentile_approx({value}, array({listed}))"


def _quoted(engine: Engine, name: str) -> str:
    return double_quoted(name) if engine.name == "duckdb" else backquoted(name)


def _micros(engine: Engine, name: str) -> str:
    """Microseconds since the epoch of a column of times."""
    if engine.name == "duckdb":
        return f"epoch_us(CAST({double_quoted(name)} AS TIMESTAMPTZ))"
    return f"unix_micros(CAST({backquoted(name)} AS TIMESTAMP))"


def _slices(
    engine: Engine, relation: str, kinds: Mapping[str, str], event_time: str
) -> dict[str, dict[str, tuple[float, ...]]]:
    """Figures of each column per slice of the table, as ``ColumnProfile.slices`` has them."""
    times = [name for name, kind in kinds.items() if kind == "time"]
    by = event_time if event_time in times else next(iter(times), "")
    groups = ""
    if by:
        micros = _micros(engine, by)
        ((least, most),) = engine.own_rows(f"SELECT min({micros}), max({micros}) FROM {relation}")  # noqa: S608
        if least is not None and most > least:
            place = f"CAST(floor(({micros} - {least}) * {SLICES} / {most - least + 1}e0) AS INT)"
            groups = f" GROUP BY {place} ORDER BY {place}"
    wanted = [
        (name, what, sql) for name, kind in kinds.items() for what, sql in _slice_facts(engine, name, kind)
    ]
    facts = "".join(f", {sql}" for _, _, sql in wanted)
    rows = engine.own_rows(f"SELECT count(*){facts} FROM {relation}{groups}")  # noqa: S608  # quoted names
    total = sum(int(row[0]) for row in rows)
    found: dict[str, dict[str, tuple[float, ...]]] = {name: {} for name in kinds}
    for at, (name, what, _) in enumerate(wanted, start=1):
        values = [row[at] for row in rows if _LEAST_SHARE * int(row[0]) >= total and row[at] is not None]
        found[name][what] = tuple(map(float, values))
    return found


def _slice_facts(engine: Engine, name: str, kind: str) -> Iterator[tuple[str, str]]:
    quoted = _quoted(engine, name)

    def share(condition: str) -> str:
        return f"avg(CASE WHEN {condition} THEN 1e0 ELSE 0e0 END)"

    def of_values(condition: str) -> str:
        return f"avg(CASE WHEN {quoted} IS NULL THEN NULL WHEN {condition} THEN 1e0 ELSE 0e0 END)"

    yield "null", share(f"{quoted} IS NULL")
    if kind == "text":
        yield "blank", of_values(f"trim({quoted}) = ''")
    elif kind == "flag":
        yield "true", share(quoted)
    elif kind == "number":
        yield "mean", f"avg(CAST({quoted} AS DOUBLE))"
        yield "broken", of_values(f"{quoted} <> round({quoted})")


def _gaps(engine: Engine, relation: str, columns: Sequence[ColumnProfile]) -> tuple[Gap, ...]:
    """The times between neighbours of the columns of times, which are put in their order on average."""
    names = [one.name for one in columns if one.kind == "time" and one.values]
    if len(names) < 2:  # noqa: PLR2004  # a gap has two ends
        return ()
    micros = {name: _micros(engine, name) for name in names}
    means = ", ".join(f"avg({micros[name]})" for name in names)
    all_there = " AND ".join(f"{_quoted(engine, name)} IS NOT NULL" for name in names)
    (found,) = engine.own_rows(f"SELECT {means} FROM {relation} WHERE {all_there}")  # noqa: S608  # quoted names
    if None in found:
        return ()
    ordered = [name for _, name in sorted(zip(found, names, strict=True))]
    pairs = list(pairwise(ordered))
    facts = []
    for earlier, later in pairs:
        seconds = f"(({micros[later]} - {micros[earlier]}) / 1e6)"
        facts += [f"count({seconds})", f"count(*) FILTER (WHERE {seconds} < 0)"]
        facts.append(_quantiles(engine, f"CAST({seconds} AS DOUBLE)", _GAP_QUANTILES))
    (row,) = engine.own_rows(f"SELECT {', '.join(facts)} FROM {relation}")  # noqa: S608  # quoted names
    return tuple(
        Gap(earlier, later, int(row[3 * at]), int(row[3 * at + 1]), *map(float, row[3 * at + 2]))
        for at, (earlier, later) in enumerate(pairs)
        if row[3 * at]
    )


def _hours(engine: Engine, relation: str, name: str) -> tuple[int, ...]:
    """Rows per hour of the day, in UTC."""
    hour = f"CAST(floor(({_micros(engine, name)} % 86400000000) / 3600000000e0) AS INT)"
    where = f"WHERE {_quoted(engine, name)} IS NOT NULL GROUP BY 1"
    found = dict(engine.own_rows(f"SELECT {hour} AS hour, count(*) FROM {relation} {where}"))  # noqa: S608
    return tuple(int(found.get(place, 0)) for place in range(24))


def _column(
    engine: Engine, relation: str, name: str, type_: str, figures: Mapping[str, Any]
) -> ColumnProfile:
    quoted, kind = _quoted(engine, name), kind_of(type_)
    values, rows = int(figures["values"]), int(figures["rows"])
    distinct = min(int(figures["distinct"]), values)
    frequent: tuple[tuple[Any, int], ...] = ()
    if kind in {"text", "flag"} and values:
        found = engine.own_rows(
            f"SELECT {quoted} AS value, count(*) AS n FROM {relation} WHERE {quoted} IS NOT NULL "  # noqa: S608
            f"GROUP BY 1 ORDER BY n DESC, value LIMIT {MOST_VALUES + 1}"
        )
        frequent = tuple((value, int(count)) for value, count in found)
        if len(frequent) <= MOST_VALUES:
            distinct = len(frequent)
    sample: tuple[str, ...] = ()
    if kind == "text" and distinct > MOST_VALUES:
        sql = f"SELECT DISTINCT {quoted} FROM {relation} WHERE {quoted} IS NOT NULL LIMIT {_SAMPLE}"  # noqa: S608
        sample = tuple(str(value) for (value,) in engine.own_rows(sql))
    elif kind == "text":
        sample = tuple(str(value) for value, _ in frequent)
    bins = _bins(engine, relation, quoted, figures) if kind == "number" and values else ()
    quantiles = tuple(float(one) for one in figures["quantiles"] or ())
    least, most = figures["least"], figures["most"]
    hours = _hours(engine, relation, name) if kind == "time" and values else ()
    return ColumnProfile(
        name,
        kind,
        type_,
        rows,
        rows - values,
        distinct,
        least,
        most,
        quantiles,
        frequent,
        bins,
        sample,
        hours,
    )


def _bins(engine: Engine, relation: str, quoted: str, figures: Mapping[str, Any]) -> tuple[int, ...]:
    low, high = float(figures["least"]), float(figures["most"])
    width = (high - low) / BINS
    if not 0 < width < float("inf"):
        return ()
    place = f"least({BINS - 1}, CAST(floor((CAST({quoted} AS DOUBLE) - {low!r}) / {width!r}) AS INT))"
    where = f"WHERE {quoted} IS NOT NULL GROUP BY 1"
    found = dict(engine.own_rows(f"SELECT {place} AS place, count(*) FROM {relation} {where}"))  # noqa: S608
    return tuple(int(found.get(place, 0)) for place in range(BINS))
