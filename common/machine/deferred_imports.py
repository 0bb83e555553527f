"""Imports that happen at the first use of a module: for libraries that import more than a run needs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


class _Deferring(MetaPathFinder):
    """Finds some modules as Python does, but has them executed at the first use of one of their names."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of one of the modules; None for every other module."""
        if fullname not in self._names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def deferred(*names: str) -> Iterator[None]:
    """Defer the import of these modules while the block imports others; no garbage is collected meanwhile.

    A deferred module is executed when a name of it is first read, also after the block. A module that is
    imported already stays as it is.
    """
    finder = _Deferring(names)
    sys.meta_path.insert(0, finder)
    was_collecting = gc.isenabled()
    gc.disable()  # an import creates many objects and hardly any garbage
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        if was_collecting:
            gc.enable()
