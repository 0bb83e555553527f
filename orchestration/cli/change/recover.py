"""``medallion recover``: makes whatever is gone or damaged right again, from what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from common.errors import UsageError
from common.machine.console import say
from orchestration.access.declaration.context import Context
from orchestration.cli.change.recover_output import gap_document, gap_line, step_document, step_lines
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named

if TYPE_CHECKING:
    from orchestration.change.recover.remedies import Step


@command_named("recover")
def recover(
    ready: Context,
    table: Annotated[
        str | None,
        typer.Argument(help="The table whose query does not start, such as bronze.orders; none: all."),
    ] = None,
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
    """
    if new_topic or same_topic:
        told = _begin_topics(ready, table, new_topic or (), same_topic or (), plan=plan)
    elif accept_gap:
        told = _accept_gaps(ready, table, plan=plan)
    else:
        told = _recover(ready, table, plan=plan, is_quiet=as_json)
    if as_json:
        print_document({**told.document, "kept": [*told.kept]})
        return
    for line in (*told.lines, *(f"kept: {folder}" for folder in told.kept)):
        say(line)
    if told.nothing or not plan:
        say(told.nothing or told.then)


class _Told(NamedTuple):
    """What a recovery says: as JSON; line by line; where there is nothing to do; and what comes next."""

    document: Mapping[str, Any]
    lines: Sequence[str]
    kept: Sequence[str]
    nothing: str
    then: str


def _recover(ready: Context, table: str | None, *, plan: bool, is_quiet: bool) -> _Told:
    """Make right again what is damaged."""
    from orchestration.change.recover.carry_out import recover_all
    from orchestration.run.topic_checks import broker_asker

    def announce(steps: tuple[Step, ...]) -> None:
        for line in () if is_quiet else (line for step in steps for line in step_lines(step, is_plan=plan)):
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
    if plan:
        announce(done.steps)
    steps = [step_document(step) for step in done.steps]
    agree = f"{table or ready.pipeline.name}: checkpoints and tables agree; there is nothing to do"
    then = "the next start of the jobs goes on from there; then check: medallion audit"
    document = {"table": table, "plan": plan, "steps": steps}
    return _Told(document, (), done.kept, "" if steps else agree, then)


def _accept_gaps(ready: Context, table: str | None, *, plan: bool) -> _Told:
    """Write down what is lost."""
    from orchestration.change.recover.carry_out import accept_all_gaps

    done = accept_all_gaps(ready.pipeline, ready.settings, ready.layout, only=table, is_plan=plan)
    gaps = [gap for one in done for gap in one.gaps]
    kept = [one.kept for one in done if one.kept is not None]
    nothing = "" if gaps else f"{table or 'bronze'}: nothing is lost that is not accepted yet"
    then = "the next start of the bronze job goes on after the gaps; medallion audit tells of them"
    document = {"plan": plan, "gaps": [gap_document(gap) for gap in gaps]}
    return _Told(document, [gap_line(gap, is_plan=plan) for gap in gaps], kept, nothing, then)


def _begin_topics(
    ready: Context, table: str | None, new: Sequence[str], same: Sequence[str], *, plan: bool
) -> _Told:
    """Go on with topics that were created again, or that have another id."""
    from orchestration.change.recover import startable as recoveries

    if table is None:
        raise UsageError(
            "--new-topic and --same-topic need the bronze table: medallion recover bronze.orders"
        )
    topics = recoveries.NewTopics(new, same)
    done = recoveries.recover(ready.pipeline, ready.settings, ready.layout, table, topics, is_plan=plan)
    lines = [f"{table}: {'would change ' if plan else ''}{step}" for step in done.steps]
    if lines and new and (notice := recoveries.topic_notice(ready.pipeline, table)) is not None:
        lines.append(notice)
    agree = f"{table}: the checkpoint agrees with the table's commits; there is nothing to do"
    document = {"table": table, "plan": plan, "changes": [*done.steps]}
    kept = [] if done.kept is None else [done.kept]
    return _Told(
        document, lines, kept, "" if lines else agree, "the next start of the job goes on from there"
    )
