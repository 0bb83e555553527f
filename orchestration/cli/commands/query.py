"""``medallion query``: SQL over the tables, and their list."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from common.config.paths import all_tables
from common.delta.log import snapshot
from common.errors import UsageError
from common.machine.console import err, out
from orchestration.cli.options import Context, JsonOption, PipelineOption, SetOption, SettingsOption, context

_LIMIT = 50


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("query")(query)


def query(  # one argument per option
    sql: Annotated[
        str | None,
        typer.Argument(
            help="DuckDB SQL; '-' reads it from standard input; without it, the tables are listed."
        ),
    ] = None,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    overrides: SetOption = None,
    *,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Rows to print.", show_default=f"{_LIMIT}; all with --json and --csv"),
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=0, help="Read the table as it was at this version.")
    ] = None,
) -> None:
    """Ask the tables: medallion query "select * from gold.x".

    Tables are bronze.x, silver.x, silver.x__quarantine and gold.x. Times are UTC.
    """
    from orchestration.cli.query_output import print_table, write_csv, write_json
    from orchestration.query.duckdb_views import Database, run_query  # loaded when it is used

    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other: keep one.")
    around = context(pipeline, settings, overrides)
    text = sys.stdin.read() if sql == "-" else sql
    if text is None:
        if as_csv or version is not None:
            raise UsageError(
                "--csv and --version need SQL, such as: medallion query --csv 'select * from gold.x'"
            )
        _list_tables(around, as_json=as_json)
        return
    if not text.strip():
        raise UsageError("The SQL is empty. Write it as one argument: medallion query 'select * from gold.x'")
    database = Database()
    if database.note:
        err.print(f"note: {database.note}", markup=False, style="dim")
    answer = run_query(database, around.layout, all_tables(around.pipeline), text, version)
    if as_json:
        write_json(answer, limit, sys.stdout)
    elif as_csv:
        write_csv(answer, limit, sys.stdout)
    else:
        print_table(answer, limit or _LIMIT, out)


def _list_tables(around: Context, *, as_json: bool) -> None:
    """Every table: rows, files, bytes, version and newest commit; all null while it is not written."""
    from orchestration.cli.query_output import shown_time

    found = {name: snapshot(around.layout.table_path(name)) for name in all_tables(around.pipeline)}
    if as_json:
        document = [
            {
                "table": name,
                "path": around.layout.table_path(name),
                "rows": now and now.rows,
                "files": now and now.files,
                "bytes": now and now.bytes,
                "version": now and now.version,
                "committed_at": now
                and now.timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            }
            for name, now in found.items()
        ]
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for name, justify in (
        ("table", "left"),
        ("rows", "right"),
        ("version", "right"),
        ("newest commit", "left"),
    ):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for name, now in found.items():
        if now is None:
            table.add_row(name, "", "", "[dim]not yet[/]")
        else:
            rows = "?" if now.rows is None else f"{now.rows:,}"
            table.add_row(name, rows, str(now.version), shown_time(now.timestamp))
    out.print(table)
