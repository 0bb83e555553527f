"""The watermark and the keys that the driver keeps for cases, by Spark's rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from silver.in_driver import DedupeState
from silver.read.column_names import ACCEPT, EVENT_TIME, KEY, LATE, META, QUARANTINE, VERDICT

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR_MS = 3_600_000


def batch(*rows: tuple[str, str, int | None]) -> pa.Table:
    """Judged rows: verdict, key, and the event time in minutes after noon."""
    meta = [{"topic": "t", "partition": 0, "offset": offset} for offset in range(len(rows))]
    times = [None if minute is None else NOON + timedelta(minutes=minute) for _, _, minute in rows]
    return pa.table(
        {
            META: pa.array(meta),
            VERDICT: [verdict for verdict, _, _ in rows],
            KEY: [key for _, key, _ in rows],
            EVENT_TIME: pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def keys(state: DedupeState, *rows: tuple[str, str, int | None]) -> list[tuple[str, str]]:
    """Verdict and key of the rows that pass."""
    passed, _ = state.passed(batch(*rows))
    return list(zip(passed[VERDICT].to_pylist(), passed[KEY].to_pylist(), strict=True))


def test_the_first_row_of_a_key_passes_and_rejected_rows_all_do() -> None:
    state = DedupeState(HOUR_MS)
    rows = batch((ACCEPT, "a", 0), (ACCEPT, "a", 1), (QUARANTINE, "t/0/2", None), (QUARANTINE, "t/0/3", None))
    passed, duplicates = state.passed(rows)
    assert passed[KEY].to_pylist() == ["a", "t/0/2", "t/0/3"]
    assert duplicates == 1


def test_the_watermark_is_that_of_the_latest_event_and_makes_rows_late_two_micro_batches_later() -> None:
    state = DedupeState(HOUR_MS)
    assert keys(state, (ACCEPT, "a", 120)) == [(ACCEPT, "a")]
    assert keys(state, (ACCEPT, "b", 0)) == [(ACCEPT, "b")]
    assert keys(state, (ACCEPT, "c", 60), (ACCEPT, "d", 61)) == [(LATE, "t/0/0"), (ACCEPT, "d")]


def test_a_key_is_forgotten_when_the_watermark_has_passed_its_time_and_the_delay() -> None:
    state = DedupeState(HOUR_MS)
    keys(state, (ACCEPT, "a", 0))
    keys(state, (ACCEPT, "b", 120))
    assert keys(state, (ACCEPT, "a", 121)) == []  # known: removed at the end of this micro-batch
    assert keys(state, (ACCEPT, "a", 122)) == [(ACCEPT, "a")]


def test_events_of_1970_and_before_are_in_time_until_the_watermark_is_in_1970() -> None:
    """Spark's first watermark is 0, which is no watermark yet."""
    to_1970 = -int((NOON - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(minutes=1))
    year = 525_600
    state = DedupeState(HOUR_MS)
    for place, minute in enumerate((-5 * year, -4 * year, -1, 0, 1)):
        assert keys(state, (ACCEPT, f"{place}", to_1970 + minute)) == [(ACCEPT, f"{place}")]
    assert keys(state, (ACCEPT, "0", to_1970 - 5 * year)) == []  # a duplicate, as long as its key is known
    assert keys(state, (ACCEPT, "5", to_1970 + 120)) == [(ACCEPT, "5")]
    assert keys(state, (ACCEPT, "6", to_1970 + 120)) == [(ACCEPT, "6")]
    assert keys(state, (ACCEPT, "7", to_1970 - 1)) == [(LATE, "t/0/0")]
