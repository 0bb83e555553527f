"""Windows as part of a group: which rows are in which, and what is refused of a window's column."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F

from common.declare import Aggregate, Session, Window
from common.errors import PipelineError
from gold.aggregate import windows
from gold.aggregate.stateful import grouped

pytestmark = pytest.mark.long

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIZE, SLIDE, GAP = timedelta(minutes=10), timedelta(minutes=5), timedelta(minutes=10)


def at(minutes: float) -> datetime:
    """A moment so many minutes after, or before, 1970."""
    return EPOCH + timedelta(minutes=minutes)


ROWS = [
    *(("a", at(0), 1), ("a", at(4), 2), ("a", at(10), 4), ("a", at(19.999), 8), ("a", at(31), 16)),
    *((None, at(4), 32), (None, at(14), 64), (None, at(-1), 128), ("b", None, 256), (None, None, 512)),
]
MEASURES = {"orders": "count(*)", "bits": "sum(bit)"}


def aggregate(**declared: Any) -> Aggregate:
    given = {"by": {"kind": "k"}, "measures": MEASURES, "window": Window("at", "10 minutes")}
    return Aggregate("counts", reads="silver.orders", **given | declared)


def frame(spark: Any) -> Any:
    return spark.createDataFrame(ROWS, "k string, at timestamp, bit int")


def found(spark: Any, gold: Aggregate) -> Counter[tuple[Any, ...]]:
    """The result's rows, moments in UTC."""
    result = grouped(frame(spark), gold)
    plain = [F.unix_micros(c).alias(c) if c.startswith("window_") else F.col(c) for c in result.columns]
    rows = result.select(*plain).collect()
    return Counter(
        tuple(
            EPOCH + timedelta(microseconds=value) if name.startswith("window_") else value
            for name, value in zip(result.columns, row, strict=True)
        )
        for row in rows
    )


def of_windows(slide: timedelta) -> Counter[tuple[Any, ...]]:
    """Windows that begin at multiples of the slide; a row is in each that covers it."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for k, moment, bit in ROWS:
        if moment is None:
            continue
        start = EPOCH + slide * ((moment - EPOCH) // slide)
        while start + SIZE > moment:
            groups.setdefault((k, start, start + SIZE), []).append(bit)
            start -= slide
    return Counter((*group, len(bits), sum(bits)) for group, bits in groups.items())


def test_tumbling_windows_begin_at_whole_multiples_and_null_is_in_none(spark: Any) -> None:
    expected = of_windows(SIZE)
    assert (None, at(-10), at(0), 1, 128) in expected
    assert found(spark, aggregate()) == expected


def test_a_row_is_in_every_sliding_window_that_covers_it(spark: Any) -> None:
    gold = aggregate(window=Window("AT", "10 minutes", "5 minutes"))
    assert found(spark, gold) == of_windows(SLIDE)


def test_a_session_ends_at_a_pause_longer_than_its_gap(spark: Any) -> None:
    """A row exactly one gap after another, at the end of its window, is of one session with it."""
    assert found(spark, aggregate(window=Session("at", "10 minutes"))) == Counter(
        [
            ("a", at(0), at(29.999), 4, 15),
            ("a", at(31), at(41), 1, 16),
            (None, at(-1), at(24), 3, 224),
        ]
    )


def test_windows_need_no_other_group(spark: Any) -> None:
    every = Counter({(at(-10), at(0), 1, 128): 1, (at(30), at(40), 1, 16): 1})
    every |= Counter({(at(0), at(10), 3, 35): 1, (at(10), at(20), 3, 76): 1})
    assert found(spark, aggregate(by=None)) == every
    sessions = Counter({(at(-1), at(29.999), 7, 239): 1, (at(31), at(41), 1, 16): 1})
    assert found(spark, aggregate(by=None, window=Session("at", "10 minutes"))) == sessions


@pytest.mark.parametrize("by", [{"kind": "k"}, None])
@pytest.mark.parametrize(
    "window", [Window("at", "10 minutes"), Window("at", "10 minutes", "5 minutes"), Session("at", "9 days")]
)
def test_keys_of_rows_are_the_groups_that_the_result_has(spark: Any, window: Any, by: Any) -> None:
    """Sessions of one row each, so far as nothing is near them."""
    gold = aggregate(window=window, by=by)
    rows = frame(spark) if not isinstance(window, Session) else frame(spark).where("bit in (1, 128)")
    keys = windows.keyed(rows, gold)
    names = [*(["kind"] if by else []), "window_start", "window_end"]
    assert keys.columns == names
    if isinstance(window, Session) and by is None:
        rows = rows.where("bit = 1")
        keys = windows.keyed(rows, gold)
    groups = grouped(rows, gold).select(*names)
    assert keys.distinct().exceptAll(groups).isEmpty()
    assert groups.exceptAll(keys.distinct()).isEmpty()


def test_a_measure_and_a_column_of_silver_may_have_a_groups_name(spark: Any) -> None:
    gold = aggregate(by={"at": "bit % 2"}, measures={"bit": "max(bit)"})
    odd = {tuple(row)[0::3] for row in grouped(frame(spark), gold).collect()}
    assert odd == {(1, 1), (0, 32), (0, 64), (0, 128), (0, 16)}


@pytest.mark.parametrize(
    ("on", "told"),
    [
        ("bit", "on 'bit' is of type int; a window is over a timestamp"),
        ("att", "on 'att' is no column of silver.orders; did you mean 'at'?"),
    ],
)
def test_a_window_is_over_a_timestamp_of_silver(spark: Any, on: str, told: str) -> None:
    gold = aggregate(window=Window(on, "10 minutes"))
    with pytest.raises(PipelineError) as refused:
        grouped(frame(spark), gold)
    assert [(each.place, each.message) for each in refused.value.problems] == [("gold.counts, window", told)]


@pytest.mark.parametrize("kind", ["double", "float"])
def test_sessions_of_floats_are_refused_in_words(spark: Any, kind: str) -> None:
    """Spark sorts -0.0 and NaN otherwise than it groups them, and would stop with an internal error."""
    rows = spark.sql(f"SELECT cast(1 AS {kind}) f, timestamp'2026-01-01' at")
    gold = Aggregate(
        "visits",
        reads="silver.s",
        by={"share": "f * 2"},
        measures={"n": "count(*)"},
        window=Session("at", "1 hour"),
    )
    with pytest.raises(PipelineError, match=r"gold\.visits, by 'share': is of type .* cast it"):
        windows.refuse_floats(rows, gold)
    windows.refuse_floats(rows, replace(gold, by={"share": "cast(f AS string)"}))
