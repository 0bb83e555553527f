"""``medallion quality run`` and ``docs``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from common.delta.log import LogReader
from common.errors import QualityFailedError, UsageError
from common.machine.console import out, say
from common.spark.session import build_session
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption, context
from orchestration.quality import expectations as quality

app = typer.Typer(name="quality", help="Validate tables with Great Expectations.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Add the verbs."""
    parent.add_typer(app)


@app.command()
def run(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Tables; all that have a suite, if none.")
    ] = None,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Validate the declared suites at each table's newest version and write the Data Docs.

    Exit code 3 when a suite fails. Runs beside the jobs: it reads one version and takes no lease.
    """
    ready = context(pipeline, settings, set_)
    suites = quality.select_suites(ready.pipeline, tables or [])
    versions = quality.pin_versions(suites, ready.layout)
    spark = build_session(ready.settings, "quality", ready.layout.log, compiled="rows")
    try:
        validator = quality.Validator(spark, ready.layout.quality)
        results = []
        for suite in suites:
            path = ready.layout.table_path(suite.table)
            say(f"validating {suite.table} at version {versions[suite.table]}")
            snapshot = LogReader(path).snapshot()
            rows = snapshot.rows if snapshot and snapshot.version == versions[suite.table] else None
            results.append(validator.validate(suite, path, versions[suite.table], rows))
        docs = validator.docs()
    finally:
        spark.stop()
    if as_json:
        out.print_json(data={"data_docs": str(docs), "suites": [asdict(result) for result in results]})
    else:
        for result in results:
            out.print(_table(result))
        out.print(f"Data Docs: {docs}", highlight=False, soft_wrap=True)
    failed = [result for result in results if not result.is_met]
    if failed:
        broken = sum(not one.is_met for result in failed for one in result.checked)
        names = ", ".join(f"{result.table} (version {result.version})" for result in failed)
        raise QualityFailedError(
            f"{broken} expectation(s) not met on {names}. The Data Docs show each: {docs}"
        )


@app.command()
def docs(pipeline: PipelineOption = None, settings: SettingsOption = None, set_: SetOption = None) -> None:
    """Print where the Data Docs of the last run are."""
    ready = context(pipeline, settings, set_)
    pages = sorted(ready.layout.quality.glob("gx/uncommitted/data_docs/*/index.html"))
    if not pages:
        raise UsageError("There are no Data Docs yet. Write them with: medallion quality run")
    out.print(str(pages[0]), highlight=False, soft_wrap=True)


def _table(result: quality.SuiteResult) -> Table:
    mark = "[green]passed[/]" if result.is_met else "[bold red]failed[/]"
    rows = f", {result.rows:,} rows" if result.rows is not None else ""
    table = Table(title=f"{result.table}, version {result.version}{rows}: {mark}", title_justify="left")
    table.add_column("")
    table.add_column("expectation")
    table.add_column("column")
    table.add_column("found")
    for one in result.checked:
        sign = "[green]✓[/]" if one.is_met else "[bold red]✗[/]"
        table.add_row(sign, one.expectation.removeprefix("expect_"), one.column, one.observed)
    return table
