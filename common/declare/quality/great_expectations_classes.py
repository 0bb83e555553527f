"""``gx.expectations``: Great Expectations' classes by name, without importing the library.

The library takes seconds to import, which a check of a pipeline must not. For editors and type checkers
``gx`` is the library itself; at run time a class only records its arguments, which are checked by their
names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from common.declare.quality.expectations import Expect, from_great_expectations
from common.declare.quality.great_expectations_names import CLASSES

if TYPE_CHECKING:
    import great_expectations as gx

    __all__ = ["gx"]
else:

    class _Expectations:
        """Stands for the module ``great_expectations.expectations``."""

        def __getattr__(self, name: str) -> Callable[..., Expect]:
            if name.startswith("__"):
                raise AttributeError(name)

            def build(**arguments: Any) -> Expect:
                return from_great_expectations(CLASSES.get(name, name), arguments)

            return build

        def __dir__(self) -> list[str]:
            return list(CLASSES)

    class _Library:
        """Stands for the module ``great_expectations``."""

        expectations = _Expectations()

    gx = _Library()
