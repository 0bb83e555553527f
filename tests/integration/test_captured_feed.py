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
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.declare import Message
from common.layout import Layout
from orchestration.load import load_pipeline
from tests.conftest import make_settings, with_topic
from tests.integration.oracle import outcome

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
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
def tables(
    captured: list[Message],
    broker: str,
    tmp_path_factory: pytest.TempPathFactory,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    catch_up: Callable[..., object],
) -> dict[str, list[dict[str, Any]]]:
    """Rows of every table after the capture went through the example, as it is."""
    topic = new_topic()
    pipeline = with_topic(load_pipeline(ROOT / "examples" / "earthquakes" / "pipeline.py"), topic)
    settings = make_settings(tmp_path_factory.mktemp("feed"), broker, "bronze.max_offsets_per_trigger=6000")
    send(topic, captured)
    catch_up(pipeline, settings)
    layout = Layout.of(pipeline, settings)
    names = (
        "bronze.quakes",
        "silver.quakes",
        "silver.quakes__quarantine",
        "gold.quakes_latest",
        "gold.quakes_by_network",
    )
    return {name: DeltaTable(layout.table_path(name)).to_pyarrow_table().to_pylist() for name in names}


def test_every_row_is_kept_and_none_is_refused(
    tables: dict[str, list[dict[str, Any]]], expected: dict[str, Any], captured: list[Message]
) -> None:
    """Bronze has them all; silver has each version once, the same as plain Python finds."""
    assert len(tables["bronze.quakes"]) == expected["rows"] == len(captured)
    assert tables["silver.quakes__quarantine"] == []
    silver = tables["silver.quakes"]
    assert len({(r["quake_id"], r["updated_at"]) for r in silver}) == expected["distinct_id_updated"]
    fields = ("quake_id", "updated_at", "event_at", "magnitude", "latitude", "status", "is_retracted")
    assert Counter(tuple(r[f] for f in fields) for r in silver) == Counter(outcome(captured).silver)


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
