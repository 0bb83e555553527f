"""The expected result of the strict JSON reader, in plain Python: the json module with hooks, and decimals.

If a document has faults of several kinds, only that it has one is comparable: which of them a reader reports
depends on the order in which it reads.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

INTEGERS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
DOCUMENT_FAULTS = {
    *("empty_value", "not_utf8", "too_large", "too_deep", "malformed_json", "trailing_data"),
    *("not_an_object", "duplicate_key", "bad_unicode", "non_finite_number"),
}
TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)


class Number(str):
    """The text of a number."""

    __slots__ = ()


class FaultError(Exception):
    """Why a value cannot be read; ``args`` are the reason and the field."""


def read(value: bytes, fields: dict[str, Any], depth: int = 64) -> tuple[str | None, dict[str, Any] | None]:
    """The fault, or the fields. A struct's type is a dict, an array's a list, a map's a tuple of one."""
    try:
        found = document(value, depth)
        return None, typed(found, fields)
    except FaultError as fault:
        return fault.args[0], None


def document(value: bytes, depth: int) -> dict[str, Any]:
    """The object; raises the fault of the whole document."""
    if not value.strip(b" \t\r\n"):
        raise FaultError("empty_value")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise FaultError("not_utf8") from None
    decoder = json.JSONDecoder(
        object_pairs_hook=_once, parse_int=Number, parse_float=Number, parse_constant=_constant
    )
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        found, end = decoder.raw_decode(text, start)
    except RecursionError:
        raise FaultError("too_deep") from None
    except json.JSONDecodeError:
        raise FaultError("malformed_json") from None
    if _depth(found) > depth:
        raise FaultError("too_deep")
    if "\\u" in text:
        _check_unicode(found)
    if text[end:].strip(" \t\r\n"):
        raise FaultError("trailing_data")
    if not isinstance(found, dict):
        raise FaultError("not_an_object")
    return found


def typed(value: Any, kind: Any) -> Any:  # noqa: C901, PLR0911, PLR0912  # a line per type
    """A value as a column's type; raises the value's fault."""
    if value is None:
        return None
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            raise FaultError("wrong_type")
        found = {name: typed(each, kind[name]) for name, each in value.items() if name in kind}
        return dict.fromkeys(kind) | found
    if isinstance(kind, list):
        if not isinstance(value, list):
            raise FaultError("wrong_type")
        return [typed(each, kind[0]) for each in value]
    if isinstance(kind, tuple):
        if not isinstance(value, dict):
            raise FaultError("wrong_type")
        return {name: typed(each, kind[0]) for name, each in value.items()}
    if kind == "string":
        return value if isinstance(value, str) else ("json", value)
    if kind == "boolean":
        return _of(value, bool)
    if kind in INTEGERS:
        return _integer(_of(value, Number), INTEGERS[kind])
    if kind in {"float", "double"}:
        return _binary(_of(value, Number), kind)
    if kind.startswith("decimal"):
        precision, scale = map(int, kind[8:-1].split(","))
        return _decimal(_of(value, Number), precision, scale)
    text = _of(value, str)
    if isinstance(text, Number):
        raise FaultError("wrong_type")
    return _text(text, kind)


def _text(text: str, kind: str) -> Any:
    try:
        if kind == "date" and re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            return date.fromisoformat(text)
        if kind == "binary":
            bytes_ = base64.b64decode(text, validate=True)
            if base64.b64encode(bytes_).decode() == text:
                return bytes_
    except ValueError:
        pass
    if kind in {"timestamp", "timestamp_ntz"}:
        return _time(text, kind)
    raise FaultError("wrong_type")


def _time(text: str, kind: str) -> datetime:
    found = TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)  # noqa: TRY301
        day, minute, second, fraction, offset = found.groups()
        whole = datetime.fromisoformat(f"{day}T{minute}:{second or '00'}")
        zone = datetime.fromisoformat(f"2000-01-01T00:00:00{offset}").utcoffset() if offset else None
        if zone is not None and abs(zone.total_seconds()) > 18 * 3600:
            raise ValueError(text)  # noqa: TRY301
    except ValueError:
        raise FaultError("invalid_timestamp") from None
    if kind == "timestamp" and zone is None:
        raise FaultError("timestamp_without_offset")
    if kind == "timestamp_ntz" and zone is not None:
        raise FaultError("invalid_timestamp")
    if fraction and fraction[6:].strip("0"):
        raise FaultError("number_rounded")
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    whole = whole.replace(microsecond=micros)
    try:
        return whole - (zone or timedelta())
    except OverflowError:
        raise FaultError("invalid_timestamp") from None


def _integer(text: str, bits: int) -> int:
    if not re.fullmatch(r"-?\d+", text):
        raise FaultError("wrong_type")
    value = Decimal(text)
    if not -(2**bits) <= value < 2**bits:
        raise FaultError("number_out_of_range")
    return int(value)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    value = Decimal(text)
    _, digits, exponent = value.as_tuple()
    kept = "".join(map(str, digits)).lstrip("0").rstrip("0")
    exponent = int(exponent) + len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if not kept:
        return Decimal(0)
    if len(kept) + exponent > precision - scale:
        raise FaultError("number_out_of_range")
    if exponent < -scale:
        raise FaultError("number_rounded")
    return value


def _binary(text: str, kind: str) -> float:
    value = float(text)
    shown = repr(value)
    if kind == "float":
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            raise FaultError("non_finite_number") from None
        shown = next(
            (
                shown
                for digits in range(1, 10)
                if struct.pack("f", float(shown := f"{value:.{digits}g}")) == struct.pack("f", value)
            ),
            repr(value),
        )
    if value in {float("inf"), float("-inf")}:
        raise FaultError("non_finite_number")
    if not _is_printed(Fraction(value), Fraction(shown), text):
        raise FaultError("number_rounded")
    return value


def _is_printed(exact: Fraction, shortest: Fraction, text: str) -> bool:
    """Whether a text is the shortest text of a number, or the exact value rounded to the text's digits."""
    sent = Decimal(text)
    digits = "".join(map(str, sent.as_tuple().digits))
    unit = Fraction(10) ** (int(sent.as_tuple().exponent) + len(digits) - len(digits.rstrip("0")))
    if not digits.strip("0"):
        return exact == 0
    far = abs(Fraction(text) - exact)
    is_half = far == unit / 2 and (abs(Fraction(text)) > abs(exact) or Fraction(text) / unit % 2 == 0)
    return exact != 0 and (Fraction(text) == shortest or far < unit / 2 or is_half)


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise FaultError("wrong_type")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FaultError("duplicate_key")
    return found


def _constant(_: str) -> Any:
    raise FaultError("non_finite_number")


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _check_unicode(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise FaultError("bad_unicode") from None
