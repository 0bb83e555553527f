"""Runs several suites, with one engine each; starts Spark only if a suite needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Expect, Pipeline, Quality
from common.delta.log import LogReader
from common.errors import TableError
from common.machine import extras
from orchestration.quality import results
from orchestration.quality.engines import (
    BothEngines,
    DuckDbEngine,
    Engine,
    Pinned,
    SparkEngine,
    fits_duckdb,
)
from orchestration.quality.evaluate import SuiteRun, facts_query, plan, run_suite
from orchestration.quality.expectations import LibraryValidator
from orchestration.quality.judgement import ExpectationResult, SuiteResult
from orchestration.quality.versions import pin_others

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QualitySession:
    """Evaluates suites of one pipeline and keeps the results in ``quality.results``."""

    def __init__(
        self,
        pipeline: Pipeline,
        settings: Settings,
        layout: Layout,
        spark: Callable[[], SparkSession],
        *,
        is_beside_queries: bool = False,
    ) -> None:
        """Open nothing yet.

        Args:
            spark: Gives the Spark session; called only for suites that need Spark.
            is_beside_queries: Whether queries run in this process; DuckDB then takes one core and 1 GB.
        """
        self._pipeline, self._settings, self._layout = pipeline, settings, layout
        self._spark, self._is_beside_queries = spark, is_beside_queries
        self._library: LibraryValidator | None = None
        self._duckdb: DuckDbEngine | None = None
        self._last: dict[tuple[str, bool], dict[tuple[str, str, str], Mapping[str, Any]]] = {}

    def engine_of(self, suite: Quality, pinned: Pinned) -> str:
        """The engine that evaluates the short forms of a suite: ``duckdb`` or ``spark``."""
        others = [one.path for one in pin_others(self._layout, suite, pinned).values()]
        snapshot = LogReader(pinned.path).snapshot()
        return "duckdb" if fits_duckdb(self._settings, pinned.path, others, snapshot) else "spark"

    def needs_spark(self, suite: Quality, pinned: Pinned) -> bool:
        """Whether a suite has to be evaluated by Spark, in whole or in part, as far as it can be told."""
        if self.engine_of(suite, pinned) == "spark":
            return True
        if self._is_without_spark:
            return False
        planned = plan(suite)
        if any(one.is_for_library for one in planned):
            return True
        engine = self._opened()
        relation = engine.relation(pinned)
        checks = [one.check for one in planned if one.check is not None]
        return any(engine.why_not(facts_query(check.facts, relation)) for check in checks)

    @property
    def _is_without_spark(self) -> bool:
        """Whether the setting ``quality.engine`` leaves nothing to Spark; a job has a session anyway."""
        return self._settings.quality.engine == "duckdb" and not self._is_beside_queries

    def engine_for(self, pinned: Pinned, suite: Quality | None = None) -> Engine:
        """The engine for a table, and for the other tables of a suite."""
        if self.engine_of(suite or Quality(pinned.table, []), pinned) == "spark":
            return SparkEngine(self._spark())
        return self._opened() if self._is_without_spark else BothEngines(self._opened(), self._spark)

    def _opened(self) -> DuckDbEngine:
        if self._is_beside_queries:
            return DuckDbEngine(threads=1, memory="1GB")  # closed after the evaluation: a job runs for months
        if self._duckdb is None:
            self._duckdb = DuckDbEngine()  # to open one takes a third of a second
        return self._duckdb

    def prepare(
        self,
        suite: Quality,
        pinned: Pinned,
        *,
        now: datetime | None = None,
        accept: bool = False,
    ) -> SuiteRun:
        """A run of one suite on one version."""
        last = self._last_details(suite.table, whole=pinned.since is None)
        engine = self.engine_for(pinned, suite)
        others = pin_others(self._layout, suite, pinned)
        run = SuiteRun(
            suite,
            self._pipeline,
            engine,
            pinned,
            others,
            self._by_library,
            last,
            accept=accept,
            layout=self._layout,
        )
        return run if now is None else replace(run, now=now)

    def evaluate(
        self, suites: Sequence[tuple[Quality, Pinned]], *, accept: bool = False, reason: str = "command"
    ) -> Iterator[tuple[SuiteRun, SuiteResult]]:
        """Evaluate suites one after the other; each result is kept before it is yielded.

        Raises:
            TableError: A table cannot be read, or ``quality.results`` cannot be written.
            UsageError: The version after which rows are read is too old.
        """
        now = datetime.now(UTC)
        for suite, pinned in suites:
            run = self.prepare(suite, pinned, now=now, accept=accept)
            try:
                result = run_suite(run)
            except TableError as error:
                raise TableError(
                    f"{suite.table} cannot be read at version {pinned.version}: {error}. "
                    "Data files that are gone are named by: medallion audit"
                ) from error
            finally:
                close(run.engine)
            results.append(self._layout, self._pipeline.name, [result], reason=reason)
            self._remember(result)
            yield run, result

    def _last_details(self, table: str, *, whole: bool) -> dict[tuple[str, str, str], Mapping[str, Any]]:
        """Details of the last runs, which are read from ``quality.results`` once."""
        if (table, whole) not in self._last:
            rows = results.read(self._layout, tables=[table])
            self._last[table, whole] = dict(results.last_details(rows, whole=whole))
        return self._last[table, whole]

    def _remember(self, result: SuiteResult) -> None:
        last = self._last[result.table, result.since is None]
        for one in result.checked:
            if one.details and (one.is_met or one.expectation == "rule"):
                last[result.table, one.expectation, one.column] = {"version": result.version, **one.details}

    def _by_library(self, expects: Sequence[Expect], pinned: Pinned) -> Sequence[ExpectationResult]:
        if self._library is None:
            extras.require("quality", "expectations that have no short form")  # before Spark is started
            self._library = LibraryValidator(None if self._is_without_spark else self._spark())
        return self._library.validate(expects, pinned)


def close(engine: Engine) -> None:
    """Release what an engine holds; it may be used again."""
    if isinstance(engine, SparkEngine | BothEngines):
        engine.close()
