"""A backfill: which queries it runs, where bronze begins and stops, and what it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline, Topic
from common.delta.checkpoint import Checkpoint, kafka_position
from common.errors import UsageError, nearest
from common.streaming.query import Stream
from orchestration.access.declaration.lineage import in_data_order
from orchestration.access.kafka import client as kafka
from orchestration.access.progress.record_range import RecordRange
from orchestration.access.progress.rows_read import RowsRead
from orchestration.change.backfill.beginning import (
    Beginning,
    begin,
    beginning,
    require_choosable,
    require_not_begun,
)
from orchestration.change.backfill.catch_up import LayerResult, catch_up
from orchestration.change.backfill.estimate import Offsets, Reads, estimate
from orchestration.change.backfill.pace import Limits, Pace
from orchestration.change.backfill.runs import RunRecord
from orchestration.change.backfill.tail import flush
from orchestration.run.job import Job, layers_to_run, open_broker
from orchestration.run.wiring import Layer


@dataclass(frozen=True, slots=True)
class Request:
    """What a backfill is to do."""

    layers: tuple[Layer, ...]  # the layers that it runs, in the order of data flow
    table: str | None = None  # the table whose query alone it runs; None: all queries of the layers
    # Where a new bronze table begins, and where bronze stops; None: with all that is available.
    records: RecordRange | None = None
    rate: float | None = None  # most records per second and query; None: as many as it can
    options: str = ""  # the options that say this
    flush: bool = False  # whether windows that are still open at the end are closed

    @classmethod
    def of(  # noqa: PLR0913, PLR0917  # one per option
        cls,
        pipeline: Pipeline,
        settings: Settings,
        layer: Layer | None,
        table: str | None,
        records: RecordRange | None,
        rate: float | None,
        *,
        flush: bool = False,
    ) -> Request:
        """The request of the command's options.

        Raises:
            PipelineError: The pipeline declares no such table.
            UsageError: The options do not fit each other.
        """
        layers = layers_to_run(settings)
        if table is not None:
            own = pipeline.table(table).LAYER
            if layer not in {None, own}:
                raise UsageError(f"{table} is no table of {layer}: leave --layer out")
            layer = next(one for one in layers if one == own)
        if layer is not None:
            layers = (layer,)
        if records is not None and "bronze" not in layers:
            raise UsageError(
                "--from and --to say which records bronze reads; silver and gold read all that bronze has. "
                "To judge records again: medallion restate silver.x --from … --to …; to fill a table again: "
                "medallion rebuild"
            )
        texts = [f"--layer {layer}" if layer and table is None else "", f"--table {table}" if table else ""]
        texts += [records.options if records else "", f"--max-records-per-second {rate:g}" if rate else ""]
        texts += ["--flush" if flush else ""]
        options = " ".join(text for text in texts if text)
        return cls(tuple(layers), table, records, rate, options, flush)

    def tables(self, pipeline: Pipeline) -> tuple[str, ...]:
        """The tables that the run writes, in the order of data flow."""
        every = (*pipeline.bronze, *pipeline.silver, *in_data_order(pipeline.gold))
        return tuple(
            one.table for one in every if one.LAYER in self.layers and self.table in {None, one.table}
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run reads."""

    reads: tuple[Reads, ...]  # per query, what it reads at most
    begins: tuple[Beginning, ...] = ()  # bronze tables that begin later than their topics
    # Per bronze table, the offsets at which it stops.
    stops: dict[str, dict[str, dict[int, int]]] | None = None
    skipped: frozenset[str] = frozenset()  # bronze tables that have read up to there already


def plan(pipeline: Pipeline, settings: Settings, layout: Layout, request: Request) -> Plan:
    """What a run reads; starts the embedded broker for that, and no query.

    Raises:
        BrokerError: The broker does not answer.
        UsageError: A bronze table cannot begin there.
    """
    if "bronze" not in request.layers:
        return _plan(pipeline, settings, layout, request, "")
    with open_broker(pipeline, settings) as address:
        return _plan(pipeline, settings, layout, request, address)


def require_possible(pipeline: Pipeline, layout: Layout, request: Request) -> None:
    """Refuse a request that cannot be met, by what is known without Spark and without the broker.

    Raises:
        UsageError: It names a topic that no table of the run reads, or a place where a table cannot begin.
    """
    tables, records = request.tables(pipeline), request.records
    topics = [one for one in pipeline.topics if one.table in tables]
    _require_topics(topics, records)
    for topic in topics:
        if records is not None and _is_to_begin(pipeline, layout, topic, records):
            require_choosable(topic)


def run(job: Job, request: Request, record: RunRecord, show: Callable[[Plan], None]) -> Sequence[LayerResult]:
    """Run a backfill.

    Args:
        job: The job, opened for the layers of the request and its table.
        record: The record of the run; what each layer has read is added.
        show: Called with the plan before anything is read.

    Raises:
        MedallionError: A query failed, and the failure is none of its table's own.
        UsageError: A bronze table cannot begin there.
    """
    wiring = job.wiring
    found = _plan(wiring.pipeline, wiring.settings, wiring.layout, request, wiring.bootstrap_servers)
    show(found)
    for one in found.begins:
        begin(wiring.spark, wiring.pipeline, wiring.layout, one)
    limits = Limits(request.rate, found.stops or {})
    most = limits.batch_records
    if found.stops:
        left = sum(one.effort.rows or 0 for one in found.reads if one.table in found.stops)
        most = min(most or left, left) or most
    job = replace(job, wiring=replace(wiring, most_records=most))

    def paced(stream: Stream) -> Stream | None:
        if stream.name in found.skipped:
            return None
        first = next((one.offsets for one in found.begins if one.topic.table == stream.name), {})
        read = RowsRead(wiring.pipeline.table(stream.name), wiring.layout, first)
        stop = job.stop.is_requested
        return Pace(limits, read.advance, stop, lambda: job.supervisor.stop_query(stream.name)).of(stream)

    results = catch_up(job, paced, lambda done: record.read(done.layer, done.rows, done.seconds))
    if request.flush and len(results) == len(job.layers) and all(one.is_whole for one in results):
        _flush(job, request)
    return results


def _flush(job: Job, request: Request) -> None:
    """Close the windows that are still open, of the gold tables that the run writes."""
    wiring = job.wiring
    tables = request.tables(wiring.pipeline)
    names = {one.table for one in wiring.pipeline.gold if one.table in tables and flush(wiring.layout, one)}
    if names:
        catch_up(replace(job, layers=("gold",)), lambda each: each if each.name in names else None)


def _plan(pipeline: Pipeline, settings: Settings, layout: Layout, request: Request, address: str) -> Plan:
    begins, stops, ends = [], {}, {}
    tables = request.tables(pipeline)
    topics = [one for one in pipeline.topics if one.table in tables]
    _require_topics(topics, request.records)
    for topic in topics:
        if request.records is not None and _is_to_begin(pipeline, layout, topic, request.records):
            begins.append(beginning(pipeline, settings, topic, request.records, address))
        firsts = next((one.offsets for one in begins if one.topic is topic), None)
        ends[topic.table] = _ends(pipeline, settings, topic, address, firsts)
        stop = _stops(pipeline, settings, topic, request.records, address)
        if stop:
            _require_partitions(topic, stop, ends[topic.table][1])
            stops[topic.table] = stop
            ends[topic.table] = (ends[topic.table][0], _up_to(ends[topic.table][1], stop))
    skipped = frozenset(name for name, stop in stops.items() if _has_read(layout, name, stop))
    begun = {one.topic.table for one in begins}
    reads = estimate(pipeline, layout, tables, ends, request.rate, begins=begun)
    return Plan(reads, tuple(begins), stops, skipped)


def _require_topics(topics: Sequence[Topic], records: RecordRange | None) -> None:
    """Refuse offsets of topics that no table of the run reads."""
    known = {name for topic in topics for name in topic.topic_names}
    for name, _ in records.places if records is not None else ():
        if name not in known:
            near = nearest(name, known)
            raise UsageError(f"--from, --to: no bronze table of this run reads the topic {name}; {near}")


def _require_partitions(topic: Topic, stop: Offsets, ends: Offsets) -> None:
    """Refuse to stop at an offset of a partition that the broker does not have."""
    for name, partitions in stop.items():
        for number in partitions.keys() - ends.get(name, {}).keys():
            there = ", ".join(map(str, sorted(ends.get(name, {}))))
            raise UsageError(
                f"--to {name}/{number}: {topic.table} finds no such partition; there are {there}"
            )


def _is_to_begin(pipeline: Pipeline, layout: Layout, topic: Topic, records: RecordRange) -> bool:
    """Whether a bronze table is to begin where ``--from`` says, and has yet to."""
    if records.begin is None and not _of(topic, records.first):
        return False
    reader = next((one.table for one in pipeline.silver if topic.table in one.sources), "silver.x")
    return require_not_begun(layout, topic, records.from_text, reader)


def _stops(
    pipeline: Pipeline, settings: Settings, topic: Topic, records: RecordRange | None, address: str
) -> dict[str, dict[int, int]]:
    """The offsets at which a bronze table stops; none without ``--to``."""
    if records is None or (records.end is None and not _of(topic, records.stop)):
        return {}
    if records.end is None:
        found: dict[str, dict[int, int]] = {}
        for (name, number), offset in _of(topic, records.stop).items():
            found.setdefault(name, {})[number] = offset
        return found
    options = kafka.client_options(settings, pipeline, topic)
    names, at_ms = topic.topic_names, int(records.end.timestamp() * 1000)
    ends = kafka.end_offsets(address, names, options)
    at = kafka.offsets_at(address, names, options, at_ms)
    return {
        name: {number: ends[name][number] if offset < 0 else offset for number, offset in partitions.items()}
        for name, partitions in at.items()
    }


def _ends(
    pipeline: Pipeline, settings: Settings, topic: Topic, address: str, firsts: Offsets | None
) -> tuple[Offsets, Offsets]:
    """The first offsets that are read of a topic, where nothing was read yet, and its ends."""
    names = topic.topic_names
    if not names:
        return {}, {}
    options = kafka.client_options(settings, pipeline, topic)
    return (
        kafka.first_offsets(address, names, options) if firsts is None else firsts,
        kafka.end_offsets(address, names, options),
    )


def _up_to(ends: Offsets, stops: Offsets) -> Offsets:
    return {
        name: {number: min(end, stops.get(name, {}).get(number, end)) for number, end in partitions.items()}
        for name, partitions in ends.items()
    }


def _has_read(layout: Layout, table: str, stops: Offsets) -> bool:
    """Whether a bronze table has read up to these offsets."""
    checkpoint = Checkpoint(layout.checkpoint_path(table))
    entry = checkpoint.planned_batch(checkpoint.last_committed())
    position = {} if entry is None else kafka_position(entry)
    return all(
        position.get(name, {}).get(number, -1) >= stop
        for name, partitions in stops.items()
        for number, stop in partitions.items()
    )


def _of(topic: Topic, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    return {place: offset for place, offset in offsets.items() if place[0] in topic.topic_names}
