"""Judges the records of many cases by one Spark job per silver table; few rows cost less than their plan.

Cases share a job if the pipeline, the silver table and the rows of its lookups are the same. A case whose
records cannot be judged so is left to the pipeline's streaming queries, which then name what is wrong.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline, Silver
from common.errors import MedallionError
from orchestration.access.declaration.lineage import readers_of
from orchestration.author.cases.bronze_rows import BronzeBatch, arrow_rows, bronze_batches
from orchestration.author.cases.read.case import Case
from orchestration.author.cases.run_case import (
    JudgedTables,
    bounded_settings,
    pruned,
    refuse_own_lookups,
    with_lookups,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from common.rows.arrow_rows import ArrowRows
    from silver.query import Builder


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """The records of a case, judged for one silver table."""

    builder: Builder  # the builder of the table's query
    judged: ArrowRows  # the judged rows of all cases that were judged together
    batches: tuple[range, ...]  # the places of the case's rows, per micro-batch of the case

    def begin(self, spark: SparkSession, layout: Layout) -> Callable[[range], None]:
        """Create the tables of the silver query in another folder, empty.

        Returns:
            A function that writes the case's next micro-batches; it raises what the streaming query does.
        """
        from bronze.table import SCHEMA
        from silver.in_driver import micro_batch_writer

        silver = self.builder.silver
        for table in (silver.table, *silver.side_tables):
            shutil.copytree(self.builder.layout.table_path(table), layout.table_path(table))
        write = micro_batch_writer(replace(self.builder, spark=spark, layout=layout), self.judged, SCHEMA)

        def write_parts(parts: range) -> None:
            for part in parts:
                if rows := self.batches[part]:
                    write(rows)

        return write_parts


@dataclass
class Judging:
    """Judges cases together; empty tables that were created once are copied for each case."""

    folder: Path  # a folder for empty tables and lookups
    _created: list[tuple[Silver, str, Layout]] = field(default_factory=list)
    _lookups: int = 0

    def judge(
        self, spark: SparkSession, cases: Sequence[tuple[Case, Pipeline, Settings]]
    ) -> Sequence[JudgedTables | None]:
        """What was judged of each case; None for a case whose records were not judged.

        Args:
            spark: A session in which no case runs.
            cases: Each case with its pipeline and the user's settings.
        """
        found: list[dict[str, JudgedCase] | None] = [{} for _ in cases]
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number, (case, pipeline, settings) in enumerate(cases):
            for silver in pruned(pipeline, tuple(case.expect)).silver:
                key = (id(pipeline), id(settings), silver.table, _lookup_rows(silver, case))
                groups.setdefault(key, []).append(number)
        for (_, _, table, _), numbers in groups.items():
            judged = self._judge_group(spark, table, [cases[number] for number in numbers])
            for number, one in zip(numbers, judged, strict=True):
                known = found[number]
                if one is None or known is None:
                    found[number] = None
                else:
                    known[table] = one
        return found

    def _judge_group(
        self, spark: SparkSession, table: str, cases: Sequence[tuple[Case, Pipeline, Settings]]
    ) -> Sequence[JudgedCase | None]:
        """Judge the records of cases for one silver table, by one job."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        _, pipeline, settings = cases[0]
        try:
            batches = [bronze_batches(case, pipeline) for case, _, _ in cases]
            return self._judge_rows(spark, table, cases[0][0], pipeline, settings, batches)
        except (MedallionError, PySparkException, Py4JError):
            return [None] * len(cases)  # the streaming queries say what is wrong, and of which case

    def _judge_rows(  # noqa: PLR0913, PLR0917
        self,
        spark: SparkSession,
        table: str,
        case: Case,
        pipeline: Pipeline,
        settings: Settings,
        batches: Sequence[Sequence[BronzeBatch]],
    ) -> Sequence[JudgedCase | None]:
        from bronze.table import SCHEMA
        from common.rows.collect import frame_of
        from silver.in_driver import coordinates_of, judge_in_driver, record_starts

        builder = self._builder(spark, table, case, pipeline, settings)
        if len(builder.silver.sources) > 1:
            return [None] * len(batches)  # a watermark of each source is kept by the streaming query alone
        reads = builder.silver.source
        rows = [row for one in batches for batch in one for row in batch.get(reads, ())]
        judged = judge_in_driver(builder, frame_of(spark, arrow_rows(rows), SCHEMA))
        given = [(row["topic"], row["partition"], row["offset"]) for row in rows]
        if judged is None:
            return [None] * len(batches)
        found, starts = coordinates_of(judged.arrow), record_starts(judged.arrow)
        if [found[start] for start in starts] != given:
            return [None] * len(batches)
        places = list(_places(batches, reads, [*starts, len(found)]))
        return [JudgedCase(builder, judged, each) for each in places]

    def _builder(
        self, spark: SparkSession, table: str, case: Case, pipeline: Pipeline, settings: Settings
    ) -> Builder:
        """The builder of a silver query; its tables exist, without rows.

        Raises:
            MedallionError: The declaration does not fit, or a lookup has no rows.
        """
        from silver.query import builder_of

        self._lookups += 1
        folder = self.folder / f"lookups_{self._lookups}"
        declared = next(each for each in pipeline.silver if each.table == table)
        refuse_own_lookups(declared, case)
        silver = with_lookups(declared, case, folder)
        readers = readers_of(pipeline, silver)
        plain = bounded_settings(settings, folder)
        builder = builder_of(
            spark,
            pipeline.name,
            silver,
            settings=plain,
            layout=Layout.of(pipeline, plain),
            readers=readers,
        )
        return replace(builder, layout=self._tables(builder, declared))

    def _tables(self, builder: Builder, declared: Silver) -> Layout:
        """Where the empty tables of a silver query are; they are created once per declaration."""
        from bronze.table import SCHEMA
        from silver.judge.reasons_and_verdict import rules_version

        version = rules_version(declared)
        for known, its_version, layout in self._created:
            if (known, its_version) == (declared, version):
                return layout
        builder.ensure_tables(builder.judged(builder.spark.createDataFrame([], SCHEMA)))
        self._created.append((declared, version, builder.layout))
        return builder.layout


def _lookup_rows(silver: Silver, case: Case) -> tuple[Any, ...]:
    """The rows that the rules of a silver table look up, in a form that can be compared."""
    given = ((lookup.name, case.lookups.get(lookup.name)) for lookup in silver.lookups)
    return tuple((name, table and (table.columns, table.rows)) for name, table in given)


def _places(
    batches: Sequence[Sequence[BronzeBatch]], table: str, starts: Sequence[int]
) -> Iterator[tuple[range, ...]]:
    """Per case the places of its rows among those of all cases, a range per micro-batch of the case.

    Args:
        starts: Where the rows of each record begin, and the number of all rows.
    """
    first = 0
    for case in batches:
        ranges = []
        for batch in case:
            count = len(batch.get(table, ()))
            ranges.append(range(starts[first], starts[first + count]))
            first += count
        yield tuple(ranges)
