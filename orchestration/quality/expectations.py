"""Great Expectations: evaluates what has no short form, and writes the Data Docs.

No other module imports the library.

An expectation of the library takes several Spark jobs, so it runs beside the queries, never in them.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.declare import Expect
from common.errors import SettingsError, first_line
from common.machine import extras
from common.machine.deferred_imports import deferred
from orchestration.quality.engines import DuckDbEngine, Pinned, spark_frame
from orchestration.quality.judgement import ExpectationResult, SuiteResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS = re.compile(r"^([\d,]+) of ([\d,]+) rows ")


def load_in_background() -> threading.Thread:
    """Import Great Expectations, which takes seconds, in a thread: queries run meanwhile."""
    thread = threading.Thread(target=_library, name="great_expectations", daemon=True)
    thread.start()
    return thread


def _library() -> Any:
    extras.require("quality", "expectations that have no short form and Data Docs")
    # Set before the first import, which reads it.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # Half of the import's time is theirs; only a few expectations use them, and no page does.
    with deferred("altair", "scipy.stats"):
        import great_expectations as gx  # imported here, because the import takes seconds

    return gx


class LibraryValidator:
    """Evaluates expectations by Great Expectations, with Spark or with pandas."""

    def __init__(self, spark: SparkSession | None) -> None:
        """Load the library.

        Args:
            spark: Evaluates the expectations; None: pandas does, on rows that DuckDB reads.
        """
        self._gx, self._spark = _library(), spark
        sources = self._gx.get_context(mode="ephemeral").data_sources
        if spark is None:
            source = sources.add_or_update_pandas("medallion")
        else:
            # By default Great Expectations persists each frame and never unpersists it.
            source = sources.add_or_update_spark("medallion", persist=False)
        asset = source.add_dataframe_asset("table")
        self._batch = asset.add_batch_definition_whole_dataframe("one version of the table")

    def validate(self, expects: Sequence[Expect], pinned: Pinned) -> tuple[ExpectationResult, ...]:
        """The result of each expectation on one version of a table, in order.

        Raises:
            SettingsError: An expectation does not accept its arguments.
        """
        if self._spark is None:
            return self._evaluated(expects, pinned, DuckDbEngine().frame(pinned))
        frame = spark_frame(self._spark, pinned)
        frame.persist()
        try:
            return self._evaluated(expects, pinned, frame)
        finally:
            frame.unpersist()

    def _evaluated(
        self, expects: Sequence[Expect], pinned: Pinned, frame: Any
    ) -> tuple[ExpectationResult, ...]:
        batch = self._batch.get_batch(batch_parameters={"dataframe": frame})
        return tuple(
            _checked(
                batch.validate(
                    _expectation(self._gx, pinned.table, expect),
                    result_format={"result_format": "SUMMARY", "partial_unexpected_count": 0},
                )
            )
            for expect in expects
        )


class DataDocs:
    """The Data Docs of a pipeline's suites, under ``folder``."""

    def __init__(self, folder: Path) -> None:
        gx = _library()
        from great_expectations.data_context.types.base import ProgressBarsConfig

        folder.mkdir(parents=True, exist_ok=True)
        _forget_definitions(folder)
        self._gx = gx
        self._context: Any = gx.get_context(mode="file", project_root_dir=folder)
        self._context.variables.progress_bars = ProgressBarsConfig(globally=False)
        _own_expectation(gx)

    def write(self, results: Sequence[SuiteResult]) -> Path | None:
        """Write a page per result and the index; returns the index."""
        from great_expectations.data_context.types.resource_identifiers import (
            ExpectationSuiteIdentifier,
            ValidationResultIdentifier,
        )

        identifiers = []
        for result in results:
            name = f"{result.table} version {result.version}"
            identifier = ValidationResultIdentifier(
                expectation_suite_identifier=ExpectationSuiteIdentifier(result.table),
                run_id=self._gx.core.run_identifier.RunIdentifier(run_name=name, run_time=result.at),
                batch_identifier=name,
            )
            document = _document(self._gx, result, identifier.run_id)
            self._context.validation_results_store.set(identifier, document)
            identifiers.append(identifier)
        self._context.build_data_docs(resource_identifiers=identifiers)
        for site in self._context.get_docs_sites_urls():
            if url := site["site_url"]:
                return Path(url.removeprefix("file://"))
        return None


def index_page(folder: Path) -> Path | None:
    """The first page of the Data Docs; None before the first run."""
    return next(iter(sorted(folder.glob("gx/uncommitted/data_docs/*/index.html"))), None)


def _own_expectation(gx: Any) -> None:
    """Make the type known under which results of short forms are shown; it is never evaluated."""
    from great_expectations.expectations.expectation import BatchExpectation

    class MedallionExpectation(BatchExpectation):
        column: str = ""

        def _validate(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError


def _document(gx: Any, result: SuiteResult, run_id: Any) -> Any:
    """A result as Great Expectations stores it."""
    met = sum(one.is_met for one in result.checked)
    statistics = {
        "evaluated_expectations": len(result.checked),
        "successful_expectations": met,
        "unsuccessful_expectations": len(result.checked) - met,
        "success_percent": 100 * met / len(result.checked) if result.checked else None,
    }
    meta = {
        "run_id": run_id,
        "great_expectations_version": gx.__version__,
        "validation_time": result.at,
        "active_batch_definition": {"data_asset_name": result.table, "datasource_name": result.engine},
        "batch_kwargs": {"data_asset_name": f"{result.table} version {result.version}"},
    }
    return gx.core.ExpectationSuiteValidationResult(
        success=result.is_met,
        results=[_evaluation(gx, one) for one in result.checked],
        suite_name=result.table,
        statistics=statistics,
        meta=meta,
        suite_parameters={},
    )


def _evaluation(gx: Any, one: ExpectationResult) -> Any:
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    words = f"{one.expectation.removeprefix('expect_').replace('_', ' ')}: {one.expected}".removesuffix(": ")
    if one.severity == "warn":
        words += " (a failure is a warning)"
    configuration = ExpectationConfiguration(
        type="medallion_expectation",
        kwargs={"column": one.column} if one.column else {},
        description=html.escape(words),
    )
    found: dict[str, Any] = {"observed_value": html.escape(one.observed or "met")}
    if counts := _COUNTS.match(one.observed):
        rows = int(counts[2].replace(",", ""))
        failing = one.failing_rows or 0
        found |= {
            "element_count": rows,
            "unexpected_count": failing,
            "unexpected_percent": 100 * failing / max(rows, 1),
        }
    return gx.core.ExpectationValidationResult(
        success=one.is_met, expectation_config=configuration, result=found, meta={}, exception_info={}
    )


def _forget_definitions(folder: Path) -> None:
    """Delete definitions of earlier versions of the engine; results of earlier runs are kept."""
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
    return ExpectationResult(
        one.expectation_config.type,
        column,
        bool(one.success),
        "; ".join(parts),
        failing_rows=result.get("unexpected_count"),
    )


def _exception(info: dict[str, Any]) -> str:
    if info.get("raised_exception"):
        return first_line(info.get("exception_message", ""))
    nested: Iterator[Any] = (v for v in info.values() if isinstance(v, dict) and v.get("raised_exception"))
    return next((first_line(v.get("exception_message", "")) for v in nested), "")
