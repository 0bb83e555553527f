"""``medallion receipts dismiss``: receipts of producers that are known to be wrong count for nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from common.machine.console import say
from orchestration.access.declaration.context import Context
from orchestration.access.query.shown_values import part
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption

app = typer.Typer(
    name="receipts", help="Receipts of producers: dismiss what is known to be wrong.", no_args_is_help=True
)
app.callback()(lambda: None)


@app.command("dismiss")
def dismiss(
    ready: Context,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; the audit shows it.")],
    names: Annotated[
        list[str] | None, typer.Argument(help="The records, as the faults of `medallion audit` name them.")
    ] = None,
    *,
    unreadable: Annotated[
        bool, typer.Option("--unreadable", help="Also all records that are no receipts as of now.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Dismiss receipts that are known to be wrong: the audit goes on as if they were not there.

    They are written into the table ops.dismissed_receipts, and each audit says which ones they are, since
    when, and why. There is no way back. A record is named by its bytes: the same one sent again is dismissed
    as well, and no other is. The records of bronze that only a dismissed receipt is of have none; its number
    is not missing.
    """
    from orchestration.records.receipts.dismiss import dismiss as carry_out
    from orchestration.run.topic_checks import receipts_reader

    read = receipts_reader(ready.pipeline, ready.settings)
    found = carry_out(ready.pipeline, ready.layout, read, names or (), why, unreadable=unreadable)
    if as_json:
        print_document({"dismissed": [part(one) for one in found]})
        return
    for one in found:
        say(f"{one.topic}: {one.receipt} is dismissed")
    say("medallion audit compares the others" if found else "nothing was dismissed that was not before")
