"""Proposes a suite from the figures of a table, as code to paste, with the reason of each bound.

The suite is to pass on the next rows of the same kind, and to fail where their meaning has changed. So shares
and means get a margin from how much they differ between slices of the table, and a bound of single values
lets a few rows pass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache

from common.sql.quoting import backquoted
from orchestration.quality.judgement import number, percent
from orchestration.quality.profiles.describe import MOST_VALUES, ColumnProfile, Gap, TableProfile

_FEW = 20
"""A text column whose values are at most a twentieth of its rows has a set of values."""
_OLD_SECONDS = 7 * 86_400
_FEW_ROWS = 0.05
"""The greatest share of rows that may miss a bound of single values, where a table has few rows."""
_NULLS = 0.005
"""The share of nulls that a column without any may have."""
_UPPER = 3
"""The place of the 75th percentile among the quantiles of a profile."""
_GAP_SECONDS = 60 * 86_400
_NIGHT_HOURS, _NIGHT_SHARE, _NIGHT_ROWS = 4, 0.02, 200
_YEAR = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Proposal:
    """One proposed expectation; ``code`` is empty where only the reason not to propose one is given."""

    code: str
    reason: str


def propose(profile: TableProfile, key: Sequence[str], duplicates: int, now: datetime) -> list[Proposal]:
    """Expectations that the table meets now, with room for change.

    Args:
        key: The declared key; empty if there is none.
    """
    found = [Proposal(f"RowCount(min={_half(profile.rows):_})", f"{profile.rows:,} rows now; half of them")]
    if key and not duplicates:
        found.append(Proposal(f"Unique({_listed(key)})", f"the key; no duplicate in {profile.rows:,} rows"))
    elif key:
        found.append(Proposal("", f"Unique({_listed(key)}): {duplicates:,} rows share a key"))
    for column in profile.columns:
        found += _of_column(column, now, is_key=column.name in key and not duplicates)
    for gap in profile.gaps:
        found += _of_gap(gap)
    return found


def source(profile: TableProfile, proposals: Sequence[Proposal], at: datetime) -> str:
    """The proposals as Python code."""
    used = sorted({match for one in proposals for match in re.findall(r"^(\w+)", one.code)} | {"Quality"})
    origin = f"version {profile.version} of {profile.table}, {profile.rows:,} rows, on {at:%Y-%m-%d}"
    lines = [
        f"from medallion import {', '.join(used)}",
        "",
        f"# Proposed from {origin}. Check each bound.",
        "Quality(",
        f'    "{profile.table}",',
        "    [",
        *(
            f"        {one.code},  # {one.reason}" if one.code else f"        # {one.reason}"
            for one in proposals
        ),
        "    ],",
        ")",
        "",
    ]
    return "\n".join(lines)


def _half(rows: int) -> int:
    """Half of a number of rows, rounded down to two digits."""
    half = rows // 2
    digits = max(len(str(half)) - 2, 0)
    return int(str(half)[: len(str(half)) - digits] + "0" * digits)


def _listed(names: Sequence[str]) -> str:
    return "[" + ", ".join(_quoted(name) for name in names) + "]"


def _quoted(value: object) -> str:
    if not isinstance(value, str):
        return repr(value)
    text = repr(value)
    return text if '"' in value or "\\" in text else f'"{text[1:-1]}"'


def _of_column(column: ColumnProfile, now: datetime, *, is_key: bool) -> Iterator[Proposal]:
    if not column.values:
        yield Proposal("", f"{column.name} has no value")
        return
    yield _nulls(column, is_key=is_key)
    name, mostly = _quoted(column.name), _mostly(column.values)
    if column.kind == "number" and _grows(column):
        yield Proposal("", f"{column.name} grows with time; no bound fits")
    elif column.kind == "number":
        yield from _range(column)
        yield from _distribution(column)
    elif column.kind == "flag":
        yield from _share(column)
    elif column.kind in {"time", "date"}:
        yield from _times(column, now)
    elif column.kind == "text":
        if column.distinct <= MOST_VALUES and column.distinct * _FEW <= column.values:
            values = _listed(sorted(str(value) for value, _ in column.frequent))
            text = f"{column.distinct} values in {column.values:,} rows; a few rows may have a new one"
            yield Proposal(f"InSet({name}, {values}, mostly={min(mostly, 0.99):g})", text)
            if column.distinct > 1:
                text = "frequencies as in the last run"
                yield Proposal(f'SameDistribution({name}, max_change=0.1, severity="warn")', text)
        elif pattern := common_pattern(column.sample):
            text = f"all of {len(column.sample):,} different values"
            limit = "" if is_key else f", mostly={min(mostly, 0.99):g}"
            yield Proposal(f"Matches({name}, r{_quoted_pattern(pattern)}{limit})", text)
        else:
            yield from _texts(column)


def _mostly(rows: int) -> float:
    """The share of rows that has to meet a bound which all rows meet now: three of them may miss it."""
    return round(min(max(1 - 3 / max(rows, 1), 1 - _FEW_ROWS), 0.999), 3)


def _nulls(column: ColumnProfile, *, is_key: bool) -> Proposal:
    name = _quoted(column.name)
    if not column.nulls and is_key:
        return Proposal(f"NullShare({name})", f"no null in {column.rows:,} rows")
    if not column.nulls:
        bound = max(_NULLS, round(3 / column.rows, 3))
        return Proposal(
            f"NullShare({name}, max={bound:g})", f"no null in {column.rows:,} rows; a few may come"
        )
    share = column.nulls / column.rows
    most = max(2 * share, _end(column, "null", share, up=True))
    bound = min(1.0, _rounded_up(most))
    return Proposal(f"NullShare({name}, max={bound:g})", f"{percent(share)} now; {_REASON}")


_REASON = "at least twice as many, and more where slices differ"


def _end(column: ColumnProfile, figure: str, now: float, *, up: bool) -> float:
    """The greatest, or smallest, of a figure's slices, and their difference beyond it."""
    slices = column.slices.get(figure) or (now,)
    span = max(slices) - min(slices)
    return max(slices) + span if up else min(slices) - span


def _texts(column: ColumnProfile) -> Iterator[Proposal]:
    """Empty texts, and texts that are cut: how many are as long as the longest quarter is now."""
    name = _sql(column.name)
    blank = max((_end(column, "blank", 0.0, up=True), 2 * max(column.slices.get("blank", (0.0,)))))
    if blank < 1 - _FEW_ROWS:
        share = round(1 - max(_rounded_up(blank) if blank else 0.0, 0.01), 3)
        condition = f"trim({name}) <> ''"
        text = f"{percent(max(column.slices.get('blank', (0.0,))))} of a slice are empty at most"
        yield Proposal(f"Meets({_quoted(condition)}, mostly={share:g})", text)
    length = round(column.quantiles[_UPPER]) if column.quantiles else 0
    if length > round(column.quantiles[0] if column.quantiles else 0):
        condition = f"length({name}) >= {length}"
        yield Proposal(f"Meets({_quoted(condition)}, mostly=0.1)", "a quarter of the texts now")


def _sql(name: str) -> str:
    """A column's name in SQL, in backquotes where it may be read as a word of SQL."""
    is_plain = re.fullmatch(r"[a-z][a-z0-9_]*", name) and name not in _words()
    return name if is_plain else backquoted(name)


@cache
def _words() -> frozenset[str]:
    import duckdb

    sql = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
    with duckdb.connect() as connection:
        return frozenset(word for (word,) in connection.execute(sql).fetchall())


def _rounded_up(share: float) -> float:
    """A share, rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(share)) - 1)
    return round(math.ceil(share / unit - 1e-9) * unit, 12)


def _range(column: ColumnProfile) -> Iterator[Proposal]:
    least, most = Decimal(str(column.least)), Decimal(str(column.most))
    if not (least.is_finite() and most.is_finite()):
        yield Proposal("", f"{column.name} has values that are no finite numbers")
        return
    if least == most:
        yield Proposal("", f"{column.name} is always {number(column.least)}")
        return
    room = (most - least) / 4
    low, high = _outward(least - room, room, up=False), _outward(most + room, room, up=True)
    reason = f"observed {number(column.least)} to {number(column.most)}; a quarter of the span added"
    if least >= 0 > low:
        low, reason = Decimal(0), f"{reason}, not below 0"
    limits = f"min={low:f}, max={high:f}, mostly={min(_mostly(column.values), 0.99):g}"
    yield Proposal(f"InRange({_quoted(column.name)}, {limits})", reason)


def _grows(column: ColumnProfile) -> bool:
    """Whether a number grows from slice to slice, as that of a sequence does."""
    means = column.slices.get("mean", ())
    is_rising = len(means) > 2 and list(means) == sorted(means)  # noqa: PLR2004  # two may be so by chance
    return is_rising and 2 * (means[-1] - means[0]) > column.quantiles[-1] - column.quantiles[0] > 0


def _distribution(column: ColumnProfile) -> Iterator[Proposal]:
    """The mean, the upper quarter, and whether numbers are whole: what a changed unit or digit moves."""
    means, name = column.slices.get("mean", ()), _sql(column.name)
    if not means or not all(map(math.isfinite, means)) or min(column.quantiles) == max(column.quantiles):
        return
    span = column.quantiles[-1] - column.quantiles[0]
    room = max(2 * (max(means) - min(means)), abs(sum(means) / len(means)) / 4, span / 10)
    low, high = _rounded(min(means) - room, up=False), _rounded(max(means) + room, up=True)
    yield Proposal(
        f"gx.expectations.ExpectColumnMeanToBeBetween(column={_quoted(column.name)}, "
        f"min_value={low:g}, max_value={high:g})",
        f"{_rounded(min(means), up=False):g} to {_rounded(max(means), up=True):g} in {len(means)} slices",
    )
    upper = column.quantiles[_UPPER]
    if column.quantiles[0] < upper and float(column.least) < upper:
        condition = f"{name} >= {_rounded(upper, up=False):g}"
        yield Proposal(f"Meets({_quoted(condition)}, mostly=0.1)", "a quarter of the values now")
    broken = column.slices.get("broken", ())
    if broken and min(broken) > 2 * _FEW_ROWS:
        share = math.floor(50 * min(broken)) / 100
        condition = f"{name} <> round({name})"
        yield Proposal(
            f"Meets({_quoted(condition)}, mostly={share:g})",
            f"{percent(min(broken))} have digits after the point",
        )


def _rounded(value: float, *, up: bool) -> float:
    """A number, rounded to three digits."""
    if not value:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    return round((math.ceil if up else math.floor)(value / unit) * unit, 12)


def _outward(bound: Decimal, room: Decimal, *, up: bool) -> Decimal:
    """A bound, rounded outward to the digit of its room."""
    unit = Decimal(1).scaleb(room.adjusted())
    rounded = (bound / unit).to_integral_value("ROUND_CEILING" if up else "ROUND_FLOOR") * unit
    return rounded.quantize(Decimal(1)) if unit >= 1 else rounded.normalize()


def _share(column: ColumnProfile) -> Iterator[Proposal]:
    true = next((count for value, count in column.frequent if value is True), 0)
    share = true / column.rows
    slices = (*column.slices.get("true", ()), share)
    low, high = max(0.0, math.floor(50 * min(slices)) / 100), min(1.0, math.ceil(200 * max(slices)) / 100)
    reason = f"{percent(share)} of {column.rows:,} rows now; half of the least slice to twice the greatest"
    yield Proposal(f"ValueShare({_quoted(column.name)}, True, min={low:g}, max={high:g})", reason)


def _moment(text: object) -> datetime:
    found = datetime.fromisoformat(str(text))
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _times(column: ColumnProfile, now: datetime) -> Iterator[Proposal]:
    """How old the newest time is, which times are possible at all, and at which hours there are none."""
    name, kind = _sql(column.name), "timestamp" if column.kind == "time" else "date"
    oldest, newest = _moment(column.least), _moment(column.most)
    if column.kind == "time":
        yield _freshness(column, newest, now)
    first = f"{kind}'{max(oldest - _YEAR, datetime.min.replace(tzinfo=UTC)):%Y-%m-%d}'"
    clock = f"current_{kind}() + interval 1 day"
    if newest <= now:
        condition, reason = (
            f"{name} between {first} and {clock}",
            "a year before the oldest; not in the future",
        )
    else:
        condition, reason = f"{name} >= {first}", "a year before the oldest; some are in the future now"
    yield Proposal(f"Meets({_quoted(condition)}, mostly={_mostly(column.values):g})", reason)
    if (night := _night(column.hours)) is not None:
        first_hour, last_hour, share = night
        inside = first_hour <= last_hour
        hours = f"{first_hour} and {last_hour}" if inside else f"{last_hour + 1} and {first_hour - 1}"
        condition = f"hour({name}) {'not ' if inside else ''}between {hours}"
        reason = f"{percent(share)} from {first_hour} to {last_hour + 1} o'clock UTC now"
        yield Proposal(f"Meets({_quoted(condition)}, mostly={1 - 2 * _NIGHT_SHARE:g})", reason)


def _night(hours: Sequence[int]) -> tuple[int, int, float] | None:
    """The longest run of hours that together have next to no rows: first, last and their share."""
    total, best = sum(hours), (0, 0, 0.0)
    if total < _NIGHT_ROWS:
        return None
    for first in range(len(hours)):
        rows = 0
        for length in range(1, len(hours)):
            rows += hours[(first + length - 1) % len(hours)]
            if rows > _NIGHT_SHARE * total:
                break
            if length > best[1]:
                best = (first, length, rows / total)
    first, length, share = best
    return None if length < _NIGHT_HOURS else (first, (first + length - 1) % len(hours), share)


def _of_gap(gap: Gap) -> Iterator[Proposal]:
    """The order of two times, and how far they usually are apart."""
    earlier, later = _sql(gap.earlier), _sql(gap.later)
    if gap.backward <= (1 - _mostly(gap.rows)) * gap.rows / 2:
        text = f"in all but {gap.backward:,} of {gap.rows:,} rows" if gap.backward else f"{gap.rows:,} rows"
        yield Proposal(f'Meets("{later} >= {earlier}", mostly={_mostly(gap.rows):g})', text)
    width = max(gap.high - gap.low, 60.0)
    if width > _GAP_SECONDS:
        return
    low, high = (gap.low - width / 2) / 60, (gap.high + width / 2) / 60
    bounds = f"{_after(earlier, math.floor(low))} and {_after(earlier, math.ceil(high))}"
    yield Proposal(
        f'Meets("{later} between {bounds}", mostly=0.8)', "nine in ten rows now, within half of the span"
    )


def _after(name: str, minutes: int) -> str:
    sign = "-" if minutes < 0 else "+"
    return f"{name} {sign} interval {abs(minutes)} minutes"


def _freshness(column: ColumnProfile, newest: datetime, now: datetime) -> Proposal:
    age = (now - newest).total_seconds()
    if not 0 <= age <= _OLD_SECONDS:
        return Proposal("", f"Freshness of {column.name}: the newest is {newest:%Y-%m-%d}; no bound fits")
    for unit, seconds in (("minutes", 60), ("hours", 3_600), ("days", 86_400)):
        bound = max(1, math.ceil(2 * age / seconds))
        if bound <= 60 or unit == "days":  # noqa: PLR2004  # then the next unit reads better
            break
    text = f"{bound} {unit}" if bound > 1 else f"1 {unit.removesuffix('s')}"
    return Proposal(f'Freshness({_quoted(column.name)}, "{text}")', "twice the age of the newest row now")


def common_pattern(values: Sequence[str]) -> str:
    """A regular expression that all values match, made of character classes; empty if none is worth it."""
    if not values:
        return ""
    shapes = {tuple(kind for kind, _ in _runs(value)) for value in values}
    if len(shapes) != 1:
        return ""
    lengths = [[len(run) for _, run in _runs(value)] for value in values]
    parts = []
    for place, kind in enumerate(next(iter(shapes))):
        found = [each[place] for each in lengths]
        least, most = min(found), max(found)
        if kind not in _CLASSES:
            parts.append(re.escape(kind) + ("" if least == most == 1 else "+"))
        elif least == most:
            parts.append(_CLASSES[kind] + (f"{{{least}}}" if least > 1 else ""))
        else:
            parts.append(f"{_CLASSES[kind]}+")
    return f"^{''.join(parts)}$"


_CLASSES = {"A": "[A-Z]", "a": "[a-z]", "0": "[0-9]"}


def _runs(value: str) -> list[tuple[str, str]]:
    """Runs of upper-case letters, lower-case letters and digits; of other characters each kind by itself."""
    found: list[tuple[str, str]] = []
    for run in re.finditer(r"[A-Z]+|[a-z]+|[0-9]+|(.)\1*", value, re.DOTALL):
        text = run.group()
        if text.isascii() and text[0].isalnum():
            kind = "A" if text[0].isupper() else "a" if text[0].islower() else "0"
        else:
            kind = text[0]
        found.append((kind, text))
    return found


def _quoted_pattern(pattern: str) -> str:
    return f'"{pattern}"' if '"' not in pattern else f"'{pattern}'"
