"""The arithmetic of a report."""

from __future__ import annotations

import math

import pytest

from distribution.bench.measure.stats import Goal, Quantile, number, quantile, ratio


def test_a_percentile_is_an_age_that_was_measured() -> None:
    assert quantile([4, 1, 3, 2], [], 0.5) == Quantile(2)
    assert quantile(range(1, 101), [], 0.99) == Quantile(99)
    assert quantile([5], [], 0.99) == Quantile(5)


def test_rows_that_never_came_are_older_than_all_that_did() -> None:
    assert quantile([1, 2], [0.5, 0.5], 0.5) == Quantile(2)
    assert quantile([1, 2], [0.5, 9], 0.75) == Quantile(2, at_least=True)
    assert quantile([1, 2], [0.5, 9], 0.99) == Quantile(9, at_least=True)
    assert str(quantile([], [3.0], 0.5)) == "> 3.00 s"


def test_no_rows_have_no_percentile() -> None:
    assert math.isnan(quantile([], [], 0.5).seconds)
    assert str(quantile([], [], 0.5)) == "-"


def test_a_ratio_to_nothing_is_none() -> None:
    assert ratio(6, 3) == 2
    assert math.isnan(ratio(6, 0))
    assert math.isnan(ratio(6, math.nan))


@pytest.mark.parametrize(
    ("measured", "bound", "direction", "verdict"),
    [
        (1.5, 1.5, "at most", "met"),
        (1.8, 1.5, "at most", "missed by 20 %"),
        (6.0, 6.0, "at least", "met"),
        (4.5, 6.0, "at least", "missed by 25 %"),
        (3.0, 0.0, "at most", "missed by 3"),
        (None, 1.0, "at most", "not measured: others used 1.0 cores"),
        (math.nan, 1.0, "at most", "not measured: others used 1.0 cores"),
    ],
)
def test_a_goal_says_whether_it_was_met(measured: float, bound: float, direction: str, verdict: str) -> None:
    note = "others used 1.0 cores" if verdict.startswith("not") else ""
    assert Goal("W", measured, bound, direction, note).verdict == verdict  # type: ignore[arg-type]


def test_numbers_have_three_digits_that_count() -> None:
    assert [number(value) for value in (0.01234, 1.2345, 12.0, 1234.5, math.nan)] == [
        "0.0123",
        "1.23",
        "12",
        "1,234",
        "-",
    ]
