"""Runs one case: bronze from its records, then what the pipeline's queries do, then the rows of its tables.

The queries are those of a job, built by the same wiring; only bronze is written without a broker. Only the
queries run that write an expected table, or a table that such a query reads. Each micro-batch of the case is
one commit of bronze, and the queries read one commit per micro-batch.

Gold tables follow the cuts: a micro-batch of silver is followed by those of the gold tables that read it, so
that a lookup finds what is there at the cut. Only kinds that keep state in Spark run at the end, commit by
commit.

A streaming query costs a second of CPU however few its rows are. So silver is written from rows that were
judged for many cases at once (``orchestration.author.cases.judge_together``), and gold tables without state
by their queries' own writers (``gold.without_stream``). All others are streaming queries. Tests run the same
cases both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, cast

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Gold, Pipeline, Silver
from common.declare.declared import copy_with
from common.delta import table as delta_table
from common.errors import CaseError, MedallionError, Problem, SourceChangedError
from common.streaming.query import Gate, Stream, failure_of, start
from orchestration.access.declaration.lineage import in_data_order, readers_of, sources, written_by
from orchestration.author.cases.bronze_rows import bronze_batches, create_bronze, write_bronze, write_lookup
from orchestration.author.cases.compare import Difference, compare
from orchestration.author.cases.read.case import Case
from orchestration.author.cases.tables import query_of
from orchestration.run.wiring import Wiring

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from common.schema.ddl import Field


class SilverWriter(Protocol):
    """Writes the silver tables of a case from judged rows, as the streaming query does."""

    def begin(self, spark: SparkSession, layout: Layout) -> Callable[[range], None]:
        """Create the tables of one silver query; returns what writes the case's next micro-batches."""


class GoldWriter(Protocol):
    """Writes what the sources of a gold table got since its last micro-batch."""

    def __call__(self, *, is_last: bool = False) -> None:
        """Write the micro-batch; ``is_last``: also a first one without rows."""


JudgedTables = Mapping[str, SilverWriter]
"""What was judged of a case, by silver table: all silver tables that the case needs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case."""

    case: Case
    differences: tuple[Difference, ...] = ()  # what differs, per table; none if the case passed
    error: MedallionError | None = None  # the error that ended the case before its tables could be compared
    seconds: float = 0.0  # how long the case took

    @property
    def has_passed(self) -> bool:
        """Whether every table has the expected rows."""
        return not self.differences and self.error is None


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a table as plain values."""

    fields: tuple[Field, ...]  # the columns
    rows: tuple[Mapping[str, Any], ...]


def run_case(  # noqa: PLR0913, PLR0917
    spark: SparkSession,
    case: Case,
    pipeline: Pipeline,
    settings: Settings,
    folder: Path,
    judged: JudgedTables | None = None,
) -> Outcome:
    """Run a case and compare its tables.

    Args:
        spark: A session in which no other case runs: two queries of one session cannot have the same name.
        settings: The user's settings; only what concerns values and Spark is used.
        folder: An empty folder of the case's own for tables and checkpoints.
        judged: What was judged of the case; None: its queries are streaming queries, all of them.
    """
    began = monotonic()
    try:
        tables = run_tables(spark, case, tuple(case.expect), pipeline, settings, folder, judged)
    except MedallionError as error:
        return Outcome(case, error=error, seconds=monotonic() - began)
    except Exception as error:  # noqa: BLE001
        # What Spark refuses while a query is built, or a row that Python cannot read; another case may pass.
        failure = failure_of(f"case {case.name!r}", error)
        return Outcome(case, error=failure, seconds=monotonic() - began)
    found = (
        compare(name, expected, tables[name].fields, tables[name].rows)
        for name, expected in case.expect.items()
    )
    differences = tuple(each for each in found if each is not None)
    return Outcome(case, differences, seconds=monotonic() - began)


def run_tables(  # noqa: PLR0913, PLR0917
    spark: SparkSession,
    case: Case,
    tables: Sequence[str],
    pipeline: Pipeline,
    settings: Settings,
    folder: Path,
    judged: JudgedTables | None = None,
) -> Mapping[str, TableRows]:
    """The rows of tables after the records of a case; the arguments are those of ``run_case``.

    Raises:
        CaseError: The case does not fit the pipeline.
        MedallionError: A query failed.
    """
    settings = bounded_settings(settings, folder)
    needed = pruned(pipeline, tables)
    layout, batches = Layout.of(pipeline, settings), bronze_batches(case, pipeline) or ({},)
    create_bronze(pipeline, layout)
    if judged is None:
        for silver in needed.silver:
            refuse_own_lookups(silver, case)
        needed = copy_with(needed, silver=[with_lookups(one, case, folder) for one in needed.silver])
    queries = _Queries(spark, Wiring(spark, needed, settings, layout, ""), pipeline, judged)
    silver_writers, followers = queries.silver_writers(), queries.gold_writers()
    parts = range(len(batches))
    for cut in [range(part, part + 1) for part in parts] if followers else [parts]:
        for part in cut:
            write_bronze(batches[part], pipeline, layout)
        for write in silver_writers:
            write(cut)
        for follow in followers:
            follow(is_last=cut.stop == parts.stop)
    queries.run_others()
    return {name: _rows(layout.table_path(name)) for name in tables}


@dataclass(frozen=True)
class _Queries:
    """The queries of a case.

    A gold table that keeps rows or groups in Spark's state reads its sources commit by commit: its query runs
    once, at the end. All others follow the cuts: they see of every table what is there at the cut. So does
    what they read.
    """

    spark: SparkSession
    wiring: Wiring  # builds the queries, of the tables that the case needs
    pipeline: Pipeline  # the whole pipeline
    judged: JudgedTables | None  # what was judged of the case; None: all queries are streaming queries

    @cached_property
    def followers(self) -> Sequence[Gold]:
        """The gold tables that follow the cuts, each after those that it reads."""
        found: list[Gold] = []
        for gold in reversed(in_data_order(self.wiring.pipeline.gold)):
            is_read = any(set(written_by(gold)).intersection(sources(each)) for each in found)
            if is_read or not gold.keeps_state:
                found.insert(0, gold)
        return found

    def silver_writers(self) -> list[Callable[[range], None]]:
        """Per silver table what writes micro-batches of the case, whose rows bronze has; the tables exist."""
        if self.judged is None:
            return [self._silver_stream(silver) for silver in self.wiring.pipeline.silver]
        layout = self.wiring.layout
        return [self.judged[silver.table].begin(self.spark, layout) for silver in self.wiring.pipeline.silver]

    def gold_writers(self) -> list[GoldWriter]:
        """Per gold table that follows the cuts what writes its next micro-batches."""
        from gold.table.context import Context
        from gold.without_stream import MicroBatches, needs_stream

        wiring, writers = self.wiring, list[GoldWriter]()
        context = Context(self.spark, wiring.pipeline, wiring.settings, wiring.layout)
        # A column that is added meanwhile restarts a query, which only the query itself does.
        has_new_columns = any(silver.unknown_fields == "evolve" for silver in wiring.pipeline.silver)
        for gold in self.followers:
            if self.judged is None or has_new_columns or needs_stream(gold):
                writers.append(self._gold_stream(gold))
            else:
                writers.append(MicroBatches(context, gold).write_next)
        return writers

    def run_others(self) -> None:
        """Run the queries of the other gold tables over all commits of their sources."""
        for gold in in_data_order(self.wiring.pipeline.gold):
            if gold not in self.followers:
                self._gold_stream(gold)(is_last=True)

    def _silver_stream(self, silver: Silver) -> Callable[[range], None]:
        """The query of a silver table; all tables that read its topic decide which records are its own."""
        from silver.query import build_query

        readers = readers_of(self.pipeline, silver)
        wiring = self.wiring

        def write(_: range) -> None:
            stream = build_query(
                self.spark,
                self.pipeline.name,
                silver,
                settings=wiring.settings,
                layout=wiring.layout,
                readers=readers,
            )
            _run_query(self.spark, stream)

        return write

    def _gold_stream(self, gold: Gold) -> GoldWriter:
        def write(*, is_last: bool = False) -> None:
            del is_last  # it creates its table at once
            for stream in self.wiring.streams("gold", only=gold.table):
                _run_query(self.spark, cast("Stream", stream))  # what cannot be built is raised

        return write


def bounded_settings(settings: Settings, folder: Path) -> Settings:
    """Settings under which a query reads one commit per micro-batch, all of them from the first."""
    settings = settings.outside_of_environments()
    one_file = {"max_files_per_trigger": 1, "max_bytes_per_trigger": None}
    return settings.model_copy(
        update={
            "data_dir": folder,
            "warehouse": None,
            "checkpoints": None,
            "spark": settings.spark.model_copy(update={"fsync": False}),
            "silver": settings.silver.model_copy(update={**one_file, "first_load": "log"}),
            "gold": settings.gold.model_copy(update={**one_file, "compact_every": 0}),
        }
    )


def _run_query(spark: SparkSession, stream: Stream, *, is_new: bool = True) -> None:
    """Run a query over all commits of the tables that it reads.

    Args:
        is_new: Whether its checkpoint is new; its first micro-batch is then computed in the driver too.

    Raises:
        MedallionError: The query failed.
    """
    from pyspark.errors import PySparkException

    running = start(spark, stream, Gate(), available_now=True, may_replay=not is_new)
    try:
        running.query.awaitTermination()
    except PySparkException:
        failure = running.failure()
        if isinstance(failure, SourceChangedError) and stream.again is not None:
            _run_query(spark, stream.again(), is_new=False)
            return
        if failure is None:
            raise
        raise failure from None


def pruned(pipeline: Pipeline, tables: Sequence[str]) -> Pipeline:
    """The pipeline with the queries that these tables need, and without suites and publications."""
    needed: set[str] = set()
    waiting = [query.table for name in tables if (query := query_of(pipeline, name)) is not None]
    while waiting:
        name = waiting.pop()
        query = query_of(pipeline, name)
        if query is None or query.table in needed:
            continue
        needed.add(query.table)
        if isinstance(query, Silver | Gold):
            waiting += sources(query)
    return copy_with(
        pipeline,
        silver=[silver for silver in pipeline.silver if silver.table in needed],
        gold=[gold for gold in pipeline.gold if needed.intersection(written_by(gold))],
        quality=(),
        publish=(),
    )


def with_lookups(silver: Silver, case: Case, folder: Path) -> Silver:
    """The silver table with the case's rows in place of the tables that its rules look up."""
    given = [
        copy_with(lookup, table=write_lookup(case.lookups[lookup.name], folder / "lookups" / lookup.name))
        if lookup.name in case.lookups
        else lookup
        for lookup in silver.lookups
    ]
    return copy_with(silver, lookups=given) if given else silver


def refuse_own_lookups(silver: Silver, case: Case) -> None:
    """Refuse rules that look up tables of the pipeline whose rows the case does not give.

    Raises:
        CaseError: Names the lookup.
    """
    for lookup in silver.lookups:
        if lookup.name not in case.lookups and lookup.table.startswith(("bronze.", "silver.", "gold.")):
            text = (
                f"the rules of {silver.table} look up {lookup.table}; give its rows below 'lookups: "
                f"{lookup.name}:', with names and types in the heading, as in | code string | name string |"
            )
            raise CaseError([Problem(f"case {case.name!r}", text, str(case.place))])


def _rows(path: str) -> TableRows:
    """The rows of a table; without columns if its query has not created it."""
    if not delta_table.exists(path):
        return TableRows((), ())
    from deltalake import DeltaTable

    from orchestration.author.cases.arrow_types import fields_of

    table: pa.Table = DeltaTable(path).to_pyarrow_table()
    return TableRows(fields_of(table.schema), tuple(table.to_pylist()))
