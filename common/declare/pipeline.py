"""Declarations of a pipeline file: the pipeline as one frozen, typed value.

Importing a pipeline file runs nothing and needs no Spark. A wrong value raises ``PipelineError`` where it is
declared, with file, line, field, fault and the nearest correct word; what concerns several tables is checked
by ``orchestration.author.check.pipeline`` on the whole pipeline.

What differs between installations (addresses, paths, sizes, triggers) is in ``common.config.settings``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import combinations
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator

from common.declare.declared import declared, source_of
from common.declare.field_types import (
    ColumnTexts,
    Expressions,
    Interval,
    Names,
    Offsets,
    Options,
    Reads,
    TableName,
    TopicTable,
    Trigger,
    arity_fault,
    at_least_one,
    topic_fault,
)
from common.declare.files import Files
from common.declare.gold_tables import Gold, View
from common.declare.quality.expectations import Quality
from common.declare.sinks import Publish
from common.declare.table_options import BronzeKind, Paced, Storage
from common.declare.typed_sources import DeltaTable, Stream
from common.declare.value_formats import Columns, Csv, Debezium, Json, Protobuf, Value
from common.errors import Fault, PipelineError, Problem, UsageError, closest, nearest
from common.reserved_kafka_options import OF_A_CONSUMER, isolation_fault, reserved_option
from common.sql.duckdb.pattern import pattern_fault


class Message(NamedTuple):
    """One Kafka message of a sample generator; ``value=None`` is a tombstone."""

    key: bytes | None
    """The message's key."""
    value: bytes | None
    """The message's value; None: a tombstone."""


@declared
class Topic(BronzeKind):
    """One bronze table, and the Kafka topics that it is read from.

    Without ``topics``, ``pattern`` or ``assign`` the table reads the topic of its own name.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"name": '"orders"'}

    name: TopicTable
    """The table: ``bronze.<name>``."""
    topics: Names | None = None
    """Topics to subscribe to, exactly as the broker spells them."""
    pattern: str | None = None
    """Java regular expression; topics that are created later are read too (``subscribePattern``)."""
    assign: Mapping[str, Sequence[int]] | None = None
    """Partitions per topic, to read only some of them."""
    starting_offsets: Literal["earliest", "latest"] | Offsets = "earliest"
    """Where the first start begins: ``earliest``, ``latest``, or the first offset to read per topic and
    partition (-2 earliest, -1 latest). Later starts continue from the checkpoint.
    """
    starting_timestamp: int | Offsets | None = None
    """Where the first start begins, as a Kafka timestamp in milliseconds since the epoch; for all
    partitions, or per topic and partition.
    """
    max_offsets_per_trigger: int | None = None
    """Most records per micro-batch; unset: the setting."""
    min_partitions: int | None = None
    """Spark's ``minPartitions``; unset: the setting."""
    fail_on_data_loss: bool = True
    """Stop when the broker has deleted offsets that were not read yet."""
    may_have_gaps: bool = False
    """Whether the topic is compacted or its producers use transactions: offsets without a record are then no
    fault of the audit.
    """
    kafka: Options = field(default_factory=lambda: MappingProxyType({}))
    """Kafka client options such as ``{"security.protocol": "SSL"}``; settings win."""
    sample: Callable[[int], Iterator[Message]] | None = None
    """``seed -> iterator of Message``: offline sample data for ``medallion produce``."""
    keep: Interval | None = None
    """How long bronze keeps a record after it has read it, such as ``90 days``; unset: for ever. A silver
    table that is added later does not get what has expired.
    """
    trigger: Trigger | None = field(default=None, kw_only=True)
    """When the query starts its next micro-batch: an interval such as ``5 seconds``, or ``asap``; unset: the
    setting ``bronze.trigger``.
    """
    storage: Storage = field(default_factory=Storage, kw_only=True)
    """How the table's files are laid out."""
    receipts: str | None = field(default=None, kw_only=True)
    """A topic with what producers say they have sent; ``medallion audit`` compares it with the table."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if self.receipts is not None and self.receipts in self.topic_names:
            yield Fault(
                "MED-1105", f"receipts={self.receipts!r} is the topic itself; name a topic of its own"
            )
        yield from _choice_faults(self)
        for name in ("starting_offsets", "starting_timestamp"):
            yield from _position_faults(self, name)
        for name in ("max_offsets_per_trigger", "min_partitions"):
            if (given_number := getattr(self, name)) is not None and given_number < 1:
                yield Fault("MED-1104", f"{name} is {given_number}; it must be at least 1")
        for option in self.kafka:
            yield from reserved_option(option, OF_A_CONSUMER)
        yield from isolation_fault(self.kafka)
        yield from self.unfit()

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Names of the topics; empty for a pattern."""
        if self.pattern is not None:
            return ()
        if self.assign is not None:
            return tuple(self.assign)
        return tuple(self.topics) if self.topics else (self.name,)


def _choice_faults(topic: Topic) -> Iterator[str]:
    """Faults of what says which topics a table reads."""
    given = [name for name in ("topics", "pattern", "assign") if getattr(topic, name) is not None]
    if len(given) > 1:
        yield Fault(
            "MED-1105", f"{' and '.join(given)} are given; a topic is chosen one way: keep one of them"
        )
    names = topic.topics or ()
    for name in dict.fromkeys((*names, *(topic.assign or ()))):
        if fault := topic_fault(name):
            yield Fault("MED-1103", f"{'assign' if name not in names else 'topics'}: {name!r} {fault}")
        if names.count(name) > 1:
            yield Fault("MED-1103", f"topics: {name!r} is there twice; keep one")
    if (pattern := topic.pattern) is not None:
        empty = "is empty; write a regular expression, such as 'orders-.*'"
        if wrong := pattern_fault(pattern) if pattern.strip() else empty:
            yield Fault("MED-1103", f"pattern {pattern!r} {wrong}")
    if topic.assign is not None and not topic.assign:
        yield Fault("MED-1103", "assign is empty; name the partitions of a topic, as in {'orders': [0, 1]}")
    for name, partitions in (topic.assign or {}).items():
        if not partitions or len(set(partitions)) < len(partitions) or min(partitions) < 0:
            text = f"assign: {name!r} has the partitions {list(partitions)}; write each number from 0 on once"
            yield Fault("MED-1104", text)


_FIRST = {"starting_offsets": -2, "starting_timestamp": 0}
"""The lowest position of each attribute: -2 is the earliest offset, -1 the latest."""


def _position_faults(topic: Topic, name: str) -> Iterator[str]:
    """Faults of where reading begins. A topic that is not read may be left over; a misspelt one is not."""
    given = getattr(topic, name)
    least = _FIRST[name]
    if isinstance(given, int) and given < least:
        yield Fault("MED-1104", f"{name} is {given}; it is in milliseconds since 1970, and at least {least}")
    if not isinstance(given, Mapping):
        return
    lacking = [one for one in topic.topic_names if one not in given]
    for other, positions in given.items():
        if topic.topic_names and other not in topic.topic_names and (near := closest(other, lacking)):
            yield Fault("MED-1103", f"{name}: {other!r} is not read; did you mean {near!r}?")
        for partition, position in positions.items():
            if partition < 0 or position < least:
                yield Fault(
                    "MED-1104",
                    f"{name}: {other!r} has {{{partition}: {position}}}; partitions begin at 0, and the "
                    f"lowest position is {least}" + (" (earliest; -1: latest)" if least < 0 else ""),
                )


@declared
class Rule:
    """A condition that rows must meet. A row for which it is false or null breaks the rule."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"name": '"amount_positive"', "condition": '"amount > 0"'}

    name: TableName
    """The reason that a rejected row gets, and the name under which such rows are counted."""
    condition: str
    """SQL condition over the silver columns, the tables of ``lookups``, and ``_kafka``."""
    on_fail: Literal["warn", "drop", "quarantine", "fail"] = "quarantine"
    """``warn`` counts the row and accepts it; ``quarantine`` keeps it with its bytes beside the table;
    ``drop`` keeps only its coordinates and reasons; ``fail`` stops the query before anything is written.
    """


@declared
class Lookup:
    """Another Delta table for use in rules, as of the start of each micro-batch (stream-static join).

    A rule sees the matching row as a struct of this name, or null without a match:
    ``Rule("known_country", "countries.code is not null")``.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "name": '"countries"',
        "table": '"s3a://reference/countries"',
        "on": '{"code": "country"}',
    }

    name: TableName
    """The struct's name."""
    table: str
    """A table of the pipeline (``gold.countries``), or the path or URI of any Delta table."""
    on: Expressions
    """Column of that table -> SQL text over the silver columns. Of several matching rows one is used."""


@declared
class Silver(Paced):
    """One silver table: one row per event, typed, checked by rules, deduplicated.

    Grain: one row per ``key`` within the watermark: the row of the earliest micro-batch, and of one bronze
    file the first row; of several files in one micro-batch it may be any. Rows that cannot be parsed, lack
    a key or an event time, or break a rule are in ``silver.<name>__quarantine`` with their raw bytes,
    coordinates and all reasons. Rows later than the watermark are in ``silver.<name>__late``. A record
    without a value (a tombstone) is counted and stays in bronze only, unless ``tombstones="keep"``.
    """

    LAYER: ClassVar[str] = "silver"
    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"bronze.orders"',
        "value": 'Json("id string, at timestamp")',
        "columns": '{"order_id": "id", "ordered_at": "at"}',
        "key": '["order_id"]',
        "event_time": '"ordered_at"',
        "watermark": '"1 day"',
    }

    name: TableName
    """The table: ``silver.<name>``."""
    reads: Reads
    """The bronze table it reads: ``bronze.<name>``; or a list of bronze tables, whose records are rows of
    this one table. No topic may be in two of them. The watermark is that of the table that is furthest
    behind.
    """
    value: Value
    """How a message's value is read: Json, Debezium, Avro, Protobuf, Csv, Text or Bytes."""
    columns: ColumnTexts
    """SQL text per column, over the value's fields, or a row-for-row function ``DataFrame -> DataFrame``.
    Both also see ``_kafka``: a struct of topic, partition, offset, timestamp, key and headers; a function
    must keep that column.
    """
    key: Names
    """Columns that identify an event; never null."""
    event_time: str
    """The column with the time of the event; a timestamp, never null."""
    watermark: Interval
    """How late a row may be, and how long a duplicate is recognised."""
    rules: Annotated[Sequence[Rule], AfterValidator(tuple)] = ()
    """Conditions that rows must meet."""
    lookups: Annotated[Sequence[Lookup], AfterValidator(tuple)] = ()
    """Other tables for use in rules."""
    max_future: Interval = "1 hour"
    """How far an event time may be after Kafka's timestamp; a row beyond it is quarantined, so that it
    does not move the watermark.
    """
    dedupe: Literal["within_watermark", "event_time", "exact"] = "within_watermark"
    """``within_watermark``: rows of one key within the watermark are one event; late rows, replays and a
    first load compare keys alone, so no key may be reused later; ``event_time``: rows of one key and one
    event time are one event; ``exact``: all rows of one key are one event, found by a MERGE into the table,
    and no row is late.
    """
    keep: Literal["first", "newest"] = "first"
    """Which row of a key stays: the ``first`` to arrive, or the ``newest`` by event time (ties by Kafka
    coordinates), which replaces an older one and needs ``dedupe="exact"``.
    """
    late: Literal["merge", "keep"] = "merge"
    """What happens to a row later than the watermark, besides its copy in ``__late``: ``merge`` inserts
    it unless its key is in the table; ``keep`` does nothing more.
    """
    unknown_fields: Literal["ignore", "rescue", "evolve", "fail"] = "ignore"
    """What happens to fields of the value that are not in its schema: ``ignore`` leaves them in bronze alone;
    ``rescue`` keeps them as JSON text in the column ``_rescued``; ``evolve`` makes columns of them; ``fail``
    stops the query.
    """
    tombstones: Literal["count", "keep"] = "count"
    """What happens to a record without a value: ``count`` leaves it in bronze; ``keep`` writes a row
    whose fields are null, by which gold can delete. Its key and event time come from ``_kafka``, as in
    ``coalesce(id, cast(_kafka.key as string))``; ``_kafka.value is null`` identifies it; no rule is
    checked.
    """
    max_future_after: str | None = None
    """A timestamp column; ``max_future`` then counts from this column or from Kafka's timestamp, whichever is
    earlier, and where it is null from Kafka's alone. Use it where old events pass through a new topic:
    Kafka's timestamp rejects no wrong clock there.
    """
    where: str | None = None
    """SQL condition over the value's fields and ``_kafka``, for a topic of many types (``"type = 'dns'"``). A
    record for which it is not true is no row of this table: it is neither checked nor kept, and counted as
    ``other``. A record that cannot be read well enough to decide is quarantined once. Unset: every record is
    this table's.
    """
    storage: Storage = field(default_factory=Storage, kw_only=True)
    """How the table's files are laid out. Its side tables have the default."""
    each: str | None = field(default=None, kw_only=True)
    """The array of the value each of whose elements becomes a row: ``"items"``, or ``"order.items"``, also
    through an array on the way. Its name then means the one element (``items.sku``), ``_kafka.element`` is
    the element's position from 0 on, and the table has it as ``_element``. Unset: a record is one row.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from self.storage.unfit("silver", "cluster_by", "partition_by")
        for name in self.storage.partition_by or ():
            if name in self.key:
                text = (
                    f"storage: {name!r} is in the key; no key is null, and an empty text in partition_by is"
                )
                yield Fault("MED-1105", text)
        if self.max_future_after is not None and self.max_future_after == self.event_time:
            yield Fault(
                "MED-1105",
                "max_future_after is the event time itself, which is not after itself; name another column",
            )
        if self.keep == "newest" and self.dedupe != "exact":
            yield Fault(
                "MED-1105", 'keep="newest" replaces rows however old they are; it needs dedupe="exact"'
            )
        if self.keep == "newest" and self.storage.foreign is not None:
            text = "would replace rows of other programs by its own"
            yield Fault("MED-1105", f'storage: foreign={self.storage.foreign!r}, and keep="newest" {text}')
        yield from self._unfit_for_each()
        yield from self._unfit_for_several()
        strict_json = isinstance(self.value, Debezium) or (isinstance(self.value, Json) and self.value.strict)
        if isinstance(self.value, Protobuf):
            if self.unknown_fields == "evolve":
                yield Fault(
                    "MED-1105",
                    "unknown_fields='evolve' makes columns of names, and Protobuf sends numbers; \"rescue\" "
                    "keeps the bytes of each",
                )
        elif self.unknown_fields != "ignore" and not (strict_json or isinstance(self.value, Csv)):
            yield Fault(
                "MED-1105",
                f"unknown_fields={self.unknown_fields!r} is for strict Json and Debezium, for Csv of files "
                "with a header, and for Protobuf",
            )

    def _unfit_for_each(self) -> Iterator[str]:
        """Faults of other arguments beside ``each``."""
        if self.each is None:
            return
        is_strict = isinstance(self.value, Debezium) or (isinstance(self.value, Json) and self.value.strict)
        if not is_strict:
            yield Fault(
                "MED-1105",
                f"each={self.each!r} is for strict Json and Debezium values only: of other values no element "
                "can be set aside with its bytes; keep the array as a column, and take it apart in a View "
                "with lateral view explode(…)",
            )
        if self.unknown_fields != "ignore":
            yield Fault(
                "MED-1105",
                f"each={self.each!r} keeps no unknown fields; leave unknown_fields={self.unknown_fields!r} "
                "out, or declare a second table of the records without each",
            )
        if self.tombstones != "count":
            yield Fault(
                "MED-1105",
                f'each={self.each!r}, and a record without a value has no elements; leave tombstones="keep" '
                "out, or declare a second table of the records without each",
            )

    def _unfit_for_several(self) -> Iterator[str]:
        """Faults of other arguments beside several bronze tables."""
        if len(self.sources) == 1:
            return
        read = self.read_text
        for name, instead in (("each", "its elements"), ("where", "its own records")):
            if (given := getattr(self, name)) is not None:
                yield Fault(
                    "MED-1105",
                    f"reads {read}, and {name}={given!r} needs one bronze table: declare a silver table for "
                    f"each of them with {instead}, and bring these together in a View",
                )
        if isinstance(self.value, Columns):
            yield Fault(
                "MED-1105",
                f"reads {read}, and value=Columns() reads one bronze table: declare a silver table for each "
                "of them, and bring these together in a View",
            )

    @property
    def sources(self) -> tuple[str, ...]:
        """The bronze tables that it reads, in the order of the declaration."""
        return (self.reads,) if isinstance(self.reads, str) else tuple(self.reads)

    @property
    def read_text(self) -> str:
        """The bronze tables that it reads, in words."""
        return " and ".join(self.sources)

    @property
    def source(self) -> str:
        """The one bronze table that it reads.

        Raises:
            UsageError: It reads several.
        """
        if len(self.sources) > 1:
            raise UsageError(
                f"{self.table} reads {self.read_text}: this is possible only for a table that reads one "
                "bronze table. Nothing was changed."
            )
        return self.sources[0]

    @property
    def each_path(self) -> tuple[str, ...]:
        """The names of the fields that lead to the array of ``each``; empty without one."""
        return tuple(self.each.split(".")) if self.each is not None else ()

    @property
    def table(self) -> str:
        """``silver.<name>``."""
        return f"silver.{self.name}"

    @property
    def quarantine(self) -> str:
        """``silver.<name>__quarantine``."""
        return f"silver.{self.name}__quarantine"

    @property
    def late_table(self) -> str:
        """``silver.<name>__late``."""
        return f"silver.{self.name}__late"

    @property
    def event_key(self) -> tuple[str, ...]:
        """The columns that identify an event: the key, and with ``dedupe="event_time"`` the event time."""
        has_time = self.dedupe == "event_time" and self.event_time not in self.key
        return (*self.key, self.event_time) if has_time else tuple(self.key)

    @property
    def side_tables(self) -> tuple[str, ...]:
        """The tables that the query writes besides the one of its own name."""
        return (self.quarantine, self.late_table)


_LISTENS = ("onQueryStarted", "onQueryProgress", "onQueryTerminated")

Bronze = Topic | Files | DeltaTable | Stream
Table = Bronze | Silver | Gold


def _overlap(one: str, other: str) -> bool:
    """Whether one of two folders is the other one, or lies below it."""
    first, second = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return first.startswith(second) or second.startswith(first)


@declared
class Pipeline:
    """A whole pipeline, from topics to gold."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"name": '"orders"', "bronze": '[Topic("orders")]'}

    name: TableName
    """The pipeline; its folder of tables and checkpoints has this name."""
    bronze: Annotated[Sequence[Bronze], AfterValidator(at_least_one)]
    """Bronze tables, each of one or more topics, of files, of a Delta table, or of any streaming source."""
    silver: Annotated[Sequence[Silver], AfterValidator(tuple)] = ()
    """Silver tables of typed rows."""
    gold: Annotated[Sequence[Gold], AfterValidator(tuple)] = ()
    """Gold tables."""
    quality: Annotated[Sequence[Quality], AfterValidator(tuple)] = ()
    """Data-quality suites on silver and gold tables."""
    kafka: Options = field(default_factory=lambda: MappingProxyType({}))
    """Kafka client options for all topics. With ``bootstrap.servers`` here, in a topic or in the settings
    the embedded broker is never started.
    """
    publish: Annotated[Sequence[Publish], AfterValidator(tuple)] = ()
    """Queries that send rows of tables to sinks."""
    on_batch: Callable[[Any], None] | None = field(default=None, kw_only=True)
    """A function that gets the record of each finished micro-batch, with the columns of ``ops.micro_batches``
    as attributes. It runs in a thread of the job that no query waits for.
    """
    on_failure: Callable[[Any], None] | None = field(default=None, kw_only=True)
    """A function that gets the record of a failure of a query, or of the job: ``at``, ``job``, ``run_id``,
    ``query``, ``error``, ``is_restarted``, ``restarts``. It runs as ``on_batch`` does.
    """
    listeners: Annotated[Sequence[Any], AfterValidator(tuple)] = field(default=(), kw_only=True)
    """Spark's ``StreamingQueryListener`` objects, which get the events of all queries."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from self._unfit_functions()
        for option in self.kafka:
            yield from reserved_option(option, OF_A_CONSUMER)
        yield from isolation_fault(self.kafka)
        topics = [topic.table for topic in self.topics]
        for files in self.files:
            if files.into is not None and files.into not in topics:
                known = nearest(files.into, topics) if topics else "the pipeline has no topic"
                yield Fault(
                    "MED-1301", f"{files.table}: into={files.into!r} is no bronze table of a topic; {known}"
                )
        yield from self._cleaned_for_others()
        yield from self._at_one_place()
        gone = {files.table: files.into for files in self.files if files.into is not None}
        for silver in self.silver:
            for source in silver.sources:
                if source in gone:
                    yield Fault(
                        "MED-1301",
                        f"{silver.table} reads {source}, whose records go into {gone[source]}: "
                        "read that table",
                    )

    def _cleaned_for_others(self) -> Iterator[str]:
        """Faults of files that one table takes away before another one has read them."""
        for one in self.files:
            for other in self.files:
                if one is not other and one.clean_source is not None and _overlap(one.folder, other.folder):
                    text = f"clean_source={one.clean_source!r} takes files away that {other.table} reads too"
                    yield Fault("MED-1105", f"{one.table}: {text}; leave it out")

    def _at_one_place(self) -> Iterator[str]:
        """Faults of tables that are declared to be in one folder, or one in the other's."""
        places = [(one.table, one.storage.folder) for one in self.tables if one.storage.folder is not None]
        for (table, place), (other, there) in combinations(places, 2):
            if _overlap(place, there):
                text = f"{table} and {other} have locations of which one is in the other; name another folder"
                yield Fault("MED-1105", text)

    def _unfit_functions(self) -> Iterator[str]:
        """Faults of functions and listeners of the user's own."""
        for listener in self.listeners:
            if lacking := [name for name in _LISTENS if not callable(getattr(listener, name, None))]:
                yield Fault(
                    "MED-1103",
                    f"listeners: {type(listener).__name__} has no {' and no '.join(lacking)}; derive it from "
                    "pyspark.sql.streaming.StreamingQueryListener",
                )
        for name in ("on_batch", "on_failure"):
            hook = getattr(self, name)
            if hook is not None and (fault := arity_fault(hook, "record")):
                yield Fault("MED-1103", f"{name} {fault}")

    @property
    def tables(self) -> tuple[Table, ...]:
        """All declared tables, bronze first."""
        return (*self.bronze, *self.silver, *self.gold)

    @property
    def topics(self) -> tuple[Topic, ...]:
        """The bronze tables that are read from Kafka."""
        return tuple(table for table in self.bronze if isinstance(table, Topic))

    @property
    def files(self) -> tuple[Files, ...]:
        """The bronze tables that are read from files."""
        return tuple(table for table in self.bronze if isinstance(table, Files))

    @property
    def delta_tables(self) -> tuple[DeltaTable, ...]:
        """The bronze tables that are read from Delta tables."""
        return tuple(table for table in self.bronze if isinstance(table, DeltaTable))

    @property
    def with_feed(self) -> frozenset[str]:
        """The gold tables that keep a change data feed: as declared, or because a view reads them."""
        views = (gold for gold in self.gold if isinstance(gold, View))
        viewed = (table for view in views for table in view.tables if table.startswith("gold."))
        return frozenset((*viewed, *(gold.table for gold in self.gold if gold.storage.change_feed)))

    def query(self, name: str) -> Table | Publish:
        """The declaration of a query, by the name of its table or by ``publish.<name>``.

        Raises:
            PipelineError: The pipeline declares no such query.
        """
        found = next((publish for publish in self.publish if publish.table == name), None)
        return self.table(name) if found is None else found

    def table(self, name: str) -> Table:
        """The declaration of a table by its full name.

        Raises:
            PipelineError: The pipeline declares no such table.
        """
        for table in self.tables:
            if table.table == name:
                return table
        known = [table.table for table in self.tables]
        raise PipelineError(
            [Problem(name, Fault("MED-1301", f"no such table; {nearest(name, known)}"), source_of(self))]
        )
