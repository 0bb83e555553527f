"""The records of a bronze table from one place to another, by the time of their arrival or by their offsets.

Both are known for every record, whatever a declaration makes of its value, and every row of silver, late and
quarantine table has both. An event time is neither: it is the result of a declaration, and rejected records
have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from common.errors import UsageError

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from pyspark.sql import Column

Place = tuple[str, int]
"""A topic and one of its partitions."""

_OFFSET = re.compile(r"(?P<topic>[A-Za-z0-9._#:-]+)/(?P<partition>\d+)=(?P<offset>\d+)")

BRONZE = {name: name for name in ("topic", "partition", "offset", "ingested_at")}
"""The columns of bronze and of a quarantine table with a record's place and the time of its arrival."""

SILVER = {
    "topic": "_kafka_topic",
    "partition": "_kafka_partition",
    "offset": "_kafka_offset",
    "ingested_at": "_ingested_at",
}
"""The same columns in a silver table and its late table."""


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Records from a place on, up to but not including another one."""

    begin: datetime | None = None  # when bronze has read the first of the records; None: no such limit
    end: datetime | None = None  # when bronze has read the first record after them
    # The first offset per topic and partition; without one, from the partition's beginning.
    first: Mapping[Place, int] = field(default_factory=dict)
    # The first offset after the range; without one, to the partition's end.
    stop: Mapping[Place, int] = field(default_factory=dict)

    @property
    def places(self) -> tuple[Place, ...]:
        """The partitions of a range of offsets; none for a range of time, which covers all of them."""
        return tuple(sorted({*self.first, *self.stop}))

    def holds(self, names: Mapping[str, str]) -> Column:
        """Whether a row's record is in the range; never null for rows of the engine's tables.

        Args:
            names: The table's columns: ``BRONZE`` or ``SILVER``.
        """
        from pyspark.sql import functions as F

        def literal(moment: datetime) -> Column:
            return F.lit(moment.astimezone(UTC).isoformat()).cast("timestamp")

        found: Column = self._condition({name: F.col(own) for name, own in names.items()}, literal)
        return found

    def filter(self) -> pc.Expression:
        """The same condition over bronze's columns, for PyArrow."""
        import pyarrow as pa
        import pyarrow.compute as pc

        def literal(moment: datetime) -> Any:
            return pa.scalar(moment, pa.timestamp("us", "UTC"))

        return self._condition({name: pc.field(name) for name in BRONZE}, literal)

    def _condition(self, columns: Mapping[str, Any], literal: Any) -> Any:
        when = columns["ingested_at"]
        limits = [] if self.begin is None else [when >= literal(self.begin)]
        limits += [] if self.end is None else [when < literal(self.end)]
        parts = []
        for place in self.places:
            part = (columns["topic"] == place[0]) & (columns["partition"] == place[1])
            if place in self.first:
                part &= columns["offset"] >= self.first[place]
            if place in self.stop:
                part &= columns["offset"] < self.stop[place]
            parts.append(part)
        return reduce(and_, [*limits, *([reduce(or_, parts)] if parts else [])])

    @property
    def from_text(self) -> str:
        """The text of the option ``--from``; empty without it."""
        return self._texts[0]

    @property
    def options(self) -> str:
        """The range as options of a command."""
        begin, end = self._texts
        return " ".join([*([f"--from {begin}"] if begin else []), *([f"--to {end}"] if end else [])])

    def __str__(self) -> str:
        begin, end = self._texts
        return " ".join([*([f"from {begin}"] if begin else []), *([f"to {end}"] if end else [])])

    @property
    def _texts(self) -> tuple[str, str]:
        def text(moment: datetime | None, offsets: Mapping[Place, int]) -> str:
            if moment is not None:
                return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
            return ",".join(f"{topic}/{part}={at}" for (topic, part), at in sorted(offsets.items()))

        return text(self.begin, self.first), text(self.end, self.stop)


def parse_range(begin: str | None, end: str | None) -> RecordRange:
    """The range of the options ``--from`` and ``--to``.

    Args:
        begin: A time such as ``2026-01-05T10:00Z``, or offsets such as ``orders/0=120,orders/1=80``.
        end: The same; not in the range itself.

    Raises:
        UsageError: Neither is given, one of them is neither a time nor offsets, or the range is empty.
    """
    if begin is None and end is None:
        raise UsageError("which records? Give --from, --to or both: a time, or offsets such as orders/0=120")
    first, stop = (_parsed(name, text) for name, text in (("--from", begin), ("--to", end)))
    if {type(one) for one in (first, stop) if one is not None} == {datetime, dict}:
        raise UsageError("--from and --to are both times, or both offsets: one record has no place in both")
    found = RecordRange(
        begin=first if isinstance(first, datetime) else None,
        end=stop if isinstance(stop, datetime) else None,
        first=first if isinstance(first, dict) else {},
        stop=stop if isinstance(stop, dict) else {},
    )
    is_backward = found.begin is not None and found.end is not None and found.begin >= found.end
    if is_backward or any(
        found.first[one] >= found.stop.get(one, found.first[one] + 1) for one in found.first
    ):
        raise UsageError(f"the range {found} is empty: --to is the first place after it")
    return found


def _parsed(option: str, text: str | None) -> datetime | dict[Place, int] | None:
    if text is None:
        return None
    if "=" in text:
        found = [_OFFSET.fullmatch(one.strip()) for one in text.split(",")]
        if None not in found:
            return {(one["topic"], int(one["partition"])): int(one["offset"]) for one in found if one}
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(
            f"{option} {text!r} is neither a time with its zone, such as 2026-01-05T10:00Z, nor offsets such "
            "as orders/0=120,orders/1=80"
        )
    return moment.astimezone(UTC)
