"""``medallion query``: SQL over the tables, and the list of tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from common.config.paths import all_tables, queryable_tables
from common.delta.log import snapshot
from common.errors import UsageError
from common.machine.console import err, out, page
from orchestration.access.declaration.context import Context
from orchestration.access.query.shown_values import iso
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named

_LIMIT = 50


@command_named("query")
def query(
    ready: Context,
    sql: Annotated[
        str | None,
        typer.Argument(
            help="DuckDB SQL; '-' reads it from standard input; without it, the tables are listed."
        ),
    ] = None,
    *,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Rows to print.", show_default=f"{_LIMIT}; all with --json and --csv"),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--as-of", metavar="VERSION", min=0, help="Read this version of the table.")
    ] = None,
    is_unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe", help="Permit SQL that writes, or opens files and addresses besides the tables."
        ),
    ] = False,
) -> None:
    """Run SQL over the tables: medallion query "select * from gold.x".

    Tables are bronze.x, silver.x, silver.x__quarantine, gold.x and the engine's own: ops.micro_batches,
    ops.gaps (accepted gaps), ops.erased (erased records), ops.dismissed_receipts, quality.results. Times are
    UTC. The SQL can read these tables and nothing else, unless --unsafe is given.
    """
    from orchestration.access.query.duckdb_views import Database, run_query
    from orchestration.cli.access.query_output import print_table, write_csv, write_json

    if as_json and as_csv:
        raise UsageError("--json and --csv: use only one of them.")
    text = sys.stdin.read() if sql == "-" else sql
    if text is None:
        if as_csv or version is not None:
            raise UsageError(
                "--csv and --as-of need SQL, such as: medallion query --csv 'select * from gold.x'"
            )
        _list_tables(ready, as_json=as_json)
        return
    if not text.strip():
        raise UsageError("The SQL is empty. Write it as one argument: medallion query 'select * from gold.x'")
    tables = queryable_tables(ready.pipeline)
    database = Database(None if is_unsafe else [ready.layout.table_path(table) for table in tables])
    if database.note:
        err.print(f"note: {database.note}", markup=False, style="dim")
    answer = run_query(database, ready.layout, tables, text, version)
    if as_json:
        write_json(answer, limit, sys.stdout)
    elif as_csv:
        write_csv(answer, limit, sys.stdout)
    else:
        print_table(answer, limit or _LIMIT, out)


def _list_tables(ready: Context, *, as_json: bool) -> None:
    """List the tables: rows, version and newest commit; in JSON null for a table that does not exist yet."""
    from rich.text import Text

    from orchestration.cli.access.query_output import shown_time
    from orchestration.cli.grid import Column, Grid

    found = {name: snapshot(ready.layout.table_path(name)) for name in all_tables(ready.pipeline)}
    if as_json:
        document = [
            {
                "table": name,
                "path": ready.layout.table_path(name),
                **{each: now and getattr(now, each) for each in ("rows", "files", "bytes", "version")},
                "committed_at": iso(now.timestamp if now else None),
            }
            for name, now in found.items()
        ]
        print_document({"tables": document})
        return
    columns = (
        Column("table"),
        Column("rows", "right"),
        Column("version", "right", rank=1),
        Column("newest commit", is_time=True),
    )
    rows: list[Sequence[Text | str]] = []
    for name, now in found.items():
        if now is None:
            rows.append((name, "", "", Text("not yet", style="dim")))
        else:
            count = "?" if now.rows is None else f"{now.rows:,}"
            rows.append((name, count, str(now.version), shown_time(now.timestamp)))
    page().print(Grid(columns, rows))
