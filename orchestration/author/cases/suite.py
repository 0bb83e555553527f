"""The cases of a command: from named files, or those beside the pipeline, each with its pipeline."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.config.settings import Settings
from common.declare import Pipeline
from common.errors import Fault, PipelineError, Problem, UsageError
from orchestration.access.declaration.load_file import load_draft
from orchestration.author.cases.problems import case_problems
from orchestration.author.cases.read.case import Case
from orchestration.author.cases.read.load import FOLDER, SUFFIXES, Loaded, find_files, load_files
from orchestration.author.cases.tables import with_json_values
from orchestration.author.check.pipeline import draft_problems


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases with their pipelines."""

    cases: tuple[tuple[Case, Pipeline], ...]  # the cases, each with its pipeline
    problems: tuple[Problem, ...]  # the mistakes of cases, with file and line
    files: tuple[Path, ...]  # the files of the cases and of their pipelines


def load_suite(files: Sequence[Path], settings: Settings) -> Suite:
    """The cases of files; without files, those beside the pipeline of the settings.

    Raises:
        PipelineError: A pipeline is wrong.
        UsageError: A file does not exist, or there is no case.
    """
    found = tuple(files) or _beside(settings.pipeline)
    loaded = load_files(found)
    pipelines: dict[Path, Pipeline] = {}
    problems = list(loaded.problems)
    cases: list[tuple[Case, Pipeline]] = []
    for case in loaded.cases:
        path = _pipeline_of(case, settings)
        if not files and not _is_same(path, settings.pipeline):
            continue
        if path.resolve() not in pipelines:
            pipelines[path.resolve()] = _checked(path, settings)
        cases.append((case, pipelines[path.resolve()]))
    for pipeline in pipelines.values():
        problems += case_problems([case for case, own in cases if own is pipeline], pipeline)
    if not cases and not problems:
        raise UsageError(f"no case in {', '.join(map(str, found))} is one of {settings.pipeline}.")
    return Suite(tuple(cases), tuple(problems), (*found, *pipelines))


def file_problems(pipeline_file: Path, pipeline: Pipeline) -> tuple[Problem, ...]:
    """The mistakes of the cases beside a pipeline file, each of the place ``cases``."""
    files = find_files(pipeline_file)
    loaded = load_files(files) if files else Loaded()
    own = [case for case in loaded.cases if case.pipeline is None or _is_same(case.pipeline, pipeline_file)]
    found = (*loaded.problems, *(case_problems(own, pipeline) if own else ()))
    # One group, as of a table: a comma in the name of a case must not part it.
    return tuple(
        Problem("cases", Fault("MED-1601", f"{each.place}: {each.message}"), each.source) for each in found
    )


def forget_modules(files: Sequence[Path]) -> None:
    """Have Python load the modules beside these files again when a file imports them."""
    folders = {str(file.resolve().parent) for file in files}
    for name, module in list(sys.modules.items()):
        source = getattr(module, "__file__", None)
        is_own = name in {"__main__", "medallion"}
        if source is not None and str(Path(source).parent) in folders and not is_own:
            del sys.modules[name]


def _beside(pipeline: Path | None) -> tuple[Path, ...]:
    if pipeline is None:
        raise UsageError("No file of cases and no pipeline named: medallion test shop.cases.yaml -p shop.py")
    if not pipeline.is_file():
        load_draft(pipeline)  # raises the error with the nearest file
    files = find_files(pipeline)
    if not files:
        example = pipeline.with_suffix(SUFFIXES[0])
        raise UsageError(
            f"No cases beside {pipeline}: files *{SUFFIXES[0]} or *{SUFFIXES[-1]} in its folder or in a "
            f"folder {FOLDER} there. Write the first into {example}, or record one: medallion test --record …"
        )
    return files


def _pipeline_of(case: Case, settings: Settings) -> Path:
    if case.pipeline is not None:
        return case.pipeline
    if settings.pipeline is None:
        raise UsageError(f"{case.place}: names no pipeline. Write 'pipeline: …' into the file, or give -p.")
    return settings.pipeline


def _is_same(one: Path, other: Path | None) -> bool:
    return other is not None and one.resolve() == other.resolve()


def _checked(path: Path, settings: Settings) -> Pipeline:
    draft = load_draft(path)
    problems = draft_problems(draft, settings)
    if draft.pipeline is None or problems:
        raise PipelineError(problems)
    with_json_values(draft.pipeline)  # refuses columns without types
    return draft.pipeline
