"""A user's pipeline file, read into its one value. Reading it starts nothing and needs no Spark."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from pathlib import Path

import medallion  # noqa: F401  # loaded first, so that a file medallion.py beside the pipeline cannot replace it
from common.declare import Pipeline
from common.errors import PipelineError, Problem, UsageError, nearest


def load_pipeline(path: Path | None) -> Pipeline:
    """The value named ``pipeline`` of a pipeline file.

    The file's folder is importable while it is read, so that it may have modules beside it.

    Raises:
        UsageError: No file was named, or there is none of that name.
        PipelineError: The file cannot be read as Python, holds no pipeline, or declares a wrong one.
    """
    if path is None:
        raise UsageError(
            "No pipeline named. Give one with -p path/to/pipeline.py, with 'pipeline: …' in medallion.yaml, "
            "or with MEDALLION_PIPELINE."
        )
    if not path.is_file():
        near = [str(file) for file in path.parent.glob("*.py")] if path.parent.is_dir() else []
        hint = f"; {nearest(str(path), near)}" if near else "; name one with -p"
        raise UsageError(f"{path}: no such pipeline file{hint}")
    spec = importlib.util.spec_from_file_location(f"medallion_pipeline_{path.stem}", path.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file. A pipeline file ends in .py.")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    # Dataclasses and typing look a class's module up by its name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except PipelineError:
        raise
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}"
        raise PipelineError([Problem("pipeline file", f"is not valid Python: {error.msg}", place)]) from error
    except (Exception, SystemExit) as error:
        raise PipelineError([_failure(path, error)]) from error
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)
    pipeline = getattr(module, "pipeline", None)
    if not isinstance(pipeline, Pipeline):
        found = [name for name, value in vars(module).items() if isinstance(value, Pipeline)]
        hint = (
            f"; {found[0]!r} is one: name it 'pipeline'"
            if found
            else "; end the file with pipeline = Pipeline(…)"
        )
        raise PipelineError([Problem("pipeline file", f"holds no value named 'pipeline'{hint}", str(path))])
    return pipeline


def _failure(path: Path, error: BaseException) -> Problem:
    own = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path.resolve())
    ]
    place = f"{path}:{own[-1].lineno}" if own else str(path)
    return Problem("pipeline file", f"raised {type(error).__name__}: {error}", place)
