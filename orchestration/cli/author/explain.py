"""``medallion explain``: how a view is kept, without Spark."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from common.errors import PipelineError
from common.machine.console import out
from orchestration.access.declaration.context import context
from orchestration.author.check.explain import explain
from orchestration.author.check.pipeline import draft_problems
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption

if TYPE_CHECKING:
    from orchestration.author.check.explain import Explanation


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(explain_view)


def explain_view(  # the options of the command
    table: Annotated[str, typer.Argument(help="The view, such as gold.revenue.")],
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how a view is kept: its sources, the way, the key, and what a change of each source reads."""
    ready = context(pipeline, settings, set_)
    if problems := draft_problems(ready.draft, ready.settings):
        raise PipelineError(problems)
    found = explain(ready.pipeline, table)
    if as_json:
        out.print_json(data=asdict(found))
        return
    for line in _lines(found):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _lines(found: Explanation) -> list[str]:
    lines = [f"{found.table} is kept {found.kept}: {found.why}", f"columns: {', '.join(found.columns)}"]
    if found.keys:
        lines.append(f"key: {', '.join(found.keys)}")
    return [*lines, *(f"when {table} changes it reads {text}" for table, text in found.reads.items())]
