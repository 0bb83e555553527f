"""Compares what a publication has sent to Kafka last with the rows that it has read last, by their keys.

Only the newest messages can be told from others: those since the source's commit that was read last. Messages
without a key, and rows that are only read in part, are not compared. Nor is a topic whose newest messages
have all keys and earlier times: a clock was set back between the commit and them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import KafkaSink, Publish
from common.delta.checkpoint import Checkpoint, DeltaPosition, delta_position, delta_position_of
from common.delta.log import LogReader
from common.delta.match.source_match import SourceNote
from common.delta.micro_batch import SOURCE_COMMITS
from common.delta.table import FEED
from common.errors import BrokerError, HistoryGoneError
from gold.publish.encoded import framing
from gold.publish.query import messages, shaped
from gold.source.stream import CHANGE, REMOVED
from gold.table.context import Context
from orchestration.access.embedded_broker import lifecycle
from orchestration.access.kafka.client import named_broker, sink_options
from orchestration.access.kafka.single_records import keys_since
from orchestration.records.audit.gold.content import ContentAudit
from orchestration.records.audit.offset_places import read_files
from orchestration.records.audit.result import Fault

_MOST = 20_000
"""Messages that are read, and rows that are compared."""

_SECONDS = 15.0
_EARLIER_MS = 2_000
"""So much may the clock of a broker be behind."""


class Sent(NamedTuple):
    """What comparing has found."""

    fault: str = ""  # what is wrong, in words; empty: nothing
    why: str = ""  # why nothing was compared; empty: all was


def message_faults(content: ContentAudit, publish: Sequence[Publish]) -> tuple[list[Fault], list[str]]:
    """The faults of publications to Kafka, and notes of what was not compared."""
    settings = content.proof.settings
    context = Context(content.spark, content.pipeline, settings, content.layout)
    faults, notes = list[Fault](), list[str]()
    for one in publish:
        found = compare_sent(context, one, lifecycle.running_address(settings))
        if found.why:
            notes.append(f"{one.table}: its messages were not compared: {found.why}")
        if found.fault:
            command = (
                "To send every row once more, with the jobs stopped, move its checkpoint away: "
                f"{context.checkpoint(one)}"
            )
            text = f"{one.table}: {found.fault}. {command}"
            faults.append(Fault("publication", text, table=one.table, command=command))
    return faults, notes


def compare_sent(context: Context, publish: Publish, address: str | None) -> Sent:
    """Compare the last rows of a publication to Kafka with the topic.

    Args:
        address: The pipeline's broker; None: it does not run.
    """
    sink = publish.to
    if not isinstance(sink, KafkaSink) or not SourceNote(context.checkpoint(publish)).read():
        return Sent()
    if sink.key is None:
        return Sent(why="they have no key")
    options = sink_options(
        context.settings,
        context.pipeline,
        sink,
        named_broker(context.pipeline, context.settings) or address or "",
    )
    version = _last_read(context, publish)
    commit = None if version is None else LogReader(context.path(publish.reads)).commit(version)
    if version is None or commit is None or not options["bootstrap.servers"]:
        return Sent(why="the rows that were read last, or the broker, cannot be told")
    rows = _changes(context, context.path(publish.reads), version)
    if _in_first_state(context, publish, version):
        rows = rows.where(f"{CHANGE} NOT IN {REMOVED}")  # what was gone before was never sent
    keys = _keys_of(context, publish, sink, rows)
    since_ms = round(commit.timestamp.timestamp() * 1000) - _EARLIER_MS
    return _compared(f"version {version} of {publish.reads}", sink.topic, keys, options, since_ms)


def _compared(read: str, topic: str, keys: set[bytes], options: Mapping[str, str], since_ms: int) -> Sent:
    """Whether a topic has a message of each key since a time."""
    address = options["bootstrap.servers"]
    try:
        there = keys_since(address, options, topic, since_ms, _MOST, _SECONDS)
        if there is not None and keys and keys.isdisjoint(there):
            newest = keys_since(address, options, topic, None, _MOST, _SECONDS)
            if newest is not None and keys <= newest:
                return Sent(why=f"they are older than {read}: a clock was set back")
    except BrokerError as error:
        return Sent(why=str(error).partition(". ")[0])
    if there is None or len(keys) >= _MOST:
        return Sent(why=f"more came to topic {topic} than are compared, or some have expired there")
    lacking = len(keys - there)
    text = (
        f"topic {topic} has no message since then of {lacking:,} of the {len(keys):,} keys that {read} has, "
        "and the publication has read it: the topic was created again or put back, or messages were deleted"
    )
    return Sent(text if lacking else "")


def _last_read(context: Context, publish: Publish) -> int | None:
    """The newest version of the source that was read to its end; None where that is not known."""
    note = SourceNote(context.checkpoint(publish)).read()
    position = delta_position_of(note.get("positions") or (), 0)
    commits = note.get(SOURCE_COMMITS) or (None,)
    if position is None or commits[0] is None:
        return None
    version = int(commits[0]["version"])
    # A position stays at the last file of a commit until the next one is there.
    after = DeltaPosition(version + 1, -1, position.table_id, in_snapshot=False)
    log = LogReader(context.path(publish.reads))
    try:
        is_whole = not log.backlog_between(position, after).files
    except HistoryGoneError:
        return None
    return version if is_whole else None


def _in_first_state(context: Context, publish: Publish, version: int) -> bool:
    """Whether a version was read as the whole state with which a publication has begun."""
    checkpoint = Checkpoint(context.checkpoint(publish))
    # The last part of that state may end before the next commit.
    entries = (checkpoint.planned_batch(number) for number in checkpoint.batches()[-2:])
    read = (delta_position(entry) for entry in entries if entry is not None)
    return any(one is not None and one.in_snapshot and one.version == version for one in read)


def _keys_of(context: Context, publish: Publish, sink: KafkaSink, rows: DataFrame) -> set[bytes]:
    """The keys of the messages of changes."""
    sent = messages(shaped(rows, publish, ()), publish, sink)
    framed = framing(publish, sink, context.settings)(sent)
    keys = framed.where("key is not null").select(F.col("key").cast("binary")).distinct().limit(_MOST)
    return {bytes(row[0]) for row in keys.collect()}


def _changes(context: Context, path: str, version: int) -> DataFrame:
    spark = context.spark
    if LogReader(path).properties().get(FEED) == "true":
        feed = spark.read.format("delta").option("readChangeFeed", "true")
        return feed.option("startingVersion", version).option("endingVersion", version).load(path)
    commit = LogReader(path).commit(version)
    whole = spark.read.format("delta").option("versionAsOf", version).load(path)
    added = () if commit is None else commit.added
    rows = read_files(spark, path, added, whole) if added else whole.limit(0)
    return rows.withColumn(CHANGE, F.lit("insert"))
