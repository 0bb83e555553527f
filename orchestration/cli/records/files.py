"""``medallion files list`` and ``skip``: the files that bronze tables are read from, and giving one up."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from common.machine.console import out, page, say
from orchestration.access.declaration.context import Context
from orchestration.cli.grid import Column, Grid
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption

app = typer.Typer(
    name="files", help="Files that bronze is read from: list them, give one up.", no_args_is_help=True
)

TableOption = Annotated[
    str | None, typer.Option("--table", "-t", help="A bronze table of files.", show_default="all of them")
]


@app.command("list")
def ls(ready: Context, table: TableOption = None, *, as_json: JsonOption = False) -> None:
    """List the files that were found, in that order, with the offsets of their records and their states.

    States: read, archived or deleted (after it was read), waiting (not read, or in part), unreadable, changed
    (after it was found), skipped, left out (by the declaration). A file that no job has found yet is not
    listed.
    """
    from orchestration.records.source_files.contents import select_files, source_files

    tables = select_files(ready.pipeline, table)
    found = [one for files in tables for one in source_files(ready.layout, files)]
    if as_json:
        print_document({"files": [asdict(one) for one in found]})
        return
    if not found:
        out.print("No file was found yet.")
        return
    columns = (
        Column("table", rank=0 if len(tables) > 1 else 3),
        Column("file"),
        Column("records", "right"),
        Column("read", "right", rank=1),
        Column("first offset", "right", rank=2),
        Column("state"),
        Column("why", rank=0 if any(one.why for one in found) else 4),
    )
    rows = [
        (
            one.table,
            one.path,
            f"{one.records:,}",
            f"{one.read:,}",
            "" if one.offset is None else f"{one.offset:,}",
            one.state,
            one.why,
        )
        for one in found
    ]
    page().print(Grid(columns, rows))


@app.command("skip")
def skip(
    ready: Context,
    path: Annotated[
        str, typer.Argument(help="The file: its path below the declared folder, as `files list` prints it.")
    ],
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; the audit shows it.")],
    table: TableOption = None,
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be done; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Give a file up that stops its query: its unread records are lost, and the query goes on behind them.

    What bronze has of the file stays. The offsets of the other records go into the table ops.gaps with the
    reason; the audit counts them as gaps. The file is not read again, whatever becomes of it: what should be
    read all the same goes into a file of another name. A file that cannot be read, or has changed after it
    was read, can be given up too: what is in it now is not read, and status does not name it any more. The
    audit lists it, and counts no gap, since its unread records never got offsets. The job that reads the
    files must be stopped; else exit code 4. An interrupted command is finished by the same command.
    """
    from orchestration.records.source_files.skip import skip_file

    done = skip_file(ready.pipeline, ready.layout, path, why, table=table, is_plan=plan)
    if as_json:
        print_document({"plan": plan, **asdict(done)})
        return
    if not done.is_new:
        say(f"{done.table}: {done.path} is skipped already")
        return
    would = "would be" if plan else "are"
    would_not = "would not be" if plan else "are not"
    if done.offset is None and done.read:
        say(
            f"{done.table}: {done.path}: its {done.read:,} offsets are in bronze, and stay; "
            f"what else is in it {would_not} read"
        )
    elif done.offset is None:
        say(f"{done.table}: {done.path} has no offsets; its records {would_not} read")
    else:
        span = f"offsets {done.offset} to {done.offset + done.records - 1} of {done.topic}"
        say(
            f"{done.table}: {done.path}: {done.records:,} records {would} lost, {span}; {done.read:,} are in "
            "bronze, and stay"
        )
    if plan:
        return
    say(
        "the next start of the job reads nothing more of it"
        + ("; medallion audit counts the gap" if done.records else "")
    )
