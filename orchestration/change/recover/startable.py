"""Makes a query startable again: writes its checkpoint by the table's commits, or begins with a new topic.

A bronze table whose topic was deleted and created again goes on with the next generation of the topic: one
commit without a row names the new topic's id and where its records begin, and the checkpoint follows the
commit. An interrupted command is finished by the same command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Bronze, Pipeline, Silver, Table, Topic
from common.delta import delta_rs
from common.delta import table as delta_table
from common.delta.lease.job_leases import TableLeases
from common.delta.match.batch_match import check_positions
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.checkpoint_repair import Change, plan_repair, repair
from common.errors import TopicChangedError, UsageError, nearest
from common.streaming.topic_identity import (
    NEW_TOPIC,
    RECOVERED,
    SAME_TOPIC,
    TOPICS,
    BrokerTopic,
    TopicState,
    metadata_without_rows,
    read_ends,
    recorded_topics,
)
from orchestration.access.kafka import client as kafka
from orchestration.access.kafka.topic_state import broker_topics
from orchestration.access.progress.set_back import with_set_back
from orchestration.change.recover.damage import refuse_lost_source
from orchestration.run.job import open_broker, spark_for_writing


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a recovery does, or did."""

    table: str  # the query's table
    steps: tuple[str, ...]  # each change, in words; empty where there is nothing to do
    # The folder with the checkpoint's files as they were; None where none was replaced.
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class NewTopics:
    """Topics that a bronze table goes on with."""

    new: Sequence[str] = ()  # topics that are read from their first record, as the next generation
    same: Sequence[str] = ()  # topics that hold the same records at the same offsets under another id

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.new, *self.same)


def recover(  # noqa: PLR0913  # the options of the command
    pipeline: Pipeline,
    settings: Settings,
    layout: Layout,
    table: str,
    topics: NewTopics | None = None,
    *,
    is_plan: bool = False,
) -> Recovery:
    """Make a query startable again; with ``is_plan`` nothing is changed.

    Raises:
        BrokerError: The broker does not answer; only if topics are named.
        CheckpointMismatchError: Positions alone do not bring checkpoint and table together.
        LeaseHeldError: A job writes the table.
        PipelineError: The pipeline declares no table of that name.
        TopicChangedError: A topic that is named does not exist on the broker.
        UsageError: The query has not written the table yet, or does not read a topic that is named; or the
            table is one that a sandbox only reads.
    """
    declared = pipeline.table(table)
    layout.require_own((declared.table,))
    with TableLeases(layout, (declared.table, *declared.side_tables), "recover"):
        steps: list[str] = []
        if topics is not None and topics.names:
            steps += _begin_topics(pipeline, settings, layout, declared, topics, is_plan=is_plan)
        changes = _changes(layout, declared)
        steps += [f"{change.name}: {change.reason}" for change in changes]
        kept = None
        checkpoint = layout.checkpoint_path(declared.table)
        if changes and not is_plan:
            kept = repair(checkpoint, changes, f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}")
            check_positions(declared.table, layout.table_path(declared.table), checkpoint)
        return Recovery(declared.table, tuple(steps), kept)


def _changes(layout: Layout, declared: Table) -> list[Change]:
    refuse_lost_source(layout, declared)
    return plan_repair(
        declared.table,
        layout.table_path(declared.table),
        layout.checkpoint_path(declared.table),
        has_state=not isinstance(declared, Bronze),
        side_tables={name: layout.table_path(name) for name in declared.side_tables},
    )


@dataclass
class _Beginning:
    """The micro-batch that goes on with other topics."""

    ends: dict[str, dict[int, int]]  # per topic and partition, the next offset to read
    states: dict[str, TopicState]  # per topic, its id and generation
    # Per topic that is named, ``new topic`` or ``same topic``.
    ways: dict[str, str] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)  # what is done, in words

    def begin(self, name: str, found: BrokerTopic, *, is_new: bool) -> None:
        """Go on with a topic, unless it is the one that is known, with the records that were read."""
        before = self.states.get(name, TopicState())
        is_known = bool(before.id) and before.id == found.id
        if is_known and not (is_new and found.set_back):
            return
        if not is_new:
            self.states[name] = TopicState(found.id, before.generation)
            self.ways[name] = SAME_TOPIC
            self.steps.append(f"topic {name}: its id is {found.id or 'not known'} from now on")
            return
        state = self.states[name] = TopicState(found.id, before.generation + 1)
        # Of a topic that was set back, bronze has all that came before its end and is there still.
        kept = self.ends[name] if is_known else {}
        self.ends[name] = {
            number: found.set_back[number].common if number in found.set_back else kept.get(number, first)
            for number, first in found.first.items()
        }
        self.ways[name] = NEW_TOPIC
        unsure = {n: " (not compared)" for n in found.not_compared if n in kept}
        firsts = ", ".join(
            f"offset {first} of partition {n}{unsure.get(n, '')}"
            for n, first in sorted(self.ends[name].items())
        )
        self.steps.append(
            f"topic {name}: generation {state.generation} (id {found.id or 'not known'}) is read from "
            f"{firsts}; its rows have topic = '{state.coordinate(name)}'"
        )


def _begin_topics(  # noqa: PLR0913
    pipeline: Pipeline,
    settings: Settings,
    layout: Layout,
    declared: Table,
    topics: NewTopics,
    *,
    is_plan: bool,
) -> list[str]:
    """Commit a micro-batch without rows from which bronze goes on with these topics."""
    if not isinstance(declared, Topic):
        raise UsageError(
            f"{declared.table} reads no topic: --new-topic and --same-topic are for bronze tables."
        )
    path = layout.table_path(declared.table)
    last = last_commit_metadata(path, declared.table)
    if last is None:
        raise UsageError(
            f"{declared.table} has read nothing yet: start its job, which reads the topic that is there."
        )
    ends = read_ends(last)
    for name in topics.names:
        if name not in ends:
            raise UsageError(f"{declared.table} has read no topic {name}; {nearest(name, ends)}")
    _changes(layout, declared)  # refuses a checkpoint that is not the table's
    # The embedded broker creates a missing topic only to read it from now on, and not for a plan.
    may_create = () if is_plan else topics.new
    with open_broker(pipeline, settings, new_topics=may_create) as address:
        options = kafka.client_options(settings, pipeline, declared)
        found = broker_topics(address, topics.names, options)
        found = with_set_back(layout, declared.table, last, found, address, options)
    begin = _Beginning(ends, dict(recorded_topics(last)))
    for name in topics.names:
        if name not in found:
            raise TopicChangedError(
                f"{declared.table}: topic {name} does not exist at {address}. Create it first, with the "
                f"partitions that you want: kafka-topics.sh --bootstrap-server {address} --create --topic "
                f"{name} --partitions 2"
            )
        begin.begin(name, found[name], is_new=name in topics.new)
    if begin.ways and not is_plan:
        facts = {TOPICS: {name: one.entry() for name, one in begin.states.items()}, RECOVERED: begin.ways}
        metadata = metadata_without_rows(pipeline.name, declared.table, last, begin.ends, facts)
        append_without_rows(pipeline, settings, path, metadata)
    return begin.steps


def append_without_rows(pipeline: Pipeline, settings: Settings, path: str, metadata: str) -> None:
    """Append nothing, with this metadata: by delta-rs, or by Spark where delta-rs cannot write the table."""
    limits = settings.driver_limits
    if delta_rs.try_write(path, limits, metadata, lambda table: table.append(None, metadata)):
        return
    with spark_for_writing(pipeline, settings, (), name="recover") as spark:
        nothing = spark.read.format("delta").load(path).limit(0)
        delta_table.append_with_metadata(nothing, path, metadata)


def topic_notice(pipeline: Pipeline, table: str) -> str | None:
    """A warning if a silver table of this bronze table may compare the name of its topic; else None."""
    readers = [
        silver.table for silver in pipeline.silver if table in silver.sources and _mentions_topic(silver)
    ]
    if not readers:
        return None
    return (
        f"{', '.join(readers)} may compare the topic's name: rows of the new topic have another one, as above"
    )


def _mentions_topic(silver: Silver) -> bool:
    texts = [rule.condition for rule in silver.rules]
    if callable(silver.columns):
        return True
    return any("topic" in text for text in (*texts, *silver.columns.values()))
