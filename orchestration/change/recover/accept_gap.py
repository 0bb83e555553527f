"""Accepts records as lost: writes which ones into ``ops.gaps``, and lets bronze go on after them.

Two kinds of records are lost to bronze. Those that retention deleted before bronze read them: bronze commits
a micro-batch without a row that ends where the topic begins now, and the checkpoint follows the commit. Those
that bronze passed without them, under ``fail_on_data_loss=False``: they are only written down.

The gap is written before anything else changes, and each offset once: an interrupted command is finished by
the same command.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline, Topic
from common.delta.lease.job_leases import TableLeases
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from common.delta.match.batch_match import check_positions
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.checkpoint_repair import bring_to_newest
from common.delta.table import ERASED
from common.errors import BrokerError, UsageError
from common.machine.object_store import storage_options
from common.streaming.topic_identity import (
    RECOVERED,
    TOPICS,
    BrokerTopic,
    TopicState,
    metadata_without_rows,
    read_ends,
    recorded_topics,
)
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka.record_times import RecordTimes
from orchestration.access.kafka.single_records import Place
from orchestration.access.kafka.topic_state import broker_topics
from orchestration.change.recover.damage import SparkSource
from orchestration.change.recover.lost_records import require_records
from orchestration.change.recover.startable import append_without_rows
from orchestration.records.audit.accepted_gaps import Gap, append_gaps, not_accepted
from orchestration.run.job import open_broker

RETENTION, NOT_READ = "retention", "not read"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of one bronze table."""

    table: str  # the bronze table
    gaps: tuple[Gap, ...]  # the gaps that are written down, or would be
    # The folder with the checkpoint's files as they were; None where none was replaced.
    kept: str | None = None


def accept_gaps(  # noqa: PLR0913  # the options of the command
    pipeline: Pipeline,
    settings: Settings,
    layout: Layout,
    declared: Topic,
    spark: SparkSource,
    *,
    is_plan: bool = False,
) -> Accepted:
    """Write down which offsets of a bronze table are lost, and let bronze go on after them.

    Raises:
        BrokerError: The broker does not answer: what retention has deleted is not known.
        CheckpointMismatchError: The checkpoint is not the table's; ``medallion recover`` comes first. Or the
            table is an older copy, and a silver table has rows of the records between: none is lost yet.
        LeaseHeldError: A job writes the table.
        UsageError: Bronze has read nothing yet, or belongs to another environment.
    """
    layout.require_own((declared.table,))
    path = layout.table_path(declared.table)
    last = last_commit_metadata(path, declared.table)
    if last is None:
        raise UsageError(f"{declared.table} has read nothing yet: there is no gap in it.")
    with TableLeases(layout, (declared.table,), "recover"):
        checkpoint = layout.checkpoint_path(declared.table)
        check_positions(declared.table, path, checkpoint)
        ends, states = read_ends(last), recorded_topics(last)
        with open_broker(pipeline, settings) as address:
            options = kafka.client_options(settings, pipeline, declared)
            _require_rows(pipeline, layout, declared, address, options)
            found = broker_topics(address, ends, options)
            deleted = list(_deleted(declared.table, ends, states, found))
            times = _times(address, options, deleted, states)
        passed = [] if declared.may_have_gaps else list(_passed(layout, declared, spark))
        new = not_accepted(layout, declared.table, [*passed, *deleted])
        gaps = tuple(_with_times(path, new, times))
        if is_plan or not (gaps or deleted):
            return Accepted(declared.table, gaps)
        if gaps:
            append_gaps(layout, gaps)
        return Accepted(declared.table, gaps, _go_on(pipeline, settings, layout, declared, last, deleted))


def _require_rows(
    pipeline: Pipeline, layout: Layout, declared: Topic, address: str, options: Mapping[str, str]
) -> None:
    """Refuse to pass records of which a silver table has the last rows that there are.

    Behind the gap bronze would look whole, and silver would be filled again without these rows.
    """

    def ask(topic: Topic, names: Collection[str]) -> Mapping[str, BrokerTopic]:
        return broker_topics(address, names, options)

    for silver in pipeline.silver:
        then = f"medallion recover {declared.table} --accept-gap"
        require_records(layout, silver, (declared,), ask, then)


def _deleted(
    table: str,
    ends: Mapping[str, Mapping[int, int]],
    states: Mapping[str, TopicState],
    found: Mapping[str, BrokerTopic],
) -> Iterator[Gap]:
    """What retention has deleted before bronze read it; of a topic with another id nothing is known."""
    for name, partitions in ends.items():
        state, now = states.get(name, TopicState()), found.get(name)
        if now is None or (state.id and now.id and state.id != now.id):
            continue
        for number, end in sorted(partitions.items()):
            if (first := now.first.get(number, 0)) > end:
                yield Gap(table, state.coordinate(name), number, end, first - 1, RETENTION)


def _passed(layout: Layout, declared: Topic, spark: SparkSource) -> Iterator[Gap]:
    """Offsets between two rows of one partition that bronze does not hold, and that no erasure removed."""
    path = layout.table_path(declared.table)
    if ERASED in LogReader(path).properties():
        return
    frame = spark().read.format("delta").load(path)
    before = "lag(offset) over (partition by topic, partition order by offset)"
    holes = frame.selectExpr("topic", "partition", "offset", f"{before} as before").where(
        "offset > before + 1"
    )
    expired = expired_topics(LogReader(path).properties())
    for row in holes.collect():
        topic, partition, first = row["topic"], row["partition"], row["before"] + 1
        if topic in expired:  # a record that retention has deleted was read
            first = max(first, expired[topic].offsets.get(partition, (0, 0))[1])
        if first < row["offset"]:
            yield Gap(declared.table, topic, partition, first, row["offset"] - 1, NOT_READ)


def _with_times(path: str, gaps: Iterable[Gap], times: Mapping[Place, datetime]) -> Iterator[Gap]:
    """Gaps with the times of the records before and after each."""
    for gap in gaps:
        after = gap.topic, gap.partition, gap.last_offset + 1
        yield replace(
            gap,
            read_at=_time_in_bronze(path, gap.topic, gap.partition, gap.first_offset - 1),
            next_at=times.get(after) or _time_in_bronze(path, *after),
        )


def _times(
    address: str, options: Mapping[str, str], gaps: list[Gap], states: Mapping[str, TopicState]
) -> dict[Place, datetime]:
    """The Kafka timestamps of the first records after gaps, by the coordinates of bronze's rows."""
    names = {state.coordinate(name): name for name, state in states.items()}
    places = {
        (names.get(gap.topic, gap.topic), gap.partition, gap.last_offset + 1): (
            gap.topic,
            gap.partition,
            gap.last_offset + 1,
        )
        for gap in gaps
    }
    reader = RecordTimes()
    found: dict[Place, int] = {}
    with suppress(BrokerError):  # a time is not known; the offsets are
        found = reader.read(address, options, set(places))
    reader.close()
    return {places[place]: datetime.fromtimestamp(ms / 1000, UTC) for place, ms in found.items()}


def _time_in_bronze(path: str, topic: str, partition: int, offset: int) -> datetime | None:
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    data = DeltaTable(path, storage_options=storage_options(path)).to_pyarrow_dataset()
    place = (
        (pc.field("topic") == topic) & (pc.field("partition") == partition) & (pc.field("offset") == offset)
    )
    found = data.to_table(columns=["kafka_timestamp"], filter=place).to_pylist()
    return found[0]["kafka_timestamp"] if found else None


def _go_on(  # noqa: PLR0913, PLR0917
    pipeline: Pipeline,
    settings: Settings,
    layout: Layout,
    declared: Topic,
    last: Mapping[str, Any],
    deleted: list[Gap],
) -> str | None:
    """Commit a micro-batch without rows that ends after the gaps, and bring the checkpoint there."""
    path, checkpoint = layout.table_path(declared.table), layout.checkpoint_path(declared.table)
    if deleted:
        append_without_rows(pipeline, settings, path, _metadata(pipeline, declared, last, deleted))
    return bring_to_newest(declared.table, path, checkpoint)


def _metadata(pipeline: Pipeline, declared: Topic, last: Mapping[str, Any], deleted: list[Gap]) -> str:
    ends, states = read_ends(last), recorded_topics(last)
    names = {states.get(name, TopicState()).coordinate(name): name for name in ends}
    for gap in deleted:
        ends[names[gap.topic]][gap.partition] = gap.last_offset + 1
    facts: dict[str, Any] = {RECOVERED: {names[gap.topic]: "gap" for gap in deleted}}
    if entries := {name: state.entry() for name, state in states.items()}:
        facts[TOPICS] = entries
    return metadata_without_rows(pipeline.name, declared.table, last, ends, facts)
