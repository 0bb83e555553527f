"""Builds the streaming queries of a pipeline from its declaration and the settings; only this module does.

All tables of a job are judged before the first of them is changed: a start that is refused has changed
nothing, and the former pipeline starts.

Tables are created in data order, because a query's columns come from the table that it reads. In a job of one
layer a query waits until the job of the layer before has created the tables that it reads.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import bronze.delta_source
import bronze.files
import bronze.query
import bronze.stream_source
import gold.publish.query
import gold.query
import gold.source.foreign_appends
import gold.source.start
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
from common.declare.author_texts import texts_of
from common.declare.declared import copy_with, is_in_catalog, source_of
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.log import LogReader
from common.errors import (
    BrokerAwayError,
    BrokerError,
    Fault,
    MedallionError,
    PipelineError,
    Problem,
    SqlError,
    TableError,
    TableMissingError,
)
from common.machine.console import say
from common.spark.table_catalog import look_up
from common.streaming.query import Stream, Unbuilt, failure_of
from common.streaming.spark_errors import FailedQuery
from common.streaming.table_watch import Beginning
from common.streaming.topic_identity import TopicIdentity
from gold.table.context import Context as GoldContext
from orchestration.access.declaration import last_declaration
from orchestration.access.declaration.lineage import (
    in_data_order,
    others_read,
    read_tables,
    readers_of,
    sources,
    written_by,
)
from orchestration.access.history.stopped_queries import stopped_since
from orchestration.access.kafka.client import client_options, sink_options
from orchestration.access.progress.rows_read import streamed_tables
from orchestration.run import start_checks, trial
from orchestration.run.failures.table_failures import TableFailures, is_of_job
from orchestration.run.topic_checks import topic_identity
from silver.read.value_reader import strict_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")

_log = logging.getLogger("medallion.wiring")

_COLUMNS = {"columns", "value", "unknown_fields"}
"""The attributes of a silver table that give it its columns."""


def _of_table(declared: Table, error: SqlError) -> PipelineError:
    """The mistakes of a statement, with the table and where in its file each stands."""
    problems = []
    for each in (error, *error.also):
        fault = Fault(each.code, f"sql {each}")
        fault = declared.fault(each.code, fault, each.at) if isinstance(declared, View) else fault
        problems.append(Problem(declared.table, fault, source_of(declared)))
    return PipelineError(problems)


def _run_first(table: str) -> str:
    layer = table.partition(".")[0]
    return f"Run the {layer} job first: medallion run {layer}."


@dataclass(frozen=True)
class Wiring:
    """Builds the queries of a pipeline."""

    spark: SparkSession
    pipeline: Pipeline
    settings: Settings
    layout: Layout
    bootstrap_servers: str  # the broker's address; only bronze and publications to Kafka need one
    # The topics of each bronze table whose queries were built.
    topics: dict[str, TopicIdentity] = field(default_factory=dict)
    # What was judged of the queries that were not built since: a start refuses none of them any more. Each is
    # handed to the query's watches once; a later beginning is judged again.
    beginnings: dict[str, Beginning] = field(default_factory=dict)
    # Most records of a micro-batch of bronze, where a run reads slower than it could; the declaration and the
    # settings of a table stay what they are.
    most_records: int | None = None
    # What has failed in the job: a query that cannot be built is added, and the others are built. None: the
    # first one that cannot be built is raised.
    failures: TableFailures | None = None

    def streams(self, layer: Layer, *, only: str | None = None) -> Iterator[Stream | Unbuilt]:
        """The queries of one layer, or the one of a table; creates the tables that do not exist.

        With ``failures`` a query of silver or gold that cannot be built is ``Unbuilt``, and so are those that
        read its table.

        Raises:
            CheckpointMismatchError: A checkpoint and its table do not belong together.
            PipelineError: A declaration does not fit the data, or differs from the one under which its table
                was last written.
            TableShapeError: A table exists with other columns.
            TopicChangedError: A topic is gone, or is another one than bronze has read.
        """
        chosen = self._chosen([layer], only)
        if not self.beginnings.keys() >= {one.table for one in self._judgeable([layer], only)}:
            self.judge([layer], only=only)
        for topic in (one for one in chosen if isinstance(one, Topic)):
            self._identify(topic)
        for declared in chosen:
            beginning = self.beginnings.pop(declared.table, None)
            if not self._is_stopped(declared):
                yield self._built(declared, functools.partial(self._remembered, declared, beginning))

    def _built(self, declared: Table | Publish, build: Callable[[], Stream]) -> Stream | Unbuilt:
        """A query, or why it is not built; a failure that is no table's own is raised."""
        if self.failures is None or isinstance(declared, Bronze):
            return build()
        reads = sources(declared)
        unbuilt = Unbuilt(declared.table, reads, None, functools.partial(self._judged, declared, build))
        if self.failures.behind(reads) is not None:
            return unbuilt
        if (missing := self._missing(reads)) is not None:
            error = TableMissingError(missing, self.layout.table_path(missing), _run_first(missing))
            return replace(
                unbuilt, error=error, awaits=missing, is_there=lambda: self._missing(reads) is None
            )
        try:
            return build()
        except MedallionError as error:
            if is_of_job(error) or isinstance(declared, Publish):
                raise
            return replace(unbuilt, error=error)

    def _missing(self, reads: Sequence[str]) -> str | None:
        """The first of some tables that is not there; None where all are."""
        return next((one for one in reads if not delta_table.exists(self.layout.table_path(one))), None)

    def _judged(self, declared: Table | Publish, build: Callable[[], Stream]) -> Stream:
        """A query that begins later than the others, judged then."""
        if isinstance(declared, Publish):
            return build()
        self.judge([cast("Layer", declared.LAYER)], only=declared.table)
        return self._remembered(declared, self.beginnings.pop(declared.table, None))

    def _remembered(self, declared: Table, beginning: Beginning | None) -> Stream:
        """The query of one table, whose declaration is the one in force from now on."""
        stream = replace(self.stream(declared), beginning=beginning)
        last_declaration.remember(stream.checkpoint, declared, self.settings)
        return stream

    def judge(
        self, layers: Sequence[Layer], *, only: str | None = None, with_publications: bool = False
    ) -> None:
        """Refuse what a start of these layers, or of the query of one table, has to refuse; changes no table.

        An edited pipeline is built over empty copies of its tables: whether a table has the declared columns
        is known only with those of the tables before it. A text that Spark refuses is no refusal of the
        start, but an error of its table.

        Raises:
            CheckpointMismatchError: A checkpoint and its table do not belong together.
            ForeignChangeError: Another program has changed a table that a query reads.
            PipelineError: A declaration does not fit the data, or differs from the one under which its table
                was last written.
            TableShapeError: A table exists with other columns.
        """
        self._look_up(self._chosen(layers, only))
        chosen, context = list(self._judgeable(layers, only)), self._context
        publish = self.pipeline.publish if with_publications else ()
        with start_checks.nothing_changed_if_refused() as torn:
            judged = start_checks.check_all(context, chosen, publish, torn)
            last = {table: one.last for table, one in judged.items()}
            for each in (*chosen, *publish):
                self._check_sources(each)
            if any(self._may_change(declared) for declared in chosen):
                with trial.copies(self.spark, self.pipeline, self.layout) as copies:
                    self._build_over(copies, chosen, last, publish)
            else:
                for declared in chosen:
                    start_checks.check_declaration(context, declared, last[declared.table])
        self.beginnings.update((table, one.beginning) for table, one in judged.items())

    def _look_up(self, chosen: Iterable[Table]) -> None:
        """Find the folders of the tables that catalogs name, as they are now."""
        read = (table for each in chosen for table in others_read(each) if is_in_catalog(table))
        for name in dict.fromkeys(read):
            look_up(self.spark, self.settings.catalog, self.layout, name)

    def _judgeable(self, layers: Sequence[Layer], only: str | None) -> Iterator[Table]:
        """The tables that can be judged now: all but those that hang on tables of other jobs which are not
        there yet.
        """
        own = {name for one in self._chosen(layers, only) for name in written_by(one)}
        absent = set[str]()
        for declared in self._chosen(layers, only):
            reads = () if isinstance(declared, Bronze) else sources(declared)
            others = [table for table in reads if table not in own]
            if self.failures is None or (absent.isdisjoint(reads) and self._missing(others) is None):
                yield declared
            else:
                absent.update(written_by(declared))

    def _build_over(
        self,
        copies: Layout,
        chosen: Sequence[Table],
        last: Mapping[str, start_checks.LastCommit | None],
        publish: Sequence[Publish],
    ) -> None:
        """Build queries over copies of the tables, each followed by the check of its declaration.

        Args:
            chosen: The declarations, in the order of data flow.
            last: The newest commit of each table by its query.
        """
        wiring = replace(self, layout=copies, topics={}, beginnings={})
        failures, edited = TableFailures.of(self.pipeline), set[str]()
        for declared in chosen:
            reads = () if isinstance(declared, Bronze) else sources(declared)
            if failures.behind(reads) is not None:
                failures.waits[declared.table] = declared.table
                continue
            if self._may_change(declared) or not edited.isdisjoint(reads):
                edited.update(written_by(declared))
            try:
                if not isinstance(declared, Bronze):
                    wiring.stream(declared)
            except MedallionError as error:
                is_refusal = isinstance(error, TableError) and declared.table in edited
                if self.failures is None or is_of_job(error) or is_refusal:
                    raise
                failures.failed(declared.table, error)
                continue
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
            gold.source.foreign_appends.check_appends(self._context, declared)

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

    def publications(self, only: str | None = None) -> Iterator[Stream | Unbuilt]:
        """The queries that publish rows, or the one of a name; the tables that they read must exist.

        With ``failures`` one that reads a table that has failed, or that is not there, is ``Unbuilt``.

        Raises:
            CheckpointMismatchError: The history of the table is another one than was published.
            PipelineError: A declaration does not fit the table that it reads.
            TableShapeError: A publication needs the change data feed of a table that keeps none.
        """
        for declared in self.pipeline.publish:
            if only not in {None, declared.table} or self._is_stopped(declared):
                continue
            yield self._built(declared, functools.partial(self._published, declared))

    def _published(self, declared: Publish) -> Stream:
        """The query of one publication, whose declaration is the one in force from now on."""
        beginning = start_checks.check_publication(self._context, declared).beginning
        stream = replace(self.publication(declared), beginning=beginning)
        last_declaration.remember(stream.checkpoint, declared, self.settings)
        return stream

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
        reads = read_tables(declared) if isinstance(declared, Silver | View | Custom) else (declared.reads,)
        found = (LogReader(self._context.path(table)).snapshot() for table in reads)
        return any(one is not None and one.rows != 0 for one in found)

    def tables(self, layer: Layer) -> Sequence[Table]:
        """The tables of one layer, in the order of data flow."""
        tables: dict[Layer, Sequence[Table]] = {
            "bronze": self.pipeline.bronze,
            "silver": self.pipeline.silver,
            "gold": in_data_order(self.pipeline.gold),
        }
        return tables[layer]

    @property
    def _context(self) -> GoldContext:
        return GoldContext(self.spark, self.pipeline, self.settings, self.layout)

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
            MedallionError: It cannot be built, as below, or by whatever a library raises.
            PipelineError: The declaration does not fit the data.
            StatementRefusedError: Spark refuses its statement, an expression or an option.
            TableShapeError: A table exists with other columns.
        """
        reads = () if isinstance(declared, Bronze) else sources(declared)
        beside = declared.side_tables
        texts, declared_at = texts_of(declared), source_of(declared)
        try:
            stream, is_awaited = self._build(declared), self._is_awaited(declared)
        except SqlError as error:
            raise _of_table(declared, error) from error
        except (MedallionError, OSError):
            raise
        except Exception as error:
            name, checkpoint = declared.table, self.layout.checkpoint_path(declared.table)
            if not isinstance(error, PySparkException | Py4JError):
                _log.exception("%s cannot be built", name)
            described = FailedQuery(name, reads, beside, checkpoint, texts=texts, declared_at=declared_at)
            raise failure_of(name, error, described=described) from error
        return replace(
            stream,
            reads=reads,
            beside=beside,
            paths=tuple(self.layout.table_path(table) for table in (declared.table, *beside)),
            streamed=streamed_tables(self.layout, declared),
            again=functools.partial(self._again, declared),
            is_awaited=is_awaited,
            texts=texts,
            declared_at=declared_at,
            changes=declared.changes if isinstance(declared, DeltaTable) else "",
        )

    def _again(self, declared: Table | Publish) -> Stream:
        """The query, judged and built again: it was stopped, has failed, or its source was away.

        Raises:
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
        if not isinstance(declared, Gold | Publish):
            return False
        return gold.source.start.is_awaited(self._context, declared) or self._is_refilled_after(declared)

    def _is_refilled_after(self, declared: Gold | Publish) -> bool:
        """Whether a gold table is filled again, and one that it reads is too, maybe with other columns."""
        if isinstance(declared, Publish) or not self._begins(declared.table):
            return False
        known = {one.table for one in self.pipeline.gold}
        return any(self._begins(one) and self._missing([one]) is None for one in known & {*sources(declared)})

    def _begins(self, query: str) -> bool:
        """Whether the next micro-batch of a query is its first one, and its table has rows of another."""
        found = LogReader(self.layout.table_path(query)).snapshot()
        begins = Checkpoint(self.layout.checkpoint_path(query)).last_committed() is None
        return begins and found is not None and found.rows != 0

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
