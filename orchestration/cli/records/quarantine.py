"""``medallion quarantine list``, ``show``, ``replay``: rows that silver rejected, and judging them again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from common.declare import Silver
from common.delta.log import latest_version
from common.errors import UsageError
from common.machine.console import err, out, page, say
from orchestration.access.declaration.context import Context
from orchestration.access.declaration.lineage import written_by
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption

if TYPE_CHECKING:
    from orchestration.access.query.duckdb_views import Database
    from orchestration.records.quarantine.replay import Replay

app = typer.Typer(
    name="quarantine", help="Rows that silver rejected: list them, judge them again.", no_args_is_help=True
)

TableOption = Annotated[
    str | None, typer.Option("--table", "-t", help="A silver table.", show_default="all of them")
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help="Only these rows: a condition over the quarantine's columns, such as "
        "\"array_contains(reasons, 'null_key')\" or \"topic = 'orders' and offset < 100\".",
    ),
]


@app.command("list")
def ls(ready: Context, table: TableOption = None, *, as_json: JsonOption = False) -> None:
    """Count quarantined rows by table and reason, with first and last time and the newest coordinates.

    A row with two reasons counts for both. Reads no payload.
    """
    from orchestration.cli.records.quarantine_output import group_document, group_table
    from orchestration.records.quarantine.contents import groups, select_silver_tables

    database = _database()
    found = [
        group
        for silver in select_silver_tables(ready.pipeline, table)
        for group in groups(database, ready.layout, silver)
    ]
    if as_json:
        print_document({"groups": [group_document(one) for one in found]})
    elif found:
        page().print(group_table(found))
    else:
        out.print("No row is in quarantine.")


@app.command("show")
def show(
    ready: Context,
    table: TableOption = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Only rows with this reason.")] = None,
    where: WhereOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows to show per table.")] = 10,
    *,
    is_full: Annotated[
        bool, typer.Option("--full", help="Print whole keys, values and headers, not only their beginnings.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Show quarantined rows, newest first: coordinates, times, reasons, headers, key, value.

    Payloads may be secret: no other command prints them. Characters that control or deceive a terminal are
    escaped: control characters and direction marks as \u001b, bytes that are not UTF-8 as \xff, a
    backslash as \\.
    """
    from orchestration.cli.records.quarantine_output import row_document, row_lines
    from orchestration.records.quarantine.contents import rows, select_silver_tables

    database = _database()
    found = (
        row
        for silver in select_silver_tables(ready.pipeline, table)
        if table is not None or latest_version(ready.layout.table_path(silver.quarantine)) is not None
        for row in rows(database, ready.layout, silver, reason=reason, where=where, limit=limit)
    )
    if as_json:
        documents = [row_document(row, is_full=is_full) for row in found]
        print_document({"rows": documents})
        return
    count = 0
    for row in found:
        # Not printed by the console, which would interpret markup and emoji codes in a payload.
        sys.stdout.write("\n" * bool(count) + "\n".join(row_lines(row, is_full=is_full)) + "\n")
        count += 1
    if not count:
        out.print("No such row is in quarantine.")


@app.command("replay")
def replay(
    ready: Context,
    table: Annotated[str, typer.Option("--table", "-t", help="The silver table.")],
    where: WhereOption = None,
    with_rules: Annotated[
        str | None,
        typer.Option(
            "--with-rules",
            metavar="new",
            help="'new': also judge rows that an older declaration rejected. Without this option only rows "
            "that today's declaration rejected are judged again, for when something outside of it has "
            "changed, such as the table of a lookup or a schema registry.",
        ),
    ] = None,
    *,
    is_dry_run: Annotated[
        bool, typer.Option("--plan", help="Only print what would happen; jobs may run.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Judge quarantined rows again: rows that pass are written to silver once, and gold follows.

    A row that fails again stays in quarantine. A row that is a duplicate of a row in silver only leaves
    quarantine. The command is idempotent, also after a crash. Dropped rows have no payload and are never
    replayed. A running silver job does the work itself, between two of its micro-batches.
    """
    from dataclasses import asdict

    from orchestration.cli.records.quarantine_output import replay_lines
    from orchestration.records.quarantine import replay as quarantine_replay
    from orchestration.records.quarantine.contents import select_silver_tables
    from orchestration.records.rejudge.select import require_condition

    if with_rules not in (None, "new"):
        raise UsageError(f"--with-rules {with_rules}: the only value is new.")
    (silver,) = select_silver_tables(ready.pipeline, table)
    version = quarantine_replay.require_replayable(silver, ready.layout)
    if where is not None:
        require_condition(where, silver.quarantine, ready.layout.table_path(silver.quarantine))
    is_with_new_rules = with_rules == "new"
    done = None if where is not None else _nothing(ready, silver, version, is_with_new_rules, is_dry_run)
    done = done or _replayed(
        ready, silver, where=where, is_with_new_rules=is_with_new_rules, is_dry_run=is_dry_run
    )
    if as_json:
        print_document(asdict(done))
    else:
        sys.stdout.write("\n".join(replay_lines(done)) + "\n")


def _nothing(
    ready: Context,
    silver: Silver,
    version: int,
    is_with_new_rules: bool,  # noqa: FBT001  # a flag of the command
    is_dry_run: bool,  # noqa: FBT001  # as above
) -> Replay | None:
    """The result of a replay that has no row to judge, without Spark; None if it has some."""
    from orchestration.records.quarantine.contents import judgeable
    from orchestration.records.quarantine.replay import Replay

    found = judgeable(_database(), ready.layout, silver, with_older=is_with_new_rules)
    if found.count:
        return None
    return Replay(silver.table, version, found.selected, found.dropped, found.older, is_dry_run=is_dry_run)


def _replayed(
    ready: Context, silver: Silver, *, where: str | None, is_with_new_rules: bool, is_dry_run: bool
) -> Replay:
    """The result of a replay by the running silver job, or by this process if there is none."""
    from orchestration.cli.warm_job import ask_holder
    from orchestration.records.quarantine import replay as quarantine_replay
    from orchestration.run.job import spark_for_writing
    from orchestration.run.serving.commands import REPLAYED

    flags = {"with_new_rules": is_with_new_rules, "dry_run": is_dry_run}
    arguments = {"table": silver.table, "where": where, **flags}
    if (asked := ask_holder(ready, [silver.table], "replay", arguments)) is not None:
        return REPLAYED.validate_python(asked)
    tables = () if is_dry_run else written_by(silver)
    with spark_for_writing(ready.pipeline, ready.settings, tables, name="quarantine") as spark:
        return quarantine_replay.replay(
            spark,
            ready.pipeline.name,
            silver,
            ready.layout,
            where=where,
            is_with_new_rules=is_with_new_rules,
            is_dry_run=is_dry_run,
            say=say,
        )


def _database() -> Database:
    from orchestration.access.query.duckdb_views import Database

    database = Database()
    if database.note:
        err.print(f"note: {database.note}", markup=False, style="dim")
    return database
