"""Gold tables that a user's own function writes: it gets the batch's rows and a ``Writer``.

The function may do what it likes with the rows; each write goes through the ``Writer``, which makes it
happen once however often Spark replays the batch. Afterwards each of the tables has a commit of the batch, an
empty one where nothing was written, by which a start recognises the checkpoint that belongs to the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from common.declare import Custom, Reading
from common.declare.declared import source_of
from common.delta import table as delta
from common.delta import user_writes
from common.delta.log import LogReader
from common.delta.match.checkpoint_match import last_commit_metadata
from common.delta.micro_batch import MicroBatch
from common.errors import PipelineError, Problem, QueryFailedError, nearest
from common.rows.spark_rows import SparkRows
from common.streaming.query import Stream
from gold.source.stream import at_version, batch_rows, keeps_feed, stream
from gold.table import create
from gold.table.context import Context

if TYPE_CHECKING:
    from delta.tables import DeltaTable

MARK = "mark"
"""The step of the commit of a batch that wrote nothing into the table."""


class Writer:
    """Writes the tables of a user's own function, in one micro-batch.

    A write is named by its table and its step, and happens once per micro-batch: a second write into one
    table needs a step of its own, and keeps it from batch to batch.

    Attributes:
        spark: The session of the batch; frames that are not derived from its rows are created with this one.
        batch_id: Counts from 0; a replay has the same one.
    """

    def __init__(self, context: Context, gold: Custom, batch: MicroBatch, spark: SparkSession) -> None:
        self._context, self._gold, self._batch = context, gold, batch
        self._done: set[tuple[str, str]] = set()
        self._open = ""
        self._versions = {name: LogReader(self.path(name)).latest_version() or 0 for name in gold.tables}
        self.spark = spark
        self.batch_id = batch.batch_id

    @property
    def source_version(self) -> int | None:
        """The newest version of the source whose rows the batch has."""
        return self._batch.source_version()

    def path(self, table: str) -> str:
        """The path of one of its tables, by the name that it is declared with.

        Raises:
            PipelineError: There is none of that name.
        """
        if table not in self._gold.tables:
            raise self._problem(f"{table!r} is none of its tables; {nearest(table, self._gold.tables)}")
        return self._context.path(f"gold.{table}")

    def source(self, table: str) -> DataFrame:
        """The rows of a table that the query reads, at the version up to which the micro-batch has read it.

        Raises:
            PipelineError: It reads none of that name.
        """
        tables = (self._gold.reads, *self._gold.also_reads)
        if table not in tables:
            text = f"{table!r} is in neither reads nor also_reads; {nearest(table, tables)}"
            raise self._problem(text)
        version = self._batch.source_version(tables.index(table))
        return at_version(self.spark, self._context.path(table), version)

    def read(self, table: str) -> DataFrame:
        """The current rows of one of its tables."""
        return self.spark.read.format("delta").load(self.path(table))

    def delta_table(self, table: str) -> DeltaTable:
        """One of its tables, for Delta's own API; what writes goes inside ``once``."""
        from delta.tables import DeltaTable

        return DeltaTable.forPath(self.spark, self.path(table))

    def append(self, frame: DataFrame, table: str, *, step: str = "append") -> None:
        """Add rows."""
        with self.once(table, step):
            user_writes.write_frame(frame, self.path(table), "append")

    def overwrite(self, frame: DataFrame, table: str, *, step: str = "overwrite") -> None:
        """Replace all rows of the table."""
        with self.once(table, step):
            user_writes.write_frame(frame, self.path(table), "overwrite")

    def merge(  # noqa: PLR0913  # a merge has this many parts
        self,
        frame: DataFrame,
        table: str,
        *,
        on: Sequence[str],
        update_when: str | None = None,
        delete_when: str | None = None,
        step: str = "merge",
    ) -> None:
        """Insert rows with a new key, replace those whose key exists; equal rows are not written again.

        Args:
            frame: At most one row per key; has the table's columns, and may have others.
            on: The key; null is a key.
            update_when: SQL text over the table's row ``t`` and the frame's ``s``, such as
                ``s.version > t.version``: which rows are replaced.
            delete_when: SQL text over ``s``: where it is true the table has no row of that key.
            step: Which write of the batch this is.
        """
        with self.once(table, step):
            user_writes.merge(
                frame, self.path(table), on=on, update_when=update_when, delete_when=delete_when
            )

    def sql(self, text: str, table: str, *, step: str = "sql", **frames: DataFrame) -> None:
        """Run one SQL statement that writes a table.

        Args:
            text: In it ``{name}`` is one of its tables, or one of ``frames``; other braces are doubled.
            step: Which write of the batch this is.
        """
        with self.once(table, step):
            names = {name: f"delta.`{self.path(name).replace('`', '``')}`" for name in self._gold.tables}
            views = {name: f"__custom_{name}" for name in frames}
            try:
                for name, frame in frames.items():
                    frame.createOrReplaceTempView(views[name])
                self.spark.sql(self._filled(text, names | views))
            finally:
                for view in views.values():
                    self.spark.catalog.dropTempView(view)

    @contextmanager
    def once(self, table: str, step: str) -> Iterator[None]:
        """The one Delta write in the block happens once, whether DataFrame, SQL or ``DeltaTable`` does it.

        It must use the batch's own session: frames derived from its rows, or created with ``spark``.

        Raises:
            PipelineError: The batch has used this step for this table, or another ``once`` is open.
        """
        self.path(table)
        if self._open:
            raise self._problem(f"once({table!r}, {step!r}) is inside of {self._open}; end that one first")
        if (table, step) in self._done:
            raise self._problem(
                f"writes {table!r} twice as step {step!r} in one micro-batch; Delta would skip the second: "
                'give it a step of its own: step="…"'
            )
        self._done.add((table, step))
        self._open = f"once({table!r}, {step!r})"
        batch = self._batch
        application = f"{batch.pipeline}/{batch.query}/{table}/{step}/{batch.query_id}"
        try:
            with user_writes.idempotent_write(
                self.spark, application, batch.batch_id, batch.metadata(step, {})
            ):
                yield
        finally:
            self._open = ""

    def finish(self) -> None:
        """Commit the batch to every table, without rows where the function wrote none.

        Raises:
            QueryFailedError: A table was written outside of ``once``: a replay would write it again.
        """
        for name in self._gold.tables:
            path = self.path(name)
            self._refuse_others(name, path)
            last = last_commit_metadata(path, self._batch.query)
            if last is None or (last["query_id"], last["batch_id"]) != (self._batch.query_id, self.batch_id):
                delta.append(self.read(name).limit(0), path, self._batch, MARK, {})

    def _refuse_others(self, name: str, path: str) -> None:
        for commit in LogReader(path).commits(self._versions[name] + 1):
            metadata = commit.metadata
            is_own = (metadata.get("query_id"), metadata.get("batch_id")) == (
                self._batch.query_id,
                self.batch_id,
            )
            if (commit.added or commit.removed) and not is_own:
                before = commit.version - 1
                raise QueryFailedError(
                    self._gold.table,
                    f"its function wrote version {commit.version} of gold.{name} outside of once(…), or by "
                    "another session than the batch's: a replay would write that again. Write through the "
                    f"Writer, and take back what was written: RESTORE TABLE delta.`{path}` TO VERSION AS OF "
                    f"{before}",
                )

    def _filled(self, text: str, names: dict[str, str]) -> str:
        try:
            return text.format_map(names)
        except KeyError as error:
            word = str(error.args[0])
            raise self._problem(
                f"SQL names {{{word}}}, which is neither a table nor a frame; {nearest(word, names)}"
            ) from error
        except (ValueError, IndexError) as error:
            raise self._problem(f"SQL has a brace that names nothing ({error}); double it") from error

    def _problem(self, text: str) -> PipelineError:
        return PipelineError([Problem(self._gold.table, text, source_of(self._gold))])


def build_query(context: Context, gold: Custom) -> Stream:
    """The query of one function; creates its tables where there are none.

    Raises:
        TableShapeError: A table exists with other columns.
    """
    for name, ddl in gold.tables.items():
        create.ensure(context, f"gold.{name}", cast("StructType", StructType.fromDDL(ddl)), gold.storage)

    def write(rows: SparkRows, batch: MicroBatch) -> None:
        writer = Writer(context, gold, batch, rows.session)
        try:
            gold.write(rows.frame, writer)
        finally:
            # Transaction ids that the function itself has set and left behind.
            user_writes.clear_transaction_ids(rows.session)
        writer.finish()

    rows = batch_rows(context, gold)
    for table in gold.also_reads:
        # Of the other tables a micro-batch has the positions alone.
        path = context.path(table)
        other = stream(context, gold, path, Reading(), feed=keeps_feed(context, path)).where(F.lit(False))
        nulls = (F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema)
        rows = rows.unionByName(other.select(*nulls))
    return context.query(gold, rows, write)
