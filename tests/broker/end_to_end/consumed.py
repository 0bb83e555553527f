"""What a topic of a real broker holds."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition


def consumed(broker: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of all messages of a topic, those of a partition in their order."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "none", "enable.auto.commit": False})
    found: list[tuple[bytes | None, bytes | None]] = []
    for number in consumer.list_topics(topic).topics[topic].partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number))
        consumer.assign([TopicPartition(topic, number, low)])
        for _ in range(high - low):
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            found.append((message.key(), message.value()))
    consumer.close()
    return found
