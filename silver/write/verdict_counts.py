"""What became of a micro-batch's rows, counted in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.declare import Rule
from common.errors import RuleFailedError
from silver.judge.rules import ACCEPT, DROP, FAIL, LATE, QUARANTINE, REASONS, TOMBSTONE, VERDICT, WARNED
from silver.read.parse import META

_VERDICTS = (ACCEPT, QUARANTINE, DROP, TOMBSTONE, FAIL, LATE)
_SHOWN = 5
"""Coordinates in a message."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Rows by verdict, and by rule; a row that breaks two rules counts for both.

    Attributes:
        rules: Rows that broke a rule, whatever its verb; rules that none broke are left out. What a late row
            broke is not counted.
        late: Rows at or before the watermark, as far as Spark has not dropped them.
    """

    accepted: int
    quarantined: int
    dropped: int
    tombstones: int
    failed: int
    rules: Mapping[str, int]
    late: int = 0

    @property
    def rows(self) -> int:
        """All of them."""
        known = self.accepted + self.quarantined + self.dropped
        return known + self.tombstones + self.failed + self.late


def counted(kept: DataFrame, rules: Sequence[Rule]) -> Tally:
    """The tally of judged rows; consumes all of them. Persist them before."""
    broken = [_broken(rule).alias(f"rule {place}") for place, rule in enumerate(rules)]
    sums = [F.count_if(F.col(VERDICT) == verdict).alias(verdict) for verdict in _VERDICTS]
    row = kept.agg(*sums, *broken).collect()[0]
    by_rule = dict(zip((rule.name for rule in rules), row[len(sums) :], strict=True))
    return tallied({verdict: row[verdict] for verdict in _VERDICTS}, by_rule)


def tallied(verdicts: Mapping[str, int], broken: Mapping[str, int]) -> Tally:
    """The tally of rows that were counted, by verdict and by the rule they broke."""
    return Tally(
        accepted=verdicts.get(ACCEPT, 0),
        quarantined=verdicts.get(QUARANTINE, 0),
        dropped=verdicts.get(DROP, 0),
        tombstones=verdicts.get(TOMBSTONE, 0),
        failed=verdicts.get(FAIL, 0),
        rules={name: rows for name, rows in broken.items() if rows},
        late=verdicts.get(LATE, 0),
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
    told = f"{tally.failed} row{'' if tally.failed == 1 else 's'} broke " + ", ".join(
        f"{name!r} ({tally.rules[name]})" for name in stopping
    )
    more = ", …" if tally.failed > len(first) else ""
    return RuleFailedError(
        query,
        f"{told}, declared to stop it, at topic/partition/offset {shown}{more}. Nothing of the micro-batch "
        "was written. Give the rule another verb than fail, or mend what breaks it; the next start goes on "
        "with the same rows.",
    )


def _broken(rule: Rule) -> Column:
    broke = F.array_contains(WARNED if rule.on_fail == "warn" else REASONS, rule.name)
    return F.count_if(broke & (F.col(VERDICT) != LATE))
