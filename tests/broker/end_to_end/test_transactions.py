"""The page's function that sends rows by transactions: who reads committed messages gets each row once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import confluent_kafka
import pytest
from confluent_kafka import Consumer, TopicPartition

from common.declare import BatchSink, Pipeline, Publish, Topic
from common.errors import QueryFailedError
from tests.conftest import make_settings
from tests.support.engine import Engine

PAGE = Path(__file__).parents[3] / "docs" / "author" / "custom-and-publish.md"
SCHEMA = (
    "id string, n int, _kafka_topic string, _kafka_partition int, _kafka_offset bigint,"
    "_kafka_timestamp timestamp, _ingested_at timestamp"
)


class Dying(confluent_kafka.Producer):
    """A producer whose job dies where ``dies`` says; what it has begun stays open at the broker."""

    dies = ""
    left: ClassVar[list[Any]] = []

    def init_transactions(self, *given: Any) -> None:
        Dying.left.append(self)
        super().init_transactions(*given)
        if Dying.dies == "before":
            raise OSError("killed here")

    def commit_transaction(self, *given: Any) -> None:
        self.flush()
        if Dying.dies == "inside":
            raise OSError("killed here")
        super().commit_transaction(*given)
        if Dying.dies == "after":
            raise OSError("killed here")


def of_the_page() -> dict[str, Any]:
    """What the page's code defines, without the declaration below it."""
    section = PAGE.read_text(encoding="utf-8").partition("### Kafka, each message once")[2]
    code = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)[0].partition("\nPublish(")[0]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  # the page's own text
    names["Producer"] = Dying
    return names


def read(broker: str, topic: str, isolation: str) -> Counter[tuple[str, int]]:
    """How often each row is in a topic."""
    options = {"group.id": "none", "isolation.level": isolation, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": broker, "enable.auto.commit": False, **options})
    found: Counter[tuple[str, int]] = Counter()
    for number in consumer.list_topics(topic).topics[topic].partitions:
        consumer.assign([TopicPartition(topic, number, 0)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            row = json.loads(message.value())
            found[row["id"], row["n"]] += 1
        assert message is not None
    consumer.close()
    return found


@pytest.mark.long
def test_each_row_is_committed_once_whatever_dies(
    spark: Any, broker: str, new_topic: Callable[[], str], tmp_path: Path
) -> None:
    """Before, inside of and after the transaction; and where the checkpoint does not know of it."""
    topic, tokens = new_topic(), new_topic()
    write = of_the_page()["Transactions"](broker, topic, tokens)
    publish = Publish("alerts", reads="silver.orders", to=BatchSink(write), columns=["id", "n"])
    engine = Engine(
        spark, Pipeline("shop", bronze=[Topic("orders")], publish=[publish]), make_settings(tmp_path, broker)
    )
    expected: Counter[tuple[str, int]] = Counter()
    for first in (0, 10, 20):
        rows = [(f"o{n % 7}", n, "t", 0, n, None, None) for n in range(first, first + 10)]
        engine.append("silver.orders", rows, SCHEMA)
        expected.update((f"o{n % 7}", n) for n in range(first, first + 10))
        for Dying.dies in ("before", "inside", "after"):
            with pytest.raises(QueryFailedError, match="killed here"):
                engine.publish()
        Dying.dies = ""
        engine.publish()
        if first == 10:
            engine.undo_last_commit("publish.alerts")
            engine.publish()
        assert read(broker, topic, "read_committed") == expected
    assert read(broker, topic, "read_uncommitted").total() > expected.total()
