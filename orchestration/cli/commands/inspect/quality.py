"""``medallion quality run`` validates tables; ``quality docs`` prints the path of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from common.declare import Quality
from common.errors import QualityFailedError, UsageError
from common.machine.console import out, page, say
from common.machine.terminal import visible
from common.spark.session import build_session
from orchestration.cli.grid import Column, Grid
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.cli.warm_job import ask_holder
from orchestration.pipeline.context import Context, context
from orchestration.quality import expectations as quality

app = typer.Typer(name="quality", help="Validate tables with Great Expectations.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app)


@app.command()
def run(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Tables; without any, all that have a suite.")
    ] = None,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Validate the newest version of each table against its suite, and write the Data Docs.

    Exit code 3 if a suite fails. Jobs may run: it reads one version and takes no lease;
    a running job that writes one of the tables does the work in its session.
    """
    ready = context(pipeline, settings, set_)
    suites = quality.select_suites(ready.pipeline, tables or [])
    results, docs = _validated(ready, suites)
    if as_json:
        found = {"data_docs": str(docs), "suites": [asdict(result) for result in results]}
        out.print_json(data=found, ensure_ascii=True)
    else:
        for result in results:
            page().print(_tables(result))
        out.print(f"Data Docs: {docs}", highlight=False, soft_wrap=True)
    failed = [result for result in results if not result.is_met]
    if failed:
        broken = sum(not one.is_met for result in failed for one in result.checked)
        names = ", ".join(f"{result.table} (version {result.version})" for result in failed)
        raise QualityFailedError(
            f"{broken} expectation{'' if broken == 1 else 's'} failed on {names}. Data Docs: {docs}"
        )


def _validated(ready: Context, suites: Sequence[Quality]) -> tuple[list[quality.SuiteResult], str]:
    """Results and path of the Data Docs; by a running job that writes one of the tables, if there is one."""
    from orchestration.jobs.serving.commands import SUITES

    quality.pin_versions(suites, ready.layout)  # refuses early
    names = [suite.table for suite in suites]
    if (found := ask_holder(ready, names, "quality", {"tables": names})) is not None:
        return SUITES.validate_python(found)
    spark = build_session(ready.settings, "quality", ready.layout.log, compiled="rows")
    try:
        results, docs = quality.run_suites(spark, suites, ready.layout, say)
    finally:
        spark.stop()
    return results, str(docs)


@app.command()
def docs(pipeline: PipelineOption = None, settings: SettingsOption = None, set_: SetOption = None) -> None:
    """Print the path of the Data Docs of the last run."""
    ready = context(pipeline, settings, set_)
    pages = sorted(ready.layout.quality.glob("gx/uncommitted/data_docs/*/index.html"))
    if not pages:
        raise UsageError("There are no Data Docs yet. Write them with: medallion quality run")
    out.print(str(pages[0]), highlight=False, soft_wrap=True)


def _tables(result: quality.SuiteResult) -> Group:
    mark = ("passed", "green") if result.is_met else ("failed", "bold red")
    rows = f", {result.rows:,} rows" if result.rows is not None else ""
    title = Text.assemble(f"{result.table}, version {result.version}{rows}: ", mark)
    columns = (Column(""), Column("expectation"), Column("column"), Column("found"))
    lines = [
        (
            Text("✓", style="green") if one.is_met else Text("✗", style="bold red"),
            one.expectation.removeprefix("expect_"),
            one.column,
            visible(one.observed),
        )
        for one in result.checked
    ]
    return Group(title, Grid(columns, lines), Text())
