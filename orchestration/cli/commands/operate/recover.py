"""``medallion recover``: makes a query startable again, by what its table says."""

from __future__ import annotations

from typing import Annotated

import typer

from common.machine.console import out, say
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.pipeline.context import context


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recover")(recover)


def recover(
    table: Annotated[
        str, typer.Argument(help="The table whose query does not start, such as bronze.orders.")
    ],
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    new_topic: Annotated[
        list[str] | None,
        typer.Option(
            "--new-topic",
            metavar="TOPIC",
            help="The topic was deleted and created again: read the new one from its first record. "
            "Repeatable.",
        ),
    ] = None,
    same_topic: Annotated[
        list[str] | None,
        typer.Option(
            "--same-topic",
            metavar="TOPIC",
            help="The topic has another id, and the same records at the same offsets: go on. Repeatable.",
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be done; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a query startable again: write its checkpoint by the commits of its table.

    Every commit names the query, the micro-batch and the positions that it has read. Positions that were
    edited, lost or torn are written again; for bronze this brings back a whole checkpoint. What is replaced
    is kept beside the checkpoint. No row of a table changes. The job that writes the table must be stopped;
    else exit code 4.

    With --new-topic bronze keeps the rows of the former topic and goes on with the new one: rows of the new
    topic have the topic's name with its generation, such as orders#2.

    --json: {"table", "plan", "steps": [text], "kept": the folder with the former files, or null}.
    """
    from orchestration.jobs import recover as recoveries

    ready = context(pipeline, settings, set_)
    topics = recoveries.NewTopics(tuple(new_topic or ()), tuple(same_topic or ()))
    done = recoveries.recover(ready.pipeline, ready.settings, ready.layout, table, topics, is_plan=plan)
    if as_json:
        out.print_json(data={"table": table, "plan": plan, "steps": list(done.steps), "kept": done.kept})
        return
    if not done.steps:
        say(f"{table}: the checkpoint agrees with the table's commits; there is nothing to do")
        return
    for step in done.steps:
        say(f"{table}: {'would change ' if plan else ''}{step}")
    if topics.new and (notice := recoveries.topic_notice(ready.pipeline, table)) is not None:
        say(notice)
    if done.kept is not None:
        say(f"the checkpoint's files as they were: {done.kept}")
    if not plan:
        say("the next start of the job goes on from there")
