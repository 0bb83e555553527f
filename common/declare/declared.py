"""The decorator of declarations: a frozen dataclass whose errors name the declaration, file and line."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from common.errors import PipelineError, Problem, nearest

T = TypeVar("T")

_SHOWN = 60
"""Most characters of a wrong value in a message."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def declared(kind: type[T]) -> type[T]:
    """Make a frozen dataclass that raises ``PipelineError`` with the declaration, file and line."""
    config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    cls = dataclass(frozen=True, config=config)(kind)
    build = cls.__init__
    fields = _field_names(cls)
    positional = sum(not each.kw_only for each in dataclasses.fields(cls))

    @functools.wraps(build)
    def __init__(self: object, *args: object, **kwargs: object) -> None:  # noqa: N807  # replaces the dataclass's own
        # Keyword-only fields come last, and may be given by position there.
        further = dict(zip(fields[positional:], args[positional:], strict=False))
        if len(args) <= len(fields) and not further.keys() & kwargs.keys():
            args, kwargs = args[:positional], further | kwargs
        frame = _declaring_frame()
        source = (frame.f_code.co_filename, frame.f_lineno)
        given = dict(zip(fields, args, strict=False)) | kwargs
        place = _place(cls, given)
        try:
            build(self, *args, **kwargs)
        except ValidationError as error:
            raise PipelineError(_problems(error, cls, place, _shown(source))) from error
        object.__setattr__(self, "_source", source)
        mistakes = list(self.mistakes()) if hasattr(self, "mistakes") else []
        if mistakes:
            raise PipelineError([Problem(place, text, _shown(source)) for text in mistakes])

    cls.__init__ = __init__  # type: ignore[method-assign]
    return cast("type[T]", cls)


def _declaring_frame() -> FrameType:
    """The stack frame that calls a declaration's class, or ``dataclasses.replace`` of a declaration."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  # there is no public function for it
    while frame is not None and frame.f_code.co_filename == dataclasses.__file__:
        frame = frame.f_back
    if frame is None:
        raise AssertionError("unreachable: every call has a caller")
    return frame


def source_of(declaration: object) -> str:
    """``file:line`` of a declaration; empty for other objects."""
    return _shown(getattr(declaration, "_source", ("", 0)))


def folder_of(declaration: object) -> Path:
    """The folder of the file with a declaration; the declaration's relative paths start there."""
    return Path(getattr(declaration, "_source", ("", 0))[0]).parent


def _shown(source: tuple[str, int]) -> str:
    if not source[0]:
        return ""
    path = Path(source[0])
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return f"{path}:{source[1]}"


def _place(cls: type, given: Mapping[str, object]) -> str:
    name = given.get("name", given.get("table"))
    layer = getattr(cls, "LAYER", "")
    if not isinstance(name, str):
        return cls.__name__
    return f"{layer}.{name}" if layer else f"{cls.__name__} {name!r}"


def _field_names(cls: type) -> tuple[str, ...]:
    """Names of the fields in the order in which values are taken by position."""
    return tuple(each.name for each in sorted(dataclasses.fields(cls), key=lambda each: bool(each.kw_only)))


def _problems(error: ValidationError, cls: type, place: str, source: str) -> Iterator[Problem]:
    fields = _field_names(cls)
    reported: set[str] = set()
    for fault in error.errors():
        first = fault["loc"][0] if fault["loc"] else ""
        name = fields[first] if isinstance(first, int) and first < len(fields) else str(first)
        if name in reported:
            continue
        reported.add(name)
        if fault["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
            text = f"{name!r} is not a field of {cls.__name__}; {nearest(name, fields)}"
        elif fault["type"] in {"missing", "missing_argument"}:
            example = getattr(cls, "EXAMPLES", {}).get(name)
            text = f"needs {name}" + (f", such as {name}={example}" if example else "")
        elif fault["type"] == "unexpected_positional_argument":
            text = f"takes at most {len(fields)} values, in this order: {', '.join(fields)}"
        elif fault["type"] == "dataclass_type":
            same = [each for each in error.errors() if each["loc"][:1] == (first,)]
            kinds = sorted({each["ctx"]["class_name"] for each in same if each["type"] == "dataclass_type"})
            text = f"{name}: expected {_either(kinds)}, not {_brief(fault['input'])}"
        elif fault["type"] == "is_instance_of" and fault["ctx"]["class"] == "Sequence":
            text = f"{name}: must be a list, even of one: [{type(fault['input']).__name__}(…)]"
        else:
            message = fault["msg"].removeprefix("Value error, ")
            text = f"{name}: {message[0].lower()}{message[1:]} (got {_brief(fault['input'])})"
        yield Problem(place, text, source)


def _brief(value: object) -> str:
    """A value in a message; of a declaration only its class."""
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}(…)"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _either(words: list[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
