"""Runs one case: bronze from its records, then what the pipeline's queries do, then the rows of its tables.

The queries are those of a job, built by the same wiring; only bronze is written without a broker. Only the
queries run that write an expected table, or a table that such a query reads. Each micro-batch of the case is
one commit of bronze, and the queries read one commit per micro-batch.

A streaming query costs a second of CPU however few its rows are. So silver is written from rows that were
judged for many cases at once (``orchestration.author.cases.judge_together``). Of a gold table that writes the
whole state of its source in its first micro-batch, only this micro-batch is run, by the query's own writer.
All others are streaming queries. Tests run the same cases both ways.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Protocol

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import (
    Aggregate,
    ChangeFeed,
    Gold,
    History,
    Join,
    Pipeline,
    Silver,
    Upsert,
)
from common.declare.declared import copy_with
from common.delta import table as delta_table
from common.delta.log import LogReader
from common.delta.micro_batch import MicroBatch
from common.errors import CaseError, MedallionError, Problem, SourceChangedError
from common.streaming.query import Gate, Stream, failure_of, start
from orchestration.access.declaration.lineage import sources, written_by
from orchestration.author.cases.bronze_rows import bronze_batches, write_bronze, write_lookup
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

    def write(self, spark: SparkSession, layout: Layout) -> None:
        """Create the tables of one silver query, and write the case's micro-batches."""


JudgedTables = Mapping[str, SilverWriter]
"""What was judged of a case, by silver table: all silver tables that the case needs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        case: The case.
        differences: What differs, per table; none if the case passed.
        error: The error that ended the case before its tables could be compared.
        seconds: How long the case took.
    """

    case: Case
    differences: tuple[Difference, ...] = ()
    error: MedallionError | None = None
    seconds: float = 0.0

    @property
    def has_passed(self) -> bool:
        """Whether every table has the expected rows."""
        return not self.differences and self.error is None


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a table as plain values.

    Attributes:
        fields: The columns.
        rows: The rows.
    """

    fields: tuple[Field, ...]
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
        case: The case.
        pipeline: The pipeline.
        settings: The user's settings; only what concerns values and Spark is used.
        folder: An empty folder of the case's own for tables and checkpoints.
        judged: What was judged of the case; None: its queries are streaming queries, all of them.
    """
    began = monotonic()
    try:
        tables = run_tables(spark, case, tuple(case.expect), pipeline, settings, folder, judged)
    except MedallionError as error:
        return Outcome(case, error=error, seconds=monotonic() - began)
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
    layout = Layout.of(pipeline, settings)
    needed = pruned(pipeline, tables)
    write_bronze(bronze_batches(case, pipeline), pipeline, layout)
    if judged is None:
        for silver in needed.silver:
            refuse_own_lookups(silver, case)
        needed = copy_with(needed, silver=[with_lookups(one, case, folder) for one in needed.silver])
    wiring = Wiring(spark, needed, settings, layout, "")
    if judged is None:
        for silver in needed.silver:
            _run_query(spark, _silver_stream(spark, silver, pipeline, settings, layout))
    else:
        for silver in needed.silver:
            judged[silver.table].write(spark, layout)
    for stream in wiring.streams("gold"):
        declared = next(each for each in needed.gold if each.table == stream.name)
        if judged is not None and _writes_whole_state(declared):
            _write_whole_state(spark, declared, stream, layout)
        else:
            _run_query(spark, stream)
    return {name: _rows(layout.table_path(name)) for name in tables}


def _silver_stream(
    spark: SparkSession, silver: Silver, pipeline: Pipeline, settings: Settings, layout: Layout
) -> Stream:
    """The query of a silver table; the tables that read the same topic decide which records are its own."""
    from silver.query import build_query

    readers = [each for each in pipeline.silver if each.reads == silver.reads]
    return build_query(spark, pipeline.name, silver, settings=settings, layout=layout, readers=readers)


def _writes_whole_state(declared: Gold) -> bool:
    """Whether the first micro-batch of a query writes all that its sources have, and later ones nothing."""
    is_recomputed = isinstance(declared, Aggregate | Join) and declared.mode == "recompute"
    is_of_such_kind = isinstance(declared, Upsert | ChangeFeed | History) or is_recomputed
    return is_of_such_kind and not declared.reading.has_start


def _write_whole_state(spark: SparkSession, declared: Gold, stream: Stream, layout: Layout) -> None:
    """Run the first micro-batch of a query whose sources are complete, by the query's own writer.

    Raises:
        MedallionError: The micro-batch failed.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    paths = [layout.table_path(name) for name in sources(declared)]
    batch = MicroBatch(
        stream.pipeline,
        stream.name,
        str(uuid.uuid4()),
        0,
        tuple(_end_of_state(path) for path in paths),
        is_first=False,
        declared=stream.declared,
        planned_ms=int(time() * 1000),
    )
    try:
        stream.write(spark.read.format("delta").load(paths[0]), batch)
    except (PySparkException, Py4JError) as error:
        raise failure_of(stream.name, error) from error


def _end_of_state(path: str) -> Mapping[str, Any] | None:
    """The position of a stream that has read the state of a table, as Spark's offset log writes it."""
    found = LogReader(path).snapshot()
    if found is None:
        return None
    return {
        "sourceVersion": 1,
        "reservoirId": found.table_id,
        "reservoirVersion": found.version,
        "index": max(found.files - 1, 0),
        "isStartingVersion": True,
    }


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
        spark: The session.
        stream: The query.
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
    return TableRows(fields_of(table.schema), tuple(_plain_rows(table)))


def _plain_rows(table: pa.Table) -> Iterator[Mapping[str, Any]]:
    yield from table.to_pylist()
