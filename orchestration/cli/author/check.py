"""``medallion check``: validates a pipeline and its settings without Spark, Kafka or any table."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.markup import escape
from rich.tree import Tree

from common.config.settings import Settings
from common.declare import Bronze, Files, Pipeline
from common.errors import PipelineError, Problem, SettingsError, UsageError
from common.machine.console import out
from common.machine.terminal import visible, wrapped
from orchestration.access.declaration.context import Context, context
from orchestration.access.declaration.lineage import readers, sources
from orchestration.access.declaration.load_file import load_draft
from orchestration.access.progress.expired import lacking_records
from orchestration.author.cases.suite import file_problems
from orchestration.author.check.notes import notes
from orchestration.author.check.pipeline import draft_problems, unchecked
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.observe.alerts.scope import blind_rules

PathArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[PIPELINE]", help="The pipeline file; the same as -p.", show_default=False),
]

_SECRETS = {"options", "conf", "channels", "openlineage"}
"""Sections whose values may hold a secret."""


def register(app: typer.Typer) -> None:
    """Add ``check``."""
    app.command("check")(check_pipeline)


def check_pipeline(
    path: PathArgument = None,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Validate a pipeline, its settings and its tests, in a second and without Spark; print every problem.

    Exit code 2 if there is a problem.
    """
    try:
        ready = context(path or pipeline, settings, set_)
    except SettingsError as error:
        _print_beside(error, path or pipeline, as_json=as_json)
        raise
    found, problems = ready.draft.pipeline, draft_problems(ready.draft, ready.settings)
    if found is not None and not problems and ready.settings.pipeline is not None:
        problems = file_problems(ready.settings.pipeline, found)
    if as_json:
        shown = None if ready.draft.problems else found
        known = notes_of(shown, ready) if shown else ()
        typer.echo(json.dumps(_document(shown, ready.settings, problems, known), indent=2))
    elif problems or found is None:
        _print_problems(problems, ready.settings.pipeline)
    else:
        _summary(found, ready.settings, notes_of(found, ready))
    if problems:
        raise typer.Exit(PipelineError.exit_code)


def _print_beside(error: SettingsError, file: Path | None, *, as_json: bool) -> None:
    """Print what is wrong with a pipeline file while the settings are wrong, too."""
    problems: tuple[Problem, ...] = ()
    if file is not None:
        with contextlib.suppress(UsageError):  # of a file that does not exist; the settings are wrong first
            problems = draft_problems(load_draft(file), None)
    if as_json:
        wrong = [Problem("settings", line.strip()) for line in str(error).splitlines()]
        shown = {"pipeline": None, "file": str(file) if file else None, "ok": False}
        typer.echo(json.dumps(shown | {"problems": _listed([*wrong, *problems])}, indent=2))
    elif problems:
        _print_problems(problems, file)


def _listed(problems: Sequence[Problem]) -> list[dict[str, str]]:
    return [{"place": each.place, "message": each.message, "source": each.source} for each in problems]


def _shown(text: str) -> str:
    """The text as it is, neither markup nor control characters."""
    return escape(visible(text))


def _print_problems(problems: Sequence[Problem], file: Path | None) -> None:
    number = len(problems)
    out.print(
        f"[bold red]{number} problem{'' if number == 1 else 's'}[/] in {_shown(str(file))}",
        highlight=False,
        soft_wrap=True,
    )
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(problem.place.partition(",")[0], []).append(problem)
    for table, group in groups.items():
        first = group[0].source
        out.print(f"\n[bold]{_shown(table)}[/]  [dim]{_shown(first)}[/]", highlight=False, soft_wrap=True)
        for problem in group:
            _, _, rest = problem.place.partition(", ")
            text = f"{rest}: {problem.message}" if rest else problem.message
            elsewhere = f"  [dim]{_shown(problem.source)}[/]" if problem.source != first else ""
            out.print(f"  {_shown(_fitted(text, 2))}{elsewhere}", highlight=False, soft_wrap=True)


def _fitted(text: str, used: int = 0) -> str:
    """The text with breaks between words on a terminal, with a hanging indent behind ``used`` columns."""
    return wrapped(text, out.width, indent=" " * max(used, 2), used=used) if out.is_terminal else text


def notes_of(pipeline: Pipeline, ready: Context) -> tuple[str, ...]:
    """What to know of a correct declaration, and of tables that it adds to existing ones."""
    blind = blind_rules(ready.settings.alerts.active_rules, pipeline)
    return (*notes(pipeline), *blind, *lacking_records(pipeline, ready.layout))


def _summary(pipeline: Pipeline, settings: Settings, known: Sequence[str]) -> None:
    out.print(_tree(pipeline), highlight=False)
    for table in unchecked(pipeline):
        out.print(
            _fitted(f"{table}: a function computes its columns; they are checked when the job starts."),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    for note in known:
        out.print(f"[yellow]note[/]  {_shown(_fitted(note, 6))}", highlight=False, soft_wrap=True)
    changed = dict(changed_settings(settings))
    if changed:
        out.print("settings that are not the defaults:", highlight=False)
        for name, value in changed.items():
            out.print(f"  {name} = {value}", markup=False, highlight=False, soft_wrap=True)
    counts = ", ".join(
        f"{len(tables)} {layer}"
        for layer, tables in (
            ("bronze", pipeline.bronze),
            ("silver", pipeline.silver),
            ("gold", pipeline.gold),
        )
    )
    if pipeline.publish:
        counts += f", {len(pipeline.publish)} published"
    out.print(
        f"[bold green]ok[/]  {pipeline.name}: {counts}, {len(pipeline.quality)} quality", highlight=False
    )


def _tree(pipeline: Pipeline) -> Tree:
    """The lineage, from topics to gold tables."""
    root = Tree(f"[bold]{_shown(pipeline.name)}[/]")
    for topic in pipeline.bronze:
        branch = root.add(f"{_shown(_source(topic))} [dim]->[/] {topic.table}")
        _grow(branch, topic.table, pipeline)
    return root


def _grow(branch: Tree, table: str, pipeline: Pipeline) -> None:
    for reader in readers(pipeline):
        if table in sources(reader):
            _grow(branch.add(reader.table), reader.table, pipeline)


def _source(topic: Bronze) -> str:
    if isinstance(topic, Files):
        return f"{topic.format} files in {topic.path}"
    if topic.pattern is not None:
        return f"topics like {topic.pattern}"
    names = topic.topic_names
    return f"topic{'s' if len(names) > 1 else ''} {', '.join(names)}"


def changed_settings(settings: Settings) -> Iterator[tuple[str, str]]:
    """Settings that differ from their defaults, by dotted name; values that may be secret are masked."""
    standard: dict[str, Any] = {
        name: each.model_dump() if isinstance(each := field.default, BaseModel) else each
        for name, field in Settings.model_fields.items()
    }
    given = settings.model_dump()
    rules = settings.alerts.rules or {}
    given["alerts"]["rules"] = {
        name: rule.model_dump(by_alias=True, exclude_defaults=True) for name, rule in rules.items()
    }
    yield from _differences(given, standard, "")


def _differences(
    given: Mapping[str, Any], standard: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        usual = standard.get(name)
        if name in _SECRETS and isinstance(value, Mapping):
            yield from ((f"{prefix}{name}.{key}", "(set)") for key in value)
        elif isinstance(value, Mapping):
            # Of a section without a default, such as a rule of alerts, all that is set differs.
            yield from _differences(value, usual or {}, f"{prefix}{name}.")
        elif value != usual and f"{prefix}{name}" != "pipeline":
            yield f"{prefix}{name}", str(value)


def _document(
    pipeline: Pipeline | None, settings: Settings, problems: Sequence[Problem], known: Sequence[str]
) -> dict[str, Any]:
    bronze = pipeline.bronze if pipeline else ()
    topics = {topic.table: list(topic.topic_names) or [topic.pattern or ""] for topic in bronze}
    reads = {reader.table: list(sources(reader)) for reader in readers(pipeline)} if pipeline else {}
    return {
        "pipeline": pipeline.name if pipeline else None,
        "file": str(settings.pipeline) if settings.pipeline else None,
        "ok": not problems,
        "problems": _listed(problems),
        "topics": topics,
        "reads": reads,
        "checked_at_start": list(unchecked(pipeline)) if pipeline else [],
        "notes": list(known),
        "settings": dict(changed_settings(settings)),
    }
