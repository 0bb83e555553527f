"""What the evaluation of expectations gives: one result per expectation, one per suite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """The result of one expectation."""

    expectation: str  # its name, such as ``in_range`` or ``expect_column_values_to_be_between``
    column: str  # its columns, joined by commas; empty for a whole table
    is_met: bool
    # What was found, in words; never contains values of rows other than least, greatest and sums.
    observed: str
    severity: str = "error"
    expected: str = ""  # what was expected, in words
    # Number of rows that do not meet it; None where it is not about single rows.
    failing_rows: int | None = None
    # Share of the evaluation's time; facts that several expectations share count for each in part.
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)  # facts for the next run, such as a distribution

    @property
    def is_failure(self) -> bool:
        """Whether it fails the suite."""
        return not self.is_met and self.severity == "error"


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The result of one suite on one table version."""

    table: str
    version: int
    rows: int | None  # number of rows that were read
    is_met: bool  # whether all expectations of severity ``error`` are met
    checked: tuple[ExpectationResult, ...]
    since: int | None = None  # only rows in files written after this version were read; None: all rows
    seconds: float = 0.0
    engine: str = ""  # ``duckdb`` or ``spark``
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
