"""Results of the rules of a silver table, from the counts that its commits carry; reads no rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from common.declare import Pipeline, Silver
from common.delta.log import LogReader
from orchestration.quality.engines import Pinned
from orchestration.quality.judgement import ExpectationResult

_WORDS = {"warn": "accepted", "quarantine": "quarantined", "drop": "dropped", "fail": "refused"}


def rule_results(
    pipeline: Pipeline, pinned: Pinned, last: Mapping[tuple[str, str, str], Mapping[str, Any]]
) -> Iterator[ExpectationResult]:
    """One result per rule of a silver table, in declared order; nothing for other tables.

    A rule with ``on_fail="warn"`` is not met if a row of the table breaks it, with severity ``warn``. Rows
    that break another rule are not in the table, so that the rule is met; their number is reported.

    Args:
        pinned: The table; commits up to its version count, those after ``since``.
        last: Details of earlier runs, from which counting goes on.
    """
    silver = next((one for one in pipeline.silver if one.table == pinned.table), None)
    if silver is None or not silver.rules:
        return
    counts, first = _counts(silver, pinned, last)
    for rule in silver.rules:
        broken = counts.get(rule.name, 0)
        text = f"{broken:,} rows {_WORDS[rule.on_fail]}" if broken else ""
        if text and first:
            text += f" since version {first}, the oldest in the log"
        yield ExpectationResult(
            expectation="rule",
            column=rule.name,
            is_met=not broken or rule.on_fail != "warn",
            observed=text,
            severity="warn",
            expected=" ".join(rule.condition.split()),
            failing_rows=broken,
            details={} if pinned.since is not None else {"broken": broken},
        )


def _counts(
    silver: Silver, pinned: Pinned, last: Mapping[tuple[str, str, str], Mapping[str, Any]]
) -> tuple[Mapping[str, int], int]:
    """Rows per broken rule, and the first version that is counted where the log lacks older ones, else 0."""
    log = LogReader(pinned.path)
    known = [last.get((silver.table, "rule", rule.name)) for rule in silver.rules]
    counts: Counter[str] = Counter()
    start = 0 if pinned.since is None else pinned.since + 1
    found = [one for one in known if one is not None and one["version"] <= pinned.version]
    # A rule that was added since is counted from the beginning: earlier commits do not name it.
    if pinned.since is None and found:
        start = min(one["version"] for one in found) + 1
        for rule, one in zip(silver.rules, known, strict=True):
            if one is not None and one["version"] + 1 == start:
                counts[rule.name] = int(one["broken"])
    oldest = log.oldest_version() or 0
    for version in range(max(start, oldest), pinned.version + 1):
        commit = log.commit(version)
        rules = ((commit.metadata.get("counts") or {}).get("rules") or {}) if commit is not None else {}
        counts.update({name: int(count) for name, count in rules.items()})
    return counts, oldest if oldest > start else 0
