"""A broker that was put back to an older copy is refused, and read from there by one command."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from common.config.paths import broker_dir
from common.config.settings import Settings, load_settings
from common.delta.log import LogReader
from common.errors import TopicChangedError
from orchestration.access.progress.set_back import RecordWatch
from orchestration.change.recover.startable import NewTopics, recover
from orchestration.records.audit.audit import audit
from orchestration.run import topic_checks
from orchestration.run.job import open_broker
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.topic_checks import broker_asker
from orchestration.run.wiring import Wiring
from tests.support.engine import Engine
from tests.support.oracles.orders import orders_pipeline

TOPIC = "orders"


class Shop:
    """A pipeline with a broker of its own, whose folder can be copied and put back."""

    def __init__(self, spark: Any, settings: Settings, folder: Path) -> None:
        self.engine = Engine(spark, orders_pipeline(TOPIC, watermark="1 hour"), settings)
        self.copy = folder / "older broker"
        self.sent = 0

    @contextmanager
    def broker(self) -> Iterator[None]:
        """The broker, running in the block."""
        engine = self.engine
        with open_broker(engine.pipeline, engine.settings) as engine.broker:
            yield

    def put_back(self) -> None:
        """Have the older copy of the broker's folder in place of the newer one."""
        folder = broker_dir(self.engine.settings)
        shutil.rmtree(folder)
        shutil.copytree(self.copy, folder)

    def send(self, count: int) -> None:
        """Send events to both partitions."""
        producer = Producer({"bootstrap.servers": self.engine.broker})
        for n in range(self.sent, self.sent + count):
            value = json.dumps({"id": n, "ms": 1_700_000_000_000 + n}).encode()
            producer.produce(TOPIC, value=value, partition=n % 2, headers=[("n", str(n).encode())])
        assert producer.flush(30) == 0
        self.sent += count

    def faults(self) -> list[str]:
        """Names of the faults that the audit finds."""
        engine = self.engine
        ask = broker_asker(engine.pipeline, engine.settings, engine.layout)
        (silver,) = engine.pipeline.silver
        found = audit(engine.spark, engine.pipeline, silver, engine.layout, again_seconds=0, ask=ask)
        assert found.not_compared == ""
        return [fault.name for fault in found.faults]

    def refused(self, lacking: int) -> None:
        """A start is refused and the audit finds it; one command has bronze go on, with all records once."""
        before = self.engine.version("bronze.orders")
        with pytest.raises(TopicChangedError, match=f"lacks {lacking} of the records") as refusal:
            self.engine.run("bronze")
        command = f"medallion recover bronze.orders --new-topic {TOPIC}"
        assert str(refusal.value).endswith(command), refusal.value
        assert "offset 15 in partition 0, 15 in partition 1 on" in str(refusal.value)
        assert self.engine.version("bronze.orders") == before
        assert self.faults() == ["topic", "topic"]
        engine = self.engine
        done = recover(
            engine.pipeline, engine.settings, engine.layout, "bronze.orders", NewTopics(new=[TOPIC])
        )
        assert "is read from offset 15 of partition 0, offset 15 of partition 1" in done.steps[0]
        engine.run()
        self.check()

    def refused_while_running(self, lacking: int) -> None:
        """A job whose start saw nothing wrong refuses before its next micro-batch of bronze is written."""
        engine, before = self.engine, self.engine.version("bronze.orders")
        wiring = Wiring(engine.spark, engine.pipeline, engine.settings, engine.layout, engine.broker)
        with mock.patch.object(
            topic_checks, "with_set_back", lambda layout, table, last, found, *rest: found
        ):
            streams = list(wiring.streams("bronze"))
        supervisor = Supervisor(engine.spark, StopSignal(), stop_timeout_seconds=60)
        supervisor.start(streams, available_now=True)
        with pytest.raises(TopicChangedError, match=f"lacks {lacking} of the records"):
            supervisor.run()
        assert engine.version("bronze.orders") == before

    def is_the_same(self) -> bool:
        """Whether the broker's last records are those of bronze, as a micro-batch compares them."""
        watch = RecordWatch(self.engine.path("bronze.orders"), self.engine.broker, {})
        watch.learn(None)
        (position,) = self.engine.commits("bronze.orders")[-1]["positions"]
        later = {TOPIC: {number: end + 1 for number, end in position[TOPIC].items()}}
        return watch.is_same(position, later)

    def flip_a_bit(self) -> None:
        """Change one bit of the newest file of bronze so that it can be read, with other values."""
        path = self.engine.path("bronze.orders")
        commit = LogReader(path).commit(self.engine.version("bronze.orders"))
        assert commit is not None
        file = Path(commit.added[0].path_in(path))
        content, before = file.read_bytes(), pq.read_table(file)
        chunk = pq.read_metadata(file).row_group(0).column(before.column_names.index("value"))
        begin = chunk.dictionary_page_offset or chunk.data_page_offset
        for at in range(begin, begin + chunk.total_compressed_size):
            flipped = content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]
            try:
                values = pq.read_table(pa.BufferReader(flipped), columns=["value"])["value"]
            except (pa.ArrowException, OSError):
                continue
            if values.null_count == 0 and values != before["value"] and len(values) == len(before):
                file.write_bytes(flipped)
                return
        raise AssertionError(file)

    def check(self) -> None:
        """Every event that was sent is in bronze once and in silver once, and the audit balances."""
        values = (json.loads(row["value"])["id"] for row in self.engine.rows("bronze.orders"))
        assert Counter(values) == Counter(range(self.sent))
        assert Counter(row["id"] for row in self.engine.rows("silver.orders")) == Counter(range(self.sent))
        assert self.faults() == []


@pytest.mark.long
def test_a_broker_that_was_put_back_is_refused_and_read_from_there(spark: Any, tmp_path: Path) -> None:
    """With fewer new records than were lost, then with more."""
    settings = load_settings(
        file=Path(os.devnull),
        overrides=[f"data_dir={tmp_path / 'data'}", "kafka.heap_mb=256", "kafka.partitions=2"],
    )
    shop = Shop(spark, settings, tmp_path)
    with shop.broker():
        shop.send(30)
        shop.engine.run()
    shutil.copytree(broker_dir(settings), shop.copy)
    with shop.broker():
        shop.send(30)
        shop.engine.run()
        shop.check()
        assert shop.is_the_same()
    shop.put_back()
    with shop.broker():
        shop.send(10)
        assert not shop.is_the_same()
        shop.refused(lacking=30)
    shop.put_back()
    with shop.broker():
        shop.send(80)
        shop.refused_while_running(lacking=10)
        shop.refused(lacking=10)
        shop.send(4)
        shop.engine.run()
        shop.check()
        shop.flip_a_bit()
        # The last records are not the broker's any more.
        assert shop.faults() == ["bytes", "topic", "topic"]
