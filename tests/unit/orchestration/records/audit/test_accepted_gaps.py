"""Accepted gaps: the table, what is left of a gap that is partly known, and how many offsets lie between."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from common.config.paths import Layout
from orchestration.records.audit.accepted_gaps import Gap, append_gaps, lost_between, read_gaps, without


def gap(first: int, last: int, partition: int = 0) -> Gap:
    return Gap("bronze.orders", "orders", partition, first, last, "retention")


def test_the_table_gives_back_what_was_appended(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path), str(tmp_path), tmp_path)
    assert read_gaps(layout, "bronze.orders") == ()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    late = Gap("bronze.orders", "orders#2", 1, 5, 9, "not read", read_at=at, next_at=None, accepted_at=at)
    other = Gap("bronze.others", "others", 0, 0, 3, "retention")
    append_gaps(layout, [late, other])
    append_gaps(layout, [gap(7, 8)])
    assert read_gaps(layout, "bronze.orders") == (gap(7, 8), late)
    assert late.offsets == 5


@pytest.mark.parametrize(
    ("known", "left"),
    [
        ([], [(10, 19)]),
        ([gap(10, 19)], []),
        ([gap(0, 30)], []),
        ([gap(10, 12)], [(13, 19)]),
        ([gap(18, 25)], [(10, 17)]),
        ([gap(12, 13), gap(15, 16)], [(10, 11), (14, 14), (17, 19)]),
        ([gap(0, 9), gap(20, 29), gap(10, 19, partition=1)], [(10, 19)]),
    ],
)
def test_an_offset_is_written_down_once(known: list[Gap], left: list[tuple[int, int]]) -> None:
    assert without(gap(10, 19), known) == left


def test_the_offsets_between_two_positions(tmp_path: Path) -> None:
    gaps = [gap(5, 9), gap(20, 24), gap(0, 4, partition=1)]
    assert (
        lost_between(gaps, {("orders", 0): 7, ("orders", 1): 0}, {("orders", 0): 22, ("orders", 1): 5}) == 10
    )
    assert lost_between(gaps, {}, {("orders", 0): 22}) == 7
    assert lost_between(gaps, {("orders", 0): 10}, {("orders", 0): 20}) == 0
