"""``medallion rebuild``: a gold table made anew from silver."""

from __future__ import annotations

from typing import Annotated

import typer

from common.machine.console import out, say
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.pipeline.context import context


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("rebuild")(rebuild)


def rebuild(
    table: Annotated[str, typer.Argument(help="The gold table, such as gold.latest_orders.")],
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have the next start of the gold job fill a gold table anew from silver.

    Its checkpoint is moved aside, nothing is deleted. The gold job must stand still: exit code 4 where not.
    """
    from orchestration.jobs.rebuild import rebuild as begin_anew  # loaded when it is used

    ready = context(pipeline, settings, set_)
    moved = begin_anew(ready.pipeline, ready.layout, table)
    if as_json:
        out.print_json(data={"table": table, "checkpoint_moved_to": moved})
        return
    if moved is None:
        say(f"{table} has no checkpoint: the next start of the gold job fills it anew as it is")
        return
    say(f"{table}: its checkpoint is now {moved}")
    say("the next start of the gold job fills the table anew; until its first micro-batch it stays as it is")
