"""Recognizes times in the layouts that people and other programs write, as Spark's patterns. Pure."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter

_TIME = re.compile(
    r"(?P<a>\d{1,4})(?P<s>[/.-])(?P<b>\d{1,2})(?P=s)(?P<c>\d{1,4})"
    r"(?:(?P<t>[T ])(?P<H>\d{1,2}):(?P<m>\d\d)(?P<sec>:(?P<S>\d\d)(?P<part>[.,]\d{1,6})?)?"
    r"(?P<half> ?[AaPp][Mm])?(?P<zone> ?(?:Z|[+-](?:0\d|1[0-3])(?P<colon>:?)[0-5]\d))?)?",
    re.ASCII,
)
_SECONDS = ":ss"
_YEAR_DIGITS, _NOON = 4, 12


def layouts(text: str) -> dict[str, dt.datetime]:
    """The patterns by which a text is a time, each with that time; of 3/4/2016 two. Empty for other texts."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return {}
    a, b, c = found["a"], found["b"], found["c"]
    if len(a) == _YEAR_DIGITS and len(c) < 3:  # noqa: PLR2004  # a day has two digits
        orders = {"yyyy{0}M{0}d": (a, b, c)}
    elif len(c) == _YEAR_DIGITS and len(a) < 3:  # noqa: PLR2004
        orders = {"d{0}M{0}yyyy": (c, b, a), "M{0}d{0}yyyy": (c, a, b)}
    else:
        return {}
    times = {}
    for order, date in orders.items():
        if (moment := _moment(found, *map(int, date))) is not None:
            times[order.format(found["s"]) + _clock(found)] = moment
    return times


def _clock(found: re.Match[str]) -> str:
    if found["t"] is None:
        return ""
    hour = "h" if found["half"] else "H"
    half = "" if not found["half"] else " a" if found["half"].startswith(" ") else "a"
    between = "'T'" if found["t"] == "T" else " "
    part = f"{found['part'][0]}SSSSSS" if found["part"] else ""
    zone = "" if not found["zone"] else (" " * found["zone"].count(" ")) + ("XXX" if found["colon"] else "XX")
    return f"{between}{hour}:mm{_SECONDS if found['sec'] else ''}{part}{half}{zone}"


def _moment(found: re.Match[str], year: int, month: int, day: int) -> dt.datetime | None:
    hour = int(found["H"] or 0)
    if found["half"]:
        if not 1 <= hour <= _NOON:
            return None
        hour = hour % _NOON + (_NOON if found["half"].strip().lower() == "pm" else 0)
    micros = int((found["part"] or ".")[1:].ljust(6, "0"))
    try:
        zone = dt.datetime.strptime((found["zone"] or "Z").strip(), "%z").tzinfo
        return dt.datetime(year, month, day, hour, int(found["m"] or 0), int(found["S"] or 0), micros, zone)
    except ValueError:
        return None


def best(counts: Counter[str]) -> tuple[str, int]:
    """The pattern that most texts fit, and how many; seconds are optional in it where some have none.

    Where as many fit with the month first as with the day first, the day is taken to be first.
    """
    merged: Counter[str] = Counter()
    for pattern, count in counts.items():
        merged[pattern.replace(_SECONDS, "")] += count
    if not merged:
        return "", 0
    most = max(merged.values())
    plain = min((one for one, count in merged.items() if count == most), key=lambda one: one.startswith("M"))
    spelt = [one for one in counts if one.replace(_SECONDS, "") == plain]
    if len(spelt) > 1:
        return plain.replace(":mm", ":mm[:ss]"), most
    return spelt[0], most


def is_ambiguous(counts: Counter[str]) -> bool:
    """Whether day and month cannot be told apart: each text that fits one order fits the other."""
    pattern, most = best(counts)
    plain = pattern.replace("[:ss]", "")
    if not plain.startswith("d"):
        return False
    other = "M" + plain[1] + "d" + plain[3:]
    return (
        sum(
            count for one, count in counts.items() if one.replace(_SECONDS, "") == other.replace(_SECONDS, "")
        )
        == most
    )


def millis(text: str, pattern: str) -> int | None:
    """The time of a text by a pattern, in milliseconds since 1970; as UTC without an offset; None if none."""
    for one, moment in layouts(text).items():
        if one in {pattern, pattern.replace("[:ss]", ""), pattern.replace("[:ss]", _SECONDS)}:
            return int(moment.timestamp() * 1000)
    return None
