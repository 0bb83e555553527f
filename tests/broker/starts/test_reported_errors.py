"""Errors of Spark, Delta and Kafka that end a query: staged, and reported with place and command."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

import bronze.query
from common.config.paths import Layout
from common.declare import Aggregate, Message, Pipeline, Upsert
from common.errors import (
    BrokerAwayError,
    HistoryGoneError,
    MedallionError,
    RecordsGoneError,
    StateDamagedError,
)
from common.streaming.topic_identity import TopicIdentity
from orchestration.run.failures.restart_schedule import RestartPolicy
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import Layer
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.orders import orders_pipeline

pytestmark = pytest.mark.long


def pipeline(topic: str) -> Pipeline:
    """A stateless and two stateful queries."""
    return orders_pipeline(
        topic,
        gold=(
            Aggregate(
                "counts", reads="silver.orders", by=["id"], measures={"rows": "count(*)"}, mode="update"
            ),
            Upsert("latest", reads="silver.orders", key=["id"], newest_by=["ordered_at"]),
        ),
    )


def messages(first: int, number: int = 30) -> list[Message]:
    """Messages with ids of their own."""
    events = ({"id": n, "ms": 1_700_000_000_000 + n} for n in range(first, first + number))
    return [Message(b"%d" % event["id"], json.dumps(event).encode()) for event in events]


class Shop:
    """The pipeline over a topic with three partitions, caught up with thirty messages."""

    def __init__(self, engine: Engine, topic: str, send: Callable[[str, Sequence[Message]], None]) -> None:
        self.engine, self.topic = engine, topic
        self._send, self._sent = send, 0
        self.kept = Path(engine.layout.local).parent / "kept"

    def send(self, number: int = 30) -> None:
        """New messages in the topic."""
        self._send(self.topic, messages(self._sent, number))
        self._sent += number

    def keep(self, query: str) -> Path:
        """Copy a checkpoint aside, for ``restore``; returns its folder."""
        folder = self.engine.checkpoint(query)
        shutil.copytree(folder, self.kept / query)
        return folder

    def restore(self, query: str) -> None:
        """Bring a checkpoint back."""
        shutil.rmtree(self.engine.checkpoint(query))
        shutil.copytree(self.kept / query, self.engine.checkpoint(query))

    def forget(self) -> None:
        """Have Delta read the tables' logs again, as another process would."""
        self.engine.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def error(self, *layers: Layer, kind: type[MedallionError]) -> str:
        """The message of the error that ends a run of these layers; its type is ``kind``."""
        with pytest.raises(kind) as refused:
            self.engine.run(*layers)
        assert type(refused.value) is kind
        message = str(refused.value)
        assert "\n" not in message
        assert "set the source option" not in message
        return message


@pytest.fixture
def shop(
    spark: Any,
    broker: str,
    new_topic: Callable[[], str],
    send: Callable[[str, Sequence[Message]], None],
    tmp_path: Path,
) -> Shop:
    topic = new_topic()
    running = Shop(Engine(spark, pipeline(topic), make_settings(tmp_path, broker), broker), topic, send)
    running.send()
    running.engine.run()
    running.send()
    return running


def test_records_that_retention_has_deleted(shop: Shop, broker: str) -> None:
    """Partition and offset are named, and the command that accepts the loss."""
    admin = AdminClient({"bootstrap.servers": broker})
    ends = [TopicPartition(shop.topic, n) for n in range(3)]
    for gone in admin.delete_records([TopicPartition(p.topic, p.partition, -1) for p in ends]).values():
        gone.result()
    message = shop.error("bronze", kind=RecordsGoneError)
    assert message.startswith(f"bronze.orders failed: Kafka at {broker} no longer has records")
    assert re.search(rf"Partition {shop.topic}-\d has no offset \d+ any more\.", message)
    assert "medallion recover bronze.orders --accept-gap" in message


@pytest.mark.parametrize(
    "damage",
    ["cut", "empty", "bit", "deleted"],
)
def test_damaged_state(shop: Shop, damage: str) -> None:
    """Of silver the way is to restore or to fill again, of gold it is one command."""
    shop.engine.run("bronze")
    for query, layer, way in (
        ("silver.orders", "silver", "medallion recover silver.orders"),
        ("gold.counts", "gold", "medallion rebuild gold.counts"),
    ):
        folder = shop.keep(query)
        _damage(folder / "state", damage)
        message = shop.error(layer, kind=StateDamagedError)  # type: ignore[arg-type]
        assert message.startswith(f"{query} failed: its state cannot be read: ")
        assert str(folder) in message
        assert way in message
        shop.restore(query)
        shop.engine.run(layer)  # type: ignore[arg-type]  # as the message says
    assert len(shop.engine.rows("gold.counts")) == 60


def _damage(state: Path, damage: str) -> None:
    if damage == "deleted":
        shutil.rmtree(state)
        return
    for file in state.rglob("*.delta"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0x55
        file.write_bytes({"cut": bytes(content[:20]), "empty": b"", "bit": bytes(content)}[damage])
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def test_files_that_were_vacuumed_before_they_were_read(shop: Shop) -> None:
    shop.engine.run("bronze")
    table = DeltaTable(shop.engine.path("bronze.orders"))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    shop.forget()
    message = shop.error("silver", kind=HistoryGoneError)
    assert message.startswith("silver.orders: bronze.orders has no longer the file ")
    assert ".parquet" in message
    assert "VACUUM" in message


def test_a_log_that_was_cleaned_before_it_was_read(shop: Shop) -> None:
    for _ in range(3):
        shop.send(5)
        shop.engine.run("bronze")
    path = shop.engine.path("bronze.orders")
    DeltaTable(path).create_checkpoint()
    newest = shop.engine.version("bronze.orders")
    for file in Path(path, "_delta_log").iterdir():
        number = file.name.lstrip(".").split(".")[0]
        if number.isdigit() and int(number) < newest:
            file.unlink()
    shop.forget()
    message = shop.error("silver", kind=HistoryGoneError)
    assert "bronze.orders" in message
    assert "medallion recover silver.orders" in message


def test_a_broker_that_does_not_answer_is_waited_for(spark: Any, tmp_path: Path) -> None:
    """Spark's client gives up after a minute, here after three seconds."""
    away = "127.0.0.1:9"
    options = {"default.api.timeout.ms": "3000", "request.timeout.ms": "3000"}
    settings = make_settings(tmp_path, away)
    declared = pipeline("orders")
    stream = bronze.query.build_query(
        spark,
        "shop",
        declared.bronze[0],
        settings=settings,
        layout=Layout.of(declared, settings),
        bootstrap_servers=away,
        client=options,
        identity=TopicIdentity("bronze.orders", {}, lambda new: {}),
    )
    supervisor = Supervisor(
        spark, StopSignal(), stop_timeout_seconds=60, policy=RestartPolicy(bounded_give_up_seconds=2)
    )
    supervisor.start(iter([stream]), available_now=True)
    with pytest.raises(BrokerAwayError, match=f"bronze.orders: Kafka at {away} does not answer"):
        supervisor.run()
