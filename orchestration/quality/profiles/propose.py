"""Proposes a suite from the figures of a table, as code to paste, with the reason of each bound."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from orchestration.quality.judgement import number, percent
from orchestration.quality.profiles.describe import MOST_VALUES, ColumnProfile, TableProfile

_FEW = 20
"""A text column whose values are at most a twentieth of its rows has a set of values."""
_OLD_SECONDS = 7 * 86_400


@dataclass(frozen=True, slots=True)
class Proposal:
    """One proposed expectation; ``code`` is empty where only the reason not to propose one is given."""

    code: str
    reason: str


def propose(profile: TableProfile, key: Sequence[str], duplicates: int, now: datetime) -> list[Proposal]:
    """Expectations that the table meets now, with room for change.

    Args:
        profile: The figures of the table.
        key: The declared key; empty if there is none.
        duplicates: Rows that share a key.
        now: The time of the proposal, UTC.
    """
    found = [Proposal(f"RowCount(min={_half(profile.rows):_})", f"{profile.rows:,} rows now; half of them")]
    if key and not duplicates:
        found.append(Proposal(f"Unique({_listed(key)})", f"the key; no duplicate in {profile.rows:,} rows"))
    elif key:
        found.append(Proposal("", f"Unique({_listed(key)}): {duplicates:,} rows share a key"))
    for column in profile.columns:
        found += _of_column(column, now)
    return found


def source(profile: TableProfile, proposals: Sequence[Proposal], at: datetime) -> str:
    """The proposals as Python code."""
    used = sorted({match for one in proposals for match in re.findall(r"^(\w+)\(", one.code)} | {"Quality"})
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


def _of_column(column: ColumnProfile, now: datetime) -> Iterator[Proposal]:
    if not column.values:
        yield Proposal("", f"{column.name} has no value")
        return
    yield _nulls(column)
    name = _quoted(column.name)
    if column.kind == "number":
        yield from _range(column)
    elif column.kind == "flag":
        yield from _share(column)
    elif column.kind == "time":
        yield _freshness(column, now)
    elif column.kind == "text":
        if column.distinct <= MOST_VALUES and column.distinct * _FEW <= column.values:
            values = _listed(sorted(str(value) for value, _ in column.frequent))
            yield Proposal(f"InSet({name}, {values})", f"{column.distinct} values in {column.values:,} rows")
            if column.distinct > 1:
                text = "frequencies as in the last run"
                yield Proposal(f'SameDistribution({name}, max_change=0.1, severity="warn")', text)
        elif pattern := common_pattern(column.sample):
            text = f"all of {len(column.sample):,} different values"
            yield Proposal(f"Matches({name}, r{_quoted_pattern(pattern)})", text)


def _nulls(column: ColumnProfile) -> Proposal:
    name = _quoted(column.name)
    if not column.nulls:
        return Proposal(f"NullShare({name})", f"no null in {column.rows:,} rows")
    share = column.nulls / column.rows
    bound = min(1.0, _rounded_up(2 * share))
    return Proposal(f"NullShare({name}, max={bound:g})", f"{percent(share)} now; twice as many")


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
    room = (most - least) / 10
    low, high = _outward(least - room, room, up=False), _outward(most + room, room, up=True)
    reason = f"observed {number(column.least)} to {number(column.most)}; a tenth of the span added"
    if least >= 0 > low:
        low, reason = Decimal(0), f"{reason}, not below 0"
    yield Proposal(f"InRange({_quoted(column.name)}, min={low:f}, max={high:f})", reason)


def _outward(bound: Decimal, room: Decimal, *, up: bool) -> Decimal:
    """A bound, rounded outward to the digit of its room."""
    unit = Decimal(1).scaleb(room.adjusted())
    rounded = (bound / unit).to_integral_value("ROUND_CEILING" if up else "ROUND_FLOOR") * unit
    return rounded.quantize(Decimal(1)) if unit >= 1 else rounded.normalize()


def _share(column: ColumnProfile) -> Iterator[Proposal]:
    true = next((count for value, count in column.frequent if value is True), 0)
    share = true / column.rows
    low, high = max(0.0, math.floor(50 * share) / 100), min(1.0, math.ceil(200 * share) / 100)
    reason = f"{percent(share)} of {column.rows:,} rows now; half to twice as many"
    yield Proposal(f"ValueShare({_quoted(column.name)}, True, min={low:g}, max={high:g})", reason)


def _freshness(column: ColumnProfile, now: datetime) -> Proposal:
    newest = datetime.fromisoformat(str(column.most))
    newest = newest if newest.tzinfo is not None else newest.replace(tzinfo=UTC)
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
