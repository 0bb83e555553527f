"""An event is woken through all layers: from a topic to gold and to where rows are sent on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from common.config.paths import Layout
from common.declare import Aggregate, ConsoleSink, Message, Publish, Rule
from common.streaming import query as streaming
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import LAYERS, Wiring
from tests.conftest import make_settings
from tests.pipeline.run.test_waking import await_that
from tests.support.oracles.orders import orders_pipeline

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _no_look_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "POLL_INTERVAL", "1 hour")


def test_an_event_goes_through_all_layers_by_wakes_alone(
    spark: Any, tmp_path: Path, broker: str, topic: str, send: Callable[..., None]
) -> None:
    """Through silver to a table of gold, and from a table beside silver to where its rows are sent on."""
    pipeline = orders_pipeline(
        topic,
        rules=[Rule("id_known", "id < 1000")],
        gold=(Aggregate("total", reads="silver.orders", by={"one": "1"}, measures={"orders": "count(*)"}),),
        publish=[Publish("rejected", reads="silver.orders__quarantine", to=ConsoleSink())],
    )
    settings = make_settings(tmp_path, broker, "bronze.trigger=100 milliseconds")
    layout = Layout.of(pipeline, settings)
    wiring = Wiring(spark, pipeline, settings, layout, broker)
    supervisor = Supervisor(spark, StopSignal(), stop_timeout_seconds=60)

    def order(number: int) -> Message:
        return Message(None, json.dumps({"id": number, "ms": 1_700_000_000_000 + number}).encode())

    def has_got(orders: int, rejected: int) -> bool:
        assert supervisor.poll() is None
        sent = [query for query in supervisor.queries if query.name.startswith("publish.")]
        told = sum(report["numInputRows"] for query in sent for report in query.progress())
        path = layout.table_path("gold.total")
        found = DeltaTable(path).to_pyarrow_table().to_pylist() if Path(path).exists() else []
        return [row["orders"] for row in found] == [orders] and told == rejected

    try:
        for layer in LAYERS:
            supervisor.start(wiring.streams(layer), when=wiring.has_begun)
        supervisor.start(wiring.publications(), when=wiring.has_begun)
        for round_ in (1, 2, 3):
            send(topic, [order(round_), order(1000 + round_)])
            await_that(lambda n=round_: has_got(n, n), f"the events of round {round_} are through")  # type: ignore[misc]
    finally:
        supervisor.end()
