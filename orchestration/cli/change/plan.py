"""``medallion plan``: what the next start of a pipeline does with its tables, before it is started."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.codes import TO_DO
from common.errors import PipelineError
from common.machine.console import out
from common.machine.terminal import visible
from orchestration.access.declaration.context import Context
from orchestration.author.check.pipeline import draft_problems
from orchestration.cli.change.recover_output import effort_text
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named

if TYPE_CHECKING:  # imports Spark, which other commands do not need
    from pyspark.sql import SparkSession

    from orchestration.change.plan.change import Change, QueryPlan

_PARTS = re.compile(r",\s+(?=[\w.`]+(?: |: |=)\S)")
"""Between two columns of a schema, or two entries of a mapping; not inside ``decimal(10, 2)``."""

_MANY_PARTS = 3
"""A text of fewer parts is shown whole, before and now."""

_WORDS = {
    "unchanged": "unchanged",
    "no effect": "has no effect",
    "not declared": "no longer declared",
    "next start": "goes on by the new declaration",
    "not compared": "goes on by the new declaration if no column gets another type (--exact compares types)",
    "new column": "new column; rows that are there have null",
    "new": "is created and filled",
    "rebuild": "needs a rebuild: the next start is refused until then",
    "refused": "refused: the next start ends with an error",
}


@command_named("plan")
def plan_pipeline(  # the options of the command
    ready: Context,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--fast",
            help="Compare all columns by Spark, or no types; unset: by Spark if an edit may change a type.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what the next start does with each table, checkpoint and publication. Changes nothing.

    Exit code 6 if the next start does anything else than go on, 0 if not.
    """
    if problems := draft_problems(ready.draft, ready.settings):
        raise PipelineError(problems)
    from orchestration.change.plan.plan import plan

    with ExitStack() as stack:
        source = None if exact is False else _lazy_spark(ready, stack)
        plans = plan(ready.pipeline, ready.settings, ready.layout, source, exact=bool(exact))
    if as_json:
        print_document({"pipeline": ready.pipeline.name, "queries": [_document(one) for one in plans]})
    else:
        _print(plans)
        for line in _former_names(ready, plans):
            out.print(visible(line), markup=False, highlight=False, soft_wrap=True)
    if any(each.effect != "unchanged" for each in plans):
        raise typer.Exit(TO_DO)


def _lazy_spark(ready: Context, stack: ExitStack) -> Any:
    """A function that starts a small session at its first call."""

    def get() -> SparkSession:
        from orchestration.author.cases.session import open_cases

        session = stack.enter_context(open_cases(ready.settings))
        spark, _ = stack.enter_context(session.room())
        return spark

    return get


def _document(one: QueryPlan) -> dict[str, Any]:
    changes = [asdict(each) for each in one.changes]
    effort = None if one.effort is None else asdict(one.effort)
    return {"query": one.query, "effect": one.effect, "changes": changes, "reads": effort}


def _print(plans: Sequence[QueryPlan]) -> None:
    for one in plans:
        for line in _lines(one):
            out.print(visible(line), markup=False, highlight=False, soft_wrap=True)
    number = sum(one.effect != "unchanged" for one in plans)
    text = f"{number} of {len(plans)} queries change" if number else "nothing to do: every query goes on"
    out.print(text, markup=False, highlight=False)


def _former_names(ready: Context, plans: Sequence[QueryPlan]) -> Iterator[str]:
    """What a pipeline of another name has in the folder of the data, where this one has nothing yet."""
    if ready.settings.checkpoints is not None or any(one.effect != "new" for one in plans):
        return
    names = {one.query for one in plans}
    for folder in sorted(ready.settings.data_dir.glob("*/checkpoints")):
        has = {one.name for one in folder.iterdir()} & names
        if has and folder.resolve() != Path(ready.layout.checkpoints).resolve():
            name = folder.parent.name
            yield (
                f"{folder.parent} has {len(has)} of these {len(names)} queries, of a pipeline {name}. If that"
                " one was renamed: under its new name nothing of it goes on, and all records are read again; "
                f"to go on with it, name it {name!r} again"
            )


def _difference_of(change: Change) -> str:
    """The parts of a long text that differ, as of a schema: the others are the same before and now."""
    old, new = _PARTS.split(change.old), _PARTS.split(change.new)
    removed, added = _without(old, new), _without(new, old)
    if min(len(old), len(new)) < _MANY_PARTS or not removed + added:
        return f"{change.name}: {change.old} -> {change.new}"
    parts = [*(f"- {part}" for part in removed), *(f"+ {part}" for part in added)]
    return f"{change.name}: {', '.join(parts)}"


def _without(parts: Sequence[str], others: Sequence[str]) -> list[str]:
    left = Counter(others)
    found = []
    for part in parts:
        if left[part]:
            left[part] -= 1
        else:
            found.append(part)
    return found


def _lines(one: QueryPlan) -> Iterator[str]:
    yield f"{one.query}: {_WORDS[one.effect]}"
    for change in one.changes:
        yield f"  {_difference(change)}"
        effect = "" if change.effect == one.effect else _WORDS[change.effect]
        if text := ". ".join(filter(None, [effect, change.why])):
            yield f"    {text}"
    if one.effect == "rebuild":
        yield f"  type: medallion rebuild {one.query}"
    if one.effect == "new column" and one.query.startswith("silver."):
        yield f"  to fill it: medallion rebuild {one.query}; for some records: medallion restate {one.query}"
    if one.effort is not None:
        yield f"  reads {effort_text(one.effort)}"


def _difference(change: Change) -> str:
    if change.old and change.new:
        return _difference_of(change)
    if change.new:
        return f"{change.name}: + {change.new}"
    return f"{change.name}: - {change.old}" if change.old else change.name
