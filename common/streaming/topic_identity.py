"""Which Kafka topics a bronze table was read from: their ids, and the generation of each.

A topic that is deleted and created again has the same name and the same offsets, and another id. Every commit
of bronze names the ids, so that a start, a running job and the audit notice a topic that is another one.

The second topic of a name is its generation 2, and so on. Rows of a later generation have
``<topic>#<generation>`` in the column ``topic``: no topic may have such a name, so topic, partition and
offset remain the coordinates of one record in bronze, silver, quarantine and the audit. Rows of the first
generation have the plain name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.delta.micro_batch import MicroBatch

TOPICS = "topics"
"""The entry of a commit's metadata: per topic its ``id`` and, from the second on, its ``generation``."""

OFFSETS = "offsets"
"""The entry of a commit of a source without offsets: by topic and partition, the end of those of its rows."""

RECOVERED = "recovered"
"""The entry of a commit that begins with another topic of a name: ``new topic`` or ``same topic``, per "
"topic."""

NEW_TOPIC, SAME_TOPIC = "new topic", "same topic"

BEGINS_ANEW = "begins_anew"
"""The entry of a commit with which a table begins elsewhere: no micro-batch before it had a record."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as a commit names it."""

    id: str = ""  # the topic's id; empty where no commit or broker says
    generation: int = 1  # counts the topics of this name that the table was read from; from 1

    def coordinate(self, topic: str) -> str:
        """The value of the column ``topic`` of the rows."""
        return topic if self.generation == 1 else f"{topic}#{self.generation}"

    def entry(self) -> dict[str, Any]:
        """The topic's entry in a commit's metadata."""
        return {"id": self.id} | ({} if self.generation == 1 else {"generation": self.generation})


@dataclass(frozen=True, slots=True)
class SetBack:
    """A partition of a topic that holds other records than bronze has read of it."""

    common: int  # the offset up to which both have the same records
    lacking: int  # how many records bronze has from there on


@dataclass(frozen=True, slots=True)
class BrokerTopic:
    """A topic as the broker has it."""

    id: str  # the topic's id; empty where the broker is too old to have ids
    first: Mapping[int, int]  # per partition, the offset of the oldest record; the end where there is none
    end: Mapping[int, int]  # per partition, the next offset to be written
    # The partitions that were put back to an older state after bronze had read them.
    set_back: Mapping[int, SetBack] = field(default_factory=dict)
    # Partitions whose last record that bronze has read is not there any more, so that it was not compared:
    # retention or compaction has deleted it from the broker, or it has expired in bronze.
    not_compared: tuple[int, ...] = ()


def last_record_note(table: str, name: str, topic: BrokerTopic) -> str:
    """What was not compared of a topic, in words; empty if all was."""
    if not topic.not_compared:
        return ""
    partitions = ", ".join(map(str, topic.not_compared))
    return (
        f"{table}: the last record read of topic {name}, partition {partitions}, is not in bronze or not on "
        "the broker any more, so it was not compared"
    )


def recorded_topics(metadata: Mapping[str, Any] | None) -> dict[str, TopicState]:
    """The topics that a commit names; empty for a commit of a version without topic ids."""
    found = (metadata or {}).get(TOPICS)
    if not isinstance(found, dict):
        return {}
    return {
        str(topic): TopicState(str(entry.get("id", "")), int(entry.get("generation", 1)))
        for topic, entry in found.items()
        if isinstance(entry, dict)
    }


def read_ends(metadata: Mapping[str, Any] | None) -> dict[str, dict[int, int]]:
    """Per topic and partition, the next offset to read after a micro-batch of bronze."""
    return {
        str(topic): {int(partition): int(end) for partition, end in partitions.items()}
        for source in (metadata or {}).get("positions", ())
        if isinstance(source, dict)
        for topic, partitions in source.items()
        if isinstance(partitions, dict)
    }


def coordinate_ends(metadata: Mapping[str, Any] | None) -> dict[tuple[str, int], int]:
    """As ``read_ends``, by the coordinates of the rows: the topic with its generation, and the partition.

    Of a source whose positions are no offsets, the commit names the offsets that its rows were given.
    """
    states = recorded_topics(metadata)
    if OFFSETS in (metadata or {}):
        return {
            (topic, int(partition)): int(end)
            for topic, partitions in (metadata or {})[OFFSETS].items()
            for partition, end in partitions.items()
        }
    return {
        (states.get(topic, TopicState()).coordinate(topic), partition): end
        for topic, partitions in read_ends(metadata).items()
        for partition, end in partitions.items()
    }


@dataclass
class TopicIdentity:
    """The topics that a bronze query reads in one run."""

    table: str  # the bronze table
    known: dict[str, TopicState] = field(default_factory=dict)  # the topics whose id is known
    # Gives the ids of topics by the broker; a topic that it does not know is left out.
    lookup: Callable[[Sequence[str]], Mapping[str, str]] = lambda names: {}
    # Called with a micro-batch before it is written: refuses to read on in a topic that was put back, or is
    # another one.
    compare: Callable[[MicroBatch], None] = lambda batch: None
    # Called with the micro-batch's rows, if the driver has them, after they were written.
    learn: Callable[[Any], None] = lambda rows: None

    def facts(self, positions: Sequence[Any]) -> dict[str, Any]:
        """The entry of a micro-batch's commits; asks the broker only for topics that are new."""
        names = list(read_ends({"positions": positions}))
        if new := [name for name in names if name not in self.known]:
            ids = self.lookup(new)
            self.known |= {name: TopicState(ids.get(name, "")) for name in new}
        entries = {name: self.known[name].entry() for name in names if self.known[name].id}
        return {TOPICS: entries} if entries else {}


def metadata_without_rows(
    pipeline: str,
    table: str,
    last: Mapping[str, Any],
    ends: Mapping[str, Mapping[int, int]],
    facts: Mapping[str, Any],
) -> str:
    """The metadata of a micro-batch of bronze without rows, which the checkpoint then follows.

    Args:
        last: The metadata of its query's newest commit.
        ends: Per topic and partition, the next offset to read.
        facts: What else the commit names.
    """
    positions = {
        name: {str(number): end for number, end in sorted(partitions.items())}
        for name, partitions in ends.items()
    }
    batch = MicroBatch(
        pipeline=pipeline,
        query=table,
        query_id=str(last["query_id"]),
        batch_id=int(last["batch_id"]) + 1,
        positions=(positions,),
        facts=facts,
    )
    return batch.metadata("append", {})
