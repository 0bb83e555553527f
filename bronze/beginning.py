"""The first offsets of a bronze table that skips older records, kept as a property of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from common.declare import Topic
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.machine.files.state_file import StateFile

BEGINS = "medallion.beginsAt"
"""Property of a bronze table: the option that says where it begins, and the first offset per topic and
partition, as JSON."""

Offsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class RecordedBeginning:
    """Where a table begins: the option's text, and the first offset per topic and partition."""

    option: str
    offsets: Offsets


RECORDED = StateFile(RecordedBeginning)


def beginning_of(path: str) -> RecordedBeginning | None:
    """Where a table begins; None where only its declaration says so. Reads the table's newest properties."""
    text = LogReader(path).properties().get(BEGINS)
    return None if text is None else RECORDED.parse(text)


def begins_there(topic: Topic, path: str, checkpoint: str) -> Topic:
    """The declaration with the offsets at which the table begins, where its query has planned nothing yet."""
    if Checkpoint(checkpoint).last_planned() is not None or LogReader(path).latest_version() is None:
        return topic
    found = beginning_of(path)
    return topic if found is None else replace(topic, starting_offsets=found.offsets, starting_timestamp=None)
