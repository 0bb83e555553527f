"""The decorator of declarations: a frozen dataclass whose errors name the declaration, file and line.

While a pipeline file is loaded under ``collect_problems``, a wrong declaration raises nothing: its problems
are collected, and it goes on with ``FAULTY`` in place of its wrong values, so that all other mistakes of the
file are found too.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, Literal, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic.errors import PydanticUserError

from common.errors import Fault, PipelineError, Problem, closest, nearest
from common.spark_words import attribute_hint, value_hint
from common.wrong_values import wrong_value

T = TypeVar("T")

_SHOWN = 60
"""Most characters of a wrong value in a message."""

_LOCAL_URI = re.compile(r"file:/(?!/)")

_PASSED_THROUGH = (
    dataclasses.__file__,
    "declare/quality/expectations.py",
    "declare/quality/great_expectations_classes.py",
)
"""Files whose functions create a declaration for their caller."""

_COLLECTED: ContextVar[list[Problem] | None] = ContextVar("problems of declarations", default=None)
_CONFIG = ConfigDict(arbitrary_types_allowed=True, extra="forbid")


class Faulty(str):
    """The value of an attribute that was declared wrongly: a text, a function and an empty collection."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __call__(self, *_: object) -> Faulty:
        return self

    def __bool__(self) -> bool:
        return True

    def items(self) -> tuple[()]:
        """No items, as of an empty mapping."""
        return ()


SHARED = "shared"
"""Marks fields that several kinds of table have from a class that they share."""

ADDED_LATER = "added later"
"""Marks fields that are newer than the hashes in existing commits: they count only where they are given."""

SPELT = "spelt"
"""In the metadata of a field: how it is written, where its class has another attribute of that name."""

FAULTY = Faulty("__faulty__")
"""Stands for a wrong value. A problem that contains its text follows from a problem reported already."""

UNFIT = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What code raises that gets ``FAULTY`` where it does not fit."""


@contextmanager
def collect_problems() -> Iterator[list[Problem]]:
    """Collect the problems of all declarations inside the block, instead of raising the first."""
    collected: list[Problem] = []
    token = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(token)


def faulty_attributes(declaration: object) -> frozenset[str]:
    """Attributes of a declaration that were given wrong values, with arguments that do not exist."""
    found: frozenset[str] = getattr(declaration, "_faulty", frozenset())
    return found


def spelt(alias: str, *, default: Any, kw_only: Literal[True] = True) -> Any:
    """A field that is given as ``alias``, the name of another attribute of its class."""
    return dataclasses.field(default=default, kw_only=kw_only, metadata={SPELT: alias})


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, spelt))
def declared(kind: type[T]) -> type[T]:
    """Make a frozen dataclass that raises ``PipelineError`` with the declaration, file and line."""
    cls = dataclass(frozen=True, config=_CONFIG)(kind)
    build = cls.__init__
    fields = _field_names(cls)
    positional = sum(not each.kw_only for each in dataclasses.fields(cls))
    aliases = _aliases(cls)

    @functools.wraps(build)
    def __init__(self: object, *args: object, **kwargs: object) -> None:  # noqa: N807  # replaces the dataclass's own
        kwargs = {aliases.get(name, name): value for name, value in kwargs.items()}
        # Keyword-only fields come last, and may be given by position there.
        further = dict(zip(fields[positional:], args[positional:], strict=False))
        if len(args) <= len(fields) and not further.keys() & kwargs.keys():
            args, kwargs = args[:positional], further | kwargs
        frame = _declaring_frame()
        source = (frame.f_code.co_filename, frame.f_lineno)
        given = dict(zip(fields, args, strict=False)) | kwargs
        place = _place(cls, given)
        collected = _COLLECTED.get()
        try:
            build(self, *args, **kwargs)
        except ValidationError as error:
            problems = list(_problems(error, cls, place, _shown(source)))
            if collected is None:
                raise PipelineError(problems) from error
            collected += problems
            _fill(self, given, error)
        object.__setattr__(self, "_source", source)
        mistakes = list(_mistakes(self))
        problems = [Problem(place, text, _shown(source)) for text in mistakes]
        if problems and collected is None:
            raise PipelineError(problems)
        if collected is not None:
            collected += problems

    cls.__init__ = __init__  # type: ignore[method-assign]
    if aliases:
        of_field, shown = {name: alias for alias, name in aliases.items()}, inspect.signature(cls)
        given = [one.replace(name=of_field.get(one.name, one.name)) for one in shown.parameters.values()]
        cls.__signature__ = shown.replace(parameters=given)  # type: ignore[attr-defined]
    return cast("type[T]", cls)


def _mistakes(declaration: Any) -> Iterator[str]:
    """Faults of the values in combination; of a faulty declaration those that name no faulty attribute."""
    if not hasattr(declaration, "mistakes"):
        return
    faulty = faulty_attributes(declaration)
    # An unknown attribute is probably meant to be the one that is most like it.
    faulty |= {closest(name, _field_names(type(declaration))) for name in faulty}
    try:
        for text in declaration.mistakes():
            if FAULTY not in text and not faulty.intersection(re.findall(r"\w+", text)):
                yield text
    except UNFIT:
        if not faulty:
            raise


def _fill(declaration: object, given: Mapping[str, object], error: ValidationError) -> None:
    """Give a declaration that failed validation all its attributes: right ones, defaults, or ``FAULTY``."""
    cls = type(declaration)
    names = _field_names(cls)
    wrong: dict[str, set[object]] = {}
    for fault in error.errors():
        if fault["input"] is not FAULTY or fault["type"] == "missing":
            first, *rest = fault["loc"] or ("",)
            name = names[first] if isinstance(first, int) and first < len(names) else str(first)
            wrong.setdefault(name, set()).add(rest[0] if rest else None)
    hints = typing.get_type_hints(cls, include_extras=True)
    for each in dataclasses.fields(cls):  # type: ignore[arg-type]  # every declaration is a dataclass
        value: object = FAULTY
        if each.name in wrong:
            value = _right_elements(given.get(each.name), wrong[each.name])
        elif each.name in given:
            value = _validated(hints[each.name], given[each.name])
        if value is FAULTY and each.default is not dataclasses.MISSING:
            value = each.default
        elif value is FAULTY and each.default_factory is not dataclasses.MISSING:
            value = each.default_factory()
        object.__setattr__(declaration, each.name, value)
    object.__setattr__(declaration, "_faulty", frozenset(wrong))


def _right_elements(value: object, wrong: set[object]) -> object:
    """The elements of a list that are not the wrong ones; ``FAULTY`` where the whole list is wrong."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(place, int) for place in wrong):
        return FAULTY
    return tuple(each for place, each in enumerate(value) if place not in wrong) or FAULTY


def _validated(hint: Any, value: object) -> object:
    """A right value as validation converts it."""
    if dataclasses.is_dataclass(value):
        return value
    try:
        return TypeAdapter(hint, config=_CONFIG).validate_python(value)
    except (ValidationError, PydanticUserError):  # a type that is a declaration takes no config
        return value


def _declaring_frame() -> FrameType:
    """The stack frame that calls a declaration's class, or ``dataclasses.replace`` of a declaration."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  # there is no public function for it
    while frame is not None and frame.f_code.co_filename.endswith(_PASSED_THROUGH):
        frame = frame.f_back
    if frame is None:
        raise AssertionError("unreachable: every call has a caller")
    return frame


def source_of(declaration: object) -> str:
    """``file:line`` of a declaration; empty for other objects."""
    return _shown(getattr(declaration, "_source", ("", 0)))


def copy_with(declaration: T, **changes: object) -> T:
    """A declaration with other values, as if it were declared at the same place; its relative paths stay."""
    copy = dataclasses.replace(declaration, **changes)  # type: ignore[type-var]  # declarations are dataclasses
    return placed_like(copy, declaration)


def placed_like(declaration: T, other: object) -> T:
    """A declaration as if it were declared at the place of another one; its relative paths begin there."""
    object.__setattr__(declaration, "_source", getattr(other, "_source", ("", 0)))
    return declaration


def is_outside(table: str) -> bool:
    """Whether a Delta table that is none of the pipeline is named: by its path or URI, or by a catalog."""
    return "/" in table or is_in_catalog(table)


def is_in_catalog(table: str) -> bool:
    """Whether a table is named by a catalog, as ``main.sales.orders``; the pipeline's have a layer alone."""
    return "/" not in table and table.count(".") > 1


def folder_of(declaration: object) -> Path:
    """The folder of the file with a declaration; the declaration's relative paths start there."""
    return Path(getattr(declaration, "_source", ("", 0))[0]).parent


def text_of_function(function: Callable[..., object]) -> str:
    """The text of a function or class of the user's, by which a change is seen; its name if it has none."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return getattr(function, "__qualname__", type(function).__qualname__)


def absolute(declaration: object, path: str) -> str:
    """A path or URI of a declaration; a relative path begins at the folder of its file.

    ``file:/lake/orders``, as Spark prints a location, is the path ``/lake/orders``.
    """
    if _LOCAL_URI.match(path):
        path = path.removeprefix("file:")
    return path if "://" in path else str((folder_of(declaration) / path).resolve())


def _shown(source: tuple[str, int]) -> str:
    return shown_place(Path(source[0]), source[1]) if source[0] else ""


def shown_place(file: Path, *place: int) -> str:
    """``file:line`` or ``file:line:column``; a file below the working folder by its path from there."""
    if file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    return ":".join([str(file), *map(str, place)])


def _place(cls: type, given: Mapping[str, object]) -> str:
    name = given.get("name", given.get("table"))
    layer = getattr(cls, "LAYER", "")
    if not isinstance(name, str):
        return cls.__name__
    return f"{layer}.{name}" if layer else f"{cls.__name__} {name!r}"


def _field_names(cls: type) -> tuple[str, ...]:
    """Names of the fields in the order in which values are taken by position."""
    return tuple(each.name for each in ordered(cls))


def _aliases(cls: type) -> Mapping[str, str]:
    """The fields that are written by another name, by that name."""
    return {each.metadata[SPELT]: each.name for each in dataclasses.fields(cls) if SPELT in each.metadata}


def ordered(cls: type) -> list[dataclasses.Field[Any]]:
    """The fields in the order in which values are taken by position; those that tables share come last."""
    fields = dataclasses.fields(cls)
    return sorted(fields, key=lambda each: (bool(each.kw_only), bool(each.metadata.get(SHARED))))


def _problems(error: ValidationError, cls: type, place: str, source: str) -> Iterator[Problem]:
    fields = tuple(each.metadata.get(SPELT, each.name) for each in ordered(cls))
    reported: set[str] = set()
    for fault in error.errors():
        if fault["input"] is FAULTY:
            continue
        first = fault["loc"][0] if fault["loc"] else ""
        name = fields[first] if isinstance(first, int) and first < len(fields) else str(first)
        if fault["type"] == "unexpected_positional_argument":
            name = ""  # one sentence says it of all of them
        name = next((alias for alias, field in _aliases(cls).items() if field == name), name)
        if name in reported:
            continue
        reported.add(name)
        code = "MED-1103"
        if fault["type"] in {"unexpected_keyword_argument", "extra_forbidden"}:
            code = "MED-1101"
            hint = attribute_hint(cls.__name__, name) or nearest(name, fields)
            text = f"{name!r} is not a field of {cls.__name__}; {hint}"
        elif fault["type"] in {"missing", "missing_argument"}:
            code = "MED-1102"
            example = getattr(cls, "EXAMPLES", {}).get(name)
            text = f"needs {name}" + (f", such as {name}={example}" if example else "")
        elif fault["type"] == "unexpected_positional_argument":
            code = "MED-1101"
            text = f"takes at most {len(fields)} values, in this order: {', '.join(fields)}"
        elif fault["type"] == "dataclass_type":
            same = [each for each in error.errors() if each["loc"][:1] == (first,)]
            kinds = sorted({each["ctx"]["class_name"] for each in same if each["type"] == "dataclass_type"})
            text = f"{name}: expected {_either(kinds)}, not {_brief(fault['input'])}"
        elif fault["type"] == "is_instance_of" and fault["ctx"]["class"] == "Sequence":
            text = f"{name}: must be a list, even of one: [{type(fault['input']).__name__}(…)]"
        else:
            hint = value_hint(cls.__name__, name, fault["input"])
            message, given = wrong_value(fault, near=not hint), _brief(fault["input"])
            message += _words(error, first) if fault["type"] != "literal_error" else ""
            text = f"{name}: {message[0].lower()}{message[1:]}"
            text += ("" if given in message else f" (got {given})") + (hint and f"; {hint}")
        yield Problem(place, Fault(code, text), source)


def _words(error: ValidationError, first: object) -> str:
    """The words that an attribute takes besides values of another kind, with the one most like the given."""
    for fault in error.errors():
        if fault["loc"][:1] == (first,) and fault["type"] == "literal_error":
            return f" or {wrong_value(fault).removeprefix('expected ')}"
    return ""


def _brief(value: object) -> str:
    """A value in a message; of a declaration only its class."""
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}(…)"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _either(words: list[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
