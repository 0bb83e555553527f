"""Values of a YAML file with the line of each, so that a mistake can be named with its place.

Scalars are read as in JSON and YAML 1.2: ``no`` and ``2026-03-01`` are texts, and so is ``12:30``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from common.errors import Problem, first_line


@dataclass(frozen=True, slots=True)
class Located:
    """A value with its line."""

    value: Any  # a dict or list of located values, or a plain value
    line: int  # the line of the value, from 1; of a text in a block (``|``) the line of its first line

    @property
    def plain(self) -> Any:
        """The value without the lines."""
        if isinstance(self.value, dict):
            return {key: each.plain for key, each in self.value.items()}
        if isinstance(self.value, list):
            return [each.plain for each in self.value]
        return self.value


class YamlError(ValueError):
    """The file cannot be read, or is no YAML."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


_MOST_LEVELS = 50
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """YAML with the scalars of JSON: no dates, no ``yes`` and ``no``, no numbers with colons."""

    yaml_implicit_resolvers: Mapping[str, Any] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.flattened: set[int] = set()


for _name, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("int", r"-?(?:0|[1-9]\d*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", "-0123456789"),
    ("null", r"null|~|", ["n", "~", ""]),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"(?:{_pattern})\\Z"), list(_first))


def read_yaml(file: Path) -> Located | None:
    """The content of a YAML file; None for an empty one.

    Raises:
        YamlError: The file cannot be read, or is no YAML.
    """
    try:
        loader = _Loader(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise YamlError(Problem("cases", f"cannot be read: {reason}", str(file))) from None
    try:
        node = loader.get_single_node()
        return None if node is None else _located(loader, node, 0)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark is not None else str(file)
        text = getattr(error, "problem", None) or str(error)
        raise YamlError(Problem("cases", f"is not valid YAML: {text}", place)) from None
    finally:
        loader.dispose()


def _located(loader: _Loader, node: Any, depth: int) -> Located:
    line = node.start_mark.line + 1
    if depth > _MOST_LEVELS:
        raise yaml.constructor.ConstructorError(problem="nested too deeply", problem_mark=node.start_mark)
    if isinstance(node, yaml.MappingNode):
        _flatten(loader, node)
        return Located({str(k.value): _located(loader, each, depth + 1) for k, each in node.value}, line)
    if isinstance(node, yaml.SequenceNode):
        return Located([_located(loader, each, depth + 1) for each in node.value], line)
    is_block = node.style in {"|", ">"}
    return Located(loader.construct_object(node), line + is_block)


def _flatten(loader: _Loader, node: Any) -> None:
    """Merge the mappings of ``<<`` into a mapping, once; refuse a name that is given twice."""
    if id(node) in loader.flattened:
        return
    loader.flattened.add(id(node))
    names: set[str] = set()
    for key, _ in node.value:
        if key.value in names and key.value != "<<":
            text = f"{key.value!r} is given twice"
            raise yaml.constructor.ConstructorError(problem=text, problem_mark=key.start_mark)
        names.add(str(key.value))
    loader.flatten_mapping(node)


def located(value: Any, line: int) -> Located:
    """A plain value as if all of it were written in one line."""
    if isinstance(value, Mapping):
        return Located({str(key): located(each, line) for key, each in value.items()}, line)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return Located([located(each, line) for each in value], line)
    return Located(value, line)
