"""``medallion erase``: erases records from bronze and silver; gold follows, and the audit balances."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from common.errors import UsageError
from common.machine.console import page, say
from common.machine.terminal import count_of
from orchestration.access.declaration.context import Context
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named
from orchestration.cli.warm_job import ask_job, holders

if TYPE_CHECKING:
    from orchestration.records.erasure.erase import Plan


@command_named("erase")
def erase(
    ready: Context,
    table: Annotated[str, typer.Argument(help="The silver table whose columns the condition names.")],
    where: Annotated[
        str,
        typer.Option(
            "--where", metavar="SQL", help="Which rows, such as \"customer = 'C7'\"; null is no match."
        ),
    ],
    plan: Annotated[
        bool, typer.Option("--plan", help="Only count rows per table; write nothing. Jobs may run.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase without the question.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Erase records of Kafka from bronze, silver, late and quarantine tables; gold follows.

    Erased are the records of all matching rows, matching records that silver did not take, and the copies of
    an event whose row is erased, from bronze and from every silver table that reads it. The audit counts
    them as erased. A running job that writes bronze and all of these silver tables (medallion up) erases
    them itself, between its micro-batches; jobs of one layer must be stopped (else exit code 4), and silver
    must have read all of bronze. After a crash the same command finishes the erasure.
    """
    from orchestration.records.erasure import erase as erasing
    from orchestration.records.rejudge.select import require_condition
    from orchestration.run.job import spark_for_writing

    silver = erasing.select_table(ready.pipeline, table)
    erasing.readers_of_bronze(ready.pipeline, ready.layout, silver)
    require_condition(where, silver.table, ready.layout.table_path(silver.table))
    if not (plan or yes or sys.stdin.isatty()):
        raise UsageError("erase asks before it erases, and nobody can answer here: add --yes, or --plan")
    leases = erasing.written_tables(ready.pipeline, silver)
    is_wanted = partial(_is_wanted, is_dry_run=plan, is_confirmed=yes, as_json=as_json)
    done = _by_running_job(ready, leases, {"table": silver.table, "where": where}, is_wanted)
    if done is None:
        require = partial(erasing.require_erasable, ready.pipeline, ready.layout, silver, is_dry_run=plan)
        with (
            spark_for_writing(
                ready.pipeline, ready.settings, () if plan else leases, name="erase", require=require
            ) as spark,
            erasing.planned(
                spark, ready.pipeline, silver, ready.layout, where, is_dry_run=plan, say=say
            ) as erasure,
        ):
            done = erasure.plan, is_wanted(erasure.plan)
            if done[1]:
                erasure.carry_out(say)
    found, is_done = done
    if is_done:
        say(f"erased {count_of(found.records, 'records')}")
    if as_json:
        from orchestration.cli.records.erase_output import document

        print_document(document(found, is_done=is_done))
    elif is_done:
        _show_old_files(ready, found)


def _by_running_job(
    ready: Context, tables: Sequence[str], given: Mapping[str, str], is_wanted: Callable[[Plan], bool]
) -> tuple[Plan, bool] | None:
    """What the one running job that writes all these tables has planned, and whether it has erased.

    It plans first, then erases. None where no job does.
    """
    from orchestration.run.serving.commands import ERASED

    held = holders(ready, tables)
    pid = next((holder.pid for holder, own in held.items() if set(own) == set(tables)), None)
    planned = None if pid is None else ask_job(ready, pid, "erase", {**given, "plan": True})
    if pid is None or planned is None:
        return None
    # The job has silver read the rest of bronze before it erases.
    found = replace(ERASED.validate_python(planned), unread="")
    if not is_wanted(found):
        return found, False
    done = ask_job(ready, pid, "erase", {**given, "plan": False})
    return None if done is None else (ERASED.validate_python(done), True)


def _is_wanted(found: Plan, *, is_confirmed: bool, as_json: bool, is_dry_run: bool) -> bool:
    """Show the plan, and ask; returns whether the rows are to be erased."""
    from orchestration.cli.records import erase_output

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
    return True


def _show_old_files(ready: Context, plan: Plan) -> None:
    from common.delta.log import LogReader
    from common.delta.maintenance.retention import FILES, retention
    from orchestration.cli.records.erase_output import old_files

    logs = {one.table: LogReader(ready.layout.table_path(one.table)) for one in plan.tables}
    kept = {table: retention(log.properties(), FILES) for table, log in logs.items()}
    for line in old_files(plan, kept, datetime.now(UTC)):
        say(line)
