"""``medallion explain``: a gold table as a statement, or what the code of a message means; without Spark."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from common.codes import CODES
from common.errors import PipelineError, UsageError, nearest
from common.machine.console import out
from orchestration.access.declaration.context import context
from orchestration.author.check.explain import explain
from orchestration.author.check.pipeline import draft_problems
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption, command_named

if TYPE_CHECKING:
    from orchestration.author.check.explain import Estimate, Explanation


_LINK = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")


@command_named("explain")
def explain_what(  # the options of the command
    what: Annotated[
        str, typer.Argument(help="A gold table, such as gold.revenue, or a code, such as MED-1202.")
    ],
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a gold table as a statement, and how a view is kept; or what the code of a message means."""
    if what.upper().startswith("MED-"):
        _explain_code(what.upper(), as_json=as_json)
        return
    ready = context(pipeline, settings, set_)
    if problems := draft_problems(ready.draft, ready.settings):
        raise PipelineError(problems)
    found = explain(ready.pipeline, what, ready.layout)
    if as_json:
        print_document(asdict(found))
        return
    for line in _lines(found):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _explain_code(code: str, *, as_json: bool) -> None:
    if code not in CODES:
        raise UsageError(f"{code} is no code; {nearest(code, CODES)}")
    if as_json:
        print_document({"code": code, **asdict(CODES[code])})
        return
    for line in (f"{code}  {CODES[code].title}", CODES[code].advice):
        out.print(_LINK.sub(r"\1 (\2)", line), markup=False, highlight=False, soft_wrap=True)


def _lines(found: Explanation) -> list[str]:
    lines = [f"{found.table} has no statement: {'; '.join(found.unsaid)}"]
    if found.statement is not None:
        lines = [f"{found.table} is", found.statement, *(f"and beside it: {text}" for text in found.unsaid)]
    if found.kept:
        lines.append(f"{found.table} is kept {found.kept}: {found.why}")
    if found.last:
        lines.append(f"its last micro-batch was kept {found.last}")
    lines.append(f"columns: {', '.join(found.columns) or 'known when the job starts'}")
    if found.keys:
        lines.append(f"key: {', '.join(found.keys)}")
    for table, text in found.reads.items():
        lines += [f"when {table} changes it reads {text}", f"  {_rows(found.estimates[table])}"]
    return lines


def _rows(estimate: Estimate) -> str:
    """An estimate in words."""
    if estimate.rows is None:
        return "rows: not known, because the table is not there yet, or has files without statistics"
    usual = "" if estimate.changed is None else f", of which a usual commit changes {estimate.changed:,}"
    whole = f"{estimate.rows:,} rows{usual}"
    if estimate.read is None:
        return f"{whole}; how many it reads is not known"
    return f"{whole}; after one it reads about {estimate.read:,}{estimate.kept and f', {estimate.kept}'}"
