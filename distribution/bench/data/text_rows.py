"""Texts of one width as rows of bytes, made a column at a time and not a text at a time.

A row is ``uint8``; ``texts`` makes a numpy array of byte strings of rows, without copying each.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND


def table(texts: tuple[str, ...], width: int) -> Bytes:
    """A row per text, filled with blanks; to be indexed by an array."""
    joined = "".join(text.ljust(width) for text in texts).encode("ascii")
    return np.frombuffer(joined, dtype=np.uint8).reshape(len(texts), width)


def quoted(texts: tuple[str, ...], width: int) -> Bytes:
    """The same in quotes, the blanks behind them."""
    return table(tuple(f'"{text}"' for text in texts), width)


def digits(numbers: Integers, width: int) -> Bytes:
    """Decimal digits, zeros before them."""
    rows = np.empty((len(numbers), width), dtype=np.uint8)
    rest = numbers
    for at in range(width - 1, -1, -1):
        rest, digit = np.divmod(rest, 10)
        rows[:, at] = digit + ord("0")
    return rows


def hexed(numbers: NDArray[np.uint64]) -> Bytes:
    """Sixteen hexadecimal digits."""
    each = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    return _pairs()[each].reshape(-1, 16)


def iso(micros: Integers) -> Bytes:
    """Times in UTC, such as ``2025-01-01T00:00:00.000000Z``, of microseconds since 1970."""
    days, rest = np.divmod(micros, _DAY)
    seconds, fraction = np.divmod(rest, _SECOND)
    unique, places = np.unique(days, return_inverse=True)
    dates = table(tuple(np.datetime_as_string(unique.astype("datetime64[D]")).tolist()), 10)
    end = np.full((len(micros), 1), ord("Z"), dtype=np.uint8)
    return np.concatenate([dates[places], _clock()[seconds], digits(fraction, 6), end], axis=1)


def texts(rows: Bytes) -> Any:
    """The rows as byte strings; none may end with a zero byte."""
    return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}").reshape(-1)


@cache
def _pairs() -> Bytes:
    return table(tuple(f"{byte:02x}" for byte in range(256)), 2)


@cache
def _clock() -> Bytes:
    return table(tuple(f"T{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}." for s in range(86_400)), 10)
