"""``medallion recover``: makes whatever is gone or damaged right again, from what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from common.errors import UsageError
from common.machine.console import say
from orchestration.access.declaration.context import Context, context
from orchestration.cli.change.recover_output import gap_document, gap_line, step_document, step_lines
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption

if TYPE_CHECKING:
    from orchestration.change.recover.remedies import Step


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recover")(recover)


def recover(
    table: Annotated[
        str | None,
        typer.Argument(help="The table whose query does not start, such as bronze.orders; none: all."),
    ] = None,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    new_topic: Annotated[
        list[str] | None,
        typer.Option(
            "--new-topic",
            metavar="TOPIC",
            help="The topic was deleted and created again, or put back to an older state: read it from its "
            "first record that bronze does not have. Repeatable.",
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
    accept_gap: Annotated[
        bool,
        typer.Option(
            "--accept-gap",
            help="Write what bronze has lost into ops.gaps, and let bronze go on after it.",
        ),
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would be done; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make right again whatever is gone or damaged of the checkpoints and tables.

    Positions that were edited, lost or torn are written again by the commits of the table. A silver table
    whose state, table or side table is gone is filled again from bronze by the next start, then the tables
    that read it; gold is filled again from silver. What is replaced or moved is kept, and its folder printed.
    An interrupted recovery is finished by the same command. The jobs must be stopped; else exit code 4.

    With --accept-gap the offsets that retention has deleted before bronze read them, and those that bronze
    has passed without them, are written into the table ops.gaps: topic, partition, offsets, times. Bronze
    goes on after them, and the audit counts them as gaps. Of a Delta source these are versions of its log.

    With --new-topic bronze keeps the rows of the former topic and goes on with the new one, or with one that
    was put back to an older state: its rows have the topic's name with its generation, such as orders#2.

    --json: {"table", "plan", "steps": [{"query", "kind", "reasons", "changes", "reads", "rows", "bytes",
    "seconds", "moves"}], "kept": [folder]}; with --new-topic and --same-topic "changes": [text], with
    --accept-gap "gaps": [the columns of ops.gaps], where "steps" is.
    """
    ready = context(pipeline, settings, set_)
    if new_topic or same_topic:
        _begin_topics(ready, table, new_topic or (), same_topic or (), plan=plan, as_json=as_json)
    elif accept_gap:
        _accept_gaps(ready, table, plan=plan, as_json=as_json)
    else:
        _recover(ready, table, plan=plan, as_json=as_json)


def _recover(ready: Context, table: str | None, *, plan: bool, as_json: bool) -> None:
    """Make right again what is damaged."""
    from orchestration.change.recover.carry_out import recover_all
    from orchestration.run.topic_checks import broker_asker

    def announce(steps: tuple[Step, ...]) -> None:
        for step in () if as_json else steps:
            for line in step_lines(step, is_plan=plan):
                say(line)

    done = recover_all(
        ready.pipeline,
        ready.settings,
        ready.layout,
        only=table,
        is_plan=plan,
        ask=broker_asker(ready.pipeline, ready.settings, ready.layout),
        say=announce,
    )
    if as_json:
        steps = [step_document(step) for step in done.steps]
        print_document({"table": table, "plan": plan, "steps": steps, "kept": list(done.kept)})
        return
    if not done.steps:
        say(f"{table or ready.pipeline.name}: checkpoints and tables agree; there is nothing to do")
        return
    if plan:
        announce(done.steps)
        return
    for folder in done.kept:
        say(f"kept: {folder}")
    say("the next start of the jobs goes on from there; then check: medallion audit")


def _accept_gaps(ready: Context, table: str | None, *, plan: bool, as_json: bool) -> None:
    """Write down what is lost."""
    from orchestration.change.recover.carry_out import accept_all_gaps

    done = accept_all_gaps(ready.pipeline, ready.settings, ready.layout, only=table, is_plan=plan)
    gaps = [gap for one in done for gap in one.gaps]
    kept = [one.kept for one in done if one.kept is not None]
    if as_json:
        print_document({"plan": plan, "gaps": [gap_document(gap) for gap in gaps], "kept": kept})
        return
    for gap in gaps:
        say(gap_line(gap, is_plan=plan))
    for folder in kept:
        say(f"kept: {folder}")
    if not gaps:
        say(f"{table or 'bronze'}: nothing is lost that is not accepted yet")
    elif not plan:
        say("the next start of the bronze job goes on after the gaps; medallion audit tells of them")


def _begin_topics(
    ready: Context, table: str | None, new: Sequence[str], same: Sequence[str], *, plan: bool, as_json: bool
) -> None:
    """Go on with topics that were created again, or that have another id."""
    from orchestration.change.recover import startable as recoveries

    if table is None:
        raise UsageError(
            "--new-topic and --same-topic need the bronze table: medallion recover bronze.orders"
        )
    topics = recoveries.NewTopics(new, same)
    done = recoveries.recover(ready.pipeline, ready.settings, ready.layout, table, topics, is_plan=plan)
    if as_json:
        kept = [] if done.kept is None else [done.kept]
        print_document({"table": table, "plan": plan, "changes": list(done.steps), "kept": kept})
        return
    if not done.steps:
        say(f"{table}: the checkpoint agrees with the table's commits; there is nothing to do")
        return
    for step in done.steps:
        say(f"{table}: {'would change ' if plan else ''}{step}")
    if new and (notice := recoveries.topic_notice(ready.pipeline, table)) is not None:
        say(notice)
    if done.kept is not None:
        say(f"the checkpoint's files as they were: {done.kept}")
    if not plan:
        say("the next start of the job goes on from there")
