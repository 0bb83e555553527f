"""Loads a user's pipeline file. Loading starts nothing and needs no Spark."""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from common.declare import Pipeline
from common.declare.declared import collect_problems
from common.errors import Fault, PipelineError, Problem, UsageError, closest, nearest
from common.spark_words import class_hint
from orchestration.access.declaration.public_names import load_public_names, medallion_names

_OWN = r"'(?:medallion|common\.declare)'"
_NOT_PUBLIC = re.compile(rf"cannot import name '(\w+)' from {_OWN}|module {_OWN} has no attribute '(\w+)'")


@dataclass(frozen=True)
class Draft:
    """What a pipeline file holds, right or wrong."""

    # The value named ``pipeline``; None if there is none. With problems it may have faulty declarations.
    pipeline: Pipeline | None
    problems: tuple[Problem, ...] = ()  # the problems of the file and of its declarations


def load_pipeline(path: Path | None) -> Pipeline:
    """The value named ``pipeline`` of a pipeline file.

    Raises:
        UsageError: No file is named, or the file does not exist.
        PipelineError: The file is not valid Python, raises an error, or holds no value named ``pipeline``;
            or a declaration is wrong.
    """
    draft = load_draft(path)
    if draft.pipeline is None or draft.problems:
        raise PipelineError(draft.problems)
    return draft.pipeline


def load_draft(path: Path | None) -> Draft:
    """The value named ``pipeline`` of a pipeline file, with all problems of its declarations.

    While the file is executed, modules in its folder can be imported.

    Raises:
        UsageError: No file is named, or the file does not exist.
    """
    if path is None:
        is_here = Path("pipeline.py").is_file()
        file = "pipeline.py" if is_here else "path/to/pipeline.py"
        raise UsageError(
            f"No pipeline file is given{', and this folder has a pipeline.py' if is_here else ''}. Type "
            f"-p {file}; or write the line pipeline: {file} into medallion.yaml, or set "
            f"MEDALLION_PIPELINE={file}, for every command."
        )
    if not path.is_file():
        near = [str(file) for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
        hint = f"; {nearest(str(path), near)}" if near else "; name one with -p"
        raise UsageError(f"{path}: no such pipeline file{hint}")
    load_public_names()
    spec = importlib.util.spec_from_file_location(f"medallion_pipeline_{path.stem}", path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file. A pipeline file ends in .py.")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    # Dataclasses and typing look up a class's module by its name.
    sys.modules[spec.name] = module
    failures: list[Problem] = []
    with collect_problems() as problems:
        try:
            spec.loader.exec_module(module)
        except PipelineError as error:
            failures += error.problems
        except SyntaxError as error:
            is_own = error.filename in {None, str(path.resolve())}
            parts = (path if is_own else error.filename, error.lineno, error.offset)
            place = ":".join(str(each) for each in parts if each)
            failures.append(
                Problem("pipeline file", Fault("MED-1001", f"is not valid Python: {error.msg}"), place)
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever the user's file raises is its problem
            failures.append(_failure(path, error, vars(module)))
        finally:
            with contextlib.suppress(ValueError):
                sys.path.remove(folder)
    if failures:
        return Draft(None, (*problems, *failures))
    return _draft_of(module, path, problems)


def _draft_of(module: ModuleType, path: Path, problems: Sequence[Problem]) -> Draft:
    pipeline = getattr(module, "pipeline", None)
    if isinstance(pipeline, Pipeline):
        return Draft(pipeline, tuple(problems))
    found = [name for name, value in vars(module).items() if isinstance(value, Pipeline)]
    hint = (
        f"; {found[0]!r} is one: name it 'pipeline'"
        if found
        else "; end the file with pipeline = Pipeline(…)"
    )
    missing = Problem("pipeline file", Fault("MED-1003", f"holds no value named 'pipeline'{hint}"), str(path))
    return Draft(None, (*problems, missing))


def _failure(path: Path, error: BaseException, names: Mapping[str, object]) -> Problem:
    own = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path.resolve())
    ]
    place = f"{path}:{own[-1].lineno}" if own else str(path)
    fault = _unknown_name(error, names) or Fault("MED-1002", f"raised {type(error).__name__}: {error}")
    return Problem("pipeline file", fault, place)


def _unknown_name(error: BaseException, names: Mapping[str, object]) -> Fault | None:
    """The mistake of a name that there is not; None for another error."""
    public = medallion_names()
    if isinstance(error, NameError) and error.name:
        known = [name for name in (*names, *dir(builtins)) if not name.startswith("_")]
        if error.name in public:
            hint = f"import it: from medallion import {error.name}"
        else:
            hint = nearest(error.name, [*known, *public])
            hint = class_hint(error.name) or (hint if hint.startswith("did") else "define it, or import it")
        return Fault("MED-1004", f"{error.name!r} is not defined; {hint}")
    if isinstance(error, ModuleNotFoundError) and error.name:
        near = closest(error.name, ["medallion"], cutoff=0.75)
        hint = f"did you mean {near!r}?" if near else "is it installed, or beside the pipeline file?"
        return Fault("MED-1004", f"there is no module {error.name!r}; {hint}")
    missing = _NOT_PUBLIC.search(str(error))
    if missing is not None:
        name = missing[1] or missing[2]
        return Fault("MED-1004", f"medallion has no {name!r}; {class_hint(name) or nearest(name, public)}")
    return None
