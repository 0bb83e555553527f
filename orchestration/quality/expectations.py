"""Runs the pipeline's quality suites with Great Expectations; the only module that imports it.

A suite checks a whole table and takes many Spark jobs, so suites run beside the queries, never in them. Each
table is read at one version, so that a result can be reproduced.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.config.paths import Layout
from common.declare import Expect, Pipeline, Quality
from common.delta.log import LogReader
from common.errors import SettingsError, TableMissingError, UsageError, nearest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WHOLE = "one version of the table"


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """The result of one expectation.

    Attributes:
        observed: What was found, in words; never contains values of rows.
    """

    expectation: str
    column: str
    is_met: bool
    observed: str


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The result of one suite on one table version."""

    table: str
    version: int
    rows: int | None
    is_met: bool
    checked: tuple[ExpectationResult, ...]


def run_suites(
    spark: SparkSession, suites: Sequence[Quality], layout: Layout, say: Callable[[str], None]
) -> tuple[list[SuiteResult], Path | None]:
    """Validate the newest version of each suite's table, and write the Data Docs; returns their path too."""
    versions = pin_versions(suites, layout)
    validator = Validator(spark, layout.quality)
    results: list[SuiteResult] = []
    for suite in suites:
        path, version = layout.table_path(suite.table), versions[suite.table]
        say(f"validating {suite.table} at version {version}")
        snapshot = LogReader(path).snapshot()
        rows = snapshot.rows if snapshot and snapshot.version == version else None
        results.append(validator.validate(suite, path, version, rows))
    return results, validator.docs()


def select_suites(pipeline: Pipeline, tables: Sequence[str]) -> tuple[Quality, ...]:
    """The suites of these tables, or all suites if no table is named.

    Raises:
        UsageError: A named table has no suite, or the pipeline declares no suite.
    """
    if not pipeline.quality:
        raise UsageError(
            f"pipeline {pipeline.name} declares no quality suite. Add quality=[Quality(…)] to it."
        )
    known = [suite.table for suite in pipeline.quality]
    for table in tables:
        if table not in known:
            raise UsageError(f"{table} has no quality suite; {nearest(table, known)}")
    return tuple(suite for suite in pipeline.quality if not tables or suite.table in tables)


def pin_versions(suites: Sequence[Quality], layout: Layout) -> dict[str, int]:
    """The version of each table to validate: the newest one now.

    Raises:
        TableMissingError: A table does not exist yet.
    """
    versions: dict[str, int] = {}
    for suite in suites:
        path = layout.table_path(suite.table)
        version = LogReader(path).latest_version()
        if version is None:
            raise TableMissingError(suite.table, path, "Fill it first: medallion up, or medallion backfill.")
        versions[suite.table] = version
    return versions


class Validator:
    """Validates suites and writes the Data Docs under ``folder``."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        # Set before the first import, which reads it.
        os.environ["GX_ANALYTICS_ENABLED"] = "false"
        import great_expectations as gx  # imported here, because the import takes seconds
        from great_expectations.data_context.types.base import ProgressBarsConfig

        folder.mkdir(parents=True, exist_ok=True)
        _forget_definitions(folder)
        self._gx: Any = gx
        self._spark = spark
        self._context = gx.get_context(mode="file", project_root_dir=folder)
        self._context.variables.progress_bars = ProgressBarsConfig(globally=False)
        # By default Great Expectations persists each frame and never unpersists it.
        self._source = self._context.data_sources.add_or_update_spark("medallion", persist=False)

    def validate(self, suite: Quality, path: str, version: int, rows: int | None) -> SuiteResult:
        """Validate one version of a table with a suite, and update the Data Docs.

        Raises:
            SettingsError: An expectation does not accept its arguments.
        """
        gx = self._gx
        frame = self._spark.read.format("delta").option("versionAsOf", version).load(path)
        batch = self._batch_definition(suite.table)
        named = gx.ExpectationSuite(name=suite.table)
        for expect in suite.expectations:
            named.add_expectation(_expectation(gx, suite.table, expect))
        context = self._context
        definition = gx.ValidationDefinition(
            name=suite.table, data=batch, suite=context.suites.add_or_update(named)
        )
        checkpoint = gx.Checkpoint(
            name=suite.table,
            validation_definitions=[context.validation_definitions.add_or_update(definition)],
            actions=[gx.checkpoint.UpdateDataDocsAction(name="data_docs")],
            result_format={"result_format": "SUMMARY", "partial_unexpected_count": 0},
        )
        frame.persist()
        try:
            outcome = context.checkpoints.add_or_update(checkpoint).run(
                batch_parameters={"dataframe": frame},
                run_id=gx.core.run_identifier.RunIdentifier(run_name=f"{suite.table} version {version}"),
            )
        finally:
            frame.unpersist()
        (result,) = outcome.run_results.values()
        checked = tuple(_checked(one) for one in result.results)
        return SuiteResult(suite.table, version, rows, bool(result.success), checked)

    def _batch_definition(self, table: str) -> Any:  # the library's own class
        known = {asset.name: asset for asset in self._source.assets}
        asset = known.get(table) or self._source.add_dataframe_asset(table)
        kept = {definition.name: definition for definition in asset.batch_definitions}
        return kept.get(_WHOLE) or asset.add_batch_definition_whole_dataframe(_WHOLE)

    def docs(self) -> Path | None:
        """The first page of the Data Docs."""
        for site in self._context.get_docs_sites_urls():
            if url := site["site_url"]:
                return Path(url.removeprefix("file://"))
        return None


def _forget_definitions(folder: Path) -> None:
    """Delete all definitions, which are created again from the pipeline; results of earlier runs are kept."""
    for name in ("expectations", "validation_definitions", "checkpoints"):
        shutil.rmtree(folder / "gx" / name, ignore_errors=True)
    (folder / "gx" / "great_expectations.yml").unlink(missing_ok=True)


def _expectation(gx: Any, table: str, expect: Expect) -> Any:  # the library's own classes
    cls = next(
        cls
        for name, cls in vars(gx.expectations).items()
        if name.startswith("Expect") and getattr(cls, "expectation_type", None) == expect.name
    )
    try:
        return cls(**expect.arguments)
    except (
        TypeError,
        ValueError,
        gx.exceptions.GreatExpectationsError,
    ) as error:  # pydantic's are ValueErrors
        text = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
        raise SettingsError(f"quality on {table}, {expect.name}: {text}") from error


def _checked(one: Any) -> ExpectationResult:
    result, kwargs = one.result or {}, one.expectation_config.kwargs
    parts: list[str] = []
    if one.exception_info and (exception := _exception(one.exception_info)):
        parts.append(exception)
    if "observed_value" in result:
        parts.append(f"observed {result['observed_value']}")
    if result.get("unexpected_count"):
        parts.append(f"{result['unexpected_count']:,} of {result['element_count']:,} rows do not meet it")
    column = kwargs.get("column") or ", ".join(kwargs.get("column_list", ()))
    return ExpectationResult(one.expectation_config.type, column, bool(one.success), "; ".join(parts))


def _exception(info: dict[str, Any]) -> str:
    if info.get("raised_exception"):
        return str(info.get("exception_message", "")).splitlines()[0]
    nested: Iterator[Any] = (v for v in info.values() if isinstance(v, dict) and v.get("raised_exception"))
    return next((str(v.get("exception_message", "")).splitlines()[0] for v in nested), "")
