"""Types of the fields of declarations, with validation of their values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, PlainValidator

from common.declare.intervals import following_trigger, meant, own_trigger, parse_interval
from common.declare.value_formats import refuse_bare_text

Hook = Callable[[Any], Any]
"""A function from a DataFrame to a DataFrame, row for row, for columns that SQL text cannot express."""

T = TypeVar("T")

_BYTES = re.compile(r"^[1-9]\d*[kmgtp]?b?$")
"""What Spark reads as a number of bytes: 512m, 1g, 1024."""

_CALENDAR = re.compile(r"^\s*\d+\s+(month|quarter|year)s?\s*$")

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")

_NAME = re.compile(r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$")


def _table_name(text: str) -> str:
    if not _NAME.match(text):
        raise ValueError(_name_fault(text))
    return text


def _name_fault(text: str) -> str:
    instead = _like(text)
    like = f", such as {instead!r}" if instead else ""
    return f"{text!r} is no valid name; use lower-case words joined by single underscores{like}"


def _like(text: str) -> str:
    """A valid name of a table that is like a text; empty where there is none."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    found = re.sub(r"^[\d_]+|_+$", "", re.sub(r"[^a-z0-9]+", "_", words.lower()))
    return found if _NAME.match(found) else ""


def _topic_table(text: str) -> str:
    if not _NAME.match(text):
        instead = "" if topic_fault(text) else _like(text)
        declared = f"; the topic keeps its own name: Topic({instead!r}, topics=[{text!r}])".replace("'", '"')
        raise ValueError(f"{_name_fault(text)}{declared if instead else ''}")
    return text


def _interval(text: str) -> str:
    if parse_interval(text) is None:
        if (calendar := _CALENDAR.match(text)) is not None:
            unit = calendar[1]
            statement = f"select date_trunc('{unit}', at) as {unit}, count(*) as n from … group by {unit}"  # noqa: S608  # words of a message
            raise ValueError(
                f"{text!r} is no interval, because {unit}s differ in length; write days, or keep groups by "
                f'{unit} with View("{unit}s", sql="{statement}")'
            )
        raise ValueError(f"{text!r} is no interval; write it like '10 minutes' or '7 days'{meant(text)}")
    return text.strip()


def _distance(text: str) -> str:
    if parse_interval(text, may_be_negative=True) is None:
        raise ValueError(
            f"{text!r} is no distance in time; write it like '-5 minutes' or '1 hour'{meant(text)}"
        )
    return re.sub(r"-\s+", "-", text.strip())


def arity_fault(function: Callable[..., Any], *given: str) -> str:
    """What is wrong with a function that is called with some arguments; empty if it takes them.

    A function whose arguments Python does not know, such as one of C, is taken.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*given)
    except TypeError:
        name = getattr(function, "__name__", type(function).__name__)
        return f"is called as ({', '.join(given)}), and {name}{signature} does not take these"
    return ""


def topic_fault(name: str) -> str:
    """What is wrong with the name of a topic; empty if a broker may have one of that name."""
    if not name.strip():
        return "is empty; write the topic's name"
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        hint = "; pattern=… reads topics by a regular expression" if set(name) & set("*?[(|") else ""
        return f"is no name of a topic: these have up to 249 letters of a-z, A-Z, 0-9, '.', '_' and '-'{hint}"
    return ""


def at_least_one(items: Sequence[T]) -> tuple[T, ...]:
    if not items:
        raise ValueError("is empty; name at least one")
    return tuple(items)


def _count(given: int) -> int:
    if given < 1:
        raise ValueError("must be at least 1")
    return given


def _bytes(text: str) -> str:
    if not _BYTES.match(text.strip().lower()):
        raise ValueError(f"{text!r} is no number of bytes; write it like '512m' or '1g'")
    return text.strip().lower()


def _columns(value: object) -> object:
    if callable(value):
        return value
    return _expressions(value)


def _expressions(value: object) -> object:
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = _selves(value)
    if not isinstance(value, Mapping) or not value:
        raise ValueError('must be a dict {"column": "SQL expression", …} with at least one column')
    for name, sql in value.items():
        if not isinstance(name, str) or not isinstance(sql, str):
            raise ValueError(f"{name!r} must map a column name to SQL text, not to {type(sql).__name__}")  # noqa: TRY004
    return MappingProxyType(dict(value))


def _selves(names: Sequence[object]) -> dict[object, object]:
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise ValueError(f"{twice[0]!r} is there twice; keep one")
    return {name: name for name in names}


def _reads(value: object) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise ValueError('must be a table, "bronze.orders", or a list of tables')
    if not value:
        raise ValueError("is empty; name at least one")
    if twice := [name for place, name in enumerate(value) if name in value[:place]]:
        raise ValueError(f"{twice[0]!r} is there twice; keep one")
    return value[0] if len(value) == 1 else tuple(value)


TableName = Annotated[str, AfterValidator(_table_name)]
TopicTable = Annotated[str, AfterValidator(_topic_table)]
Interval = Annotated[str, AfterValidator(_interval)]
Trigger = Annotated[str, BeforeValidator(own_trigger)]
FollowingTrigger = Annotated[str, BeforeValidator(following_trigger)]
Count = Annotated[int, AfterValidator(_count)]
ByteSize = Annotated[str, AfterValidator(_bytes)]
Distance = Annotated[str, AfterValidator(_distance)]
Reads = Annotated[str | Sequence[str], PlainValidator(_reads)]
Names = Annotated[Sequence[str], BeforeValidator(refuse_bare_text), AfterValidator(at_least_one)]
Expressions = Annotated[Mapping[str, str] | Sequence[str], PlainValidator(_expressions)]
ColumnTexts = Annotated[Mapping[str, str] | Hook, PlainValidator(_columns)]
Options = Annotated[Mapping[str, str], AfterValidator(lambda given: MappingProxyType(dict(given)))]
Offsets = Mapping[str, Mapping[int, int]]


def named(expressions: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    """Expressions by name; a list of columns is itself."""
    return expressions if isinstance(expressions, Mapping) else {name: name for name in expressions}
