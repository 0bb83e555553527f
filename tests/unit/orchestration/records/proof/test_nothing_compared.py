"""A script in which no check could compare anything proves nothing, and says so."""

from __future__ import annotations

import pytest

from orchestration.records.proof.checks import END, START, not_compared, stated
from tests.support.oracles.proof import answer_of


@pytest.mark.parametrize("checks", [[], [not_compared("silver.orders", "offsets", "its log is gone")]])
def test_nothing_compared_is_an_error(checks: list[str]) -> None:
    rows, end = answer_of("\n".join([START, *checks, END]))
    assert rows[-1].verdict == "not compared: nothing was compared"
    assert end == "the proof does not hold: nothing was compared, the reasons are in the rows above"


def test_one_equal_check_is_enough() -> None:
    checks = [
        stated("silver.orders", "offsets", "equal", "", ""),
        not_compared("gold.x", "rows", "is a Join"),
    ]
    rows, end = answer_of("\n".join([START, *checks, END]))
    assert rows[-1].verdict == "equal"
    assert end == "the proof holds: 1 of 2 checks are equal, 1 not compared, none differs"
