"""Declaration and settings made into streams; nothing else constructs them.

Tables are made in data order, because a stream's columns come from the table it reads. A job of one
layer alone waits until the layer before it has made its tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import bronze.query
import gold.publish
import gold.query
import silver.query
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Custom, KafkaSink, Pipeline, Publish, Silver, Table, Topic
from common.declare.declared import source_of
from common.delta import delta_rs
from common.delta import table as delta_table
from common.delta.checkpoint import Checkpoint
from common.delta.checkpoint_match import check_identity, check_side_table
from common.delta.log import LogReader
from common.errors import PipelineError, Problem, TableMissingError
from common.machine.console import say
from common.spark.session_conf import SHUFFLE_PARTITIONS
from common.streaming.query import Stream
from orchestration.kafka.client import client_options, sink_options
from orchestration.pipeline.lineage import in_data_order, sources, written
from orchestration.pipeline.state_partitions import other_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = ("bronze", "silver", "gold")


@dataclass(frozen=True)
class Wiring:
    """Everything a stream is built from.

    Attributes:
        bootstrap_servers: The broker in force; only bronze and publications to Kafka need one.
    """

    spark: SparkSession
    pipeline: Pipeline
    settings: Settings
    layout: Layout
    bootstrap_servers: str

    def streams(self, layer: Layer) -> Iterator[Stream]:
        """The streams of one layer; makes their tables where there are none.

        Raises:
            CheckpointMismatchError: A checkpoint and its table do not belong together.
            PipelineError: A declaration does not fit the data, or means something else than when its table
                was last written.
            TableShapeError: A table exists with other columns.
        """
        # Before anything is made: a new empty table would stand in the way of the one to be restored.
        told = {}
        for declared in self._tables(layer):
            self._mend(declared)
            told[declared.table] = self._check(declared)
            self._tell_of_a_lack(declared)
            self._tell_of_partitions(declared)
        for declared in self._tables(layer):
            stream = self._stream(declared)
            self._check_meaning(declared, told[declared.table], stream.declared)
            yield stream

    def publications(self) -> Iterator[Stream]:
        """The queries that send rows on; the tables that they read must be there.

        Raises:
            PipelineError: A declaration does not fit the table it reads.
            TableShapeError: A table keeps no change data feed, and it is to be read.
        """
        for declared in self.pipeline.publish:
            yield self._publication(declared)

    def await_sources(
        self, layers: Sequence[Layer], *, wait: bool, stopping: Callable[[], bool]
    ) -> Iterator[str]:
        """Wait for the tables these layers read and do not make themselves; yields each while it waits.

        Raises:
            TableMissingError: One is missing and ``wait`` is false.
        """
        for table in self._sources(layers):
            path = self.layout.table_path(table)
            told = False
            while not delta_table.exists(path) and not stopping():
                if not wait:
                    layer = table.partition(".")[0]
                    raise TableMissingError(table, path, f"Run the {layer} job first: medallion run {layer}.")
                if not told:
                    yield table
                    told = True
                time.sleep(0.5)

    def has_begun(self, stream: Stream) -> bool:
        """Whether there is anything for a stream to read, or it has read already.

        A query that is started over an empty table does a whole micro-batch of nothing, and its
        commit sets the next layer going: on a small machine the first rows then wait for that.
        """
        declared = self.pipeline.query(stream.name)
        if isinstance(declared, Topic) or Checkpoint(stream.checkpoint).exists():
            return True
        found = LogReader(self.layout.table_path(declared.reads)).snapshot()
        return found is not None and found.rows != 0

    def _sources(self, layers: Sequence[Layer]) -> list[str]:
        reads: list[str] = []
        if "silver" in layers and "bronze" not in layers:
            reads += [table.reads for table in self.pipeline.silver]
        if "gold" in layers and "silver" not in layers:
            made = {name for table in self.pipeline.gold for name in written(table)}
            reads += [name for table in self.pipeline.gold for name in sources(table) if name not in made]
            reads += [one.reads for one in self.pipeline.publish if one.reads.startswith("silver.")]
        return sorted(set(reads))

    def _tables(self, layer: Layer) -> Sequence[Table]:
        tables: dict[Layer, Sequence[Table]] = {
            "bronze": self.pipeline.bronze,
            "silver": self.pipeline.silver,
            "gold": in_data_order(self.pipeline.gold),
        }
        return tables[layer]

    def _mend(self, declared: Table) -> None:
        """Take back what a power cut has left of the newest commits."""
        checkpoint = Checkpoint(self.layout.checkpoint_path(declared.table))
        query_id, counted = checkpoint.query_id(), checkpoint.last_committed()
        for table in (declared.table, *declared.side_tables):
            delta_rs.roll_back_torn_commit(self.layout.table_path(table), query_id, counted)

    def _check(self, declared: Table) -> Mapping[str, Any] | None:
        """Refuse a checkpoint that is not the tables'; gives what ``check_identity`` gives."""
        checkpoint = self.layout.checkpoint_path(declared.table)
        anew = not isinstance(declared, Topic | Silver | Custom)
        last = check_identity(
            declared.table, self.layout.table_path(declared.table), checkpoint, may_begin_anew=anew
        )
        for beside in declared.side_tables:
            path = self.layout.table_path(beside)
            check_side_table(beside, path, checkpoint, declared.table)
            if isinstance(declared, Custom):
                # Each of them has a commit of every micro-batch, and none can be made anew.
                check_identity(beside, path, checkpoint, query=declared.table)
        return last

    def _check_meaning(
        self, declared: Table, last: Mapping[str, Any] | None, marks: Mapping[str, str]
    ) -> None:
        """Refuse to go on where rows that are there were made by another declaration.

        Told after a change of columns, which filling the table anew does not mend.
        """
        table = declared.table
        if last is None or "declared" not in last or table in self.settings.gold.accept_changed:
            return
        if differs := gold.query.changed_attributes(last["declared"], marks):
            text = (
                "declared otherwise than when the table was last written: rows that no new event touches "
                f"would stay as they were. Fill it anew: medallion rebuild {table}; or put back what was "
                f"declared; or go on with the rows as they are: --set 'gold.accept_changed=[\"{table}\"]'"
            )
            place = f"{table}, {' and '.join(differs)}"
            raise PipelineError([Problem(place, text, source_of(declared))])

    def _tell_of_a_lack(self, declared: Table) -> None:
        if isinstance(declared, Topic | Silver):
            return
        if (warning := gold.query.missing_feed_warning(self._context, declared)) is not None:
            say(warning)

    def _tell_of_partitions(self, declared: Table) -> None:
        if isinstance(declared, Topic):
            return
        checkpoint = Checkpoint(self.layout.checkpoint_path(declared.table))
        wanted = int(str(self.spark.conf.get(SHUFFLE_PARTITIONS)))
        if (told := other_partitions(declared, checkpoint, wanted)) is not None:
            say(told)

    @property
    def _context(self) -> gold.query.Context:
        return gold.query.Context(self.spark, self.pipeline, self.settings, self.layout)

    def _publication(self, declared: Publish) -> Stream:
        client: dict[str, str] = {}
        if isinstance(declared.to, KafkaSink):
            client = sink_options(self.settings, self.pipeline, declared.to, self.bootstrap_servers)
        made = gold.publish.build_query(self._context, declared, client)
        return replace(made, reads=(declared.reads,), again=lambda: self._publication(declared))

    def _stream(self, declared: Table) -> Stream:
        reads = () if isinstance(declared, Topic) else sources(declared)
        made = self._build(declared)
        return replace(made, reads=reads, beside=declared.side_tables, again=lambda: self._stream(declared))

    def _build(self, declared: Table) -> Stream:
        name, settings, layout = self.pipeline.name, self.settings, self.layout
        if isinstance(declared, Topic):
            client = client_options(settings, self.pipeline, declared)
            return bronze.query.build_query(
                self.spark,
                name,
                declared,
                settings=settings,
                layout=layout,
                bootstrap_servers=self.bootstrap_servers,
                client=client,
            )
        if isinstance(declared, Silver):
            return silver.query.build_query(self.spark, name, declared, settings=settings, layout=layout)
        return gold.query.build_query(self._context, declared)
