"""Words inside of SQL's literals that Spark alone reads: units, patterns of times, moments, numbers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import MAXYEAR, date

from common.errors import DOUBTFUL, nearest

_YEARS, _MONTHS = ("year", "yyyy", "yy"), ("month", "mon", "mm")
_DATES = (*_YEARS, "quarter", *_MONTHS, "week")
_CLOCK = ("hour", "minute", "second", "millisecond", "microsecond")
_LENGTHS = ("year", "quarter", "month", "week", "day", *_CLOCK)

UNITS: Mapping[str, tuple[str, ...]] = {
    "trunc": _DATES,
    "date_trunc": (*_DATES, "day", "dd", *_CLOCK),
    "extract": (
        *("year", "years", "y", "yr", "yrs", "yearofweek", "quarter", "qtr"),
        *("month", "months", "mon", "mons", "week", "weeks", "w", "day", "days", "d"),
        *("dayofweek", "dow", "dayofweek_iso", "dow_iso", "doy"),
        *("hour", "hours", "h", "hr", "hrs", "minute", "minutes", "m", "min", "mins"),
        *("second", "seconds", "s", "sec", "secs"),
    ),
    "date_add": (*_LENGTHS, "dayofyear"),
    "interval": tuple(
        f"{unit}{plural}"
        for unit in ("year", "month", "week", "day", *_CLOCK, "nanosecond")
        for plural in ("", "s")
    ),
}
"""The words for a unit, by the function that takes them; ``date_add`` stands for all that count in a unit."""

_YEAR_UNITS, _CLOCK_UNITS = ("year", "month"), ("day", "hour", "minute", "second")
_NO_UNITS = frozenset(
    {"as", "and", "or", "from", "then", "else", "end", "when", "in", "is", "between", "asc", "desc"}
)
"""Words that may follow an interval and are no unit."""
_MOMENT = re.compile(r"\s*(now|today|tomorrow|yesterday)(\s+[\w/:+-]+)?\s*", re.IGNORECASE)
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+|inf(inity)?|nan)(e[+-]?\d+)?[dfl]?\s*", re.IGNORECASE)
_DAY = re.compile(r"\s*[+-]?(\d{4,7})(-(\d{1,2})(-(\d{1,2}))?)?(?P<rest>[ T].*)?\s*", re.DOTALL)
_CLOCK_TIME = re.compile(r"\s*T?\d{1,2}:.*", re.DOTALL)
_BOOLEANS = {"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"}

WRITTEN_BY_PATTERN = frozenset({"date_format", "from_unixtime"})
"""Functions whose second argument is a pattern by which a time is written."""
PATTERNS = WRITTEN_BY_PATTERN | frozenset(
    {"to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz", "unix_timestamp", "to_unix_timestamp"}
)
"""The same, and those whose second argument is a pattern by which a text is read."""
READS_TIMES = PATTERNS - WRITTEN_BY_PATTERN | frozenset(
    {"date", "timestamp", "try_to_date", "try_to_timestamp"}
)
"""Functions that read a text as a time."""
UNIT_PLACES: Mapping[str, tuple[int, str, str]] = {
    "date_trunc": (0, "date_trunc", DOUBTFUL),
    "trunc": (1, "trunc", DOUBTFUL),
    "date_part": (0, "extract", ""),
    "datepart": (0, "extract", ""),
}
"""The argument that is a text with a unit, the units that it may be, and what it is where it is none of them,
by function: Spark takes some, and gives null."""
_LETTERS = frozenset("GyMLdDEFaHhKkmsSqQVzOXxZ")
_UNREAD = frozenset("EFqQ")


def is_moment(text: str) -> bool:
    """Whether Spark reads a text, where a time is wanted, as the moment at which it is evaluated."""
    return _MOMENT.fullmatch(text) is not None


def fits(text: str, kind: str) -> bool:
    """Whether a text may be a value of a kind; False only where Spark surely cannot cast it."""
    if kind == "number":
        return _NUMBER.fullmatch(text) is not None
    if kind == "boolean":
        return text.strip().lower() in _BOOLEANS
    if kind in {"date", "timestamp"}:
        is_time = kind == "timestamp" and _CLOCK_TIME.fullmatch(text) is not None
        return is_time or is_moment(text) or text.strip().lower() == "epoch" or _is_day(text)
    return True


def _is_day(text: str) -> bool:
    found = _DAY.fullmatch(text)
    if found is None:
        return False
    year, month, day = int(found[1]), int(found[3] or 1), int(found[5] or 1)
    try:
        return year > MAXYEAR or bool(date(max(year, 1), month, day))
    except ValueError:
        return False


def unit_fault(function: str, unit: str) -> str | None:
    """What is wrong with the word for a unit; None where it is one."""
    known = UNITS[function]
    return None if unit.strip().lower() in known else nearest(unit.strip().lower(), known)


_VALUE = re.compile(r"\s*(?:'([^']*)'|\"([^\"]*)\"|([+-]?(?:\d+\.?\d*|\.\d+)(?!\w)))\s*")
_WORD = re.compile(r"([A-Za-z_]+)(?:\s+to\s+([A-Za-z_]+))?", re.IGNORECASE)
_PAIR = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*([A-Za-z]+)")
_FROM_TO = (_CLOCK_UNITS, _YEAR_UNITS)


def interval_faults(text: str) -> Iterator[str]:
    """What is wrong with the interval with which a text begins.

    Args:
        text: The text from the word ``interval`` on; what follows the interval is not looked at.
    """
    pairs: list[tuple[str, str]] = []
    rest = text[len("interval") :]
    while (value := _VALUE.match(rest)) is not None:
        number = next(each for each in value.groups() if each is not None)
        word = _WORD.match(rest, value.end())
        has_unit = word is not None and word[1].lower() in UNITS["interval"]
        if not pairs and re.search(r"[A-Za-z]", number) and not has_unit:  # interval '1 day 2 hours'
            pairs = _PAIR.findall(number)
            if not pairs or _PAIR.sub("", number).strip():
                pairs = [("1", each) for each in re.findall(r"[A-Za-z]+", number)] or pairs
            break
        if pairs and not has_unit:
            break
        if word is None or word[1].lower() in _NO_UNITS:
            yield f"of {number.strip()!r} without a unit; write one, as in interval 1 day"
            return
        if word[2] is not None:
            yield from _span_faults(word[1].lower(), word[2].lower())
            return
        pairs.append((number.strip(), word[1]))
        rest = rest[word.end() :]
    yield from _unit_faults(pairs)


def _span_faults(first: str, last: str) -> Iterator[str]:
    is_known = any(first in each and last in each[each.index(first) :] for each in _FROM_TO)
    if not is_known:
        yield f"from {first} to {last}; write day to second, or year to month"


def _unit_faults(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What is wrong with numbers and their units."""
    is_known = True
    for number, unit in pairs:
        if advice := unit_fault("interval", unit):
            is_known = False
            yield f"of {unit.lower()!r}, which is no unit; {advice}"
        elif not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", number):
            yield f"of {number!r} {unit.lower()}, which is no number"
        elif not number.lstrip("+-").isdigit() and unit.lower() not in {"second", "seconds"}:
            yield f"of {number} {unit.lower()}, and only seconds have fractions; write a smaller unit"
    units = {unit.lower().rstrip("s") in _YEAR_UNITS for _, unit in pairs}
    if is_known and len(units) > 1:
        yield "of both months and days; add two: interval 1 month + interval 3 days"


def length_fault(text: str) -> str | None:
    """Why no window of time has a length; None where one may have it."""
    for word in re.findall(r"[A-Za-z]+", text):
        if advice := unit_fault("interval", word):
            return f"where {word!r} is no unit; {advice}"
        if word.lower().rstrip("s") in {"month", "year"}:
            return f"and {word} differ in length; write days, or group by date_trunc('month', at)"
    return None


def pattern_faults(pattern: str, *, is_read: bool) -> Iterator[str]:
    """Why Spark refuses a pattern at the first row.

    Args:
        is_read: Whether a text is read by it; else a time is written.
    """
    plain = re.sub(r"'[^']*'", "", pattern)
    for letter in dict.fromkeys(re.findall(r"[A-Za-z]", plain)):
        if letter == "Y":
            yield "'Y' counts years by weeks, which Spark does not have; write y"
        elif letter not in _LETTERS:
            yield f"{letter!r} is no letter of a pattern; text stands between quotes: '{letter}'"
        elif is_read and letter in _UNREAD:
            yield f"{letter!r} is written and not read; leave it out of a pattern that reads"


def pattern_doubts(pattern: str) -> Iterator[str]:
    """What a pattern hardly means."""
    plain = re.sub(r"'[^']*'", "", pattern)
    if "mm" in plain and not re.search(r"[HhKk]", plain):
        yield "mm are minutes; months are MM"
    if re.search(r"(?<!D)DD(?!D)", plain):  # DDD is written for a day of the year
        yield "DD is the day of the year; the day of the month is dd"
