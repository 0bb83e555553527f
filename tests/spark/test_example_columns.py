"""The example's columns survive anything that is JSON: values become null and a reason, never an error."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common.declare import Silver
from orchestration.access.declaration.load_file import load_pipeline
from silver.judge.reasons_and_verdict import judge_rows
from silver.read.column_names import REASONS
from silver.read.declared_columns import parse_values, select_columns

PIPELINE = Path(__file__).parents[2] / "examples" / "earthquakes" / "pipeline.py"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIME_MS = 1_746_366_018_110
URL = "https://earthquake.usgs.gov/earthquakes/eventpage/ci41144664"

GOOD = {
    "properties": {"mag": 1.48, "time": TIME_MS, "updated": TIME_MS + 1, "url": URL, "status": "automatic"},
    "geometry": {"coordinates": [-117.8, 35.3, 8.8]},
}


def feature(*, coordinates: object = (-117.8, 35.3, 8.8), **changes: object) -> bytes:
    """A version of a quake, some of it changed."""
    known = {**GOOD["properties"], **changes}
    return json.dumps({"properties": known, "geometry": {"coordinates": coordinates}}).encode()


CASES: dict[str, tuple[bytes, set[str]]] = {
    "as it should be": (feature(), set()),
    "whole magnitude": (feature(mag=2), set()),
    "no status": (feature(status=None), set()),
    "time too large for Spark": (feature(time=2**63 - 1), {"null_key", "null_event_time"}),
    "time too small for Spark": (feature(time=-(2**63)), {"null_key", "null_event_time"}),
    "stamp too large for Spark": (feature(updated=2**63 - 1), {"null_key"}),
    "after the year 5138": (feature(updated=10**14 + 1), {"null_key"}),
    "dated in the future": (feature(time=10**14), {"future_event_time"}),
    "no magnitude": (feature(mag=None), {"null_key", "magnitude_in_range"}),
    "no url": (feature(url=None), {"null_key"}),
    "no coordinates": (feature(coordinates=()), {"coordinates_on_earth", "depth_plausible"}),
    "null coordinates": (feature(coordinates=None), {"coordinates_on_earth", "depth_plausible"}),
    "no depth": (feature(coordinates=(1, 2)), {"depth_plausible"}),
    "off the earth": (feature(coordinates=(-180.5, 35, 8)), {"coordinates_on_earth"}),
    "not a number": (feature(mag="NaN"), {"wrong_type"}),
    "absurdly strong": (feature(mag=1e300), {"magnitude_in_range"}),
    "no properties": (
        b'{"geometry":{"coordinates":[1,2,3]}}',
        {"null_key", "null_event_time", "magnitude_in_range"},
    ),
    "text for a number": (feature(mag="strong"), {"wrong_type"}),
}


def test_every_oddity_is_one_row_with_its_reasons(spark: Any) -> None:
    """And the good ones have the values that were sent."""
    silver = load_pipeline(PIPELINE).table("silver.quakes")
    assert isinstance(silver, Silver)
    values = [(number, bytearray(value)) for number, (value, _) in enumerate(CASES.values())]
    bronze = spark.createDataFrame(values, "offset long, value binary").selectExpr(
        "'quakes' topic",
        "0 partition",
        "offset",
        "cast('k' as binary) key",
        "value",
        f"timestamp '{NOW.isoformat()}' kafka_timestamp",
        "0 kafka_timestamp_type",
        f"timestamp '{NOW.isoformat()}' ingested_at",
        "cast(null as array<struct<key: string, value: binary>>) headers",
    )
    frame = judge_rows(
        select_columns(parse_values(bronze, silver.value), silver.columns, "silver.quakes", ""),
        key=silver.key,
        event_time=silver.event_time,
        max_future=silver.max_future,
        rules=silver.rules,
    )
    found = frame.selectExpr(
        "_kafka.offset",
        REASONS,
        "unix_millis(event_at) time",
        "quake_id",
        "network",
        "magnitude",
        "is_retracted",
    )
    by_offset = {row["offset"]: row for row in found.collect()}
    assert {name: set(by_offset[n][REASONS]) for n, name in enumerate(CASES)} == {
        name: reasons for name, (_, reasons) in CASES.items()
    }
    good, whole, no_status = (by_offset[number] for number in range(3))
    assert (good.time, good.quake_id, good.network) == (TIME_MS, "ci41144664", "ci")
    assert (good.magnitude, whole.magnitude) == (1.48, 2.0)
    assert no_status.is_retracted is False
