"""Refuses offsets of a topic or a partition of which bronze tables have no record: a mistyped name."""

from __future__ import annotations

from collections.abc import Sequence

from common.config.paths import Layout
from common.declare import Bronze, DeltaTable, Files, Pipeline, Stream
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import last_commit_metadata
from common.errors import UsageError, nearest
from common.streaming.topic_identity import coordinate_ends
from orchestration.access.progress.record_range import Place, RecordRange


def require_known_places(
    pipeline: Pipeline, layout: Layout, bronze: Sequence[str], records: RecordRange
) -> None:
    """Refuse a range that names a topic or a partition which bronze tables neither read nor have.

    The tables' rows are asked only about a place that the newest commits of their queries do not name.

    Raises:
        UsageError: Names the place, and the most similar one.
    """
    paths = {table: layout.table_path(table) for table in bronze}
    queries = [
        (table, one) for table in bronze for one in pipeline.bronze if table in {one.table, _target(one)}
    ]
    known: set[Place] = set()
    for table, one in queries:
        known |= {*coordinate_ends(last_commit_metadata(paths[table], one.table))}
        known |= {(one.coordinate, 0)} if isinstance(one, Files | DeltaTable | Stream) else set()
    topics = {topic for topic, _ in known} | {name for _, one in queries for name in one.topic_names}
    logs = [log for path in paths.values() if (log := LogReader(path)).latest_version() is not None]
    have = f"{bronze[0]} has" if len(bronze) == 1 else f"{' and '.join(bronze)} have"
    for topic, number in records.places:
        numbers = sorted(at for name, at in known if name == topic)
        if number in numbers or (topic in topics and not numbers):
            continue
        one_place = RecordRange(first={(topic, number): 0})
        if any(log.matching(one_place.filter())[0] for log in logs):
            continue
        if topic not in topics:
            raise UsageError(f"{have} no record of a topic {topic}; {nearest(topic, topics)}")
        there = ", ".join(map(str, numbers))
        raise UsageError(f"{have} no record of partition {number} of {topic}; it has {there}")


def _target(declared: Bronze) -> str | None:
    """The table of a topic to which files are appended; None for any other table."""
    return declared.into if isinstance(declared, Files) else None
