"""The captured public feed through the whole path, against counts that plain Python computed once.

The capture is not part of the project: it lies beside it, or in the folder that TEST_DATA names.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.config.paths import Layout
from common.declare import Files, Message
from orchestration.access.declaration.load_file import load_pipeline
from tests.conftest import make_settings, with_topic
from tests.support.oracles.oracle import Outcome, outcome

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
FOLDER = Path(os.environ.get("TEST_DATA", ROOT.parent / "shared" / "data")) / "usgs_earthquakes"
CAPTURE = "usgs_changes.jsonl.gz"


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """The published counts."""
    if not (FOLDER / CAPTURE).is_file():
        pytest.skip(f"the captured feed is not here (looked in {FOLDER}; set TEST_DATA to its parent)")
    counts: dict[str, Any] = json.loads((FOLDER / "EXPECTED.json").read_text())[CAPTURE]
    return counts


@pytest.fixture(scope="module")
def captured(expected: dict[str, Any]) -> list[Message]:
    """Every row of the capture, keyed by quake, its value untouched."""
    with gzip.open(FOLDER / CAPTURE) as lines:
        values = [line.rstrip(b"\n") for line in lines]
    return [Message(json.loads(v)["properties"]["url"].rsplit("/", 1)[-1].encode(), v) for v in values]


@pytest.fixture(scope="module")
def made(captured: list[Message]) -> Outcome:
    """What plain Python makes of it."""
    return outcome(captured)


@pytest.fixture(scope="module", params=["topic", "files"])
def tables(
    request: pytest.FixtureRequest,
    captured: list[Message],
    broker: str,
    tmp_path_factory: pytest.TempPathFactory,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    catch_up: Callable[..., object],
) -> dict[str, list[dict[str, Any]]]:
    """Rows of every table after the capture went through the example: sent to Kafka, or as a file."""
    topic, folder = new_topic(), tmp_path_factory.mktemp("feed")
    pipeline = with_topic(load_pipeline(ROOT / "examples" / "earthquakes" / "pipeline.py"), topic)
    settings = make_settings(folder, broker, "bronze.max_offsets_per_trigger=6000")
    if request.param == "topic":
        send(topic, captured)
    else:
        files = Files("history", path=str(FOLDER / CAPTURE), format="jsonl", into="bronze.quakes")
        pipeline = replace(pipeline, bronze=[*pipeline.bronze, files])
    catch_up(pipeline, settings)
    layout = Layout.of(pipeline, settings)
    names = (
        "bronze.quakes",
        "silver.quakes",
        "silver.quakes__quarantine",
        "gold.quakes_latest",
        "gold.quakes_by_network",
        "gold.quakes_by_hour",
        "gold.quake_magnitudes",
        "gold.magnitude_changes",
        "gold.quakes_retracted",
        "gold.detection_latency",
    )
    return {name: DeltaTable(layout.table_path(name)).to_pyarrow_table().to_pylist() for name in names}


def test_every_row_is_kept_and_none_is_refused(
    tables: dict[str, list[dict[str, Any]]], expected: dict[str, Any], made: Outcome
) -> None:
    """Bronze has them all; silver has each version once, the same as plain Python finds."""
    assert len(tables["bronze.quakes"]) == expected["rows"]
    assert tables["silver.quakes__quarantine"] == []
    silver = tables["silver.quakes"]
    assert len({(r["quake_id"], r["updated_at"]) for r in silver}) == expected["distinct_id_updated"]
    fields = ("quake_id", "updated_at", "event_at", "magnitude", "latitude", "status", "is_retracted")
    assert Counter(tuple(r[f] for f in fields) for r in silver) == Counter(made.silver)


def test_the_latest_state_has_the_published_digest(
    tables: dict[str, list[dict[str, Any]]], expected: dict[str, Any]
) -> None:
    """sha256 over id, updated and magnitude of every quake, sorted by id."""
    latest = tables["gold.quakes_latest"]
    assert len(latest) == expected["distinct_ids"]
    sent = {(r["partition"], r["offset"]): json.loads(r["value"]) for r in tables["bronze.quakes"]}
    lines = []
    for row in sorted(latest, key=lambda row: row["quake_id"]):
        # The digest was taken over the numbers as they were written: 2 and 2.0 are one double.
        properties = sent[row["_kafka_partition"], row["_kafka_offset"]]["properties"]
        assert (properties["mag"], properties["updated"]) == (
            row["magnitude"],
            _milliseconds(row["updated_at"]),
        )
        lines.append(f"{row['quake_id']}|{properties['updated']}|{properties['mag']}")
    wanted = expected["latest_state_sha256(id|updated|mag sorted by id, later row wins ties)"]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == wanted


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def test_the_published_counts_hold(tables: dict[str, list[dict[str, Any]]], expected: dict[str, Any]) -> None:
    """Per network, strong quakes, negative magnitudes, the strongest."""
    latest = tables["gold.quakes_latest"]
    networks = Counter(row["network"] for row in latest)
    assert len(networks) == expected["networks"]
    assert dict(networks.most_common(10)) == expected["ids_by_network_top10"]
    assert sum(row["magnitude"] >= 4.5 for row in latest) == expected["latest_state_mag_ge_4_5"]
    assert sum(row["magnitude"] < 0 for row in latest) == expected["latest_state_negative_mag"]
    assert max(row["strongest"] for row in tables["gold.quakes_by_network"]) == expected["max_mag"]
    assert sum(row["versions"] for row in tables["gold.quakes_by_network"]) == len(tables["silver.quakes"])


def test_every_gold_table_is_what_plain_python_makes_of_the_feed(
    tables: dict[str, list[dict[str, Any]]], made: Outcome
) -> None:
    """Windows, history, first and last magnitudes, latency, and that the feed retracts nothing."""
    hours = {
        (r["network"], r["window_start"]): (r["quakes"], r["versions"], r["strongest"])
        for r in tables["gold.quakes_by_hour"]
    }
    assert hours == made.by_hour
    fields = ("quake_id", "magnitude", "valid_from", "valid_to", "versions", "last_at")
    assert Counter(tuple(r[f] for f in fields) for r in tables["gold.quake_magnitudes"]) == made.magnitudes
    fields = ("versions", "first_at", "last_at", "first_magnitude", "last_magnitude", "change")
    changes = {r["quake_id"]: tuple(r[f] for f in fields) for r in tables["gold.magnitude_changes"]}
    assert changes == made.changes
    fields = ("quakes", "median_ms", "p95_ms")
    latency = {r["network"]: tuple(r[f] for f in fields) for r in tables["gold.detection_latency"]}
    assert latency == {network: pytest.approx(of) for network, of in made.latency.items()}
    assert tables["gold.quakes_retracted"] == []


def test_the_published_counts_are_in_every_table_that_has_them(
    tables: dict[str, list[dict[str, Any]]], expected: dict[str, Any]
) -> None:
    """Quakes per network, strong ones and negative ones: by the history's present rows, and by the last."""
    current = [row for row in tables["gold.quake_magnitudes"] if row["is_current"]]
    assert (
        dict(Counter(row["network"] for row in current).most_common(10)) == expected["ids_by_network_top10"]
    )
    by_network = {row["network"]: row["quakes"] for row in tables["gold.detection_latency"]}
    assert by_network == Counter(row["network"] for row in current)
    last = [row["last_magnitude"] for row in tables["gold.magnitude_changes"]]
    for magnitudes in ([row["magnitude"] for row in current], last):
        assert len(magnitudes) == expected["distinct_ids"]
        assert sum(each >= 4.5 for each in magnitudes) == expected["latest_state_mag_ge_4_5"]
        assert sum(each < 0 for each in magnitudes) == expected["latest_state_negative_mag"]
    assert max(row["strongest"] for row in tables["gold.quakes_by_hour"]) == expected["max_mag"]


def test_stale_rows_are_in_the_history_and_not_in_the_latest_state(
    tables: dict[str, list[dict[str, Any]]], expected: dict[str, Any], captured: list[Message]
) -> None:
    """A row that is older than one before it is put where it belongs in time."""
    newest: dict[str, int] = {}
    stale = []
    for message in captured:
        properties = json.loads(message.value or b"")["properties"]
        quake, updated = (message.key or b"").decode(), properties["updated"]
        if updated < newest.get(quake, updated):
            stale.append((quake, updated, properties["mag"]))
        newest[quake] = max(updated, newest.get(quake, updated))
    assert len(stale) == expected["rows_with_updated_older_than_already_seen"] > 0
    latest = {row["quake_id"]: _milliseconds(row["updated_at"]) for row in tables["gold.quakes_latest"]}
    history: dict[str, list[tuple[int, float]]] = {}
    for row in tables["gold.quake_magnitudes"]:
        history.setdefault(row["quake_id"], []).append((_milliseconds(row["valid_from"]), row["magnitude"]))
    for quake, updated, magnitude in stale:
        assert latest[quake] > updated
        held = max(each for each in history[quake] if each[0] <= updated)
        assert held[1] == magnitude
