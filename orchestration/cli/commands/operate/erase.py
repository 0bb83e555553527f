"""``medallion erase``: erases records from bronze and silver; gold follows, and the audit balances."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from common.errors import UsageError
from common.machine.console import out, page, say
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.pipeline.context import Context, context

if TYPE_CHECKING:
    from orchestration.erasure.erase import Erasure, Plan


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("erase")(erase)


def erase(
    table: Annotated[str, typer.Argument(help="The silver table whose columns the condition names.")],
    where: Annotated[
        str,
        typer.Option(
            "--where", metavar="SQL", help="Which rows, such as \"customer = 'C7'\"; null is no match."
        ),
    ],
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only count rows per table; write nothing. Jobs may run.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase without the question.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Erase records of Kafka from bronze, silver, late and quarantine tables; gold follows.

    Erased are the records of all matching rows, matching records that silver did not take, and the copies of
    an event whose row is erased, from bronze and from every silver table that reads it. The audit counts
    them as erased. The bronze and silver jobs must be stopped (else exit code 4), and silver must have read
    all of bronze. After a crash the same command finishes the erasure.
    """
    from orchestration.erasure.erase import planned, readers_of_bronze, select_table, written_tables
    from orchestration.jobs.job import spark_for_writing

    ready = context(pipeline, settings, set_)
    silver = select_table(ready.pipeline, table)
    readers_of_bronze(ready.pipeline, ready.layout, silver)
    if not (plan or yes or sys.stdin.isatty()):
        raise UsageError("erase asks before it erases, and nobody can answer here: add --yes, or --plan")
    leases = () if plan else written_tables(ready.pipeline, silver)
    with (
        spark_for_writing(ready.pipeline, ready.settings, leases, name="erase") as spark,
        planned(spark, ready.pipeline, silver, ready.layout, where, is_dry_run=plan, say=say) as erasure,
    ):
        is_done = _carry_out(erasure, is_dry_run=plan, is_confirmed=yes, as_json=as_json)
    if as_json:
        from orchestration.cli.erase_output import document

        out.print_json(data=document(erasure.plan, is_done=is_done))
    elif is_done:
        _show_old_files(ready, erasure.plan)


def _carry_out(erasure: Erasure, *, is_dry_run: bool, is_confirmed: bool, as_json: bool) -> bool:
    """Show the plan, ask, and erase; returns whether rows were erased."""
    from orchestration.cli import erase_output

    found = erasure.plan
    if not as_json:
        page().print(erase_output.table(found))
        for line in erase_output.notes(found):
            say(line)
    if not found.records and found.cut_off is None:
        say("nothing matches: nothing was erased")
        return False
    if is_dry_run:
        say("plan only: nothing was erased")
        return False
    if not is_confirmed and not typer.confirm("Erase these rows? There is no way back", err=True):
        say("nothing was erased")
        return False
    erasure.carry_out(say)
    say(f"erased {found.records:,} records")
    return True


def _show_old_files(ready: Context, plan: Plan) -> None:
    from common.delta.log import LogReader
    from common.delta.retention import FILES, retention
    from orchestration.cli.erase_output import old_files

    logs = {one.table: LogReader(ready.layout.table_path(one.table)) for one in plan.tables}
    kept = {table: retention(log.properties(), FILES) for table, log in logs.items()}
    for line in old_files(plan, kept, datetime.now(UTC)):
        say(line)
