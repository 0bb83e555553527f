"""Compares what bronze has read with the topics on the broker.

The tables alone do not show that a topic was deleted and created again, or that retention has deleted records
before they were read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from common.declare import Topic
from common.errors import BrokerError
from common.streaming.topic_identity import (
    BrokerTopic,
    TopicState,
    last_record_note,
    read_ends,
    recorded_topics,
)
from orchestration.records.audit.result import Fault

Ask = Callable[[Topic, Collection[str]], Mapping[str, BrokerTopic]]
"""Gives the topics of these names as the broker has them; raises ``BrokerError`` where it does not answer."""

NOT_ASKED = "no broker was asked"


class ComparedTopics(NamedTuple):
    """What comparing topics with the broker has found."""

    faults: tuple[Fault, ...] = ()  # what is wrong with them
    why: str = ""  # why something could not be compared; empty if all was
    notes: tuple[str, ...] = ()  # partitions whose last record was not compared


def compare_with_broker(topic: Topic, last: Mapping[str, Any] | None, ask: Ask | None) -> ComparedTopics:
    """Compare what bronze has read with the topics that the broker has.

    Args:
        last: The metadata of bronze's newest micro-batch, read before the broker is asked: the broker then
            cannot be behind it.
    """
    ends = {
        name: parts
        for name, parts in read_ends(last).items()
        if any(parts.values()) and (not topic.topic_names or name in topic.topic_names)
    }
    if not ends:
        return ComparedTopics()
    if ask is None:
        return ComparedTopics(why=NOT_ASKED)
    try:
        found = ask(topic, tuple(ends))
    except BrokerError as error:
        return ComparedTopics(why=str(error).partition(". ")[0])
    recorded = recorded_topics(last)
    faults: list[Fault] = []
    unnamed: list[str] = []
    for name, parts in ends.items():
        now, known = found.get(name), recorded.get(name, TopicState())
        if now is None:
            faults.append(
                Fault("topic", f"topic {name}, which {topic.table} has read, is gone from the broker")
            )
            continue
        if known.id and now.id and known.id != now.id:
            faults.append(_recreated(topic.table, name, known, now))
            continue
        faults += _offset_faults(topic, name, parts, now)
        if not (known.id and now.id):
            unnamed.append(name)
    why = f"no commit of {topic.table} names the id of topic {', '.join(unnamed)} yet" if unnamed else ""
    notes = (last_record_note(topic.table, name, now) for name, now in found.items())
    return ComparedTopics(tuple(faults), why, tuple(note for note in notes if note))


def _recreated(table: str, name: str, known: TopicState, now: BrokerTopic) -> Fault:
    held = sum(end - now.first.get(number, 0) for number, end in now.end.items())
    return Fault(
        "topic",
        f"topic {name} was deleted and created again: {table} has read the topic with the id {known.id}, and "
        f"none of the {held:,} offsets of the topic that is there now, with the id {now.id}",
        max(held, 1),
    )


def _offset_faults(topic: Topic, name: str, ends: Mapping[int, int], now: BrokerTopic) -> Iterator[Fault]:
    for number, back in sorted(now.set_back.items()):
        differs = (
            f"it lacks the {back.lacking:,} records that {topic.table} has read there"
            if back.lacking
            else f"it has another history than {topic.table} has read, without a record, up to {ends[number]}"
        )
        yield Fault(
            "topic",
            f"topic {name}, partition {number}, was put back to an older state: from offset {back.common} on "
            f"{differs}",
            max(back.lacking, 1),
        )
    for number, end in sorted(ends.items()):
        if number in now.set_back:
            continue
        if now.end.get(number, 0) < end:
            yield Fault(
                "topic",
                f"{topic.table} has read topic {name}, partition {number}, up to offset {end}, and the topic "
                f"ends at offset {now.end.get(number, 0)}: it was created again, or set back",
            )
        elif now.first.get(number, 0) > end:
            first = now.first[number]
            yield Fault(
                "topic",
                f"retention has deleted offsets {end} to {first - 1} of topic {name}, partition {number}, "
                f"before {topic.table} has read them",
                first - end,
            )
