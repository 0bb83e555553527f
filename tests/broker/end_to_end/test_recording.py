"""What a job records about itself: its micro-batches, its state, and the model that is read from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from common.config.paths import HISTORY, Layout
from common.config.settings import Settings
from common.declare import Message, Pipeline, Upsert
from orchestration.access.history import micro_batches
from orchestration.access.history.job_state import JobState, read_states
from orchestration.observe.page.serve import page_of
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.model import Status
from orchestration.observe.status.topic_offsets import BrokerOffsets
from orchestration.run.recorder import Recorder, recording
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import LAYERS, Wiring
from tests.conftest import make_settings
from tests.support.oracles.orders import orders_pipeline

GOOD, BAD = 20, 3


@dataclass
class Ran:
    """A job that has processed all records and ended, with the broker still running."""

    pipeline: Pipeline
    settings: Settings
    topic: str
    broker: str

    @property
    def layout(self) -> Layout:
        return Layout.of(self.pipeline, self.settings)

    def look(self) -> Status:
        """The model now, by another reader than the job."""
        return Collector(self.pipeline, self.layout, BrokerOffsets(self.pipeline, self.settings)).collect()


def order(number: int) -> Message:
    return Message(None, json.dumps({"id": number, "ms": 1_700_000_000_000 + number}).encode())


@pytest.fixture(scope="module")
def ran(
    spark: Any,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[..., None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Ran:
    topic = new_topic()
    pipeline = orders_pipeline(
        topic, gold=(Upsert("newest", reads="silver.orders", key=["id"], newest_by=["ordered_at"]),)
    )
    settings = make_settings(tmp_path_factory.mktemp("recording"), broker)
    layout = Layout.of(pipeline, settings)
    send(topic, [order(number) for number in range(GOOD)])
    send(topic, [Message(None, b"<script>alert(1)</script>")] * BAD)
    supervisor = Supervisor(spark, StopSignal(), stop_timeout_seconds=60)
    wiring = Wiring(spark, pipeline, settings, layout, broker)
    with recording(Recorder(pipeline, settings, layout, "up", supervisor)):
        for layer in LAYERS:
            supervisor.start(wiring.streams(layer), available_now=True)
            supervisor.run(keep_open=True)
        supervisor.end()
    return Ran(pipeline, settings, topic, broker)


def test_the_history_has_a_row_per_micro_batch_with_what_became_of_its_rows(ran: Ran) -> None:
    columns = micro_batches.MicroBatchRow.__slots__
    path = ran.layout.table_path(HISTORY)
    rows = micro_batches.read(path, datetime.now(UTC) - timedelta(hours=1), columns)
    by_query: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["batch_id"] is not None:  # the others say that a query was idle for an interval
            by_query.setdefault(row["query"], []).append(row)
    assert set(by_query) == {"bronze.orders", "silver.orders", "gold.newest"}
    silver = by_query["silver.orders"]
    assert sum(row["rows"] or 0 for row in silver) == GOOD + BAD
    assert sum(row["accepted"] or 0 for row in silver) == GOOD
    assert sum(row["quarantined"] or 0 for row in silver) == BAD
    assert sum(row["rows"] or 0 for row in by_query["bronze.orders"]) == GOOD + BAD
    assert sum(row["rows"] or 0 for row in by_query["gold.newest"]) == GOOD
    for row in chain(*by_query.values()):
        assert row["duration_ms"] > 0
        assert row["add_batch_ms"] is not None
    assert [row["version"] is not None for row in silver] == [True] * len(silver)
    assert silver[-1]["state_rows"] is not None
    newest = by_query["gold.newest"][-1]
    assert (newest["lag_rows"], newest["waiting_kafka_at"], newest["waiting_seconds"]) == (0, None, 0.0)
    assert abs((newest["newest_kafka_at"] - datetime.now(UTC)).total_seconds()) < 600


def test_the_state_of_the_job_says_that_it_has_ended(ran: Ran) -> None:
    (state,) = read_states(ran.layout.jobs)
    assert isinstance(state, JobState)
    assert (state.job, state.ended, state.error) == ("up", "stopped", "")
    assert {query.state for query in state.queries.values()} == {"ended"}
    assert [table.query.state for table in ran.look().tables] == ["stopped"] * 3


def test_when_all_is_processed_no_record_waits(ran: Ran) -> None:
    status = ran.look()
    assert status.waiting_seconds == 0
    assert [table.lag.count for table in status.tables] == [0, 0, 0]
    assert all(table.loss.is_never for table in status.tables)


def test_the_share_of_quarantine_is_that_of_the_rows_that_were_read(ran: Ran) -> None:
    found = ran.look().tables[1].quarantine
    assert found is not None
    assert found.recent is not None
    assert (found.recent.read, found.recent.quarantined) == (GOOD + BAD, BAD)


def test_a_page_of_another_process_shows_the_run(ran: Ran) -> None:
    with page_of(ran.pipeline, ran.settings, "127.0.0.1:0") as address:
        with urlopen(f"{address}metrics") as answer:  # noqa: S310  # our own address
            text = answer.read().decode()
        with urlopen(f"{address}api/quarantine/silver.orders") as answer:  # noqa: S310  # our own address
            records = json.loads(answer.read())["records"]
    labels = 'layer="silver",pipeline="shop",table="silver.orders"'
    assert f"medallion_quarantine_rows{{{labels}}} {float(BAD)}" in text
    assert f"medallion_table_rows{{{labels}}} {float(GOOD)}" in text
    assert f"medallion_query_lag_rows{{{labels}}} 0.0" in text
    assert len(records) == BAD


def test_unread_records_have_an_age_and_open_transactions_are_told(
    ran: Ran, send: Callable[..., None]
) -> None:
    """The last test of this module: it leaves records in the topic."""
    old = int((datetime.now(UTC) - timedelta(minutes=30)).timestamp() * 1000)
    producer = Producer({"bootstrap.servers": ran.broker})
    producer.produce(ran.topic, value=b"{}", partition=0, timestamp=old)
    assert producer.flush(30) == 0
    bronze = ran.look().tables[0]
    assert bronze.lag.count == 1
    assert bronze.lag.seconds == pytest.approx(1_800, abs=60)
    assert bronze.freshness is not None
    assert bronze.freshness.waiting_since is not None
    watching = Collector(ran.pipeline, ran.layout, BrokerOffsets(ran.pipeline, ran.settings))
    watching.collect()
    transaction = Producer({"bootstrap.servers": ran.broker, "transactional.id": ran.topic})
    transaction.init_transactions(30)
    transaction.begin_transaction()
    transaction.produce(ran.topic, value=b"{}", partition=1)
    assert transaction.flush(30) == 0
    send(ran.topic, [Message(b"k", b"{}")])
    hidden, watched = ran.look().tables[0].uncommitted, watching.collect().tables[0].uncommitted
    transaction.abort_transaction(30)
    assert hidden is not None
    assert hidden.records >= 1
    assert hidden.is_at_least, "the first look does not know how long the transaction has been open"
    assert watched is not None
    assert not watched.is_at_least
