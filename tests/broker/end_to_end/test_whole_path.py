"""The example from a real topic to gold, row for row against the oracle, and read by other engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Message, Pipeline
from orchestration.access.declaration.load_file import load_pipeline
from tests.conftest import make_settings, with_topic
from tests.support.oracles.oracle import Outcome, outcome

EXAMPLE = Path(__file__).parents[3] / "examples" / "earthquakes" / "pipeline.py"
FIELDS = ("quake_id", "updated_at", "event_at", "magnitude", "latitude", "status", "is_retracted")
FIRST, SECOND = 3_000, 2_000


@pytest.fixture(scope="module")
def sent() -> list[Message]:
    """The example's own events."""
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    return list(islice(sample(11), FIRST + SECOND))


class Ran:
    """The example after two catch-ups: the second over a started checkpoint."""

    def __init__(self, pipeline: Pipeline, settings: Settings, reports: list[dict[str, Any]]) -> None:
        self.pipeline, self.settings, self.reports = pipeline, settings, reports
        self.layout = Layout.of(pipeline, settings)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows by delta-rs."""
        found: list[dict[str, Any]] = DeltaTable(self.layout.table_path(table)).to_pyarrow_table().to_pylist()
        return found


@pytest.fixture(scope="module")
def ran(
    sent: list[Message],
    broker: str,
    tmp_path_factory: pytest.TempPathFactory,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    catch_up: Callable[..., list[dict[str, Any]]],
) -> Ran:
    """The example, run."""
    topic = new_topic()
    pipeline = with_topic(load_pipeline(EXAMPLE), topic)
    settings = make_settings(
        tmp_path_factory.mktemp("example"),
        broker,
        "bronze.max_offsets_per_trigger=2000",
        "silver.max_files_per_trigger=1",  # of several files in one micro-batch any row of a key may stay
    )
    send(topic, sent[:FIRST])
    reports = catch_up(pipeline, settings)
    send(topic, sent[FIRST:])
    return Ran(pipeline, settings, reports + catch_up(pipeline, settings))


@pytest.fixture(scope="module")
def expected(sent: list[Message]) -> Outcome:
    """What must have come of it."""
    return outcome(sent)


def test_bronze_holds_every_record_as_it_was_sent(ran: Ran, sent: list[Message]) -> None:
    """Bytes, nulls included; each offset once."""
    rows = ran.rows("bronze.quakes")
    assert Counter((r["key"], r["value"]) for r in rows) == Counter((m.key, m.value) for m in sent)
    assert len({(r["partition"], r["offset"]) for r in rows}) == len(rows)


def test_silver_is_the_oracles_multiset(ran: Ran, expected: Outcome) -> None:
    """Typed rows, one per version, no more and no fewer."""
    found = Counter(tuple(row[f] for f in FIELDS) for row in ran.rows("silver.quakes"))
    assert found == Counter(expected.silver)


def test_the_first_of_equal_versions_is_the_one_kept(ran: Ran) -> None:
    """By Kafka offset: what arrived first."""
    bronze = {(r["partition"], r["offset"]): r for r in ran.rows("bronze.quakes")}
    kept = {(r["_kafka_partition"], r["_kafka_offset"]) for r in ran.rows("silver.quakes")}
    first: dict[tuple[Any, ...], tuple[int, int]] = {}
    for at in sorted(bronze):
        judged = outcome([Message(bronze[at]["key"], bronze[at]["value"])]).silver
        if judged:
            first.setdefault(judged[0][:4], at)
    assert kept == set(first.values())


def test_quarantine_has_each_rejected_record_with_its_reason(ran: Ran, expected: Outcome) -> None:
    """Raw bytes and coordinates are bronze's; every kind of garbage is there."""
    rows = ran.rows("silver.quakes__quarantine")
    assert Counter(reason for row in rows for reason in row["reasons"]) == expected.quarantine
    assert set(expected.quarantine) == {"empty_value", "not_utf8", "malformed_json", "wrong_type"}
    bronze = {(r["partition"], r["offset"]): r["value"] for r in ran.rows("bronze.quakes")}
    assert all(bronze[row["partition"], row["offset"]] == row["value"] for row in rows)


def test_no_event_is_lost_or_counted_twice(ran: Ran, sent: list[Message], expected: Outcome) -> None:
    """Offsets = silver + quarantine + duplicates + tombstones, and Spark's own counters say the same."""
    silver, aside = ran.rows("silver.quakes"), ran.rows("silver.quakes__quarantine")
    assert expected.tombstones > 0
    assert len(silver) + len(aside) + expected.duplicates + expected.tombstones == len(sent)
    places = [(r["_kafka_partition"], r["_kafka_offset"]) for r in silver]
    places += [(r["partition"], r["offset"]) for r in aside]
    assert len(places) == len(set(places))
    operators = [
        o
        for report in ran.reports
        for o in report["stateOperators"]
        if o["operatorName"] == "dedupeWithinWatermark"
    ]
    assert sum(o["customMetrics"]["numDroppedDuplicateRows"] for o in operators) == expected.duplicates
    assert sum(o["numRowsDroppedByWatermark"] for o in operators) == 0


def test_the_latest_state_is_the_newest_version_of_each_quake(ran: Ran, expected: Outcome) -> None:
    """Stale versions that came after newer ones never win."""
    found = {row["quake_id"]: tuple(row[f] for f in FIELDS) for row in ran.rows("gold.quakes_latest")}
    assert found == expected.latest
    assert len(ran.rows("gold.quakes_latest")) == len(expected.latest)


def test_the_aggregate_is_what_a_batch_over_silver_would_give(ran: Ran, expected: Outcome) -> None:
    """Every group and measure."""
    found = {
        (r["network"], r["magnitude_class"]): (
            r["versions"],
            r["strongest"],
            r["latest_event_at"],
            r["retractions"],
        )
        for r in ran.rows("gold.quakes_by_network")
    }
    assert found == expected.by_network


def test_hours_have_their_quakes_whenever_a_version_came(ran: Ran, expected: Outcome) -> None:
    """Each quake once per network and hour, however many versions it has."""
    found = {
        (row["network"], row["window_start"]): (row["quakes"], row["versions"], row["strongest"])
        for row in ran.rows("gold.quakes_by_hour")
    }
    assert found == expected.by_hour
    assert any(quakes < versions for quakes, versions, _ in found.values())


def test_the_history_of_magnitudes_has_no_gap(ran: Ran, expected: Outcome) -> None:
    """From when to when each was held to be true; stale versions are put in the middle."""
    rows = ran.rows("gold.quake_magnitudes")
    fields = ("quake_id", "magnitude", "valid_from", "valid_to", "versions", "last_at")
    assert Counter(tuple(row[name] for name in fields) for row in rows) == expected.magnitudes
    assert all(row["is_current"] is (row["valid_to"] is None) for row in rows)
    current = Counter(row["quake_id"] for row in rows if row["is_current"])
    assert current == Counter(quake for quake, version in expected.latest.items() if not version[6])


def test_first_and_last_magnitude_of_each_quake(ran: Ran, expected: Outcome) -> None:
    fields = ("versions", "first_at", "last_at", "first_magnitude", "last_magnitude", "change")
    rows = ran.rows("gold.magnitude_changes")
    assert {row["quake_id"]: tuple(row[name] for name in fields) for row in rows} == expected.changes
    assert len(rows) == len(expected.changes)
    assert any(row["change"] for row in rows)


def test_detection_latency_is_that_of_each_quakes_earliest_version(ran: Ran, expected: Outcome) -> None:
    """A stale version that comes late may turn out to be the earliest."""
    fields = ("quakes", "median_ms", "p95_ms")
    found = {r["network"]: tuple(r[name] for name in fields) for r in ran.rows("gold.detection_latency")}
    assert found == {network: pytest.approx(of) for network, of in expected.latency.items()}


def test_retracted_quakes_are_told(ran: Ran, expected: Outcome) -> None:
    fields = ("retracted_at", "event_at", "magnitude")
    rows = ran.rows("gold.quakes_retracted")
    assert {row["quake_id"]: tuple(row[name] for name in fields) for row in rows} == expected.retracted
    assert len(rows) == len(expected.retracted) > 0


@pytest.mark.parametrize(
    "table", ["silver.quakes", "gold.quakes_latest", "gold.quakes_by_network", "gold.quake_magnitudes"]
)
def test_duckdb_polars_and_delta_rs_read_the_same_rows(ran: Ran, table: str) -> None:
    """Whatever people use: reader version 1, the same rows."""
    path = ran.layout.table_path(table)
    assert DeltaTable(path).protocol().min_reader_version == 1
    columns = [name for name in ran.rows(table)[0] if not name.startswith("_")]
    by_rs = Counter(tuple(_plain(row[c]) for c in columns) for row in ran.rows(table))
    by_polars = Counter(
        tuple(_plain(v) for v in row) for row in pl.read_delta(path).select(columns).iter_rows()
    )
    connection = _duckdb()
    names = ", ".join(f'"{c}"' for c in columns)
    by_duckdb = Counter(
        tuple(_plain(v) for v in row)
        for row in connection.execute(f"select {names} from delta_scan('{path}')").fetchall()
    )
    assert by_rs == by_polars == by_duckdb
    assert by_rs.total() > 0


def _plain(value: object) -> object:
    return value.timestamp() if hasattr(value, "timestamp") else value


def _duckdb() -> duckdb.DuckDBPyConnection:
    from orchestration.access.query.duckdb_views import Database

    return Database().connection


def test_each_commit_says_what_it_covers_and_what_became_of_the_rows(ran: Ran, sent: list[Message]) -> None:
    """The counts of silver's commits add up to all of bronze."""
    import json

    told = [
        json.loads(commit["userMetadata"])
        for commit in DeltaTable(ran.layout.table_path("silver.quakes")).history()
        if "userMetadata" in commit
    ]
    fates = ("accepted", "quarantined", "dropped", "tombstones", "duplicates", "late")
    assert sum(one["counts"][fate] for one in told for fate in fates) == len(sent)
    assert len({one["query_id"] for one in told}) == 1
    assert [one["batch_id"] for one in told] == sorted((one["batch_id"] for one in told), reverse=True)
    assert all(one["positions"][0]["reservoirVersion"] > 0 for one in told)
