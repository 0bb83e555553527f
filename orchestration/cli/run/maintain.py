"""``medallion maintain``: compacts tables and deletes old files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from common.machine.console import page, say
from orchestration.access.declaration.context import Context
from orchestration.cli.grid import Column, Grid
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named
from orchestration.cli.warm_job import ask_job, holders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestration.run.maintenance import MaintenanceResult

_UNIT = 1024


@command_named("maintain")
def maintain_tables(
    ready: Context,
    tables: Annotated[list[str] | None, typer.Argument(help="Tables; all of the pipeline, if none.")] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--plan", help="Show files and bytes, and which old files would be kept; change nothing."
        ),
    ] = False,
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="Delete old files before their retention has passed, such as those with erased rows: no "
            "older version of the tables can be read afterwards. Stop whatever reads them.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compact or cluster tables (OPTIMIZE), delete files past their retention (VACUUM) and expired records.

    A running job maintains the tables that it writes itself, between its micro-batches. No row changes, and
    streams that read the tables continue. Files that a query of the pipeline has yet to read are kept.
    """
    from orchestration.run.job import spark_for_writing
    from orchestration.run.maintenance import plan_maintenance, select_tables

    names = select_tables(ready.pipeline, tables or ())
    if dry_run:
        done = [plan_maintenance(ready.pipeline, ready.layout, name, at_once=now) for name in names]
    else:
        done, rest = _by_running_jobs(ready, names, at_once=now)
        if rest:
            with spark_for_writing(ready.pipeline, ready.settings, rest, name="maintain") as spark:
                done += [_maintain(spark, ready, name, at_once=now) for name in rest]
        done.sort(key=lambda one: names.index(one.table))
    if as_json:
        print_document({"tables": [_document(one) for one in done]})
        return
    page().print(_table(done, is_dry_run=dry_run))
    for one in done:
        if one.kept_because:
            say(f"{one.table} keeps its old files: {one.kept_because}")
        if one.expired:
            say(f"{one.table}: {one.expired:,} records have expired")
        if one.expired_because:
            say(f"{one.table} keeps records that have expired: {one.expired_because}")


def _maintain(spark: SparkSession, ready: Context, table: str, *, at_once: bool) -> MaintenanceResult:
    """Maintain a table, of which no job holds the lease."""
    from orchestration.run.maintenance import maintain, plan_retention

    say(f"maintaining {table}")
    accepted = ready.settings.gold.accept_commits
    expiry = plan_retention(spark, ready.pipeline, ready.layout, table, accepted=accepted, say=say)
    return maintain(spark, ready.pipeline, ready.layout, table, at_once=at_once, expiry=expiry)


def _by_running_jobs(
    ready: Context, names: Sequence[str], *, at_once: bool
) -> tuple[list[MaintenanceResult], tuple[str, ...]]:
    """What running jobs have done for their own tables, and the tables that no running job maintains."""
    from orchestration.run.serving.commands import MAINTAINED

    done: list[MaintenanceResult] = []
    for holder, tables in holders(ready, names).items():
        if (found := ask_job(ready, holder.pid, "maintain", {"tables": tables, "now": at_once})) is not None:
            done += MAINTAINED.validate_python(found)
    known = {one.table for one in done}
    return done, tuple(name for name in names if name not in known)


def _document(one: MaintenanceResult) -> dict[str, Any]:
    return {
        "table": one.table,
        "files_before": one.before and one.before.files,
        "files_after": one.after and one.after.files,
        "bytes_before": one.before and one.before.bytes,
        "bytes_after": one.after and one.after.bytes,
        "old_files_deleted": one.deleted,
        "old_files_kept_because": one.kept_because or None,
        "expired_records": one.expired,
        "expired_records_kept_because": one.expired_because or None,
    }


def _table(done: list[MaintenanceResult], *, is_dry_run: bool) -> Grid:
    rows: list[Sequence[Text | str]] = []
    for one in done:
        if one.before is None:
            rows.append((one.table, Text("not yet", style="dim"), "", "", "", ""))
            continue
        files, size = ("", "") if one.after is None else (f"{one.after.files:,}", _size(one.after.bytes))
        deleted = "" if one.deleted is None else f"{one.deleted:,}"
        rows.append((one.table, f"{one.before.files:,}", files, _size(one.before.bytes), size, deleted))
    numbers = [Column(name, "right") for name in ("files", "after", "size", "after", "deleted")]
    grid = Grid((Column("table"), *numbers), rows, is_packed=True)
    return grid.only("table", "files", "size") if is_dry_run else grid


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < _UNIT:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _UNIT
    return f"{size:,.1f} TiB"
