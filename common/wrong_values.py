"""What is wrong with a value, in words of the engine: declarations and settings are validated by pydantic,
whose own messages name its classes and types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from common.errors import closest

_EXPECTED = {
    "int": "expected a whole number",
    "float": "expected a number",
    "finite": "expected a finite number",
    "bool": "expected true or false",
    "string": "expected a text",
    "bytes": "expected a text",
    "path": "expected the path of a file or folder",
    "callable": "expected a function",
    "list": "expected a list",
    "tuple": "expected a list",
    "set": "expected a list",
    "sequence": "expected a list",
    "iterable": "expected a list",
    "dict": "expected names with values, as in {name: value}",
    "mapping": "expected names with values, as in {name: value}",
    "model": "expected a section: its settings, each with its name",
    "dataclass": "expected a declaration",
}
"""What fits, by the first word of pydantic's name of a fault."""

_LIMITS = {
    "greater_than_equal": ("ge", "must be at least {}"),
    "greater_than": ("gt", "must be greater than {}"),
    "less_than_equal": ("le", "must be at most {}"),
    "less_than": ("lt", "must be less than {}"),
    "multiple_of": ("multiple_of", "must be a multiple of {}"),
}
_CHOICE = re.compile(r"^\^?\(?((?:\w+\|)+\w+)\)?\$?$")
"""The pattern of a setting that takes one of some words."""

_OF_KIND = {"Sequence": "a list", "Mapping": "names with values, as in {name: value}"}


def wrong_value(fault: Mapping[str, Any], *, near: bool = True) -> str:  # noqa: PLR0911  # one return per kind of fault
    """What is wrong with a value, and what to write instead.

    Args:
        fault: One of the errors of pydantic's ``ValidationError``.
        near: Whether to name the nearest of several words.
    """
    kind, given = str(fault["type"]), fault.get("input")
    context: Mapping[str, Any] = fault.get("ctx") or {}
    if kind in {"value_error", "assertion_error"}:
        return str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if kind in _LIMITS:
        name, text = _LIMITS[kind]
        return text.format(context[name])
    if kind == "literal_error":
        return _choice(str(context["expected"]), given if near else None)
    if kind == "string_pattern_mismatch":
        words = _CHOICE.match(str(context["pattern"]))
        if words is not None:
            return _choice(_either(words[1].split("|")), given)
        if "A-Za-z0-9_.-" in str(context["pattern"]):
            return "expected a name of letters, digits, '_', '.' and '-'"
        return "expected env:NAME, the name of an environment variable, or file:/path"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "is_instance_of":
        return f"expected {_OF_KIND.get(str(context['class']), context['class'])}"
    return _EXPECTED.get(kind.partition("_")[0], "is no value that fits here")


def _choice(expected: str, given: object) -> str:
    near = closest(given, re.findall(r"'([^']*)'", expected)) if isinstance(given, str) else ""
    return f"expected {expected}" + (f"; did you mean {near!r}?" if near else "")


def _either(words: list[str]) -> str:
    quoted = [repr(word) for word in words]
    return " or ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
