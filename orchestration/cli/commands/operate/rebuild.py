"""``medallion rebuild``: fills a gold table again from silver."""

from __future__ import annotations

from typing import Annotated

import typer

from common.machine.console import out, say
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.cli.warm_job import ask_holder
from orchestration.pipeline.context import context


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rebuild")(rebuild)


def rebuild(
    table: Annotated[str, typer.Argument(help="The gold table, such as gold.latest_orders.")],
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill a gold table again from silver, at the next start of the gold job, or by the running job at once.

    Moves its checkpoint aside and deletes nothing.
    """
    from orchestration.jobs.rebuild import rebuild as move_checkpoint

    ready = context(pipeline, settings, set_)
    ready.pipeline.table(table)  # refuses a name that is not declared
    asked = ask_holder(ready, [table], "rebuild", {"table": table})
    moved = move_checkpoint(ready.pipeline, ready.layout, table) if asked is None else asked["moved"]
    if as_json:
        out.print_json(data={"table": table, "checkpoint_moved_to": moved})
        return
    when = "the next start of the gold job" if asked is None else "the running job"
    if moved is None:
        say(f"{table} has no checkpoint: {when} fills it again")
        return
    say(f"{table}: the checkpoint was moved to {moved}")
    say(f"{when} fills the table again; its first micro-batch replaces the rows")
