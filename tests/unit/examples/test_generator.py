"""The sample quakes: the same for ever by seed, in the feed's shape, with its troubles in known shares."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.declare import Message
from orchestration.access.declaration.load_file import load_pipeline

PIPELINE = Path(__file__).parents[3] / "examples" / "earthquakes" / "pipeline.py"
MESSAGES = 40_000
START_MS = int(datetime(2010, 1, 1, tzinfo=UTC).timestamp() * 1000)
STEP_MS = 400
DAY_MS = 86_400_000

# fmt: off
PROPERTIES = [
    "mag", "place", "time", "updated", "tz", "url", "detail", "felt", "cdi", "mmi", "alert", "status",
    "tsunami", "sig", "net", "code", "ids", "sources", "types", "nst", "dmin", "rms", "gap", "magType",
    "type", "title",
]
NETWORKS = {"ci", "nc", "ak", "av", "us", "uu", "tx", "hv", "pr", "nn", "uw", "mb"}
# fmt: on


@pytest.fixture(name="quakes", scope="module")
def _quakes() -> Callable[[int], Iterator[Message]]:
    sample = load_pipeline(PIPELINE).bronze[0].sample
    assert sample is not None
    return sample


@dataclass
class Reading:
    """What a plain reader finds in a stretch of the stream."""

    kinds: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    features: list[dict[str, Any]] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)


@pytest.fixture(name="reading", scope="module")
def _reading(quakes: Callable[[int], Iterator[Message]]) -> Reading:
    return read(itertools.islice(quakes(7), MESSAGES))


def read(messages: Iterable[Message]) -> Reading:
    """Sort messages into faults and kinds of versions, by what can be seen in them alone."""
    reading = Reading()
    newest: dict[str, int] = {}
    contents: dict[tuple[str, int], set[bytes]] = {}
    for position, message in enumerate(messages):
        if fault := fault_of(message.value):
            reading.faults[fault] += 1
            continue
        feature = json.loads(message.value)
        known = feature["properties"]
        quake, updated = feature["id"], known["updated"]
        seen = contents.setdefault((quake, updated), set())
        reading.kinds[_kind(message.value, known, newest.get(quake), seen)] += 1
        seen.add(message.value)
        newest[quake] = max(updated, newest.get(quake, 0))
        reading.features.append(feature)
        reading.values.append(message.value)
        reading.positions.append(position)
        assert message.key == quake.encode()
    return reading


def fault_of(value: bytes | None) -> str:
    """Why a value is no version of a quake; empty where it is one."""
    if value is None:
        return "null"
    if not value:
        return "empty"
    try:
        known = json.loads(value.decode())["properties"]
    except UnicodeDecodeError:
        return "not UTF-8"
    except ValueError:
        return "truncated"
    return "wrong types" if isinstance(known["time"], str) else ""


def _kind(value: bytes, known: dict[str, Any], newest: int | None, seen: set[bytes]) -> str:
    if value in seen:
        return "repeat"
    if seen:
        return "restamped"
    if newest is None:
        return "late" if known["updated"] - known["time"] >= DAY_MS else "new"
    if known["updated"] < newest:
        return "stale"
    return "retraction" if known["status"] == "deleted" else "revision"


def test_a_seed_gives_the_same_bytes_for_ever(quakes: Callable[[int], Iterator[Message]]) -> None:
    """Published numbers and recorded runs count on it: a change here is a change of the data."""
    digest = hashlib.sha256()
    for key, value in itertools.islice(quakes(7), 10_000):
        digest.update(b"%d:%b," % (len(key or b""), key))
        digest.update(b"null," if value is None else b"%d:%b," % (len(value), value))
    assert digest.hexdigest() == "7a71bdbecbf3da5ea050a19d314792197e5762c096c8dfc9f42ef220d8032a7b"


def test_two_streams_of_one_seed_do_not_disturb_each_other(
    quakes: Callable[[int], Iterator[Message]],
) -> None:
    first, second = quakes(7), quakes(7)
    ahead = list(itertools.islice(first, 500))
    assert list(itertools.islice(second, 500)) == ahead
    assert list(itertools.islice(first, 500)) == list(itertools.islice(second, 500)) != ahead


def test_another_seed_is_another_stream(quakes: Callable[[int], Iterator[Message]]) -> None:
    ids = [{message.key for message in itertools.islice(quakes(seed), 2_000)} for seed in (7, 8)]
    assert len(ids[0]) > 800
    assert not ids[0] & ids[1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        ("new", 0.43, 0.45),
        ("late", 0.008, 0.010),
        ("repeat", 0.36, 0.38),
        ("revision", 0.15, 0.16),
        ("retraction", 0.007, 0.009),
        ("stale", 0.011, 0.013),
        ("restamped", 0.001, 0.002),
    ],
)
def test_each_trouble_has_its_share(reading: Reading, kind: str, least: float, most: float) -> None:
    assert least <= reading.kinds[kind] / MESSAGES <= most


def test_one_message_in_a_hundred_is_garbage_of_five_kinds(reading: Reading) -> None:
    assert set(reading.faults) == {"truncated", "wrong types", "empty", "not UTF-8", "null"}
    assert 0.009 <= reading.faults.total() / MESSAGES <= 0.011
    for count in reading.faults.values():
        assert 0.15 <= count / reading.faults.total() <= 0.25
    assert reading.kinds.total() + reading.faults.total() == MESSAGES


def test_versions_have_the_feeds_fields_and_size(reading: Reading) -> None:
    for feature in reading.features[:20_000]:
        assert list(feature) == ["type", "properties", "geometry", "id"]
        assert list(feature["properties"]) == PROPERTIES
        known = feature["properties"]
        assert feature["id"] == known["net"] + known["code"] == known["url"].rsplit("/", 1)[-1]
        assert feature["id"][:2] == known["net"]
        assert known["title"] == f"M {known['mag']:.1f} - {known['place']}"
        assert known["status"] in {"automatic", "reviewed", "deleted"}
    sizes = [len(value) for value in reading.values]
    assert min(sizes) > 600
    assert max(sizes) < 1000


def test_quakes_are_on_earth_and_of_earthly_size(reading: Reading) -> None:
    magnitudes = [feature["properties"]["mag"] for feature in reading.features]
    assert -2 <= min(magnitudes) < -1
    assert 5.5 < max(magnitudes) <= 9
    assert {type(magnitude) for magnitude in magnitudes} == {int, float}
    for feature in reading.features:
        longitude, latitude, depth_km = feature["geometry"]["coordinates"]
        assert -180 <= longitude <= 180
        assert -90 <= latitude <= 90
        assert -2 <= depth_km <= 700


def test_small_quakes_outnumber_large_ones_tenfold_per_magnitude(reading: Reading) -> None:
    global_network = [f["properties"] for f in reading.features if f["properties"]["net"] == "us"]
    above_4, above_5 = (sum(q["mag"] >= bound for q in global_network) for bound in (4, 5))
    assert 7 < above_4 / above_5 < 14


def test_all_networks_take_part(reading: Reading) -> None:
    networks = Counter(feature["properties"]["net"] for feature in reading.features)
    assert set(networks) == NETWORKS
    assert {name for name, _ in networks.most_common(3)} == {"ak", "nc", "ci"}


def test_late_quakes_come_one_to_six_days_after_they_happened(reading: Reading) -> None:
    first: dict[str, int] = {}
    for feature in reading.features:
        known = feature["properties"]
        first.setdefault(feature["id"], known["updated"] - known["time"])
    delays = [delay for delay in first.values() if delay > DAY_MS / 2]
    assert DAY_MS <= min(delays) < 1.1 * DAY_MS
    assert 5.9 * DAY_MS < max(delays) <= 6 * DAY_MS


def test_a_revision_changes_the_magnitude_and_at_times_the_time_by_seconds(reading: Reading) -> None:
    times: dict[str, set[int]] = {}
    magnitudes: dict[str, set[float]] = {}
    for feature in reading.features:
        times.setdefault(feature["id"], set()).add(feature["properties"]["time"])
        magnitudes.setdefault(feature["id"], set()).add(feature["properties"]["mag"])
    spans = [max(stamps) - min(stamps) for stamps in times.values()]
    assert sum(span > 0 for span in spans) > MESSAGES * 0.025
    assert 5_000 < max(spans) <= 10_000
    assert sum(len(values) > 1 for values in magnitudes.values()) > MESSAGES * 0.09


def test_a_retracted_quake_stays_retracted(reading: Reading) -> None:
    retracted: set[str] = set()
    for feature in reading.features:
        if feature["properties"]["status"] == "deleted":
            retracted.add(feature["id"])
        else:
            assert feature["id"] not in retracted
    assert len(retracted) > MESSAGES * 0.007


def test_no_time_is_ahead_of_the_simulated_clock(reading: Reading) -> None:
    for position, feature in zip(reading.positions, reading.features, strict=True):
        known = feature["properties"]
        assert known["time"] < known["updated"] <= START_MS + STEP_MS * (position + 1)


def test_a_billion_messages_end_in_the_past() -> None:
    end = datetime.fromtimestamp((START_MS + STEP_MS * 1_000_000_000) / 1000, tz=UTC)
    assert end < datetime(2022, 10, 1, tzinfo=UTC)
