"""``medallion quarantine ls``, ``show`` and ``replay``: what silver set aside, and its way back."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from common.delta.log import latest_version
from common.errors import UsageError
from common.machine.console import err, out, page, say
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption, context

if TYPE_CHECKING:
    from orchestration.query.duckdb_views import Database

app = typer.Typer(
    name="quarantine", help="Rows that silver set aside: see them, judge them again.", no_args_is_help=True
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


def register(parent: typer.Typer) -> None:
    """Add the verbs."""
    parent.add_typer(app)


@app.command("ls")
def ls(  # one argument per option
    table: TableOption = None,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    overrides: SetOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Count quarantined rows by table and reason: first and last seen, and the last one's coordinates.

    A row with two reasons counts for both. Reads no payload.
    """
    from orchestration.cli.quarantine_output import group_document, group_table
    from orchestration.quarantine.contents import chosen, groups  # loaded when it is used
    from silver.judge.rules import rules_version

    around = context(pipeline, settings, overrides)
    database = _database()
    found = [
        group
        for silver in chosen(around.pipeline, table)
        for group in groups(database, around.layout, silver, rules_version(silver))
    ]
    if as_json:
        sys.stdout.write(json.dumps([group_document(one) for one in found], indent=2) + "\n")
    elif found:
        page().print(group_table(found))
    else:
        out.print("Nothing is in quarantine.")


@app.command("show")
def show(  # one argument per option
    table: TableOption = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Only rows with this reason.")] = None,
    where: WhereOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Rows to show, of each table.")] = 10,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    overrides: SetOption = None,
    *,
    is_full: Annotated[
        bool, typer.Option("--full", help="Whole keys, values and headers, not only their beginnings.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Show quarantined rows, the last that came in first: coordinates, times, reasons, headers, key, value.

    Payloads may be secret: this is the only command that prints them, and it prints them because you
    ask. What a terminal would obey or hide is escaped: control characters and direction marks as \u001b,
    bytes that are no UTF-8 as \xff, a backslash as \\.
    """
    from orchestration.cli.quarantine_output import row_document, row_lines
    from orchestration.quarantine.contents import chosen, rows  # loaded when it is used
    from silver.judge.rules import rules_version

    around = context(pipeline, settings, overrides)
    database = _database()
    found = (
        row
        for silver in chosen(around.pipeline, table)
        if table is not None or latest_version(around.layout.table_path(silver.quarantine)) is not None
        for row in rows(
            database, around.layout, silver, rules_version(silver), reason=reason, where=where, limit=limit
        )
    )
    if as_json:
        documents = [row_document(row, is_full=is_full) for row in found]
        sys.stdout.write(json.dumps(documents, indent=2) + "\n")
        return
    count = 0
    for row in found:
        # Not by the console: it would read markup and emoji codes in a payload.
        sys.stdout.write("\n" * bool(count) + "\n".join(row_lines(row, is_full=is_full)) + "\n")
        count += 1
    if not count:
        out.print("No such row is in quarantine.")


@app.command("replay")
def replay(  # one argument per option
    table: Annotated[str, typer.Option("--table", "-t", help="The silver table.")],
    where: WhereOption = None,
    with_rules: Annotated[
        str | None,
        typer.Option(
            "--with-rules",
            metavar="new",
            help="'new': also judge rows that another declaration had judged, by today's. "
            "Without it only rows that today's declaration judged are judged again: for when something "
            "outside it has changed, such as the table of a lookup, or a schema registry.",
        ),
    ] = None,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    overrides: SetOption = None,
    *,
    is_dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say what would happen; may run beside the jobs."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Judge quarantined rows again: those that pass now go into silver, each once, and gold follows.

    A row that still fails stays as it is. A row whose event silver has already only leaves quarantine.
    Running it twice, or again after a crash, ends the same. Dropped rows have no payload left and are
    never replayed. The silver job must stand still meanwhile: exit code 4 names who holds the table.
    """
    from dataclasses import asdict

    from orchestration.cli.quarantine_output import replay_lines
    from orchestration.jobs.job import reading, writing
    from orchestration.quarantine import replay as quarantine_replay  # loaded when it is used
    from orchestration.quarantine.contents import chosen

    if with_rules not in (None, "new"):
        raise UsageError(f"--with-rules {with_rules}: write --with-rules new, or leave it out.")
    around = context(pipeline, settings, overrides)
    (silver,) = chosen(around.pipeline, table)
    quarantine_replay.require(silver, around.layout)
    if is_dry_run:
        session = reading(around.pipeline, around.settings, name="quarantine")
    else:
        tables = (silver.table, *silver.side_tables)
        session = writing(around.pipeline, around.settings, tables, name="quarantine")
    with session as spark:
        done = quarantine_replay.replay(
            spark,
            around.pipeline.name,
            silver,
            around.layout,
            where=where,
            is_with_new_rules=with_rules == "new",
            is_dry_run=is_dry_run,
            say=say,
        )
    if as_json:
        sys.stdout.write(json.dumps(asdict(done), indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(replay_lines(done)) + "\n")


def _database() -> Database:
    from orchestration.query.duckdb_views import Database  # loaded when it is used

    database = Database()
    if database.note:
        err.print(f"note: {database.note}", markup=False, style="dim")
    return database
