"""Whether a silver table that is filled again would lose rows: its records are in bronze and Kafka no more.

An older copy of bronze lacks records that silver has. Bronze reads them again from Kafka, unless retention
has deleted them there: then silver's rows are all that is left of them, and a refill would move them aside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from common.config.paths import Layout
from common.declare import Pipeline, Silver, Topic
from common.delta.match.checkpoint_match import last_commit_metadata
from common.errors import BrokerError
from common.streaming.topic_identity import BrokerTopic, read_ends

Ask = Callable[[Topic, Collection[str]], Mapping[str, BrokerTopic]]
"""Gives topics as the broker has them; raises ``BrokerError`` where it does not answer."""


def lost_records(
    pipeline: Pipeline, layout: Layout, silver: Silver, ask: Ask | None
) -> tuple[list[str], list[str]]:
    """What a refill of a silver table would lose, and what could not be asked, in words.

    Call it for a silver table that has read more of bronze than bronze has now.

    Args:
        pipeline: The pipeline.
        layout: Where its tables are.
        silver: The table.
        ask: Asks the broker; None: it is not asked.
    """
    lost: list[str] = []
    unknown: list[str] = []
    for topic in pipeline.topics:
        if topic.table not in silver.sources:
            continue
        ends = read_ends(last_commit_metadata(layout.table_path(topic.table), topic.table))
        if ask is None or not ends:
            continue
        try:
            lost += _gone(topic.table, ends, ask(topic, tuple(ends)))
        except BrokerError as error:
            why = str(error).partition(". ")[0]
            unknown.append(
                f"whether Kafka still has the records that {topic.table} lacks was not asked: {why}"
            )
    return lost, unknown


def _gone(table: str, ends: Mapping[str, Mapping[int, int]], now: Mapping[str, BrokerTopic]) -> Iterator[str]:
    for name, partitions in ends.items():
        found = now.get(name)
        for number, end in sorted(partitions.items()):
            if found is None:
                yield f"topic {name}, of which {table} has read partition {number} up to {end}, is gone"
            elif (first := found.first.get(number, 0)) > end:
                yield f"Kafka has deleted offsets {end} to {first - 1} of topic {name}, partition {number}"
