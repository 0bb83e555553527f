"""Recognizes the format of values, and infers the fields and types of JSON documents. Pure.

A field gets a type that holds every sampled value exactly; if no other type does, it gets string. The results
contain names and types only, never a value.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from common.sql.quoting import backquoted
from orchestration.author.propose.texts.number_types import MOST_DIGITS, decimal_type, is_double, is_money
from orchestration.author.propose.texts.time_layouts import best, layouts

JSON, DEBEZIUM, REGISTRY, TEXT, BYTES = "json", "debezium", "avro", "text", "bytes"
TOMBSTONE, EMPTY = "tombstone", "empty_value"
HTML_PAGE, ERROR_BODY = "html_page", "error_message"
"""What a service answers instead of records."""
_ERROR_NAMES = frozenset(
    re.findall(
        r"\w+",
        "error errors message msg code status statuscode status_code detail details documentation_url reason "
        "description error_description title type timestamp path trace request_id requestid instance "
        "success ok",
    )
)
_ERROR_TEXTS, _ERROR_CODES = (
    {"message", "msg", "detail", "title"},
    {"code", "status", "statuscode", "status_code"},
)

_BIG = 2**63
_MOST_DEPTH = 20
_MOST_NAMES = 200
_FRAME = 5
_RARE = 100
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(Z|[+-](?:0\d|1[0-3]):[0-5]\d)?", re.ASCII
)
_LAYOUT = {ord(mark): " " for mark in "\t\r\n"}
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIMELY = re.compile(r"(?i)time|date|stamp|epoch|updated|created|modified|when|(^|_)(ts|at)(_|$)|[a-z]At$")
_WORDS = frozenset(
    re.findall(
        r"\w+",
        "all and any as asc between by case cast cross current_date current_timestamp current_user "
        "date desc distinct else end exists false from full group having in inner interval into is "
        "join left like limit natural not null on or order outer right select set some table then "
        "time timestamp to true union unique user using values when where window with ",
    )
)
"""Words that SQL may read as keywords."""
IDENTIFIER = re.compile(r"(?i)(^|_)(id|uuid|guid|key|code|number|no|ref|url|uri)$|[a-z](Id|ID|Uuid|Key)$")
"""Names of fields that identify something."""
_MILLIS = (10**12, 10**13)
_SECONDS = (10**9, 10**10)
_MILLIS_OF_OUR_DAYS = (946_684_800_000, 2_208_988_800_000)
_MICROS_OF_OUR_DAYS = (946_684_800_000_000, 2_208_988_800_000_000)
"""2000 to 2040: numbers that are times whatever their field is called."""
_MOST_MICROS, _MOST_MILLIS, _MOST_SECONDS = 10**17, 10**14, 10**11
_LONGEST_TIME = 30
_MICROS = 6
"""Digits after the point of seconds that a timestamp holds exactly."""
_EPOCHS = {
    "millis": _MILLIS,
    "seconds": _SECONDS,
    "millis of our days": _MILLIS_OF_OUR_DAYS,
    "micros of our days": _MICROS_OF_OUR_DAYS,
}


class Number(str):
    """A JSON number in its original spelling."""

    __slots__ = ()


@dataclass(frozen=True)
class Seen:
    """The recognized value of one message."""

    kind: str  # ``json``, ``debezium``, ``avro``, ``text``, ``bytes``, or the fault of the value
    # The JSON object, with numbers in their original spelling; for an envelope, its payload.
    document: dict[str, Any] | None = None


def recognize(value: bytes | None) -> Seen:
    """The kind of a value; never raises."""
    if value is None:
        return Seen(TOMBSTONE)
    if not value.strip(b" \t\r\n"):
        return Seen(EMPTY)
    if value[0] == 0 and len(value) > _FRAME:
        return Seen(REGISTRY)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return Seen(BYTES)
    return _object_in(text) if text.lstrip(" \t\r\n").startswith("{") else Seen(_kind_of_plain(text))


def is_error_body(document: Mapping[str, Any]) -> bool:
    """Whether a document is what a service answers with an error: its names are those of errors alone."""
    names = {name.lower() for name in document}
    if not names or not names <= _ERROR_NAMES:
        return False
    return bool(names & {"error", "errors"}) or bool(
        names & _ERROR_TEXTS and names & {*_ERROR_CODES, "documentation_url"}
    )


def _kind_of_plain(text: str) -> str:
    if text.lstrip("\ufeff \t\r\n").lower().startswith(("<!doctype html", "<html")):
        return HTML_PAGE
    return TEXT if text.removeprefix("\ufeff").translate(_LAYOUT).isprintable() else BYTES


def _object_in(text: str) -> Seen:
    """A JSON object, or the fault for which a strict reader refuses it."""
    try:
        document = json.loads(
            text,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return Seen("bad_unicode")
    except _Fault as fault:
        return Seen(str(fault))
    except RecursionError:
        return Seen("too_deep")
    except ValueError:
        return Seen("malformed_json")
    payload = document.get("payload") if "schema" in document else document
    if isinstance(payload, dict) and payload.get("op") in ("c", "u", "d", "r") and _has_row(payload):
        return Seen(DEBEZIUM, payload)
    return Seen(JSON, document)


class _Fault(Exception):  # noqa: N818  # it is a finding
    """The reason for which a document is refused."""


def _refuse(text: str) -> None:
    raise _Fault("non_finite_number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Fault("duplicate_key")
    return found


def _has_row(payload: Mapping[str, Any]) -> bool:
    return any(isinstance(payload.get(name), dict) for name in ("before", "after"))


@dataclass
class Shape:
    """Statistics of the values at one path of many documents."""

    seen: int = 0  # number of values that are not null
    # Number of values per kind: object, array, boolean, number, and for texts date, moment (with an offset),
    # local (a time without one), other.
    kinds: Counter[str] = field(default_factory=Counter)
    members: dict[str, Shape] = field(default_factory=dict)  # for objects, a shape per name
    items: Shape | None = None  # for arrays, the shape of all their items
    depth: int = 0
    name: str = ""
    _is_whole: bool = True
    _is_double: bool = True
    _before: int = 0
    _after: int = 0
    low: Decimal | None = None
    high: Decimal | None = None
    layouts: Counter[str] = field(default_factory=Counter)
    """Number of texts that are times by each pattern, such as ``d/M/yyyy H:mm``."""
    _epochs: Counter[str] = field(default_factory=Counter)
    """Number of values that may be milliseconds or seconds since 1970, or milliseconds of our days."""

    def add(self, value: object) -> None:
        """Add one value to the statistics."""
        if value is None:
            return
        self.seen += 1
        self.kinds[kind_of(value)] += 1
        if isinstance(value, str) and not isinstance(value, Number) and len(value) <= _LONGEST_TIME:
            self.layouts.update(layouts(value).keys())
        if isinstance(value, dict):
            for name, inner in value.items():
                self.members.setdefault(name, Shape(depth=self.depth + 1, name=name)).add(inner)
        elif isinstance(value, list):
            self.items = self.items or Shape(depth=self.depth + 1, name=self.name)
            for inner in value:
                self.items.add(inner)
        elif isinstance(value, Number):
            self._number(value)

    def _number(self, text: Number) -> None:
        number = Decimal(text)
        self.low = number if self.low is None else min(self.low, number)
        self.high = number if self.high is None else max(self.high, number)
        self._is_whole &= text.removeprefix("-").isdigit() and text != "-0"
        self._is_double = self._is_double and is_double(text)
        exponent = int(number.as_tuple().exponent)
        self._after = max(self._after, -exponent)
        self._before = max(self._before, len(number.as_tuple().digits) + exponent)
        for unit, (low, high) in _EPOCHS.items():
            self._epochs[unit] += low <= number < high

    @property
    def type(self) -> str:
        """The DDL type that holds every value."""
        if len(self.kinds) != 1 or self.depth > _MOST_DEPTH:
            return "string"
        (kind,) = self.kinds
        if kind == "object":
            members = [f"{quoted(name)}: {shape.type}" for name, shape in self.members.items()]
            return f"struct<{', '.join(members)}>" if is_struct(self.members) else "string"
        if kind == "array":
            return f"array<{self.items.type if self.items else 'string'}>"
        if kind == "number":
            return self._number_type()
        return {"date": "date", "moment": "timestamp", "boolean": "boolean"}.get(kind, "string")

    def _number_type(self) -> str:
        is_amount = is_money(self.name)
        if self._is_whole and not is_amount and self.low is not None and self.high is not None:
            if self.low >= -_BIG and self.high < _BIG:
                return "bigint"
            return "decimal(38,0)" if self._before <= MOST_DIGITS else "string"
        if self._is_double and not is_amount:
            return "double"
        return decimal_type(self._before, self._after)

    @property
    def is_local_time(self) -> bool:
        """Whether all values are times without an offset."""
        return set(self.kinds) == {"local"}

    @property
    def layout(self) -> str:
        """The pattern by which the texts are times, of all but one in a hundred; empty if there is none.

        Not of dates and times that Spark reads without one.
        """
        if set(self.kinds) - {"other", "local"} or not self.kinds["other"]:
            return ""
        pattern, number = best(self.layouts)
        return pattern if pattern and _RARE * (self.seen - number) <= self.seen else ""

    def fitting(self, name: str) -> int:
        """Number of values that are times: by the pattern, or as numbers since 1970."""
        if self.layout:
            return best(self.layouts)[1]
        unit = self.epoch(name)
        return max((number for each, number in self._epochs.items() if each.startswith(unit)), default=0)

    def epoch(self, name: str) -> str:
        """``micros``, ``millis`` or ``seconds`` if values are times since 1970 in that unit; else empty.

        Microseconds and milliseconds of 2000 to 2040 are times by their values; other numbers by name and
        range. Seconds may have six digits after the point. One number in a hundred may lie outside.
        """
        if self.low is None or self.high is None or self.low < 0:
            return ""
        is_whole = self.type == "bigint"
        if not is_whole and (self.type != "double" or self._after > _MICROS):
            return ""
        if is_whole and not IDENTIFIER.search(name):
            for unit, most in (("millis", _MOST_MILLIS), ("micros", _MOST_MICROS)):
                if self._is_mostly(f"{unit} of our days") and self.high < most:
                    return unit
        if not _TIMELY.search(name):
            return ""
        if is_whole and self._is_mostly("millis") and self.high < _MOST_MILLIS:
            return "millis"
        return "seconds" if self._is_mostly("seconds") and self.high < _MOST_SECONDS else ""

    def _is_mostly(self, unit: str) -> bool:
        return _RARE * (self.seen - self._epochs[unit]) <= self.seen


def is_odd(shape: Shape, value: object) -> bool:
    """Whether the value contains a kind of value that at most one document in a hundred has at that place.

    If almost all values are texts, nothing is odd: a string holds any value.
    """
    if value is None:
        return False
    usual, number = shape.kinds.most_common(1)[0]
    rare = usual != "other" and _RARE * (shape.seen - number) <= shape.seen
    if kind_of(value) != usual and rare:
        return True
    if isinstance(value, dict):
        return any(is_odd(shape.members[name], inner) for name, inner in value.items())
    if isinstance(value, list) and shape.items is not None:
        return any(is_odd(shape.items, inner) for inner in value)
    return False


def kind_of(value: object) -> str:
    """The kind of a value that is not null, one of the keys of ``Shape.kinds``."""
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, Number) else kind_of_text(str(value))


def shape_of(documents: Sequence[Mapping[str, Any]]) -> Shape:
    """The shape of all documents."""
    found = Shape()
    for document in documents:
        found.add(dict(document))
    return found


def is_struct(members: Mapping[str, Shape]) -> bool:
    """Whether names can be fields: at least one, not too many, and no two that differ only by case."""
    lowered = {name.lower() for name in members}
    return 0 < len(members) <= _MOST_NAMES and len(lowered) == len(members) and "" not in lowered


@dataclass(frozen=True)
class Leaf:
    """A field that is no struct, with its path."""

    path: tuple[str, ...]  # names from the top of the document
    shape: Shape
    is_always: bool  # whether every document has a value there that is not null

    @property
    def is_identifier(self) -> bool:
        """Whether the field's name says that it identifies something."""
        return IDENTIFIER.search(self.path[-1].replace(" ", "_")) is not None

    @property
    def sql(self) -> str:
        """The path in SQL."""
        return ".".join(quoted(name) for name in self.path)


def leaves(shape: Shape, path: tuple[str, ...] = (), *, is_always: bool = True) -> Iterator[Leaf]:
    """All fields of a struct and of its nested structs that are no structs themselves, in order."""
    for name, inner in shape.members.items():
        always = is_always and inner.seen == shape.kinds["object"]
        if set(inner.kinds) == {"object"} and inner.depth <= _MOST_DEPTH and is_struct(inner.members):
            yield from leaves(inner, (*path, name), is_always=always)
        else:
            yield Leaf((*path, name), inner, always)


def quoted(name: str) -> str:
    """A name for SQL and DDL, in backquotes if necessary."""
    if _SIMPLE.fullmatch(name) and name.lower() not in _WORDS:
        return name
    return backquoted(name)


def kind_of_text(text: str) -> str:
    """``date``, ``moment`` (with an offset), ``local`` (a time without one) or ``other``."""
    try:
        if _DATE.fullmatch(text):
            dt.date.fromisoformat(text)
            return "date"
        if (match := _MOMENT.fullmatch(text)) is not None:
            moment = dt.datetime.fromisoformat(text)
            if match[1]:
                moment.astimezone(dt.UTC)
            return "moment" if match[1] else "local"
    except (ValueError, OverflowError):
        pass
    return "other"


def millis_of(text: str) -> int:
    """A time with an offset, as text, in milliseconds since 1970."""
    return int(dt.datetime.fromisoformat(text).timestamp() * 1000)
