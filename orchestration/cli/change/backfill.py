"""``medallion backfill``: processes what is available, layer by layer; ``backfill list``: the former runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from common.errors import MedallionError, QualityFailedError
from common.machine.console import out, say
from orchestration.access.declaration.context import Context, context
from orchestration.access.progress.record_range import parse_range
from orchestration.change.backfill.runs import COMPLETE, FAILED, STOPPED, RunRecord, read_runs
from orchestration.cli.change.recover_output import effort_text
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption, options_as_typed
from orchestration.cli.run.run import checked, end_of, say_quarantined
from orchestration.cli.run.tried_remedies import tried_remedies
from orchestration.observe.page.serve import alerts_of
from orchestration.observe.status.words.state import to_count_words
from orchestration.records.quarantine.added import QuarantinedMeanwhile

if TYPE_CHECKING:  # imports Spark, which `backfill list` does not need
    from orchestration.change.backfill.catch_up import LayerResult
    from orchestration.change.backfill.run import Plan, Request

Layer = Literal["bronze", "silver", "gold"]

_PLACE = "a time as 2026-01-05T10:00Z, or offsets as orders/0=120,orders/1=80"

backfills = typer.Typer(name="backfill", invoke_without_command=True)


@backfills.callback()
def backfill(
    ctx: typer.Context,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    layer: Annotated[Layer | None, typer.Option("--layer", help="Only this layer.")] = None,
    table: Annotated[
        str | None, typer.Option("--table", "-t", help="Only the query of this table, as silver.orders.")
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help=f"Where a new bronze table begins: {_PLACE}."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="PLACE", help="Bronze stops at the first micro-batch that reaches it."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--max-records-per-second", min=0.001, help="Most records per second and query."),
    ] = None,
    flush: Annotated[
        bool, typer.Option("--flush", help="Close windows that are open at the end: no more events come.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print rows, bytes and time; read nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Process what is available now, then end: bronze, then silver, then gold.

    Ctrl-C stops at a micro-batch boundary; the same command continues from there, and after the end there is
    nothing left to read. `backfill list` lists the former runs.
    """
    if ctx.invoked_subcommand is not None:
        return
    from orchestration.change.backfill.run import Request, require_possible

    ready = checked(context(pipeline, settings, set_))
    records = None if begin is None and end is None else parse_range(begin, end)
    request = Request.of(ready.pipeline, ready.settings, layer, table, records, rate, flush=flush)
    require_possible(ready.pipeline, ready.layout, request)
    if plan:
        from orchestration.change.backfill.run import plan as plan_run

        _print_plan(plan_run(ready.pipeline, ready.settings, ready.layout, request), as_json=as_json)
        return
    _backfill(ready, request, as_json=as_json)


def _backfill(ready: Context, request: Request, *, as_json: bool) -> None:
    from orchestration.change.backfill import run
    from orchestration.change.backfill.tail import tails
    from orchestration.run.job import open_job

    with (
        tried_remedies(ready),
        alerts_of(ready.pipeline, ready.settings),
        open_job(
            ready.pipeline,
            ready.settings,
            request.layers,
            name="backfill",
            compiled="rows",
            only=request.table,
        ) as job,
    ):
        aside = QuarantinedMeanwhile(ready.pipeline, ready.layout)
        record = RunRecord(ready.layout.backfills, request.options)
        try:
            results = run.run(job, request, record, show=lambda found: _print_plan(found, as_json=False))
        except MedallionError as error:
            record.end(FAILED, str(error))
            raise
        failure = end_of(job, publishes=request.table is None)
        is_complete = len(results) == len(request.layers) and all(done.is_whole for done in results)
        if failure is not None and not isinstance(failure, QualityFailedError):
            record.end(FAILED, str(failure))
        else:
            record.end(COMPLETE if is_complete else STOPPED)
        left = [one.text for one in tails(ready.pipeline, job.supervisor.queries)]
    for text in left:
        say(text)
    say_quarantined(aside)
    _print_results(results, request, is_complete=is_complete, as_json=as_json and failure is None)
    if failure is not None:
        raise failure


def _print_results(
    results: Sequence[LayerResult], request: Request, *, is_complete: bool, as_json: bool
) -> None:
    if as_json:
        documents = [{"layer": d.layer, "rows": d.rows, "seconds": round(d.seconds, 3)} for d in results]
        print_document({"complete": is_complete, "layers": documents})
    for done in results:
        say(done.text)
    if not is_complete:
        options = f" {request.options}" if request.options else ""
        command = f"medallion backfill{options}{options_as_typed()}"
        say(f"stopped at a micro-batch boundary; no data is lost. To continue: {command}")
        raise typer.Exit(130)


def _print_plan(found: Plan, *, as_json: bool) -> None:
    """Print what a run reads, and what it leaves out."""
    if as_json:
        reads = [
            {"table": one.table, "is_at_most": one.is_at_most, **asdict(one.effort)} for one in found.reads
        ]
        print_document({"reads": reads, "left_out": {one.topic.table: one.left_out for one in found.begins}})
        return
    for begin in found.begins:
        say(
            f"{begin.topic.table} begins at {begin.text}; {begin.left_out:,} older offsets are left out, and "
            "the audit counts them as gaps"
        )
    for one in found.reads:
        if one.is_counted_later:
            say(f"{one.table}: {to_count_words(one.sources, one.waiting)}")
            continue
        at_most = "at most " if one.is_at_most and one.effort.rows is not None else ""
        say(f"{one.table}: reads {at_most}{effort_text(one.effort, knows_bytes=one.effort.bytes > 0)}")


@backfills.command("list")
def ls(
    ctx: typer.Context,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """List former backfills, newest first: when, how each ended, rows, seconds, and what it was to read."""
    before = ctx.parent.params if ctx.parent is not None else {}  # options that stand before `list`
    as_json = as_json or bool(before.get("as_json"))
    ready = context(
        pipeline or before.get("pipeline"),
        settings or before.get("settings"),
        [*(before.get("set_") or []), *(set_ or [])],
    )
    runs = read_runs(ready.layout.backfills)
    if as_json:
        names = ("started_at", "ended_at", "state", "options", "rows", "seconds", "error")
        data = [{name: getattr(one, name) for name in names} for one in runs]
        print_document({"runs": data})
        return
    for one in runs:
        what = one.options or "everything"
        numbers = f"{one.rows:>12,} rows {one.seconds:>9,.1f} s"
        out.print(
            f"{one.started_at:%Y-%m-%d %H:%M:%SZ}  {one.state:<8} {numbers}  {what}",
            highlight=False,
            soft_wrap=True,
        )
        if one.error:
            out.print(f"  {one.error}", highlight=False, markup=False, soft_wrap=True)
    if not runs:
        say("no backfill was started here")
