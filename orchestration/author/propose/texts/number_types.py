"""The types of numbers: exact for money, with room for longer numbers than a sample has. Pure."""

from __future__ import annotations

import math
import re
from decimal import Context, Decimal

MOST_DIGITS = 38

_MONEY = frozenset(
    re.findall(
        r"\w+",
        "price amount cost fee salary balance revenue payment paid money fare tip tax discount total "
        "subtotal charge refund wage rent budget invoice usd eur gbp chf jpy",
    )
)
_NO_MONEY = frozenset(
    re.findall(
        r"\w+",
        "count cents cent minor micros id ids number no type code currency rate pct percent ratio quantity "
        "qty items rows bytes time seconds ms name status",
    )
)
_LEAST_WHOLE, _MORE_WHOLE = 14, 4
_LEAST_AFTER, _MORE_AFTER = 4, 2
_EXACT = Context(prec=1100)  # a double has at most 1,075 digits after its point


def is_money(name: str) -> bool:
    """Whether a field's name says that it holds an amount of money."""
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))
    singular = {word.removesuffix("s") for word in words} | words
    return bool(singular & _MONEY) and not words & _NO_MONEY


_COUNTED = frozenset(
    re.findall(
        r"\w+",
        "count quantity qty size bytes length width height weight distance duration population capacity "
        "seats items pages stars views votes retries attempts",
    )
)
_SIGNED = frozenset(
    re.findall(
        r"\w+", "balance profit net delta diff difference change adjustment correction margin gain loss"
    )
)


def is_never_negative(name: str) -> bool:
    """Whether a field's name says that it counts or measures what cannot be less than nothing."""
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))
    return not words & _SIGNED and (
        is_money(name) or bool((words | {w.removesuffix("s") for w in words}) & _COUNTED)
    )


def is_double(text: str) -> bool:
    """Whether a double gives the number back: its shortest text, or its exact value in the text's digits."""
    number, nearest = Decimal(text), float(text)
    if not math.isfinite(nearest):
        return False
    if Decimal(repr(nearest)) == number:
        return True
    sent = abs(number.normalize(_EXACT))
    digits, exponent = sent.as_tuple().digits, int(sent.as_tuple().exponent)
    exact, half = abs(Decimal(nearest)), Decimal((0, (5,), exponent - 1))
    off = _EXACT.abs(_EXACT.subtract(exact, sent))
    # Printers round an exact half up, or to the even digit.
    return off < half or (off == half and (sent > exact or digits[-1] % 2 == 0))


def decimal_type(before: int, after: int) -> str:
    """A decimal for numbers of so many digits before and after the point, with room for more of both.

    A text where the sampled numbers alone have more than 38 digits.
    """
    before, after = max(before, 0), max(after, 0)
    if not 0 < before + after <= MOST_DIGITS:
        return "string"
    whole = min(max(before + _MORE_WHOLE, _LEAST_WHOLE), MOST_DIGITS - after)
    scale = min(max(after + _MORE_AFTER, _LEAST_AFTER), MOST_DIGITS - whole)
    return f"decimal({whole + scale},{scale})"
