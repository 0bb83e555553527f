"""Data-quality suites: expectations on one table, in short forms or by Great Expectations' names.

A short form says what rows must be like. ``orchestration.quality`` evaluates all short forms of a suite on
one version of the table, and computes facts that several expectations share once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, PlainValidator

from common.declare.declared import declared
from common.declare.field_types import Interval, Names
from common.declare.quality.great_expectations_names import CLASSES, EXPECTATIONS
from common.errors import Fault, nearest
from common.sql.duckdb.pattern import pattern_fault

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation as LibraryExpectation

Severity = Literal["warn", "error"]
_SCALARS = (bool, int, float, Decimal, str, date, datetime)
_GX_SEVERITIES: Mapping[str, Severity] = {"critical": "error", "warning": "warn", "info": "warn"}
_COMMON_ARGUMENTS = frozenset({"severity", "meta", "notes", "description"})
"""Arguments of each of Great Expectations' classes that change no result."""


def _scalar(value: object) -> object:
    if not isinstance(value, _SCALARS):
        raise ValueError("must be a number, text, boolean, date or time")  # noqa: TRY004  # pydantic takes ValueErrors
    return value


Scalar = Annotated[Any, PlainValidator(_scalar)]
"""A number, text, boolean, date or time, as a column holds it."""


def _scalars(values: object) -> object:
    if isinstance(values, str) or not isinstance(values, Sequence | set | frozenset) or not values:
        raise ValueError('must be a list of values, such as ["new", "paid"]')
    return tuple(_scalar(value) for value in values)


@declared
class Expectation:
    """What every expectation has."""

    severity: Severity = field(default="error", kw_only=True)
    """``error``: a failure makes ``medallion quality run`` end with exit code 3 and closes the gate of
    the suite; ``warn``: a failure is only reported.
    """


@declared
class RowCount(Expectation):
    """The number of rows is within bounds."""

    min: int | None = None
    """Fewest rows."""
    max: int | None = None
    """Most rows; unset: any number."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from _bound_mistakes(self.min, self.max)


@declared
class Freshness(Expectation):
    """The newest value of a time column is at most so old at the time of the run.

    Values ahead of that time do not count as new; the result says how many rows have one.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"column": '"updated_at"', "within": '"1 hour"'}

    column: str
    """A timestamp or date column."""
    within: Interval
    """The greatest age, such as ``15 minutes``. A table without any time that has passed fails."""
    at_most_ahead: Interval | None = None
    """How far the newest value may be ahead of the time of the run, such as ``5 minutes``, for clocks that go
    ahead; unset: any.
    """


@declared
class Unique(Expectation):
    """No two rows have the same key. Rows in which all key columns are null do not count."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"columns": '["order_id"]'}

    columns: Names
    """The columns of the key. Each row of a key that occurs twice or more is a failing row."""


@declared
class NullShare(Expectation):
    """The share of rows without a value in a column is at most a bound."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"column": '"customer"'}

    column: str
    """The column."""
    max: float = 0.0
    """The greatest share, from 0 (no null at all) to 1. An empty table passes."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from _share_mistakes(max=self.max)


@declared
class InRange(Expectation):
    """Values of a column are within bounds, both included. Nulls do not count."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"column": '"amount"'}

    column: str
    """A column of numbers, texts, dates or times."""
    min: Scalar | None = None
    """The smallest value; unset: any."""
    max: Scalar | None = None
    """The greatest value; unset: any. NaN is greater than every number."""
    mostly: float = 1.0
    """Share of the values that must be within the bounds."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from _bound_mistakes(self.min, self.max)
        yield from _share_mistakes(mostly=self.mostly)


@declared
class InSet(Expectation):
    """Values of a column are some of a set. Nulls do not count."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"column": '"status"', "values": '["new", "paid"]'}

    column: str
    """The column."""
    values: Annotated[Sequence[Any], PlainValidator(_scalars)]
    """The permitted values."""
    mostly: float = 1.0
    """Share of the values that must be permitted ones."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from _share_mistakes(mostly=self.mostly)


@declared
class Matches(Expectation):
    """Texts of a column contain a match of a regular expression of Java's. Nulls do not count."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"column": '"country"', "pattern": '"^[A-Z]{2}$"'}

    column: str
    """A text column."""
    pattern: str
    """Regular expression of Java's, as in ``rlike``: ``$`` also matches before a last end of a line, ``\\z``
    does not.
    """
    mostly: float = 1.0
    """Share of the values that must match."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if (fault := pattern_fault(self.pattern)) is not None:
            yield Fault("MED-1103", f"pattern {self.pattern!r} {fault}")
        yield from _share_mistakes(mostly=self.mostly)


@declared
class ValueShare(Expectation):
    """The share of rows that have one value in a column is within bounds."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"column": '"status"', "value": '"cancelled"'}

    column: str
    """The column."""
    value: Scalar
    """The value. Rows with null count as rows without the value."""
    min: float = 0.0
    """The smallest share, from 0."""
    max: float = 1.0
    """The greatest share, up to 1. An empty table passes."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from _share_mistakes(min=self.min, max=self.max)
        yield from _bound_mistakes(self.min, self.max)


@declared
class Meets(Expectation):
    """Rows meet a condition, such as that no arrival is before its departure.

    Rows for which the condition is null do not count.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"condition": '"shipped_at >= ordered_at"'}

    condition: str
    """SQL over the columns of the table, as in a rule; it may ask for ``current_timestamp()``."""
    mostly: float = 1.0
    """Share of the rows that must meet it."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from _share_mistakes(mostly=self.mostly)


@declared
class SameDistribution(Expectation):
    """Values of a column are distributed as in the last run of this suite; the first run passes.

    The last run that passed counts. Numbers are compared in 20 ranges of equal width, other values one by one
    (the 50 most frequent; the others as one). Nulls are a value of their own.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"column": '"country"'}

    column: str
    """The column."""
    max_change: float = 0.1
    """The greatest share of rows that may have moved to another value or range: half of the sum of the
    differences of all shares, from 0 to 1.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from _share_mistakes(max_change=self.max_change)


@declared
class References(Expectation):
    """Each row has a row in another table. Rows with a null in one of the columns do not count."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"columns": '["customer_id"]', "table": '"silver.customers"'}

    columns: Names
    """Columns of this table."""
    table: str
    """The other table of the pipeline, read at the version that it has at the begin of the run."""
    to: Names | None = None
    """Columns of the other table, in the same order; unset: those of the same names."""

    @property
    def other_columns(self) -> tuple[str, ...]:
        """Columns of the other table, in the order of ``columns``."""
        return tuple(self.to or self.columns)

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if len(self.other_columns) != len(self.columns):
            yield Fault(
                "MED-1105",
                f"columns has {len(self.columns)} names and to has {len(self.other_columns)}; give as many",
            )


@declared
class SumsEqual(Expectation):
    """The sum of a column equals a sum over another table, such as gold's revenue and silver's amounts.

    If this table is computed from the other one, the other one is read at the version up to which this
    table's version has read it. So the sums agree also while jobs run.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"column": '"revenue"', "table": '"silver.orders"'}

    column: str
    """A column of numbers; ``*`` counts rows."""
    table: str
    """The other table of the pipeline."""
    equals: str | None = None
    """Its column of numbers, or ``*``; unset: the column of the same name."""
    where: str | None = None
    """SQL condition for rows of the other table."""
    tolerance: float = 0.0
    """The greatest difference. Sums of floating-point numbers may also differ by a billionth."""

    @property
    def other_column(self) -> str:
        """The column of the other table."""
        return self.equals or self.column

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if self.tolerance < 0:
            yield Fault("MED-1104", f"tolerance is {self.tolerance}; it must be at least 0")


@declared
class SameAs(Expectation):
    """The table is what its source is: row by row, by the key, as ``medallion reconcile`` compares them."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "against": '"postgresql://reader@db:5432/shop?table=public.customers"'
    }

    against: str
    """The source, as ``medallion reconcile --against`` takes it: a table of PostgreSQL, the folder of a Delta
    table, or files of Parquet or CSV. The password comes from ``PGPASSWORD`` or ``~/.pgpass``.
    """
    key: Names | None = None
    """Columns that identify a row; unset: those that do by the declaration of the table."""
    columns: Names | None = None
    """The columns to compare; unset: all that both sides have."""
    map: Annotated[Mapping[str, str], AfterValidator(dict)] = field(default_factory=dict)
    """Column of the table -> what it is on the other side, in DuckDB's SQL."""
    changed_at: str | None = None
    """The source's column with the time of a row's last change: rows newer than the newest Kafka time of the
    table are on their way, not wrong.
    """
    settle: Interval | None = None
    """After this time what differs is compared again, by the table's newest version: only what differs both
    times is wrong. Unset: once, by the version of the suite.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if re.match(r"postgres(ql)?://[^/@]*:[^/@]*@", self.against):
            yield Fault("MED-1105", "against has a password; leave it out and set PGPASSWORD or ~/.pgpass")


@declared
class Expect(Expectation):
    """One Great Expectations expectation, by its name, with its arguments."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "name": '"expect_column_values_to_not_be_null"',
        "arguments": '{"column": "order_id"}',
    }

    name: str
    """Such as ``expect_column_values_to_be_between``."""
    arguments: Mapping[str, Any]
    """Its keyword arguments, such as ``{"column": "magnitude", "max_value": 10}``."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        known = EXPECTATIONS.get(self.name)
        if known is None:
            names = CLASSES if self.name.startswith("Expect") else EXPECTATIONS
            yield Fault("MED-1101", f"{self.name!r} is no expectation; {nearest(self.name, names)}")
            return
        needed, optional = known
        for name in self.arguments:
            if name not in {*needed, *optional, *_COMMON_ARGUMENTS}:
                yield Fault(
                    "MED-1101",
                    f"{name!r} is no argument of {self.name}; {nearest(name, [*needed, *optional])}",
                )
        for name in needed:
            if name not in self.arguments:
                yield Fault("MED-1102", f"{self.name} needs the argument {name!r}")


def from_great_expectations(name: str, given: Mapping[str, Any], severity: object = None) -> Expect:
    """An ``Expect`` from the arguments of Great Expectations' own class.

    Args:
        given: The class's keyword arguments; their ``severity`` is Great Expectations': critical, warning
            or info.
        severity: The severity, where the arguments do not have it.
    """
    arguments = {key: value for key, value in given.items() if key != "severity"}
    chosen = given.get("severity", severity) or "critical"
    word = str(getattr(chosen, "value", chosen)).lower()
    return Expect(name, arguments, severity=_GX_SEVERITIES.get(word, word))  # type: ignore[arg-type]  # validated


def _expectation(given: object) -> object:
    """An instance of a class of Great Expectations as an ``Expect``; everything else as it is."""
    configuration = getattr(given, "configuration", None)
    if configuration is None or isinstance(given, Expectation):
        return given
    return from_great_expectations(configuration.type, configuration.kwargs, getattr(given, "severity", None))


def _expectations(given: object) -> object:
    if not isinstance(given, list | tuple):
        return given
    return tuple(_expectation(one) for one in given)


if TYPE_CHECKING:
    AnyExpectation = Expectation | LibraryExpectation
else:
    AnyExpectation = Expectation


@declared
class Quality:
    """A data-quality suite on one silver or gold table, run by ``medallion quality run``."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"table": '"gold.orders_latest"', "expectations": "[Unique(…)]"}

    table: str
    """The table it validates."""
    expectations: Annotated[Sequence[AnyExpectation], BeforeValidator(_expectations), AfterValidator(tuple)]
    """The expectations of the suite: short forms, ``Expect``, or classes of ``gx.expectations``."""
    gate: Literal["publish", "stop"] | None = None
    """``publish``: readers of ``<table>__published`` get the newest version that passed the suite, for gold
    tables only; ``stop``: the query that writes the table is stopped when a version fails. Only failures of
    severity ``error`` count. Unset: the suite runs on command only.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if self.gate == "publish" and not self.table.startswith("gold."):
            yield Fault("MED-1105", f'gate="publish" is for gold tables; {self.table} may have gate="stop"')
        if self.gate is not None and not self.expectations:
            yield Fault("MED-1102", "has a gate and no expectation; every version would pass")


def _bound_mistakes(least: Any, most: Any) -> Iterator[str]:
    if least is None and most is None:
        yield Fault("MED-1102", "has no bound; give min, max or both")
        return
    if least is None or most is None:
        return
    try:
        if least > most:
            yield Fault("MED-1104", f"min {least!r} is greater than max {most!r}")
    except TypeError:
        yield Fault("MED-1104", f"min {least!r} and max {most!r} are of different types")


def _share_mistakes(**shares: float) -> Iterator[str]:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            yield Fault("MED-1104", f"{name} is {share}; a share is from 0 to 1")
