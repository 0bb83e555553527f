"""The datasets of each query of a pipeline: what it reads and writes, with columns and their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from common.config.paths import Layout
from common.declare import (
    Aggregate,
    DeltaTable,
    Files,
    FileSink,
    Gold,
    KafkaSink,
    Pipeline,
    Publish,
    Silver,
    Stateful,
    Stream,
    Topic,
)
from orchestration.observe.lineage.gold_sources import of_gold
from orchestration.observe.lineage.names import DatasetName, table_name, topic_name
from orchestration.observe.lineage.sources import (
    KAFKA,
    ColumnSources,
    Source,
    in_table,
    of_bronze,
    of_quarantine,
    of_silver,
    of_sql,
    once,
)

Columns = Callable[[str], Mapping[str, str]]
"""Column -> type of a table; empty while there is no table."""

_KAFKA_TYPES = dict(
    zip(
        KAFKA,
        (
            "string",
            "integer",
            "long",
            "timestamp",
            "integer",
            "binary",
            "binary",
            "array<struct<key:string,value:binary>>",
        ),
        strict=True,
    )
)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table or a topic."""

    table: str  # the table of the pipeline; empty for a topic, and for a table by its path
    name: DatasetName  # its name in events
    columns: Mapping[str, str]  # column -> type; empty if it is not known yet
    sources: ColumnSources | None = None  # what the columns come from; None for what a query reads


@dataclass(frozen=True, slots=True)
class QueryDatasets:
    """What one query reads and writes."""

    inputs: tuple[Dataset, ...]  # what it reads
    outputs: tuple[Dataset, ...]  # what it writes: first the table of its own name, then its side tables
    # The datasets that a source of a column may name, by ``Source.table``.
    names: Mapping[str, tuple[DatasetName, ...]]


class Datasets:
    """Describes the datasets of the queries of one job.

    Args:
        columns: The columns that a table has now.
    """

    def __init__(self, pipeline: Pipeline, layout: Layout, bootstrap_servers: str, columns: Columns) -> None:
        self._pipeline, self._layout = pipeline, layout
        self._servers, self._columns = bootstrap_servers, columns

    def of(self, query: str, topics: Sequence[str] = ()) -> QueryDatasets:
        """The datasets of a query, as its tables are now.

        Args:
            topics: The topics that it has read, for a query whose topics are a pattern.
        """
        declared = self._pipeline.query(query)
        if isinstance(declared, Topic):
            return self._of_topic(declared, declared.topic_names or topics)
        if isinstance(declared, Files | DeltaTable):
            return self._of_folder(declared)
        if isinstance(declared, Stream):
            return QueryDatasets((), (self._without_columns(declared),), {})
        if isinstance(declared, Publish):
            return self._of_publish(declared)
        reads = [*declared.sources]
        if isinstance(declared, Stateful) and declared.initial is not None:
            reads.append(declared.initial)
        if isinstance(declared, Silver):
            reads += [lookup.table for lookup in declared.lookups]
        written = (declared.table, *declared.side_tables)
        known = {name: self._columns(self._path(name)) for name in dict.fromkeys((*written, *reads))}
        names = {name: tuple(columns) for name, columns in known.items()}
        outputs = tuple(
            Dataset(name, self._name(name), known[name], _sources(declared, name, names)) for name in written
        )
        inputs = tuple(self._input(name, known[name]) for name in dict.fromkeys(reads))
        return QueryDatasets(inputs, outputs, {name: (self._name(name),) for name in known})

    def _of_topic(self, topic: Topic, names: Sequence[str]) -> QueryDatasets:
        found = tuple(topic_name(self._servers, name) for name in names)
        columns = self._columns(self._path(topic.table))
        output = Dataset(topic.table, self._name(topic.table), columns, of_bronze(tuple(columns)))
        inputs = tuple(Dataset("", name, _KAFKA_TYPES) for name in found)
        return QueryDatasets(inputs, (output,), {"topic": found})

    def _of_folder(self, source: Files | DeltaTable) -> QueryDatasets:
        folder = self._layout.table_path(source.reads) if isinstance(source, DeltaTable) else source.folder
        known = self._columns(folder) if isinstance(source, DeltaTable) else {}
        return QueryDatasets((Dataset("", table_name(folder), known),), (self._without_columns(source),), {})

    def _without_columns(self, source: Files | DeltaTable | Stream) -> Dataset:
        columns = self._columns(self._path(source.table))
        return Dataset(source.table, self._name(source.table), columns, None)

    def _of_publish(self, publish: Publish) -> QueryDatasets:
        columns = self._columns(self._path(publish.reads))
        outputs: tuple[Dataset, ...] = ()
        if isinstance(publish.to, KafkaSink):
            servers = publish.to.kafka.get("bootstrap.servers", self._servers)
            sources = _message(publish, publish.to, tuple(columns))
            types = dict.fromkeys(sources.columns, "string")
            outputs = (Dataset("", topic_name(servers, publish.to.topic), types, sources),)
        elif isinstance(publish.to, FileSink):
            outputs = (Dataset("", table_name(publish.to.folder), {}),)
        names = {publish.reads: (self._name(publish.reads),)}
        return QueryDatasets((self._input(publish.reads, columns),), outputs, names)

    def _input(self, table: str, columns: Mapping[str, str]) -> Dataset:
        return Dataset(table if _is_own(table) else "", self._name(table), columns)

    def _path(self, table: str) -> str:
        return self._layout.table_path(table)

    def _name(self, table: str) -> DatasetName:
        return table_name(self._path(table))


def _is_own(table: str) -> bool:
    """Whether a text is the name of a table of the pipeline, not a path."""
    return table.startswith(("bronze.", "silver.", "gold.")) and "/" not in table


def _sources(declared: Silver | Gold, table: str, names: Mapping[str, Sequence[str]]) -> ColumnSources:
    own = names[table]
    if not isinstance(declared, Silver):
        found = of_gold(declared, table, names)
        # A table that changed its columns has those of the declaration after the next micro-batch.
        is_partial = own and not isinstance(declared, Aggregate)
        return (
            ColumnSources({name: found.columns.get(name, ()) for name in own}, found.rows)
            if is_partial
            else found
        )
    bronze = names[declared.sources[0]]
    if table == declared.quarantine:
        return of_quarantine(declared, own, bronze)
    if table == declared.table and not own and not callable(declared.columns):
        own = tuple(declared.columns)
    return of_silver(declared, own, bronze, names)


def _message(publish: Publish, sink: KafkaSink, columns: Sequence[str]) -> ColumnSources:
    """The sources of a message: its key, and its value, which is by default the row as JSON."""
    resolve = in_table(publish.reads, columns)
    kept = publish.columns
    texts = kept.values() if isinstance(kept, Mapping) else [f"`{name}`" for name in kept or columns]
    found = [source for sql in texts for source in of_sql(sql, resolve)]
    whole = once([Source(each.table, each.column, "TRANSFORMATION") for each in found])
    value = of_sql(sink.value, resolve) if isinstance(sink.value, str) else whole
    key = (
        {} if sink.key is None else {"key": of_sql(sink.key, resolve) if isinstance(sink.key, str) else whole}
    )
    rows = () if publish.where is None else of_sql(publish.where, resolve, "FILTER")
    return ColumnSources({**key, "value": value}, rows)
