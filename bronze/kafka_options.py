"""A declared topic as options of Spark's Kafka source.

Spark ignores an option it does not know, so the source's options are named here and nowhere else. Which of
the client's an author cannot set: ``common.reserved_kafka_options``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from common.config.kafka_login import java_options
from common.config.settings import BronzeSettings
from common.declare import Topic


def options(
    topic: Topic, settings: BronzeSettings, bootstrap_servers: str, client: Mapping[str, str]
) -> dict[str, str]:
    """Reader options of one topic.

    The starting position counts at the first start only; later ones go on from the checkpoint.

    Args:
        settings: Limits where the declaration has none.
        client: Kafka client options without the prefix ``kafka.``; they win over ours.
    """
    chosen = {
        "kafka.bootstrap.servers": bootstrap_servers,
        # Records of aborted transactions were never sent, as far as their producer is concerned.
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        "failOnDataLoss": str(topic.fail_on_data_loss).lower(),
        "maxOffsetsPerTrigger": str(topic.max_offsets_per_trigger or settings.max_offsets_per_trigger),
        "groupIdPrefix": f"medallion-{topic.name}",
        **_choice(topic),
        **_start(topic),
    }
    if partitions := topic.min_partitions or settings.min_partitions:
        chosen["minPartitions"] = str(partitions)
    client = java_options(client)
    chosen |= {f"kafka.{name}": value for name, value in client.items() if name != "bootstrap.servers"}
    return chosen


def _choice(topic: Topic) -> dict[str, str]:
    if topic.pattern is not None:
        return {"subscribePattern": topic.pattern}
    if topic.assign is not None:
        return {"assign": json.dumps({name: list(partitions) for name, partitions in topic.assign.items()})}
    return {"subscribe": ",".join(topic.topic_names)}


def _start(topic: Topic) -> dict[str, str]:
    at = topic.starting_timestamp
    if isinstance(at, int):
        # "latest" where a partition has nothing that young: it then begins with what comes next.
        return {"startingTimestamp": str(at), "startingOffsetsByTimestampStrategy": "latest"}
    if at is not None:
        return {
            "startingOffsetsByTimestamp": _by_partition(at),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    if isinstance(topic.starting_offsets, str):
        return {"startingOffsets": topic.starting_offsets}
    return {"startingOffsets": _by_partition(topic.starting_offsets)}


def _by_partition(positions: Mapping[str, Mapping[int, int]]) -> str:
    return json.dumps(
        {topic: {str(p): value for p, value in found.items()} for topic, found in positions.items()}
    )
