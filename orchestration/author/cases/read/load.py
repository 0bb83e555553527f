"""Finds and reads files of cases: ``*.cases.yaml`` and ``*.cases.py`` beside a pipeline. Starts nothing."""

from __future__ import annotations

import contextlib
import runpy
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common.errors import CaseError, Problem, UsageError
from orchestration.access.declaration.public_names import load_public_names
from orchestration.author.cases.read.build import Builder
from orchestration.author.cases.read.case import Case
from orchestration.author.cases.read.located import YamlError, located, read_yaml

YAML_SUFFIXES = (".cases.yaml", ".cases.yml")
SUFFIXES = (*YAML_SUFFIXES, ".cases.py")
FOLDER = "cases"
"""A folder beside the pipeline whose files of cases are found too."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The cases of some files."""

    cases: tuple[Case, ...] = ()  # the cases without a mistake
    problems: tuple[Problem, ...] = ()  # the mistakes, with file and line


def case(  # noqa: PLR0913
    name: str,
    *,
    messages: Sequence[Any],
    expect: Mapping[str, str | Sequence[Mapping[str, Any]]],
    topic: str | None = None,
    timestamp: Any = None,
    lookups: Mapping[str, str | Sequence[Mapping[str, Any]]] | None = None,
) -> Case:
    """A case, as a file ``*.cases.py`` or a test declares it.

    Args:
        messages: The records in order: a mapping (JSON), a text, bytes, a ``Message``, or a mapping with
            ``value``, ``key``, ``headers``, ``timestamp``, ``topic``, ``partition``, ``offset``; ``"cut"``
            begins another micro-batch.
        expect: The expected rows by table: a table of text, or a list of mappings; only the columns that are
            named are compared, in any order of rows.
        topic: The topic of records that name none; unset: the pipeline's only topic.
        timestamp: Kafka's timestamp of records that name none.
        lookups: Rows of the tables that rules look up, by the lookup's name.

    Raises:
        CaseError: The case is wrong; names every mistake.
    """
    frame = sys._getframe(1)  # noqa: SLF001  # there is no public function for it
    given = {"name": name, "messages": messages, "expect": expect}
    further = {"topic": topic, "timestamp": timestamp, "lookups": lookups}
    given |= {key: value for key, value in further.items() if value is not None}
    builder = Builder(Path(frame.f_code.co_filename))
    made = builder.case(located(given, frame.f_lineno))
    if made is None:
        raise CaseError(builder.problems)
    return made


def find_files(pipeline: Path) -> tuple[Path, ...]:
    """The files of cases in the folder of a pipeline file, and in its sub-folder ``cases``; sorted."""
    folders = (pipeline.parent, pipeline.parent / FOLDER)
    files = (file for folder in folders if folder.is_dir() for file in folder.iterdir())
    return tuple(sorted(file for file in files if file.name.endswith(SUFFIXES)))


def load_files(files: Iterable[Path]) -> Loaded:
    """The cases of files, with all mistakes.

    Raises:
        UsageError: A file does not exist, or its name ends in none of ``SUFFIXES``.
    """
    cases: list[Case] = []
    problems: list[Problem] = []
    for file in files:
        if not file.is_file():
            raise UsageError(f"{file}: no such file of cases.")
        if not file.name.endswith(SUFFIXES):
            raise UsageError(f"{file}: the name of a file of cases ends in {' or '.join(SUFFIXES)}.")
        found = _of_python(file) if file.name.endswith(".py") else _of_yaml(file)
        cases += found.cases
        problems += found.problems
    return Loaded(tuple(cases), tuple(problems))


def _of_yaml(file: Path) -> Loaded:
    builder = Builder(file)
    try:
        cases = builder.cases(read_yaml(file))
    except YamlError as error:
        return Loaded(problems=(error.problem,))
    return Loaded(tuple(cases), tuple(builder.problems))


def _of_python(file: Path) -> Loaded:
    """The cases among the values of a Python file, also those in lists."""
    load_public_names()
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)
    try:
        values = runpy.run_path(str(file.resolve()))
    except CaseError as error:
        return Loaded(problems=error.problems)
    except Exception as error:  # noqa: BLE001  # whatever the user's file raises is its problem
        own = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(file.resolve())
        ]
        place = f"{file}:{own[-1]}" if own else str(file)
        return Loaded(problems=(Problem("cases", f"raised {type(error).__name__}: {error}", place),))
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)
    cases = list(_cases_in(values.values()))
    pipeline = values.get("pipeline")
    if isinstance(pipeline, str | Path):
        cases = [replace(each, pipeline=file.parent / pipeline) for each in cases]
    if not cases:
        return Loaded(problems=(Problem("cases", "holds no case: assign case(…) to a name", str(file)),))
    return Loaded(tuple(cases))


def _cases_in(values: Iterable[Any]) -> Iterator[Case]:
    for value in values:
        if isinstance(value, Case):
            yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if isinstance(each, Case))
