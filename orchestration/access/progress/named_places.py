"""Refuses offsets of a topic or a partition of which a bronze table has no record: a mistyped name."""

from __future__ import annotations

from common.config.paths import Layout
from common.declare import Bronze, DeltaTable, Files, Pipeline, Stream
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import last_commit_metadata
from common.errors import UsageError, nearest
from common.streaming.topic_identity import coordinate_ends
from orchestration.access.progress.record_range import Place, RecordRange


def require_known_places(pipeline: Pipeline, layout: Layout, bronze: str, records: RecordRange) -> None:
    """Refuse a range that names a topic or a partition which a bronze table neither reads nor has.

    The table's rows are asked only about a place that the newest commits of its queries do not name.

    Raises:
        UsageError: Names the place, and the most similar one.
    """
    queries = [one for one in pipeline.bronze if bronze in {one.table, _target(one)}]
    known: set[Place] = set()
    for one in queries:
        known |= {*coordinate_ends(last_commit_metadata(layout.table_path(bronze), one.table))}
        known |= {(one.coordinate, 0)} if isinstance(one, Files | DeltaTable | Stream) else set()
    topics = {topic for topic, _ in known} | {name for one in queries for name in one.topic_names}
    log = LogReader(layout.table_path(bronze))
    for topic, number in records.places:
        numbers = sorted(at for name, at in known if name == topic)
        if number in numbers or (topic in topics and not numbers):
            continue
        one_place = RecordRange(first={(topic, number): 0})
        if log.latest_version() is not None and log.matching(one_place.filter())[0]:
            continue
        if topic not in topics:
            raise UsageError(f"{bronze} has no record of a topic {topic}; {nearest(topic, topics)}")
        there = ", ".join(map(str, numbers))
        raise UsageError(f"{bronze} has no record of partition {number} of {topic}; it has {there}")


def _target(declared: Bronze) -> str | None:
    """The table of a topic to which files are appended; None for any other table."""
    return declared.into if isinstance(declared, Files) else None
