"""``medallion reconcile``: compares a table with the source that its rows come from."""

from __future__ import annotations

from typing import Annotated

import typer

from common.declare.intervals import parse_duration
from common.errors import ReconciliationError, UsageError
from common.machine.console import page, say
from orchestration.access.declaration.context import Context
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named

AgainstOption = Annotated[
    str,
    typer.Option(
        "--against",
        metavar="SOURCE",
        help="postgresql://user@host/db?table=schema.name, a Delta table, or .parquet or .csv files.",
    ),
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="COLUMN",
        help="A column of the key; repeatable.",
        show_default="what identifies a row by the declaration",
    ),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option("--column", help="Compare this column; repeatable.", show_default="all that both have"),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="COLUMN=SQL", help="What a column of the table is in the source; repeatable."
    ),
]
ChangedAtOption = Annotated[
    str | None,
    typer.Option(
        "--changed-at",
        metavar="COLUMN",
        help="The source's column with the time of a row's change: rows newer than the table are not wrong.",
    ),
]
SettleOption = Annotated[
    str | None,
    typer.Option(
        "--settle", metavar="TIME", help="Compare what differs again after this time, such as '1 minute'."
    ),
]


@command_named("reconcile")
def reconcile(
    ready: Context,
    table: Annotated[str, typer.Argument(help="A silver or gold table.")],
    against: AgainstOption,
    key: KeyOption = None,
    columns: ColumnOption = None,
    maps: MapOption = None,
    changed_at: ChangedAtOption = None,
    settle: SettleOption = None,
    version: Annotated[
        int | None,
        typer.Option("--as-of", metavar="VERSION", min=0, help="Compare this version of the table."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most differing keys that are named.")] = 20,
    *,
    has_values: Annotated[
        bool, typer.Option("--values", help="Also print what each side has in the columns that differ.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a table with the source that its rows come from, row by row, by the key.

    medallion reconcile gold.customers --against "postgresql://reader@db/shop?table=public.customers"

    Says how many keys are missing, extra, repeated or have other values, by ranges of the key, and names the
    first of them. PostgreSQL is read in one transaction, so that all rows are of one moment; its password
    comes from PGPASSWORD or ~/.pgpass. Values are compared by the types of the table: none is rounded to an
    equal one. The source may be ahead of the table: --changed-at leaves out what is newer than the table has
    read, --settle compares what differs once more. Needs no Spark. Exit code 1: rows differ.
    """
    from orchestration.cli.records import reconcile_output
    from orchestration.records.reconcile.reconcile import Wanted
    from orchestration.records.reconcile.reconcile import reconcile as run

    seconds = 0 if settle is None else _seconds(settle)
    mapped = dict(map(_mapped, maps or ()))
    wanted = Wanted(table, against, key or (), columns or (), mapped, version, changed_at, seconds, limit)
    found = run(ready.pipeline, ready.layout, wanted)
    if as_json:
        print_document(reconcile_output.document(found, has_values=has_values))
    else:
        for part in reconcile_output.report(found, has_values=has_values):
            page().print(part, "", sep="\n", highlight=False)
    if wrong := found.result.wrong:
        noun = "key is" if wrong == 1 else "keys are"
        raise ReconciliationError(f"{table}: {wrong:,} {noun} not the same as in {found.against}")
    if not as_json:
        equal = f"{found.result.equal:,} keys, {reconcile_output.compared(found)}"
        say(f"{table} (version {found.version}) has the rows of {found.against}: {equal}")


def _mapped(text: str) -> tuple[str, str]:
    name, is_given, sql = text.partition("=")
    if not (is_given and name.strip() and sql.strip()):
        raise UsageError(f"--map {text!r} is not COLUMN=SQL, such as --map amount='price * quantity'")
    return name.strip(), sql.strip()


def _seconds(settle: str) -> float:
    if (length := parse_duration(settle)) is None:
        raise UsageError(f"--settle {settle!r} is no time; write it like '1 minute'")
    return length.seconds
