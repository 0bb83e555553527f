"""The meaning of a cell by its column's type, and a value as the text of a cell. Pure.

``null``, or an empty cell: null. ``*``: any value. ``~4.33``: a number that is 4.33 when rounded to as many
digits. ``"…"`` in a column of texts: the text in JSON's notation, such as ``""`` or ``"null"``. Times
without a zone are in UTC.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from common.schema.ddl import Field

ANY = "*"
_ABOUT = "~"
_NULLS = ("null", "")
_INTEGERS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_BINARY_AS_HEX = "0x"


class CellError(ValueError):
    """A cell is no value of its column's type; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a cell expects."""

    text: str  # the cell's text
    value: Any = None  # the expected value, unless the cell is ``*`` or ``~…``
    digits: int | None = None  # digits after the point up to which a number is compared; None: exactly
    is_any: bool = False  # whether any value is right

    @property
    def is_exact(self) -> bool:
        """Whether exactly one value is right."""
        return not self.is_any and self.digits is None

    def accepts(self, value: Any) -> bool:
        """Whether a value of the table, as ``comparable`` gives it, is right."""
        if self.is_any:
            return True
        if self.digits is not None and isinstance(value, int | float | Decimal):
            return math.isfinite(value) and round(Decimal(str(value)), self.digits) == self.value
        return bool(value == self.value)


def wanted(text: str, kind: Field) -> Wanted:
    """What a cell of a column of this type expects.

    Raises:
        CellError: The text is no value of the type.
    """
    if text == ANY:
        return Wanted(text, is_any=True)
    if text in _NULLS:
        return Wanted(text)
    if text.startswith(_ABOUT) and kind.kind in {"float", "double", "decimal"}:
        number = _decimal(text.removeprefix(_ABOUT), kind)
        return Wanted(text, number, digits=max(0, -int(number.as_tuple().exponent)))
    return Wanted(text, comparable(_value(text, kind), kind))


def _value(text: str, kind: Field) -> Any:
    if kind.kind in {"string", "char", "varchar", ""}:
        return _json_text(text) if text.startswith('"') else text
    if kind.kind == "binary":
        return _bytes(text, kind)
    if kind.kind == "array" and not text.startswith("["):
        return [_value(part.strip(), kind.nested[0]) for part in text.split(",")]
    if kind.kind in {"array", "map", "struct"}:
        return _of_json(_json(text, kind), kind)
    reader = _READERS.get(kind.kind)
    if reader is None:
        raise CellError(f"a column of type {kind.type} cannot be compared; leave the column out")
    return reader(text, kind)


def _of_json(value: Any, kind: Field) -> Any:
    """A value of JSON as the type; texts and numbers are read as cells are."""
    if value is None:
        return None
    if kind.kind == "array" and isinstance(value, list):
        return [_of_json(each, kind.nested[0]) for each in value]
    if kind.kind == "map" and isinstance(value, dict):
        return {_of_json(key, kind.nested[0]): _of_json(each, kind.nested[1]) for key, each in value.items()}
    if kind.kind == "struct" and isinstance(value, dict):
        if unknown := value.keys() - {field.name for field in kind.nested}:
            raise CellError(f"{kind.type} has no field {min(unknown)!r}")
        return {field.name: _of_json(value.get(field.name), field) for field in kind.nested}
    if kind.kind in {"array", "map", "struct"} or isinstance(value, list | dict):
        raise CellError(f"{json.dumps(value)} is no {kind.type}")
    if kind.kind == "string" and isinstance(value, str):
        return value
    return _value(value if isinstance(value, str) else json.dumps(value), kind)


def _json(text: str, kind: Field) -> Any:
    try:
        return json.loads(text, parse_float=_Number, parse_int=_Number)
    except ValueError as error:
        raise CellError(f"{text!r} is no {kind.type} in JSON: {error}") from None


class _Number(str):
    """The text of a number of JSON."""

    __slots__ = ()


def _json_text(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CellError(f"{text} is no text in JSON's notation: {error}") from None
    if not isinstance(found, str):
        raise CellError(f"{text} is no text in JSON's notation")
    return found


def _bytes(text: str, kind: Field) -> bytes:
    if not text.startswith(_BINARY_AS_HEX):
        return (_json_text(text) if text.startswith('"') else text).encode()
    try:
        return bytes.fromhex(text.removeprefix(_BINARY_AS_HEX))
    except ValueError:
        raise CellError(f"{text!r} is no {kind.type}: two digits of 0-9a-f per byte after 0x") from None


def _integer(text: str, kind: Field) -> int:
    try:
        number = int(text)
    except ValueError:
        raise CellError(f"{text!r} is no {kind.type}") from None
    bits = _INTEGERS[kind.kind]
    if not -(2**bits) <= number < 2**bits:
        raise CellError(f"{text!r} is out of the range of {kind.type}")
    return number


def _decimal(text: str, kind: Field) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise CellError(f"{text!r} is no {kind.type}") from None


def _float(text: str, kind: Field) -> float:
    try:
        return float(text)
    except ValueError:
        raise CellError(f"{text!r} is no {kind.type}") from None


def _boolean(text: str, kind: Field) -> bool:
    if text.lower() not in {"true", "false"}:
        raise CellError(f"{text!r} is no {kind.type}: write true or false")
    return text.lower() == "true"


def _date(text: str, kind: Field) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise CellError(f"{text!r} is no {kind.type}: write it like 2026-03-01") from None


def _timestamp(text: str, kind: Field) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CellError(f"{text!r} is no {kind.type}: write it like 2026-03-01T12:00:00Z") from None
    if kind.kind == "timestamp_ntz" and found.tzinfo is not None:
        raise CellError(f"{text!r} has a zone, and {kind.type} has none")
    return found


_READERS: Mapping[str, Callable[[str, Field], Any]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    "decimal": _decimal,
    "float": _float,
    "double": _float,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp,
}


def comparable(value: Any, kind: Field) -> Any:
    """A value in a form in which equal values are equal and can be counted: NaN equals NaN, times are UTC."""
    if value is None:
        return None
    if kind.nested:
        return _comparable_nested(value, kind)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if kind.kind == "float" and isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, datetime) and kind.kind == "timestamp":
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return value


def _comparable_nested(value: Any, kind: Field) -> Any:
    if kind.kind == "array":
        return tuple(comparable(each, kind.nested[0]) for each in value)
    if kind.kind == "struct":
        return tuple(comparable(value.get(field.name), field) for field in kind.nested)
    pairs = value.items() if isinstance(value, Mapping) else value
    key, inner = kind.nested
    return frozenset((comparable(name, key), comparable(each, inner)) for name, each in pairs)


def cell_text(value: Any, kind: Field) -> str:
    """A value as the text of a cell, from which ``wanted`` reads the same value."""
    if value is None:
        return _NULLS[0]
    if kind.kind == "array" and value and all(_is_word(each) for each in value):
        return ", ".join(value)
    if kind.kind in {"array", "map", "struct"}:
        return json.dumps(_plain(value, kind), ensure_ascii=False)
    if kind.kind == "binary":
        return _bytes_text(value)
    return _quoted(_scalar_text(value, kind)) if isinstance(value, str) else _scalar_text(value, kind)


def _scalar_text(value: Any, kind: Field) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        if kind.kind == "timestamp":
            value = comparable(value, kind)
        return str(value.isoformat()).replace("+00:00", "Z")
    return str(value)


def _bytes_text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _BINARY_AS_HEX + value.hex()
    return _quoted(text) if text.isprintable() and not text.startswith(_BINARY_AS_HEX) else "0x" + value.hex()


def _quoted(text: str) -> str:
    """A text as a cell; in JSON's notation where it would be read as something else."""
    is_special = text in {*_NULLS, ANY} or text.startswith(('"', _ABOUT)) or text != text.strip()
    return json.dumps(text, ensure_ascii=False) if is_special or not text.isprintable() else text


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.replace("_", "a").isalnum() and value != "null"


def _plain(value: Any, kind: Field) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, bool | int):
        return value
    if kind.kind == "array":
        return [_plain(each, kind.nested[0]) for each in value]
    if kind.kind == "struct":
        return {field.name: _plain(value.get(field.name), field) for field in kind.nested}
    if kind.kind == "map":
        pairs = value.items() if isinstance(value, Mapping) else value
        return {str(_plain(key, kind.nested[0])): _plain(each, kind.nested[1]) for key, each in pairs}
    if isinstance(value, float) and math.isfinite(value):
        return value
    return _bytes_text(value) if isinstance(value, bytes) else _scalar_text(value, kind)
