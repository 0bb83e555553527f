"""Values of dataclasses and rows for JSON and the terminal; no character of a row controls a display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

_TEXT = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_WIDEST_CHARACTER = 4  # bytes of UTF-8


def iso(moment: datetime | None) -> str | None:
    """A time in UTC with milliseconds, such as ``2026-01-05T10:00:00.000Z``."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def part(value: Any, *names: str) -> Any:
    """The named fields and properties of a dataclass, or all fields, as JSON has them; None of None."""
    if value is None:
        return None
    return {name: _printed(getattr(value, name)) for name in names or (one.name for one in fields(value))}


def _printed(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return {name: _printed(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_printed(each) for each in value]
    return part(value) if is_dataclass(value) else value


def plain(value: Any) -> Any:
    """A value as JSON has it; texts are escaped, as no reader's display is known."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float) else plain_text(value)


def plain_text(value: Any) -> str:
    """A value as escaped text; times as ISO 8601."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | Decimal):
        return str(value)
    return escaped(value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass"))


def escaped(data: bytes) -> str:
    r"""Bytes as text without characters that control a terminal; reversible.

    UTF-8 text is not changed. A backslash becomes ``\\``. Control characters, direction marks and other
    characters that cannot be printed become ``\n``, ``\r``, ``\t`` or ``\u001b``. A byte that is not UTF-8
    becomes ``\xff``.
    """
    return "".join(map(_shown, data.decode("utf-8", "surrogateescape")))


def escaped_start(data: bytes, width: int) -> tuple[str, bool]:
    """The first ``width`` characters, escaped, and whether there are more; cheap even for a long value."""
    text = data[: (width + 1) * _WIDEST_CHARACTER].decode("utf-8", "surrogateescape")
    return "".join(map(_shown, text[:width])), len(text) > width


def _shown(character: str) -> str:
    if character in _TEXT:
        return _TEXT[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004  # Python's surrogateescape of a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004  # the widest \u
