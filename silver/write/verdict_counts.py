"""A micro-batch's rows counted by verdict and by broken rule, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Rule
from common.errors import RuleFailedError
from common.rows.expressions import column, contains, is_in, is_null
from common.rows.rows import Rows
from silver.read.column_names import (
    ACCEPT,
    DROP,
    EMPTY,
    FAIL,
    LATE,
    META,
    OTHER,
    QUARANTINE,
    REASONS,
    TOMBSTONE,
    VERDICT,
    WARNED,
)

_VERDICTS = (ACCEPT, QUARANTINE, DROP, TOMBSTONE, FAIL, LATE, OTHER, EMPTY)
_UNKNOWN = "unknown fields"
_SHOWN = 5
"""Coordinates in a message."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Rows by verdict, and by rule; a row that breaks two rules counts for both."""

    accepted: int
    quarantined: int
    dropped: int
    tombstones: int
    failed: int
    # Rows that broke a rule, whatever its verb; rules that no row broke are left out. Rules that a late row
    # broke are not counted.
    rules: Mapping[str, int]
    late: int = 0  # rows at or before the watermark, as far as Spark has not dropped them
    other: int = 0  # other tables' records, as far as the query has not dropped them before
    empty: int = 0  # records without an element, of a table with a row per element
    with_unknown_fields: int = 0  # rows whose value has a field that its schema does not name

    @property
    def rows(self) -> int:
        """All rows."""
        known = self.accepted + self.quarantined + self.dropped
        return known + self.tombstones + self.failed + self.late + self.other + self.empty


def count_verdicts(judged: Rows, rules: Sequence[Rule]) -> Tally:
    """The tally of judged rows; reads all of them once. Persist a frame before."""
    in_time = ~is_in(column(VERDICT), [LATE])
    broken = {
        f"rule {rule.name}": contains(column(WARNED if rule.on_fail == "warn" else REASONS), rule.name)
        & in_time
        for rule in rules
    }
    verdicts = {verdict: is_in(column(VERDICT), [verdict]) for verdict in _VERDICTS}
    counts = judged.count_where({**verdicts, **broken, _UNKNOWN: ~is_null(column(META, "rescued"))})
    return Tally(
        accepted=counts[ACCEPT],
        quarantined=counts[QUARANTINE],
        dropped=counts[DROP],
        tombstones=counts[TOMBSTONE],
        failed=counts[FAIL],
        rules={rule.name: rows for rule in rules if (rows := counts[f"rule {rule.name}"])},
        late=counts[LATE],
        other=counts[OTHER],
        empty=counts[EMPTY],
        with_unknown_fields=counts[_UNKNOWN],
    )


def rule_failure(kept: DataFrame, tally: Tally, rules: Sequence[Rule], query: str) -> RuleFailedError:
    """The error that stops a query: which rules, how many rows, and where the first of them are."""
    stopping = [rule.name for rule in rules if rule.on_fail == FAIL and rule.name in tally.rules]
    place = F.concat_ws("/", f"{META}.topic", f"{META}.partition", f"{META}.offset")
    first = (
        kept.where(F.col(VERDICT) == FAIL)
        .orderBy(f"{META}.topic", f"{META}.partition", f"{META}.offset")
        .limit(_SHOWN)
        .select(place)
        .collect()
    )
    shown = ", ".join(row[0] for row in first)
    summary = f"{tally.failed} row{'' if tally.failed == 1 else 's'} broke " + ", ".join(
        f"{name!r} ({tally.rules[name]})" for name in stopping
    )
    more = ", …" if tally.failed > len(first) else ""
    return RuleFailedError(
        query,
        f"{summary}, declared to stop it, at topic/partition/offset {shown}{more}. Nothing of the "
        "micro-batch was written. Give the rule another verb than fail, or mend what breaks it; the next "
        "start goes on with the same rows.",
    )
