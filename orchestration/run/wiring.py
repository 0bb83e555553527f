"""Builds the streaming queries of a pipeline from its declaration and the settings; only this module does.

All tables of a job are judged before the first of them is changed: a start that is refused has changed
nothing, and the former pipeline starts.

Tables are created in data order, because a query's columns come from the table that it reads. A job of one
layer waits until the job of the layer before has created its tables.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import bronze.delta_source
import bronze.files
import bronze.query
import bronze.stream_source
import gold.publish.query
import gold.query
import silver.query
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import (
    Bronze,
    Csv,
    Custom,
    DeltaTable,
    Files,
    Gold,
    KafkaSink,
    Pipeline,
    Publish,
    Silver,
    Table,
    Topic,
    View,
)
from common.declare import Stream as StreamSource
from common.declare.declared import copy_with
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.errors import BrokerAwayError, BrokerError, TableMissingError
from common.machine.console import say
from common.streaming.query import Stream
from common.streaming.table_watch import Beginning
from common.streaming.topic_identity import TopicIdentity
from orchestration.access.declaration import last_declaration
from orchestration.access.declaration.lineage import (
    in_data_order,
    read_tables,
    readers_of,
    sources,
    written_by,
)
from orchestration.access.history.stopped_queries import stopped_since
from orchestration.access.kafka.client import client_options, sink_options
from orchestration.access.progress.rows_read import streamed_tables
from orchestration.run import start_checks, trial
from orchestration.run.topic_checks import topic_identity
from silver.read.value_reader import strict_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")

_COLUMNS = {"columns", "value", "unknown_fields"}
"""The attributes of a silver table that give it its columns."""


@dataclass(frozen=True)
class Wiring:
    """Builds the queries of a pipeline.

    Attributes:
        bootstrap_servers: The broker's address; only bronze and publications to Kafka need one.
        topics: The topics of each bronze table whose queries were built.
        beginnings: What was judged of the queries that were not built since: a start refuses none of them
            any more. Each is handed to the query's watches once; a later beginning is judged again.
        most_records: Most records of a micro-batch of bronze, where a run reads slower than it could; the
            declaration and the settings of a table stay what they are.
    """

    spark: SparkSession
    pipeline: Pipeline
    settings: Settings
    layout: Layout
    bootstrap_servers: str
    topics: dict[str, TopicIdentity] = field(default_factory=dict)
    beginnings: dict[str, Beginning] = field(default_factory=dict)
    most_records: int | None = None

    def streams(self, layer: Layer, *, only: str | None = None) -> Iterator[Stream]:
        """The queries of one layer, or the one of a table; creates the tables that do not exist.

        Raises:
            CheckpointMismatchError: A checkpoint and its table do not belong together.
            PipelineError: A declaration does not fit the data, or differs from the one under which its table
                was last written.
            TableShapeError: A table exists with other columns.
            TopicChangedError: A topic is gone, or is another one than bronze has read.
        """
        chosen = self._chosen([layer], only)
        if not self.beginnings.keys() >= {declared.table for declared in chosen}:
            self.judge([layer], only=only)
        for topic in (one for one in chosen if isinstance(one, Topic)):
            self._identify(topic)
        for declared in chosen:
            beginning = self.beginnings.pop(declared.table)
            if self._is_stopped(declared):
                continue
            stream = replace(self.stream(declared), beginning=beginning)
            last_declaration.remember(stream.checkpoint, declared, self.settings)
            yield stream

    def judge(
        self, layers: Sequence[Layer], *, only: str | None = None, with_publications: bool = False
    ) -> None:
        """Refuse what a start of these layers, or of the query of one table, has to refuse; changes no table.

        An edited pipeline is built over empty copies of its tables: whether a table has the declared columns
        is known only with those of the tables before it.

        Raises:
            CheckpointMismatchError: A checkpoint and its table do not belong together.
            ForeignChangeError: Another program has changed a table that a query reads.
            PipelineError: A declaration does not fit the data, or differs from the one under which its table
                was last written.
            TableShapeError: A table exists with other columns.
        """
        chosen, context = self._chosen(layers, only), self._context
        with start_checks.nothing_changed_if_refused() as torn:
            judged = {one.table: start_checks.check_table(context, one, torn) for one in chosen}
            last = {table: one.last for table, one in judged.items()}
            for declared in chosen:
                self._check_sources(declared)
            publish = self.pipeline.publish if with_publications else ()
            for one in publish:
                start_checks.check_publication(context, one)
                self._check_sources(one)
            if any(self._may_change(declared) for declared in chosen):
                with trial.copies(self.spark, self.pipeline, self.layout) as copies:
                    self._build_over(copies, chosen, last, publish)
            else:
                for declared in chosen:
                    start_checks.check_declaration(context, declared, last[declared.table])
        self.beginnings.update((table, one.beginning) for table, one in judged.items())

    def _build_over(
        self,
        copies: Layout,
        chosen: Sequence[Table],
        last: Mapping[str, start_checks.LastCommit | None],
        publish: Sequence[Publish],
    ) -> None:
        """Build queries over copies of the tables, each followed by the check of its declaration.

        Args:
            copies: Where the copies are.
            chosen: The declarations, in the order of data flow.
            last: The newest commit of each table by its query.
            publish: The publications that are built too.
        """
        wiring = replace(self, layout=copies, topics={}, beginnings={})
        for declared in chosen:
            if not isinstance(declared, Bronze):
                wiring.stream(declared)
            start_checks.check_declaration(self._context, declared, last[declared.table])
        for one in publish:
            if delta_table.exists(copies.table_path(one.reads)):
                wiring.publication(one)

    def _check_sources(self, declared: Table | Publish) -> None:
        """Refuse changes by another program in the tables that a query goes on reading."""
        if Checkpoint(self.layout.checkpoint_path(declared.table)).last_committed() is None:
            return  # where it begins is known when it is built
        if isinstance(declared, Silver):
            silver.query.check_bronze(declared, self.settings, self.layout)
        elif not isinstance(declared, Bronze):
            gold.query.check_appends(self._context, declared)

    def _may_change(self, declared: Table) -> bool:
        """Whether a start may change an existing table: its declaration is another one than the last time."""
        if isinstance(declared, Bronze) or not delta_table.exists(self.layout.table_path(declared.table)):
            return False
        before = last_declaration.recorded(self.layout.checkpoint_path(declared.table))
        now = last_declaration.described(declared, self.settings)
        if before is None or before.kind != now.kind:
            return True
        names = {name for name, text in {*before.attributes.items()} ^ {*now.attributes.items()}}
        return any(isinstance(declared, Gold) or name.partition(".")[0] in _COLUMNS for name in names)

    def _chosen(self, layers: Sequence[Layer], only: str | None) -> list[Table]:
        """The tables of these layers, or the one of a name, in the order of data flow."""
        return [one for layer in layers for one in self.tables(layer) if only in {None, one.table}]

    def stopped(self, layers: Sequence[Layer]) -> set[str]:
        """The queries of these layers, publications with gold, that an operator has stopped."""
        names = [one.table for one in self._chosen(layers, None)]
        names += [one.table for one in self.pipeline.publish if "gold" in layers]
        return {name for name in names if stopped_since(self.layout, name) is not None}

    def _is_stopped(self, declared: Table | Publish) -> bool:
        """Whether an operator has stopped a query; says so."""
        since = stopped_since(self.layout, declared.table)
        if since is not None:
            name, at = declared.table, since.strftime("%Y-%m-%d %H:%M")
            say(f"{name} stays stopped, since {at} UTC; to go on: medallion start {name}")
        return since is not None

    def publications(self, only: str | None = None) -> Iterator[Stream]:
        """The queries that publish rows, or the one of a name; the tables that they read must exist.

        Raises:
            CheckpointMismatchError: The history of the table is another one than was published.
            PipelineError: A declaration does not fit the table that it reads.
            TableShapeError: A publication needs the change data feed of a table that keeps none.
        """
        for declared in self.pipeline.publish:
            if only not in {None, declared.table} or self._is_stopped(declared):
                continue
            beginning = start_checks.check_publication(self._context, declared).beginning
            stream = replace(self.publication(declared), beginning=beginning)
            last_declaration.remember(stream.checkpoint, declared, self.settings)
            yield stream

    def await_sources(
        self, layers: Sequence[Layer], *, wait: bool, stopping: Callable[[], bool], only: str | None = None
    ) -> Iterator[str]:
        """Wait for the tables that these layers read and other jobs create; yields each table it waits for.

        With ``only`` it is the tables that the query of this table reads.

        Raises:
            TableMissingError: A table is missing and ``wait`` is false.
        """
        for table in self._sources(layers) if only is None else self._read_by(only):
            path = self.layout.table_path(table)
            is_announced = False
            while not delta_table.exists(path) and not stopping():
                if not wait:
                    layer = table.partition(".")[0]
                    raise TableMissingError(table, path, f"Run the {layer} job first: medallion run {layer}.")
                if not is_announced:
                    yield table
                    is_announced = True
                time.sleep(0.5)

    def has_begun(self, stream: Stream) -> bool:
        """Whether a query has something to read, or has read before.

        A query that starts on an empty table runs a whole micro-batch without rows, and its commit wakes the
        next layer. On a small machine the first rows would have to wait for that.
        """
        declared = self.pipeline.query(stream.name)
        if self._is_awaited(declared):
            return False
        if isinstance(declared, Bronze) or Checkpoint(stream.checkpoint).exists():
            return True
        # A view and a function may have rows where one of their tables is empty.
        reads: Sequence[str] = () if isinstance(declared, Silver) else (declared.reads,)
        if isinstance(declared, Silver):
            reads = declared.sources
        if isinstance(declared, View | Custom):
            reads = read_tables(declared)
        found = (LogReader(self._context.path(table)).snapshot() for table in reads)
        return any(one is not None and one.rows != 0 for one in found)

    def _sources(self, layers: Sequence[Layer]) -> list[str]:
        reads: list[str] = []
        if "silver" in layers and "bronze" not in layers:
            reads += [source for table in self.pipeline.silver for source in table.sources]
        if "gold" in layers and "silver" not in layers:
            own = {name for table in self.pipeline.gold for name in written_by(table)}
            reads += [name for table in self.pipeline.gold for name in sources(table) if name not in own]
        if "gold" in layers:
            others = {"bronze", "silver"}.difference(layers)
            reads += [one.reads for one in self.pipeline.publish if one.reads.partition(".")[0] in others]
        return sorted(set(reads))

    def _read_by(self, table: str) -> Sequence[str]:
        declared = self.pipeline.query(table)
        return () if isinstance(declared, Bronze) else sorted(sources(declared))

    def tables(self, layer: Layer) -> Sequence[Table]:
        """The tables of one layer, in the order of data flow."""
        tables: dict[Layer, Sequence[Table]] = {
            "bronze": self.pipeline.bronze,
            "silver": self.pipeline.silver,
            "gold": in_data_order(self.pipeline.gold),
        }
        return tables[layer]

    @property
    def _context(self) -> gold.query.Context:
        return gold.query.Context(self.spark, self.pipeline, self.settings, self.layout)

    def _limited(self, topic: Topic) -> Topic:
        """The declaration with at most so many records in a micro-batch as this run reads."""
        if self.most_records is None:
            return topic
        usual = topic.max_offsets_per_trigger or self.settings.bronze.max_offsets_per_trigger
        return replace(topic, max_offsets_per_trigger=min(usual, self.most_records))

    def _limited_files(self, files: Files) -> Files:
        """As ``_limited``, for a bronze table of files."""
        if self.most_records is None:
            return files
        usual = files.max_rows_per_trigger or self.settings.bronze.max_offsets_per_trigger
        return copy_with(files, max_rows_per_trigger=min(usual, self.most_records))

    def _line_readers(self, files: Files) -> list[str]:
        """The readers of the silver tables that take files' columns by the names of their first lines."""
        table = files.into or files.table
        values = [each.value for each in self.pipeline.silver if table in each.sources]
        named = [value for value in values if files.header is True and isinstance(value, Csv)]
        return [strict_reader(self.spark, value).spec for value in named]

    def publication(self, declared: Publish) -> Stream:
        client: dict[str, str] = {}
        if isinstance(declared.to, KafkaSink):
            client = sink_options(self.settings, self.pipeline, declared.to, self.bootstrap_servers)
        stream = gold.publish.query.build_query(self._context, declared, client)
        source = f"Kafka at {client['bootstrap.servers']}" if client else ""
        again = functools.partial(self._again, declared)
        streamed = streamed_tables(self.layout, declared)
        return replace(
            stream,
            reads=(declared.reads,),
            streamed=streamed,
            source=source,
            again=again,
            is_awaited=self._is_awaited(declared),
        )

    def stream(self, declared: Table) -> Stream:
        """The query of one table, without the checks of a start; creates its tables where there are none.

        Raises:
            PipelineError: The declaration does not fit the data.
            TableShapeError: A table exists with other columns.
        """
        reads = () if isinstance(declared, Bronze) else sources(declared)
        beside = declared.side_tables
        paths = tuple(self.layout.table_path(table) for table in (declared.table, *beside))
        streamed = streamed_tables(self.layout, declared)
        stream = replace(self._build(declared), reads=reads, beside=beside, paths=paths, streamed=streamed)
        again = functools.partial(self._again, declared)
        return replace(stream, again=again, is_awaited=self._is_awaited(declared))

    def _again(self, declared: Table | Publish) -> Stream:
        """The query, judged and built again: it was stopped, has failed, or its source was away.

        Raises:
            BrokerAwayError: The broker does not answer yet.
            MedallionError: As ``streams``.
        """
        beginning = start_checks.check_beginning(self.layout, declared).beginning
        self._check_sources(declared)
        if isinstance(declared, Publish):
            return replace(self.publication(declared), beginning=beginning)
        if isinstance(declared, Topic):
            try:
                self._identify(declared)
            except BrokerError as error:
                raise BrokerAwayError(str(error)) from error
        return replace(self.stream(declared), beginning=beginning)

    def _identify(self, topic: Topic) -> None:
        """Judge the topics that a bronze query is about to read."""
        self.topics[topic.table] = topic_identity(
            self.pipeline, self.settings, self.layout, topic, self.bootstrap_servers
        )

    def _is_awaited(self, declared: Table | Publish) -> bool:
        """Whether the first version that a query reads is still to come."""
        if isinstance(declared, DeltaTable):
            return bronze.delta_source.is_awaited(declared, self.layout)
        return isinstance(declared, Gold | Publish) and gold.query.is_awaited(self._context, declared)

    def _build(self, declared: Table) -> Stream:
        name, settings, layout = self.pipeline.name, self.settings, self.layout
        if isinstance(declared, Files):
            return bronze.files.build_query(
                self.spark,
                name,
                self._limited_files(declared),
                settings=settings,
                layout=layout,
                line_readers=self._line_readers(declared),
            )
        if isinstance(declared, DeltaTable):
            return bronze.delta_source.build_query(
                self.spark, name, declared, settings=settings, layout=layout
            )
        if isinstance(declared, StreamSource):
            return bronze.stream_source.build_query(
                self.spark, name, declared, settings=settings, layout=layout
            )
        if isinstance(declared, Topic):
            client = client_options(settings, self.pipeline, declared)
            return bronze.query.build_query(
                self.spark,
                name,
                self._limited(declared),
                settings=settings,
                layout=layout,
                bootstrap_servers=self.bootstrap_servers,
                client=client,
                identity=self.topics[declared.table],
            )
        if isinstance(declared, Silver):
            readers = readers_of(self.pipeline, declared)
            return silver.query.build_query(
                self.spark, name, declared, settings=settings, layout=layout, readers=readers
            )
        return gold.query.build_query(self._context, declared)
