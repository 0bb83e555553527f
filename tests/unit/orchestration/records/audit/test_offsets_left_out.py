"""Offsets before the first one that bronze has, which somebody has left out on purpose."""

from __future__ import annotations

from orchestration.records.audit.accepted_gaps import Gap
from orchestration.records.audit.count_offsets import offsets_left_out
from orchestration.records.audit.offset_places import Range


def test_only_gaps_before_the_first_row_move_the_begin_of_the_account() -> None:
    ranges = {("a", 0): Range(10, 20, 20), ("a", 1): Range(0, 5, 5), ("a", 3): Range(5, 9, 9)}
    gaps = [
        Gap("bronze.a", "a", 0, 4, 9, "not read"),
        Gap("bronze.a", "a", 0, 0, 3, "not read"),
        Gap("bronze.a", "a", 1, 2, 3, "retention"),  # in the middle: its offsets are counted there
        Gap("bronze.a", "a", 2, 0, 3, "not read"),  # nothing was read of the partition yet
        Gap("bronze.a", "a", 3, 1, 8, "not read"),  # it was to begin at 9 before, and begins at 5
    ]
    assert offsets_left_out(gaps, ranges) == {("a", 0): 0, ("a", 3): 1}
