"""OpenLineage events of a real run, at a real HTTP receiver."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from common.config.paths import Layout
from common.declare import Aggregate, Json, Message, Pipeline, Rule, Silver, Topic, Upsert
from orchestration.run.job import lineage_of
from orchestration.run.recorder import Recorder, recording
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import LAYERS, Wiring
from tests.conftest import make_settings
from tests.support.servers.lineage_events import validate
from tests.support.servers.receiver import Receiver, receiving

pytestmark = pytest.mark.long

GOOD, BAD, WARNED = 20, 3, 4


def order(number: int) -> Message:
    value = {"id": number, "ms": 1_700_000_000_000 + number, "cents": -1 if number < WARNED else 100}
    return Message(b"k", json.dumps(value).encode())


def shop(topic: str) -> Pipeline:
    return Pipeline(
        name="shop",
        bronze=[Topic("orders", topics=[topic])],
        silver=[
            Silver(
                "orders",
                reads="bronze.orders",
                value=Json("id int, ms bigint, cents int"),
                columns={"id": "id", "ordered_at": "timestamp_millis(ms)", "cents": "cents"},
                key=["id"],
                event_time="ordered_at",
                watermark="7 days",
                rules=[Rule("paid", "cents > 0", on_fail="warn")],
            )
        ],
        gold=[
            Upsert("newest", reads="silver.orders", key=["id"], newest_by=["ordered_at"]),
            Aggregate(
                "total",
                reads="silver.orders",
                by={"day": "date(ordered_at)"},
                measures={"n": "count(*)", "cents": "sum(cents)"},
            ),
        ],
    )


@pytest.fixture(scope="module")
def received(
    spark: Any,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Receiver, Layout, str, str]]:
    topic = new_topic()
    pipeline = shop(topic)
    send(topic, [*map(order, range(GOOD)), *[Message(None, b"no json")] * BAD])
    with receiving() as receiver:
        transport = json.dumps({"type": "http", "url": receiver.url})
        settings = make_settings(
            tmp_path_factory.mktemp("lineage"), broker, f"lineage.openlineage={transport}"
        )
        layout = Layout.of(pipeline, settings)
        supervisor = Supervisor(spark, StopSignal(), stop_timeout_seconds=60)
        wiring = Wiring(spark, pipeline, settings, layout, broker)
        recorder = Recorder(pipeline, settings, layout, "up", supervisor)
        recorder.lineage = lineage_of(wiring)
        with recording(recorder):
            for layer in LAYERS:
                supervisor.start(wiring.streams(layer), available_now=True)
                supervisor.run(keep_open=True)
            supervisor.end()
        yield receiver, layout, topic, broker


def last(received: tuple[Receiver, Layout, str, str], query: str) -> dict[str, Any]:
    return received[0].of(f"shop.{query}")[-1]


def test_every_event_is_valid_and_a_run_starts_and_completes(
    received: tuple[Receiver, Layout, str, str],
) -> None:
    for event in received[0].events:
        validate(event)
    for query in ("bronze.orders", "silver.orders", "gold.newest", "gold.total"):
        events = received[0].of(f"shop.{query}")
        assert [events[0]["eventType"], events[-1]["eventType"]] == ["START", "COMPLETE"]
        (run,) = {event["run"]["runId"] for event in events}
        assert uuid.UUID(run).version == 7
        assert {event["job"]["namespace"] for event in events} == {"medallion"}


def test_datasets_have_the_names_of_the_specification(received: tuple[Receiver, Layout, str, str]) -> None:
    _, layout, topic, broker = received
    bronze, silver = last(received, "bronze.orders"), last(received, "silver.orders")
    assert [(one["namespace"], one["name"]) for one in bronze["inputs"]] == [(f"kafka://{broker}", topic)]
    assert [(one["namespace"], one["name"]) for one in silver["inputs"]] == [
        ("file", layout.table_path("bronze.orders"))
    ]
    assert [one["name"] for one in silver["outputs"]] == [
        layout.table_path(f"silver.orders{side}") for side in ("", "__quarantine", "__late")
    ]
    assert silver["outputs"][0]["facets"]["symlinks"]["identifiers"][0]["name"] == "silver.orders"


def test_counts_and_rules_are_those_of_the_micro_batches(
    received: tuple[Receiver, Layout, str, str],
) -> None:
    def written(event: dict[str, Any], place: int = 0) -> int:
        count: int = event["outputs"][place]["outputFacets"]["outputStatistics"]["rowCount"]
        return count

    bronze, silver, newest = (
        last(received, name) for name in ("bronze.orders", "silver.orders", "gold.newest")
    )
    assert bronze["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == GOOD + BAD
    assert written(bronze) == GOOD + BAD
    assert silver["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == GOOD + BAD
    assert (written(silver), written(silver, 1), written(silver, 2)) == (GOOD, BAD, 0)
    assert written(newest) == GOOD
    (rule,) = silver["outputs"][0]["facets"]["dataQualityAssertions"]["assertions"]
    assert (rule["name"], rule["success"], rule["actual"], rule["severity"]) == (
        "paid",
        False,
        str(WARNED),
        "warn",
    )


def test_schemas_and_column_lineage_are_those_of_the_tables(
    received: tuple[Receiver, Layout, str, str],
) -> None:
    total = last(received, "gold.total")["outputs"][0]["facets"]
    assert [(one["name"], one["type"]) for one in total["schema"]["fields"]] == [
        ("day", "date"),
        ("n", "long"),
        ("cents", "long"),
    ]
    lineage = total["columnLineage"]
    assert set(lineage["fields"]) == {"day", "n", "cents"}
    assert lineage["fields"]["n"]["inputFields"] == []
    (source,) = lineage["fields"]["cents"]["inputFields"]
    assert (source["namespace"], source["name"], source["field"]) == (
        "file",
        received[1].table_path("silver.orders"),
        "cents",
    )
    assert [(one["type"], one["subtype"]) for one in source["transformations"]] == [("DIRECT", "AGGREGATION")]
    for query in ("bronze.orders", "silver.orders", "gold.newest"):
        for output in last(received, query)["outputs"]:
            facets = output["facets"]
            if "schema" in facets:
                names = {one["name"] for one in facets["schema"]["fields"]}
                assert set(facets["columnLineage"]["fields"]) == names
