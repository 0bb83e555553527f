"""``medallion quality``: evaluates suites, shows their state, proposes suites, and serves the Data Docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.config.paths import all_tables
from common.declare import Quality
from common.declare.intervals import parse_duration
from common.errors import QualityFailedError, UsageError, nearest
from common.machine import extras
from common.machine.console import out, page, say
from common.machine.file_modes import umask
from common.spark import jvm
from common.spark.session import build_session
from orchestration.access.declaration.context import Context
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption
from orchestration.cli.warm_job import ask_holder, holders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestration.quality.engines import Pinned
    from orchestration.quality.evaluate import FailingRows
    from orchestration.quality.judgement import SuiteResult
    from orchestration.quality.session import QualitySession
    from orchestration.quality.state import PastRun, SuiteState

_HISTORY = 10

app = typer.Typer(name="quality", help="Judge tables by their quality suites.", no_args_is_help=True)

TablesArgument = Annotated[
    list[str] | None, typer.Argument(help="Tables; without any, all that have a suite.")
]


@app.command()
def run(
    ready: Context,
    tables: TablesArgument = None,
    as_json: JsonOption = False,
    since: Annotated[
        int | None,
        typer.Option(
            "--since-version", min=0, help="Read only rows in files written after this version; one table."
        ),
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

    suites = versions.select_suites(ready.pipeline, tables or [])
    pinned = _pin(ready, suites, since, slice_)
    if docs and extras.missing("quality"):
        say(f"no Data Docs, whose library is not installed: {extras.install('quality')}")
        docs = False
    if docs:
        expectations.load_in_background()
    with _session(ready) as session:
        found = _evaluate(ready, session, pinned, examples, accept=accept)
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
        raise UsageError("--since-version and --slice: use only one of them.")
    if since is not None and len(suites) != 1:
        raise UsageError("--since-version is a version of one table: name the table.")
    age = None if slice_ is None else _age(slice_)
    for suite in suites:
        versions.pin(ready.layout, suite.table)  # all tables exist, before the first is read
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
def _session(ready: Context) -> Iterator[QualitySession]:
    """A session; Spark is started at its first use, and stopped at the end."""
    from orchestration.quality.session import QualitySession

    started: list[SparkSession] = []

    def spark() -> SparkSession:
        if not started:
            say("starting Spark, for a table or an expectation that needs it")
            started.append(build_session(ready.settings, "quality", ready.layout.log, compiled="rows"))
        return started[0]

    try:
        with umask(ready.settings.umask):
            yield QualitySession(ready.pipeline, ready.settings, ready.layout, spark)
    finally:
        for session in started:
            jvm.stop(session)


def _evaluate(
    ready: Context,
    session: QualitySession,
    pinned: Sequence[tuple[Quality, Pinned]],
    examples: int,
    *,
    accept: bool,
) -> list[tuple[SuiteResult, list[FailingRows]]]:
    from orchestration.quality.evaluate import failing_rows

    found: list[tuple[SuiteResult, list[FailingRows]]] = []
    for place, (suite, at) in enumerate(pinned, start=1):
        engine = session.engine_of(suite, at)
        since = f" since version {at.since}" if at.since is not None else ""
        say(
            f"[{place}/{len(pinned)}] {suite.table} at version {at.version}{since}: "
            f"{len(suite.expectations)} expectations, by {'DuckDB' if engine == 'duckdb' else 'Spark'}"
        )
        # The job that writes the table has a warm session.
        is_for_job = not examples and session.needs_spark(suite, at)
        if is_for_job and (judged := _by_running_job(ready, at, accept=accept)) is not None:
            found += [(result, []) for result in judged]
            continue
        for run, result in session.evaluate([(suite, at)], accept=accept):
            shown = list(failing_rows(run, result.checked, examples)) if examples else []
            found.append((result, shown))
    return found


def _by_running_job(ready: Context, pinned: Pinned, *, accept: bool) -> list[SuiteResult] | None:
    """The results of the suite of a table by the job that writes the table; None where no job does it."""
    if not holders(ready, [pinned.table]):
        return None
    from orchestration.run.serving.commands import JUDGED, PINNED

    given = {"pinned": PINNED.dump_python(pinned, mode="json"), "accept": accept}
    asked = ask_holder(ready, [pinned.table], "quality", given)
    return None if asked is None else JUDGED.validate_python(asked)


def _print(
    found: Sequence[tuple[SuiteResult, list[FailingRows]]], index: Path | None, *, as_json: bool
) -> None:
    from orchestration.cli.quality.quality_output import document, examples_document, suite_tables

    if as_json:
        suites = [
            document(result) | ({"examples": [examples_document(one) for one in shown]} if shown else {})
            for result, shown in found
        ]
        print_document({"data_docs": index and str(index), "suites": suites})
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
def status(
    ready: Context,
    tables: TablesArgument = None,
    as_json: JsonOption = False,
    history: Annotated[
        int | None,
        typer.Option(min=0, help="Runs to list per table.", show_default="10 for named tables"),
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Show rows that failed in the last failed run, by key.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Rows to show per expectation, with --rows.")] = 10,
) -> None:
    """Show the state of suites and gates, their history, and the rows of the last failed run.

    The rows are read again, from the version that failed.
    """
    from orchestration.cli.quality.quality_output import (
        examples_document,
        failing_rows_group,
        history_table,
        state_table,
    )
    from orchestration.quality.state import document as state_document
    from orchestration.quality.state import states
    from orchestration.quality.versions import select_suites

    found = states(ready.layout, select_suites(ready.pipeline, tables or []))
    listed = history if history is not None else _HISTORY if tables else 0
    failed = {one.suite.table: _failed_rows(ready, one, limit) if rows else [] for one in found}
    if as_json:
        documents = []
        for one in found:
            examples = [examples_document(each) for each in failed[one.suite.table]]
            documents.append(
                {**state_document(one, listed or 1), **({"failing_rows": examples} if rows else {})}
            )
        print_document({"suites": documents})
        return
    page().print(state_table(found))
    for one in found:
        if listed and one.runs:
            page().print()
            page().print(history_table(one, listed))
        if (run := one.last_failed) is not None and failed[one.suite.table]:
            page().print()
            page().print(failing_rows_group(one.suite.table, run.version, failed[one.suite.table]))


def _failed_rows(ready: Context, state: SuiteState, limit: int) -> list[FailingRows]:
    """The rows of the last failed run, read from the version that it evaluated."""
    from orchestration.quality.evaluate import failing_rows
    from orchestration.quality.session import close
    from orchestration.quality.versions import pin

    if (run := state.last_failed) is None:
        return []
    if _is_before_erasure(ready, run):
        say(
            f"{run.table}: records were erased after this run, and its version may have them. The failing "
            f"rows of now: medallion quality run {run.table} --examples {limit}"
        )
        return []
    pinned = pin(ready.layout, run.table, run.version, run.since)
    with _session(ready) as session:
        prepared = session.prepare(state.suite, pinned)
        try:
            return list(failing_rows(prepared, [one for one in run.checked if not one.is_met], limit))
        finally:
            close(prepared.engine)


def _is_before_erasure(ready: Context, run: PastRun) -> bool:
    """Whether records of the pipeline were erased after a run."""
    from common.delta.log import LogReader
    from common.delta.table import ERASED

    paths = (ready.layout.table_path(one.table) for one in ready.pipeline.silver)
    times = (LogReader(path).properties().get(ERASED) for path in paths)
    return any(run.at <= datetime.fromisoformat(one) for one in times if one is not None)


@app.command("profile")
def profile_table(
    ready: Context,
    table: Annotated[str, typer.Argument(help="A silver or gold table, with or without a suite.")],
    version: Annotated[
        int | None, typer.Option("--as-of", metavar="VERSION", min=0, help="Describe this version.")
    ] = None,
) -> None:
    """Propose a suite from the rows of a table, with the reason of each bound, and write an HTML profile.

    The code goes to standard output. The profile contains values of rows.
    """
    from orchestration.quality.evaluate import duplicate_rows, key_columns
    from orchestration.quality.profiles.describe import profile
    from orchestration.quality.profiles.page import page as profile_page
    from orchestration.quality.profiles.propose import propose, source
    from orchestration.quality.session import close
    from orchestration.quality.versions import pin

    known = [one for one in all_tables(ready.pipeline) if not one.startswith("bronze.")]
    if table not in known:
        raise UsageError(f"{table} is no silver or gold table of the pipeline; {nearest(table, known)}")
    pinned = pin(ready.layout, table, version)
    with _session(ready) as session:
        engine = session.engine_for(pinned)
        say(f"describing {table} at version {pinned.version}")
        declared = next((one for one in ready.pipeline.silver if one.table == table), None)
        found = profile(engine, pinned, declared.event_time if declared is not None else "")
        key = key_columns(ready.pipeline, Quality(table, []), [one.name for one in found.columns])
        duplicates = duplicate_rows(engine, pinned, key) if key else 0
        close(engine)
    now = datetime.now(UTC)
    code = source(found, propose(found, key, duplicates, now), now)
    out.print(code, markup=False, highlight=False, soft_wrap=True, end="")
    file = ready.layout.quality / "profiles" / f"{table}.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(profile_page(found, code), encoding="utf-8")
    say(f"profile: {file}")


@app.command()
def docs(
    ready: Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on loopback; 0: a free one.")] = 0,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Serve until Ctrl-C.")] = True,
) -> None:
    """Print the path of the Data Docs of the last run, and serve them on loopback until Ctrl-C."""
    from orchestration.quality.docs_server import docs_server
    from orchestration.quality.expectations import index_page

    index = index_page(ready.layout.quality)
    if index is None:
        raise UsageError("There are no Data Docs yet. Write them with: medallion quality run")
    out.print(str(index), highlight=False, soft_wrap=True)
    if not serve:
        return
    with docs_server(ready.layout.quality, port) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        say(f"Data Docs and profiles: {address}/ (Ctrl-C ends the server)")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
