"""``medallion check``: validates a pipeline and its settings without Spark, Kafka or any table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.markup import escape
from rich.tree import Tree

from common.config.settings import Settings
from common.declare import Bronze, DeltaTable, Files, Pipeline, Stream
from common.declare.declared import is_in_catalog, is_outside
from common.errors import PipelineError, Problem, SettingsError, UsageError
from common.machine.console import out
from common.machine.terminal import visible, wrapped
from orchestration.access.declaration.context import Context, context
from orchestration.access.declaration.lineage import read_tables, readers
from orchestration.access.declaration.load_file import load_draft
from orchestration.access.progress.expired import lacking_records
from orchestration.author.cases.suite import file_problems, forget_modules
from orchestration.author.check.fix import difference, fixes, mended
from orchestration.author.check.notes import notes
from orchestration.author.check.pipeline import Findings, draft_findings, draft_problems, unchecked
from orchestration.author.check.settings import doubtful_settings
from orchestration.cli.json_output import print_document
from orchestration.cli.options import (
    JsonOption,
    PipelineOption,
    SetOption,
    SettingsOption,
    command_named,
    options_as_typed,
)
from orchestration.cli.problems_output import documents, print_problems
from orchestration.observe.alerts.scope import blind_rules

PathArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[PIPELINE]", help="The pipeline file; the same as -p.", show_default=False),
]

FixOption = Annotated[
    bool,
    typer.Option("--fix", help="Write what has exactly one answer into the files, and print the difference."),
]

SparkOption = Annotated[
    bool,
    typer.Option(
        "--spark",
        help="Have Spark analyze every SQL text, too, over no rows: a start, and 20 ms per text.",
    ),
]

_SECRETS = {"options", "conf", "channels", "openlineage"}
"""Sections whose values may hold a secret."""


@command_named("check")
def check_pipeline(
    path: PathArgument = None,
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
    fix: FixOption = False,
    spark: SparkOption = False,
) -> None:
    """Validate a pipeline, its settings and its tests, in a second and without Spark; print every problem.

    With --spark, Spark analyzes every SQL text too; what it refuses is printed with the rest.

    Exit code 2 if there is a problem.
    """
    if path is not None and pipeline is not None:
        raise UsageError(f"the pipeline file is named twice, {path} and -p {pipeline}: name it once")
    if fix:
        _mend(path or pipeline, settings, set_)
    try:
        ready = context(path or pipeline, settings, set_)
    except SettingsError as error:
        _print_beside(error, path or pipeline, as_json=as_json)
        raise
    found, judged = ready.draft.pipeline, _findings(ready, by_spark=spark)
    if as_json:
        shown = None if ready.draft.problems else found
        known = (*notes_of(shown, ready), *judged.notes) if shown else ()
        print_document(_document(shown, ready.settings, judged, known))
    elif judged.problems or found is None:
        print_problems(out, judged.problems, ready.settings.pipeline)
        _offer(judged.problems)
        _print_doubts(judged, ready)
    else:
        _print_doubts(judged, ready)
        _summary(found, ready.settings, (*notes_of(found, ready), *judged.notes))
    if judged.problems:
        raise typer.Exit(PipelineError.exit_code)


def _print_doubts(judged: Findings, ready: Context) -> None:
    if judged.doubts:
        print_problems(out, judged.doubts, ready.settings.pipeline, what="warning")


def _findings(ready: Context, *, by_spark: bool = False) -> Findings:
    """The mistakes of the pipeline and of its settings; where there is none, those of its tests."""
    found, judged = ready.draft.pipeline, draft_findings(ready.draft, ready.settings)
    problems = (*judged.problems, *doubtful_settings(found, ready.settings))
    unasked: tuple[str, ...] = ()
    if by_spark and found is not None and not ready.draft.problems:
        refused, unasked = _refusals(found, ready.settings, problems)
        problems += refused
    if found is not None and not problems and ready.settings.pipeline is not None:
        problems = file_problems(ready.settings.pipeline, found)
    return Findings(problems, judged.doubts, tuple(map(_UNASKED.format, unasked)))


_UNASKED = "{}: Spark was not asked for all of its SQL, which names columns that are not known here"


def _refusals(
    found: Pipeline, settings: Settings, told: Sequence[Problem]
) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """What Spark refuses of a pipeline, and the tables some of whose texts it was not asked for."""
    # Spark, which a check without it does not load.
    from orchestration.author.by_spark.analyze import refusals
    from orchestration.author.cases.session import open_cases

    with open_cases(settings) as session, session.room() as (spark, _):
        judged = refusals(spark, found, {each.place for each in told})
    return judged.problems, judged.unasked


_MOST_ROUNDS = 10
"""A mended name may show mistakes that it hid, which are mended in the next round."""


def _mend(path: Path | None, settings: Path | None, set_: list[str] | None) -> None:
    """Write what has exactly one answer into the files, and print each file's difference once."""
    done: set[tuple[Path, int, str]] = set()
    first: dict[Path, str] = {}
    last: dict[Path, str] = {}
    for _ in range(_MOST_ROUNDS):
        try:
            ready = context(path, settings, set_)
            file, problems = ready.settings.pipeline, _findings(ready).problems
        except SettingsError as error:
            file, problems = path, error.problems
        found = [each for each in fixes(problems) if each.mark not in done]
        if not found:
            break
        done.update(each.mark for each in found)
        for changed, (before, after) in mended(found).items():
            first.setdefault(changed, before)
            last[changed] = after
            changed.write_bytes(after.encode("utf-8"))
        forget_modules([file] if file is not None else [])
    for changed, before in first.items():
        for line in difference(changed, before, last[changed]):
            out.print(visible(line), markup=False, highlight=False, soft_wrap=True)


def _print_beside(error: SettingsError, file: Path | None, *, as_json: bool) -> None:
    """Print what is wrong with a pipeline file while the settings are wrong, too."""
    problems: tuple[Problem, ...] = ()
    if file is not None:
        with contextlib.suppress(UsageError):  # of a file that does not exist; the settings are wrong first
            problems = draft_problems(load_draft(file), None)
    if as_json:
        nothing: dict[str, Any] = {
            "warnings": [],
            "topics": {},
            "reads": {},
            "checked_at_start": [],
            "notes": [],
            "settings": {},
        }
        found = documents([*error.problems, *problems])
        file_text = str(file) if file else None
        print_document({"pipeline": None, "file": file_text, "ok": False, "problems": found, **nothing})
    elif problems:
        print_problems(out, problems, file)
        _offer([*error.problems, *problems])


def _offer(problems: Sequence[Problem]) -> None:
    """Say how many mistakes ``--fix`` would mend."""
    if number := len(fixes(problems)):
        which = (
            f"{number} of them have" if number > 1 else "one of them has" if len(problems) > 1 else "it has"
        )
        command = f"medallion check --fix{options_as_typed()}"
        out.print(f"\n{which} exactly one answer; to write it: {command}", markup=False, highlight=False)


def _shown(text: str) -> str:
    """The text as it is, neither markup nor control characters."""
    return escape(visible(text))


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
    every = [table for gold in pipeline.gold for table in read_tables(gold) if is_outside(table)]
    for path in dict.fromkeys(every):
        other = "table" if is_in_catalog(path) else "Delta table in"
        _grow(root.add(f"the {other} {_shown(path)}"), path, pipeline)
    return root


def _grow(branch: Tree, table: str, pipeline: Pipeline) -> None:
    for reader in readers(pipeline):
        if table in read_tables(reader):
            _grow(branch.add(reader.table), reader.table, pipeline)


def _source(topic: Bronze) -> str:
    if isinstance(topic, Files):
        return f"{topic.format} files in {topic.path}"
    if isinstance(topic, DeltaTable):
        return f"the Delta table in {topic.path}" if topic.in_catalog is None else f"the table {topic.folder}"
    if isinstance(topic, Stream):
        return f"the source {topic.format}"
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
    pipeline: Pipeline | None, settings: Settings, judged: Findings, known: Sequence[str]
) -> dict[str, Any]:
    bronze = pipeline.bronze if pipeline else ()
    topics = {topic.table: list(topic.topic_names) or [topic.pattern or ""] for topic in bronze}
    reads = {reader.table: list(read_tables(reader)) for reader in readers(pipeline)} if pipeline else {}
    return {
        "pipeline": pipeline.name if pipeline else None,
        "file": str(settings.pipeline) if settings.pipeline else None,
        "ok": not judged.problems,
        "problems": documents(judged.problems),
        "warnings": documents(judged.doubts),
        "topics": topics,
        "reads": reads,
        "checked_at_start": list(unchecked(pipeline)) if pipeline else [],
        "notes": list(known),
        "settings": dict(changed_settings(settings)),
    }
