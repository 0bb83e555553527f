"""What the generator promises: the same messages for the same seed, in the shares that were asked for."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from distribution.bench.data.events import EMPTY, NOT_UTF8, TRUNCATED, WATERMARK_SECONDS, WRONG_TYPE, Stream

MANY = 100_000


def leaves(value: object) -> int:
    return sum(map(leaves, value.values())) if isinstance(value, dict) else 1


def test_a_stretch_is_the_same_however_it_is_asked_for() -> None:
    stream = Stream(seed=3)
    whole = stream.batch(0, 3_000)
    parts = [stream.batch(at, 1_000) for at in (0, 1_000, 2_000)]
    assert whole.values() == [value for part in parts for value in part.values()]
    assert whole.keys() == [key for part in parts for key in part.keys()]  # noqa: SIM118  # no mapping


def test_another_seed_gives_other_messages() -> None:
    assert not set(Stream(seed=1).batch(0, 1_000).event_ids()) & set(
        Stream(seed=2).batch(0, 1_000).event_ids()
    )


def test_a_valid_message_says_what_its_columns_say() -> None:
    batch = Stream(malformed=0).batch(5_000, 500)
    for at, value in enumerate(batch.values()):
        event = json.loads(value)
        assert leaves(event) == 17
        assert 480 <= len(value) <= 560
        assert event["event_id"] == batch.event_ids()[at].decode()
        assert event["product"] == batch.products()[at].decode()
        assert (event["cents"], event["quantity"]) == (batch.cents[at], batch.quantity[at])
        assert (event["user"]["id"], event["sent_at"]) == (batch.user[at], batch.sent_at[at])
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(batch.event_time[at]))
        assert datetime.fromisoformat(event["event_time"]) == moment


def test_the_shares_are_those_that_were_asked_for() -> None:
    batch = Stream().batch(0, MANY)
    assert np.mean(batch.malformed > 0) == pytest.approx(0.01, abs=0.002)
    assert np.mean(batch.event < batch.number) == pytest.approx(0.05, abs=0.003)
    assert np.mean(batch.late > 0) == pytest.approx(0.02, abs=0.002)
    assert np.mean(batch.is_beyond) == pytest.approx(0.001, abs=0.0004)
    assert np.mean(Stream(malformed=0.5).batch(0, MANY).malformed > 0) == pytest.approx(0.5, abs=0.01)


def test_no_event_is_late_by_about_the_watermark() -> None:
    """How far partitions are read apart must not decide whether an event is late."""
    late = Stream().batch(0, MANY).late
    assert not np.any(np.abs(late - WATERMARK_SECONDS * 1_000_000) < 59 * 1_000_000)


def test_a_duplicate_is_an_earlier_valid_message_byte_by_byte() -> None:
    batch = Stream().batch(0, 20_000)
    values = batch.values()
    again = np.flatnonzero(batch.event < batch.number)
    assert len(again) > 500
    for at in again.tolist():
        source = int(batch.event[at])
        assert values[source] == values[at]
        assert (batch.event[source], batch.malformed[source]) == (source, 0)
    assert np.mean(batch.number[again] - batch.event[again] <= 1_100) > 0.85


def test_every_kind_of_malformed_message_is_there() -> None:
    batch = Stream(malformed=0.2).batch(0, 2_000)
    values = batch.values()
    of = {kind: [values[at] for at in np.flatnonzero(batch.malformed == kind)] for kind in (1, 2, 3, 4)}
    assert all(len(each) > 50 for each in of.values())
    for value in of[TRUNCATED]:
        with pytest.raises(json.JSONDecodeError):
            json.loads(value)
    assert all(isinstance(json.loads(value)["cents"], str) for value in of[WRONG_TYPE])
    for value in of[NOT_UTF8]:
        with pytest.raises(UnicodeDecodeError):
            value.decode()
    assert set(of[EMPTY]) == {b""}


def test_products_are_skewed() -> None:
    _, counts = np.unique(Stream().batch(0, MANY).product, return_counts=True)
    assert max(counts) > 0.08 * MANY
    assert len(counts) > 3_000
