"""What the evaluation of expectations gives: one result per expectation, one per suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """The result of one expectation.

    Attributes:
        expectation: Its name, such as ``in_range`` or ``expect_column_values_to_be_between``.
        column: Its columns, joined by commas; empty for a whole table.
        expected: What was expected, in words.
        observed: What was found, in words; never contains values of rows other than least, greatest and sums.
        failing_rows: Number of rows that do not meet it; None where it is not about single rows.
        seconds: Share of the evaluation's time; facts that several expectations share count for each in part.
        details: Facts for the next run, such as a distribution.
    """

    expectation: str
    column: str
    is_met: bool
    observed: str
    severity: str = "error"
    expected: str = ""
    failing_rows: int | None = None
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_failure(self) -> bool:
        """Whether it fails the suite."""
        return not self.is_met and self.severity == "error"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The result of one suite on one table version.

    Attributes:
        since: Only rows in files written after this version were read; None: all rows.
        rows: Number of rows that were read.
        is_met: Whether all expectations of severity ``error`` are met.
        engine: ``duckdb`` or ``spark``.
    """

    table: str
    version: int
    rows: int | None
    is_met: bool
    checked: tuple[ExpectationResult, ...]
    since: int | None = None
    seconds: float = 0.0
    engine: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether facts meet an expectation, in words and numbers."""

    is_met: bool
    observed: str
    failing_rows: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def number(value: object) -> str:
    """A number in words: with separators, floating-point numbers to 12 digits."""
    if value is None:
        return "nothing"
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, int) or (isinstance(value, Decimal) and value == value.to_integral_value()):
        return f"{int(value):,}"
    return f"{value:.12g}" if isinstance(value, float) else f"{value:f}"


def percent(share: float) -> str:
    """A share in words, with as many digits as make a difference."""
    return f"{100 * share:.4g} %"


def not_meeting(failing: int, rows: int) -> str:
    """The sentence for failing rows; empty if there is none."""
    return f"{failing:,} of {rows:,} rows do not meet it" if failing else ""
