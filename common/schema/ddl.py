"""Parser of Spark's DDL text for schemas (``id string, tags array<string>``), without Spark.

It is written by hand because sqlglot, which parses the SQL expressions of a pipeline, differs from Spark
here: as columns of a table it loses the type of ``a: byte``, refuses ``a void``, writes ``time`` as TIMESTAMP
and accepts ``a int,`` (sqlglot 30). It would also not say which word of a schema is wrong, and what to write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

DDL_TYPES: Mapping[str, str] = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "decimal": "decimal",
    "dec": "decimal",
    "numeric": "decimal",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "timestamp_ltz": "timestamp",
    "string": "string",
    "char": "char",
    "character": "char",
    "varchar": "varchar",
    "binary": "binary",
    "variant": "variant",
    "void": "void",
}
"""Type names of DDL text, and the name shown for each."""

JSON_TYPES: Mapping[str, str] = {
    "boolean": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "decimal": "decimal",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "string": "string",
    "char": "char",
    "varchar": "varchar",
    "binary": "binary",
    "variant": "variant",
    "void": "void",
}
"""Type names of a StructType written as JSON, and the name shown for each."""

_COMMON_MISTAKES = {
    "text": "string",
    "str": "string",
    "number": "double",
    "datetime": "timestamp",
    "timestamptz": "timestamp",
    "hugeint": "decimal(38,0)",
    "float8": "double",
    "float4": "float",
    "int8": "bigint",
    "int4": "int",
    "int2": "smallint",
    "varchar2": "string",
    "nvarchar": "string",
    "blob": "binary",
    "bytea": "binary",
    "bool": "boolean",
    "object": "struct<…>",
    "list": "array<…>",
    "dict": "map<string,…>",
    "json": "string",
    "uuid": "string",
    "bytes": "binary",
}
_WITHOUT_ZONE = ["without", "time", "zone"]
_JSON_OF_DDL = {"bigint": "long", "int": "integer", "smallint": "short", "tinyint": "byte"}

_QUOTES = ("'", '"')
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|(\w+)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(\S))", re.DOTALL)


MOST_LEVELS = 100
"""Most levels of nesting of a schema; Spark's own parser overflows its stack at some 250."""

MOST_DIGITS = 38
_MOST_TIME_DIGITS = 6
_LARGEST_LENGTH = 2**31 - 1
_INTERVAL_UNITS = (("year", "month"), ("day", "hour", "minute", "second"))
_ARGUMENTS = re.compile(r"\w+\((?P<numbers>\d+(?:,-?\d+)*)\)", re.ASCII)


class DdlError(ValueError):
    """The text is no schema; the message names the word at which parsing fails.

    Attributes:
        faults: All faults that were found; a fault of the grammar is the last one.
    """

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__("; ".join(faults))


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct."""

    name: str  # the name as written in the schema
    type: str  # Spark's short name of the type: ``bigint``, ``array<struct<a:int>>``
    # The fields of a struct; ``element`` of an array; ``key`` and ``value`` of a map; else empty.
    nested: tuple[Field, ...] = ()

    @property
    def kind(self) -> str:
        """``struct``, ``array``, ``map``, or the name of a plain type."""
        return re.split(r"[<( ]", self.type, maxsplit=1)[0]


_IN_JSON = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


def spark_json(found: Sequence[Field]) -> dict[str, Any]:
    """Fields as a StructType in Spark's JSON, all nullable."""
    members = [{"name": f.name, "type": _json_type(f), "nullable": True, "metadata": {}} for f in found]
    return {"type": "struct", "fields": members}


def _json_type(found: Field) -> Any:
    if found.kind == "struct":
        return spark_json(found.nested)
    if found.kind == "array":
        return {"type": "array", "elementType": _json_type(found.nested[0]), "containsNull": True}
    if found.kind == "map":
        key, value = (_json_type(one) for one in found.nested)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    return _IN_JSON.get(found.type, found.type)


def unknown_type(text: str, known: Mapping[str, str]) -> str | None:
    """What is wrong with the name of a plain type; ``None`` for a known type."""
    name = re.split(r"[( ]", text.strip(), maxsplit=1)[0]
    exact = name if known is JSON_TYPES else name.lower()
    if exact in known or exact == "interval":
        return None
    if known is JSON_TYPES and name.lower() in _JSON_OF_DDL:
        return f"{text!r} is no type in Spark's JSON; write {_JSON_OF_DDL[name.lower()]!r}"
    near = _COMMON_MISTAKES.get(name.lower())
    if near is None:
        choices = [*known, "struct", "array", "map"]
        near = next(iter(get_close_matches(name.lower(), choices, n=1, cutoff=0.6)), None)
    return f"{text!r} is no type of Spark's; " + (
        f"did you mean {near!r}?" if near else f"known: {', '.join(known)}"
    )


TOO_DEEP = f"is nested more than {MOST_LEVELS} levels deep; declare an inner field as string"
"""The fault of a schema that is nested too deeply."""


def is_unicode(text: str) -> bool:
    """Whether a text can be written to a file: it has no lone surrogate."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def type_fault(kind: str, *, is_json: bool = False) -> str | None:  # noqa: PLR0911  # a return per kind
    """What is wrong with the arguments of a plain type that is known; None if Spark accepts them.

    Args:
        kind: The type with its arguments and without blanks in them: ``decimal(12,2)``.
        is_json: Whether it is a type in Spark's JSON, where fewer forms are known than in DDL.
    """
    name, bracket, _ = kind.partition("(")
    if name.startswith("interval"):
        return _interval_fault(kind)
    match = _ARGUMENTS.fullmatch(kind)
    numbers = [int(number) for number in match["numbers"].split(",")] if match is not None else []
    if name == "decimal":
        return _decimal_fault(kind, numbers, is_json=is_json) if bracket else None
    if name in {"char", "varchar"}:
        if len(numbers) == 1 and 1 <= numbers[0] <= _LARGEST_LENGTH:
            return None
        return f"{kind!r} needs a length of at least 1, as in {name}(20); a string has no limit"
    if name == "time":
        if (not bracket and not is_json) or (len(numbers) == 1 and numbers[0] <= _MOST_TIME_DIGITS):
            return None
        return f"{kind!r} is no type of Spark's; write time(6), with at most {_MOST_TIME_DIGITS} digits"
    return f"{kind!r} is no type of Spark's; {name} has no arguments" if bracket else None


def _decimal_fault(kind: str, numbers: list[int], *, is_json: bool) -> str | None:
    if len(numbers) not in ((2,) if is_json else (1, 2)):
        return f"{kind!r} is no decimal; write its digits and those after the point, as in decimal(12,2)"
    precision, scale = (*numbers, 0)[:2]
    if precision > MOST_DIGITS:
        return f"{kind!r} has {precision} digits; Spark's decimals have at most {MOST_DIGITS}"
    if scale < 0:
        return f"{kind!r} has a negative number of digits after the point, which Spark refuses"
    if scale > precision:
        return (
            f"{kind!r} has more digits after the point ({scale}) than digits ({precision}); "
            f"write decimal({min(precision + scale, MOST_DIGITS)},{scale})"
        )
    return None


def _interval_fault(kind: str) -> str | None:
    words = kind.split()[1:]
    for units in _INTERVAL_UNITS:
        if not words or words in [[unit] for unit in units]:
            return None
        pairs = [[first, "to", last] for place, first in enumerate(units) for last in units[place + 1 :]]
        if words in pairs:
            return None
    return _NO_INTERVAL.format(kind)


_NO_INTERVAL = "{!r} is no interval of Spark's; write interval day to second, or interval year to month"


def parse(text: str) -> tuple[Field, ...]:
    """The fields of DDL text in order, with or without ``struct<…>`` around all of them.

    Raises:
        DdlError: The text is no schema; all types that Spark does not know are reported at once.
    """
    found, faults = examine(text)
    if faults:
        raise DdlError(*faults)
    return found


def examine(text: str) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """The fields of DDL text, and its faults.

    A field of an unknown type has an empty type. A text that cannot be parsed has no fields.
    """
    reader = _Reader(text)
    try:
        return _parsed(reader), tuple(reader.faults)
    except DdlError as error:
        return (), (*reader.faults, *error.faults)


def _parsed(reader: _Reader) -> tuple[Field, ...]:
    if reader.peek().lower() == "struct" and reader.peek(1) == "<":
        found = reader.type("value")
        reader.expect_end()
        return found.nested
    members = reader.members("", closing="")
    if not members:
        raise DdlError("the schema is empty; write it like 'id string, amount decimal(12,2)'")
    return members


class _Reader:
    """Recursive descent over the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._tokens = [next(part for part in match.groups() if part) for match in _TOKEN.finditer(text)]
        self._next = 0
        self._levels = 0
        self.faults: list[str] = []

    def peek(self, ahead: int = 0) -> str:
        """The next token, not consumed; empty at the end."""
        index = self._next + ahead
        return self._tokens[index] if index < len(self._tokens) else ""

    def take(self) -> str:
        """Consume the next token."""
        token = self.peek()
        self._next += 1
        return token

    def expect(self, token: str, place: str) -> None:
        """Consume a token, which must be this one."""
        found = self.take()
        if found != token:
            after = f" in field {place!r}" if place else ""
            shown = f"{found!r} is there" if found else "the text ends"
            raise DdlError(f"the schema cannot be read{after}: {token!r} is expected where {shown}")

    def expect_end(self) -> None:
        """Refuse further tokens."""
        if self.peek():
            raise DdlError(f"the schema cannot be read: {self.peek()!r} follows its end; leave it out")

    def members(self, place: str, closing: str) -> tuple[Field, ...]:
        """Fields separated by commas, up to the closing token."""
        found: list[Field] = []
        while self.peek() != closing:
            found.append(self.member(place))
            if self.peek() == closing:
                break
            if self.peek() != ",":
                self._refuse_missing_comma(f"{place}.{found[-1].name}" if place else found[-1].name)
            self.take()
            if self.peek() == closing:
                raise DdlError(f"the schema has a ',' too many after field {found[-1].name!r}")
        return tuple(found)

    def _refuse_missing_comma(self, place: str) -> None:
        token = self.peek()
        if not token:
            raise DdlError(f"the schema ends inside field {place!r}: a '>' is missing")
        raise DdlError(f"the schema cannot be read at {token!r} after field {place!r}: a ',' is missing")

    def member(self, place: str) -> Field:
        """``name type`` or ``name: type``, optionally with ``not null`` and a comment."""
        token = self.take()
        if not re.match(r"`|\w", token):
            raise DdlError(f"the schema cannot be read at {token!r}: a field's name is expected there")
        if not token.startswith("`") and not token.isascii():
            raise DdlError(
                f"field {token!r}: a name with other letters than a to z needs backquotes: `{token}`"
            )
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        inner = f"{place}.{name}" if place else name
        if self.peek() == ":":
            self.take()
        found = self.type(inner)
        if self.peek().lower() == "not" and self.peek(1).lower() == "null":
            self._next += 2
        if self.peek().lower() == "comment" and self.peek(1)[:1] in _QUOTES:
            self.take()
            while self.peek()[:1] in _QUOTES:
                self.take()
        return Field(name, found.type, found.nested)

    def type(self, place: str) -> Field:
        """A type, as a field without a name."""
        word = self.take()
        if not word or word in {",", ">"}:
            raise DdlError(f"field {place!r} has no type; write it like '{place.rpartition('.')[2]} string'")
        if not word[0].isidentifier():
            raise DdlError(
                f"the schema cannot be read at {word!r} after {place!r}; a name with it needs backquotes"
            )
        kind = word.lower()
        if kind == "timestamp" and [self.peek(ahead).lower() for ahead in range(3)] == _WITHOUT_ZONE:
            self._next += len(_WITHOUT_ZONE)
            return Field("", "timestamp_ntz")
        if kind in {"struct", "array", "map"}:
            return self._nested(kind, place)
        known = unknown_type(word, DDL_TYPES)
        found = DDL_TYPES.get(kind, kind) + self._arguments(kind, place)
        if (problem := known or type_fault(found)) is not None:
            self.faults.append(f"field {place!r}: {problem}")
            return Field("", "")
        return Field("", found)

    def _nested(self, kind: str, place: str) -> Field:
        self.expect("<", place)
        self._levels += 1
        if self._levels > MOST_LEVELS:
            raise DdlError(f"field {place.partition('.')[0]!r} {TOO_DEEP}")
        if kind == "struct":
            nested = self.members(place, closing=">")
            shown = ",".join(f"{field.name}:{field.type}" for field in nested)
        elif kind == "array":
            nested = (self._named("element", place),)
            shown = nested[0].type
        else:
            key = self._named("key", place)
            self.expect(",", place)
            nested = (key, self._named("value", place))
            shown = f"{key.type},{nested[1].type}"
        self.expect(">", place)
        self._levels -= 1
        return Field("", f"{kind}<{shown}>", nested)

    def _named(self, name: str, place: str) -> Field:
        found = self.type(place)
        return Field(name, found.type, found.nested)

    def _arguments(self, kind: str, place: str) -> str:
        """Arguments of a plain type: ``(10,2)``, ``collate X``, ``day to second``."""
        text = ""
        if self.peek() == "(":
            while self.peek() not in {")", ""}:
                text += self.take()
            self.expect(")", place)
            return text + ")"
        if kind == "string" and self.peek().lower() == "collate":
            self._next += 2
        if kind == "interval" and self.peek() not in {"", ",", ">"}:
            text = f" {self.take()}".lower()
            if self.peek().lower() == "to":
                text += f" {self.take()} {self.take()}".lower()
        return text
