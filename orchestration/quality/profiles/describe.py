"""Describes the columns of one version of a table: nulls, distinct values, bounds and frequent values.

One query computes the figures of all columns. Distinct values and quantiles are approximate, as the engine
has them. Columns of the engine, which begin with an underscore, and nested columns are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestration.quality.engines import Engine, Pinned

MOST_VALUES = 20
"""Frequent values that are looked up per column."""
BINS = 24
_SAMPLE = 2_000
_QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)
_NUMBERS = ("int", "double", "float", "decimal", "hugeint", "ubigint")


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """The figures of one column.

    Attributes:
        kind: ``number``, ``text``, ``time``, ``date`` or ``flag``.
        type: The engine's name of its type.
        distinct: Number of distinct values; approximate unless ``is_exact``.
        least: The smallest value; None without values.
        most: The greatest value.
        quantiles: Values at 1, 25, 50, 75 and 99 percent, of numbers only.
        frequent: Values with the number of their rows, the most frequent first.
        bins: Rows per range of equal width between least and greatest, of numbers only.
        sample: Distinct values of a text column, up to 2,000.
    """

    name: str
    kind: str
    type: str
    rows: int
    nulls: int
    distinct: int
    least: Any
    most: Any
    quantiles: tuple[float, ...] = ()
    frequent: tuple[tuple[Any, int], ...] = ()
    bins: tuple[int, ...] = ()
    sample: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether ``distinct`` is exact."""
        return self.kind in {"text", "flag"} and self.distinct == len(self.frequent) <= MOST_VALUES

    @property
    def values(self) -> int:
        """Rows with a value."""
        return self.rows - self.nulls


@dataclass(frozen=True, slots=True)
class TableProfile:
    """The figures of one version of a table."""

    table: str
    version: int
    rows: int
    columns: tuple[ColumnProfile, ...]
    left_out: tuple[str, ...]


def profile(engine: Engine, pinned: Pinned) -> TableProfile:
    """Describe a version of a table.

    Raises:
        TableError: The table cannot be read.
    """
    relation = engine.relation(pinned)
    types = engine.columns(relation)
    kinds = {name: kind_of(type_) for name, type_ in types.items() if not name.startswith("_")}
    described = {name: kind for name, kind in kinds.items() if kind}
    facts = [fact for name, kind in described.items() for fact in _facts(engine, name, kind)]
    (row,) = engine.rows(f"SELECT count(*), {', '.join(facts) or '0'} FROM {relation}")  # noqa: S608  # quoted
    rows, found = int(row[0]), iter(row[1:])
    columns = []
    for name in described:
        figures = {fact: next(found) for fact in ("values", "distinct", "least", "most", "quantiles")}
        figures["rows"] = rows
        columns.append(_column(engine, relation, name, types[name], figures))
    left_out = tuple(name for name, kind in kinds.items() if not kind)
    return TableProfile(pinned.table, pinned.version, rows, tuple(columns), left_out)


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
    quoted = engine.dialect.identifier(name)
    ends = [f"CAST({end}({quoted}) AS STRING)" for end in ("min", "max")]
    if kind == "number":
        ends = [f"{end}({quoted})" for end in ("min", "max")]
    quantiles = "NULL"
    if kind == "number":
        listed = ", ".join(map(str, _QUANTILES))
        value = f"CAST({quoted} AS DOUBLE)"
        quantiles = (
            f"approx_quantile({value}, [{listed}])"
            if engine.dialect.name == "duckdb"
            else f"percentile_approx({value}, array({listed}))"
        )
    return (f"count({quoted})", f"approx_count_distinct({quoted})", *ends, quantiles)


def _column(
    engine: Engine, relation: str, name: str, type_: str, figures: Mapping[str, Any]
) -> ColumnProfile:
    quoted, kind = engine.dialect.identifier(name), kind_of(type_)
    values, rows = int(figures["values"]), int(figures["rows"])
    distinct = min(int(figures["distinct"]), values)
    frequent: tuple[tuple[Any, int], ...] = ()
    if kind in {"text", "flag"} and values:
        found = engine.rows(
            f"SELECT {quoted} AS value, count(*) AS n FROM {relation} WHERE {quoted} IS NOT NULL "  # noqa: S608
            f"GROUP BY 1 ORDER BY n DESC, value LIMIT {MOST_VALUES + 1}"
        )
        frequent = tuple((value, int(count)) for value, count in found)
        if len(frequent) <= MOST_VALUES:
            distinct = len(frequent)
    sample: tuple[str, ...] = ()
    if kind == "text" and distinct > MOST_VALUES:
        sql = f"SELECT DISTINCT {quoted} FROM {relation} WHERE {quoted} IS NOT NULL LIMIT {_SAMPLE}"  # noqa: S608
        sample = tuple(str(value) for (value,) in engine.rows(sql))
    elif kind == "text":
        sample = tuple(str(value) for value, _ in frequent)
    bins = _bins(engine, relation, quoted, figures) if kind == "number" and values else ()
    quantiles = tuple(float(one) for one in figures["quantiles"] or ())
    least, most = figures["least"], figures["most"]
    return ColumnProfile(
        name, kind, type_, rows, rows - values, distinct, least, most, quantiles, frequent, bins, sample
    )


def _bins(engine: Engine, relation: str, quoted: str, figures: Mapping[str, Any]) -> tuple[int, ...]:
    low, high = float(figures["least"]), float(figures["most"])
    width = (high - low) / BINS
    if not 0 < width < float("inf"):
        return ()
    place = f"least({BINS - 1}, CAST(floor((CAST({quoted} AS DOUBLE) - {low!r}) / {width!r}) AS INT))"
    where = f"WHERE {quoted} IS NOT NULL GROUP BY 1"
    found = dict(engine.rows(f"SELECT {place} AS place, count(*) FROM {relation} {where}"))  # noqa: S608
    return tuple(int(found.get(place, 0)) for place in range(BINS))
