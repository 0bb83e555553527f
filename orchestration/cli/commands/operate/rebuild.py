"""``medallion rebuild``: fills a gold table again from silver."""

from __future__ import annotations

from typing import Annotated

import typer

from common.machine.console import out, say
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
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
    """Fill a gold table again from silver, at the next start of the gold job.

    Moves its checkpoint aside and deletes nothing. The gold job must be stopped; else exit code 4.
    """
    from orchestration.jobs.rebuild import rebuild as move_checkpoint

    ready = context(pipeline, settings, set_)
    moved = move_checkpoint(ready.pipeline, ready.layout, table)
    if as_json:
        out.print_json(data={"table": table, "checkpoint_moved_to": moved})
        return
    if moved is None:
        say(f"{table} has no checkpoint: the next start of the gold job fills it again")
        return
    say(f"{table}: the checkpoint was moved to {moved}")
    say("the next start of the gold job fills the table again; its first micro-batch replaces the rows")
