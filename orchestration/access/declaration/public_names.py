"""The engine's own module ``medallion``, which a pipeline file imports, whatever Python's path has."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from common import declare

_NAME = "medallion"


def load_public_names() -> None:
    """Load the module of the public names, before a user's file can import another one of its name.

    Python looks for it in the folder that comes first on its path, which may be the folder of the pipeline
    file, and the pipeline file may be ``medallion.py``.
    """
    if __name__.startswith(f"{_NAME}."):  # in a wheel, where this module is in that package
        return
    file = Path(__file__).resolve().parents[3] / f"{_NAME}.py"
    loaded = sys.modules.get(_NAME)
    if loaded is not None and Path(loaded.__file__ or "").resolve() == file:
        return
    spec = importlib.util.spec_from_file_location(_NAME, file)
    assert spec is not None  # noqa: S101  # it is a file of Python, beside this package
    assert spec.loader is not None  # noqa: S101
    sys.modules[_NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[_NAME])


def medallion_names() -> tuple[str, ...]:
    """The names that a pipeline file can import from ``medallion``."""
    return tuple(declare.__all__)
