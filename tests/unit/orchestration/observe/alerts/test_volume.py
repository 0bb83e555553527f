"""What is usual for an hour, exactly; and the history it is read from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestration.access.history import micro_batches
from orchestration.access.history.micro_batches import MicroBatchRow
from orchestration.access.query.duckdb_views import Database
from orchestration.observe.alerts.hour_volumes import hour_volumes
from orchestration.observe.alerts.volume import HourVolume, explain, is_unusual, usual

WEEK = (21_000, 23_000, 19_000, 21_000, 24_000, 18_500, 21_500)


def test_usual_is_the_median_and_the_scaled_median_distance() -> None:
    found = usual(WEEK)
    assert found is not None
    # Distances from 21,000 in order: 0, 0, 500, 2,000, 2,000, 2,500, 3,000.
    assert (found.count, found.spread) == (21_000, pytest.approx(1.4826 * 2_000))


def test_one_day_of_an_outage_changes_neither() -> None:
    before, after = usual(WEEK), usual((*WEEK[:-1], 0))
    assert before is not None
    assert after is not None
    assert (after.count, after.spread) == (21_000, before.spread)


def test_it_is_off_until_there_are_seven_days() -> None:
    assert usual(WEEK[:6]) is None
    assert is_unusual(HourVolume(0, WEEK[:6]), 3.5) is None
    assert is_unusual(HourVolume(0, WEEK), 3.5) is True


def test_the_words() -> None:
    assert explain(HourVolume(10_080, WEEK)) == "48 % of the usual 21,000 ± 3,000"
    assert explain(HourVolume(42_000, WEEK)) == "200 % of the usual 21,000 ± 3,000"
    assert explain(HourVolume(5, (0,) * 7)) == "5 records instead of the usual 0 ± 1"
    assert explain(HourVolume(12, ())) == "12 records; what is usual is known after 7 days"


@pytest.mark.parametrize(
    ("now", "is_wrong"), [(10_500, True), (10_800, False), (31_200, False), (31_500, True)]
)
def test_more_than_three_and_a_half_spreads_are_unusual(now: int, is_wrong: bool) -> None:  # noqa: FBT001
    """3.5 · 1.4826 · 2,000 is 10,378."""
    assert is_unusual(HourVolume(now, WEEK), 3.5) is is_wrong


def test_days_that_are_all_alike_leave_room_for_chance() -> None:
    same = usual((10_000,) * 7)
    assert same is not None
    assert same.spread == 500
    few = usual((9,) * 7)
    assert few is not None
    assert few.spread == 3


def test_the_history_has_the_same_hour_of_former_days(tmp_path: Path) -> None:
    end = datetime(2026, 1, 20, 10, 30, tzinfo=UTC)

    def read(days: int, minutes: float, count: int, query: str = "bronze.orders") -> MicroBatchRow:
        return MicroBatchRow(end - timedelta(days=days, minutes=minutes), "up", "r", query, 1, rows=count)

    rows = [
        read(0, 1, 5),
        read(0, 59, 6),
        read(0, 61, 1_000),  # before the hour
        read(1, 0, 7),
        read(1, 30, 1),
        read(2, 59.9, 20),
        read(2, -5, 1_000),  # after the hour of that day
        read(3, 10, 9, "silver.orders"),
        read(4, 10, 0),
    ]
    path = str(tmp_path / "history")
    micro_batches.append(path, rows)
    found = hour_volumes(Database(), path, ["bronze.orders", "bronze.other"], end)
    assert found == {"bronze.orders": HourVolume(11, (8, 20)), "bronze.other": HourVolume(0, ())}
    gone = str(tmp_path / "gone")
    assert hour_volumes(Database(), gone, ["bronze.orders"], end) == {"bronze.orders": HourVolume(0, ())}
