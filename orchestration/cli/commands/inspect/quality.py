"""``medallion quality``: evaluates suites, shows their state, proposes suites, and serves the Data Docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.declare import Quality
from common.declare.intervals import parse_duration
from common.errors import QualityFailedError, UsageError
from common.machine.console import out, page, say
from common.spark.session import build_session
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.cli.quality_output import document, examples_document, suite_tables
from orchestration.pipeline.context import Context, context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestration.quality.engines import Pinned
    from orchestration.quality.judgement import SuiteResult
    from orchestration.quality.run import FailingRows
    from orchestration.quality.session import QualitySession

app = typer.Typer(name="quality", help="Judge tables by their quality suites.", no_args_is_help=True)

TablesArgument = Annotated[
    list[str] | None, typer.Argument(help="Tables; without any, all that have a suite.")
]


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app)


@app.command()
def run(
    tables: TablesArgument = None,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
    since: Annotated[
        int | None, typer.Option(min=0, help="Read only rows in files written after this version; one table.")
    ] = None,
    slice_: Annotated[
        str | None,
        typer.Option("--slice", metavar="AGE", help="Read only rows in files of the last 24h, 30m or 7d."),
    ] = None,
    examples: Annotated[
        int, typer.Option(min=0, help="Show so many failing rows per expectation, by key.")
    ] = 0,
    accept: Annotated[
        bool, typer.Option("--accept", help="Compare later distributions with those of this run.")
    ] = False,
    docs: Annotated[bool, typer.Option("--docs/--no-docs", help="Write the Data Docs.")] = True,
) -> None:
    """Evaluate the suites on the newest version of each table, and keep the results in quality.results.

    Exit code 3 if an expectation of severity error fails. Jobs may run: it reads one version and takes no
    lease.
    """
    from orchestration.quality import expectations, versions

    ready = context(pipeline, settings, set_)
    suites = versions.select_suites(ready.pipeline, tables or [])
    pinned = _pin(ready, suites, since, slice_)
    if docs:
        expectations.load_in_background()
    with _session(ready, pinned) as session:
        found = _evaluate(session, pinned, examples, accept=accept)
    index = (
        expectations.DataDocs(ready.layout.quality).write([result for result, _ in found]) if docs else None
    )
    _print(found, index, as_json=as_json)
    _refuse_failures([result for result, _ in found], index)


def _pin(
    ready: Context, suites: Sequence[Quality], since: int | None, slice_: str | None
) -> list[tuple[Quality, Pinned]]:
    from orchestration.quality import versions

    if since is not None and slice_ is not None:
        raise UsageError("--since and --slice: use only one of them.")
    if since is not None and len(suites) != 1:
        raise UsageError("--since is a version of one table: name the table.")
    age = None if slice_ is None else _age(slice_)
    versions.pin_versions(suites, ready.layout)  # all tables exist, before the first is read
    pinned = []
    for suite in suites:
        start = since if age is None else versions.version_before(ready.layout, suite.table, age)
        pinned.append((suite, versions.pin(ready.layout, suite.table, since=start)))
    return pinned


_UNITS = {"d": "day", "h": "hour", "m": "minute", "s": "second"}


def _age(text: str) -> timedelta:
    """An age such as ``24h``, ``30m``, ``7d`` or ``24 hours``."""
    number, unit = text.strip()[:-1], text.strip()[-1:]
    length = parse_duration(f"{number} {_UNITS[unit]}" if unit in _UNITS and number.isdigit() else text)
    if length is None:
        raise UsageError(f"--slice {text!r} is no age; write it like 24h, 30m or '7 days'")
    return timedelta(seconds=length.seconds)


@contextmanager
def _session(ready: Context, pinned: Sequence[tuple[Quality, Pinned]]) -> Iterator[QualitySession]:
    """A session for these suites; Spark is started at its first use, and stopped at the end."""
    from orchestration.quality.session import QualitySession

    started: list[SparkSession] = []

    def spark() -> SparkSession:
        if not started:
            say("starting Spark, for a table or an expectation that needs it")
            started.append(build_session(ready.settings, "quality", ready.layout.log, compiled="rows"))
        return started[0]

    try:
        yield QualitySession(ready.pipeline, ready.settings, ready.layout, spark)
    finally:
        for session in started:
            session.stop()


def _evaluate(
    session: QualitySession, pinned: Sequence[tuple[Quality, Pinned]], examples: int, *, accept: bool
) -> list[tuple[SuiteResult, list[FailingRows]]]:
    from orchestration.quality.run import failing_rows

    found = []
    for place, (suite, at) in enumerate(pinned, start=1):
        engine = session.engine_of(suite, at)
        since = f" since version {at.since}" if at.since is not None else ""
        say(
            f"[{place}/{len(pinned)}] {suite.table} at version {at.version}{since}: "
            f"{len(suite.expectations)} expectations, by {'DuckDB' if engine == 'duckdb' else 'Spark'}"
        )
        for run, result in session.evaluate([(suite, at)], accept=accept):
            shown = list(failing_rows(run, result, examples)) if examples else []
            found.append((result, shown))
    return found


def _print(
    found: Sequence[tuple[SuiteResult, list[FailingRows]]], index: Path | None, *, as_json: bool
) -> None:
    if as_json:
        suites = [
            document(result) | ({"examples": [examples_document(one) for one in shown]} if shown else {})
            for result, shown in found
        ]
        out.print_json(data={"data_docs": index and str(index), "suites": suites}, ensure_ascii=True)
        return
    for result, shown in found:
        page().print(suite_tables(result, shown))
    if index is not None:
        out.print(f"Data Docs: {index}", highlight=False, soft_wrap=True)


def _refuse_failures(results: Sequence[SuiteResult], index: Path | None) -> None:
    failed = [result for result in results if not result.is_met]
    if failed:
        broken = sum(one.is_failure for result in failed for one in result.checked)
        names = ", ".join(f"{result.table} (version {result.version})" for result in failed)
        where = f" Data Docs: {index}" if index is not None else ""
        raise QualityFailedError(
            f"{broken} expectation{'' if broken == 1 else 's'} failed on {names}.{where}"
        )


@app.command()
def docs(pipeline: PipelineOption = None, settings: SettingsOption = None, set_: SetOption = None) -> None:
    """Print the path of the Data Docs of the last run."""
    from orchestration.quality.expectations import index_page

    ready = context(pipeline, settings, set_)
    index = index_page(ready.layout.quality)
    if index is None:
        raise UsageError("There are no Data Docs yet. Write them with: medallion quality run")
    out.print(str(index), highlight=False, soft_wrap=True)
