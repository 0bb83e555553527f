"""Where a bronze table begins that has read nothing yet, if that is not its topic's first record.

The first offsets are a property of the table: whatever start comes first, this one or another one after a
crash, begins there. What is left out is written down in ``ops.gaps`` before that, so the audit counts it.

A table whose micro-batches had no record, as after a beginning beyond the newest record, can begin elsewhere:
one more micro-batch without a record ends where it is to begin, and the checkpoint follows that commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bronze import table as bronze_table
from bronze.beginning import BEGINS, RECORDED, Offsets, RecordedBeginning, beginning_of
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline, Topic
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.match.checkpoint_repair import bring_to_newest
from common.delta.table import ERASED
from common.errors import UsageError
from common.streaming.topic_identity import BEGINS_ANEW, TOPICS, metadata_without_rows, read_ends
from orchestration.access.kafka import client as kafka
from orchestration.access.progress.record_range import RecordRange
from orchestration.records.audit.accepted_gaps import Gap, append_gaps, not_accepted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_READ = "not read"
"""The reason of a gap whose offsets bronze has never read."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a bronze table is to begin."""

    topic: Topic  # the declaration of the table
    option: str  # the text of ``--from``
    offsets: Offsets  # the first offset per topic and partition
    gaps: tuple[Gap, ...]  # what is left out: the records before it that the broker has

    @property
    def text(self) -> str:
        """The offsets as the option ``--from`` takes them."""
        return ",".join(
            f"{name}/{number}={offset}"
            for name, partitions in self.offsets.items()
            for number, offset in partitions.items()
        )

    @property
    def left_out(self) -> int:
        """Number of offsets that are left out."""
        return sum(gap.offsets for gap in self.gaps)


def require_not_begun(layout: Layout, topic: Topic, option: str, silver: str) -> bool:
    """Whether a bronze table is yet to begin; false where it has begun at this very place.

    A table that has read no record can begin anywhere.

    Args:
        option: The text of ``--from``.
        silver: A silver table that reads it, for the message.

    Raises:
        UsageError: It has records, and has begun elsewhere.
    """
    path = layout.table_path(topic.table)
    known, last = beginning_of(path), last_commit_metadata(path, topic.table)
    if last is None and Checkpoint(layout.checkpoint_path(topic.table)).last_planned() is None:
        return True
    there = known.offsets if known is not None and known.option == option else None
    if last is not None and not _has_read(layout, topic.table):
        # Cut off between the beginning and its micro-batch, it begins there once more.
        return read_ends(last) != there
    if there is not None:
        return False
    raise UsageError(
        f"{topic.table} has begun, and goes on where it has stopped: --from would leave records out or read "
        f"them twice. To judge records again: medallion restate {silver} --from {option}; to fill a table "
        f"again from bronze: medallion rebuild {silver}"
    )


def require_choosable(topic: Topic) -> None:
    """Refuse to choose the beginning of a table whose partitions are not known by name.

    Raises:
        UsageError: It reads the topics of a pattern, or some partitions.
    """
    if not topic.topic_names or topic.assign is not None:
        raise UsageError(
            f"{topic.table} reads the topics of a pattern, or some partitions: declare where it begins with "
            "starting_timestamp or starting_offsets"
        )


def _has_read(layout: Layout, table: str) -> bool:
    """Whether a bronze table has, or had, a record."""
    log = LogReader(layout.table_path(table))
    if (found := log.snapshot()) is None:
        return False
    properties = log.properties()
    return found.rows != 0 or ERASED in properties or bool(expired_topics(properties))


def beginning(
    pipeline: Pipeline, settings: Settings, topic: Topic, records: RecordRange, address: str
) -> Beginning:
    """The offsets at which a bronze table begins, and what is left out.

    A partition without a record that young begins with what comes next; one that ``--from`` does not name
    begins with its first record.

    Raises:
        BrokerError: The broker does not answer.
        UsageError: ``--from`` names a topic or a partition that the table does not read, or an offset
            beyond its end; or the table reads the topics of a pattern.
    """
    require_choosable(topic)
    names = topic.topic_names
    options = kafka.client_options(settings, pipeline, topic)
    firsts = kafka.first_offsets(address, names, options)
    ends = kafka.end_offsets(address, names, options)
    begins = {name: dict(partitions) for name, partitions in firsts.items()}
    if records.begin is not None:
        at = kafka.offsets_at(address, names, options, int(records.begin.timestamp() * 1000))
        for name, partitions in at.items():
            for number, offset in partitions.items():
                begins[name][number] = ends[name][number] if offset < 0 else offset
    for (name, number), offset in records.first.items():
        if not firsts.get(name, {}).get(number, offset + 1) <= offset <= ends.get(name, {}).get(number, -1):
            first, end = firsts.get(name, {}).get(number), ends.get(name, {}).get(number)
            there = "no such partition" if first is None else f"offsets from {first} to {end}"
            raise UsageError(f"--from {name}/{number}={offset}: {topic.table} finds {there}")
        begins[name][number] = offset
    gaps = tuple(
        Gap(topic.table, name, number, first, begins[name][number] - 1, NOT_READ)
        for name, partitions in firsts.items()
        for number, first in sorted(partitions.items())
        if begins[name][number] > first
    )
    return Beginning(topic, records.from_text, begins, gaps)


def begin(spark: SparkSession, pipeline: Pipeline, layout: Layout, found: Beginning) -> None:
    """Write down what is left out, and where the table begins; the same again changes nothing."""
    table, path = found.topic.table, layout.table_path(found.topic.table)
    if gaps := list(not_accepted(layout, table, found.gaps)):
        append_gaps(layout, gaps)
    bronze_table.ensure(spark, found.topic, path)
    metadata = delta_table.maintenance_metadata(pipeline.name, table, "evolution", begins=found.option)
    recorded = RECORDED.text(RecordedBeginning(found.option, found.offsets))
    delta_table.set_property(spark, path, metadata, BEGINS, recorded)
    if (last := last_commit_metadata(path, table)) is None:
        return
    facts = {BEGINS_ANEW: True} | ({TOPICS: last[TOPICS]} if TOPICS in last else {})
    text = metadata_without_rows(pipeline.name, table, last, found.offsets, facts)
    delta_table.append_with_metadata(spark.read.format("delta").load(path).limit(0), path, text)
    bring_to_newest(table, path, layout.checkpoint_path(table))
