"""Which rows of silver must have the values that today's declaration and release give."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from common.declare import Silver
from common.delta.checkpoint import DeltaPosition
from common.delta.lease.release import is_of_one_minor, own_release
from common.sql.expression import non_deterministic_in
from common.sql.quoting import standard_text
from orchestration.records.audit.table_log import (
    Partition,
    TableCommit,
    TableLog,
    after_first_load,
    changed_as_declared,
    delta_position,
    kafka_positions,
    since_rebuild,
)
from silver.judge.reasons_and_verdict import JUDGED_BY, RELEASE, rule_marks

_DECISIVE = ("value", "columns", "key", "event_time")
"""Attributes of a silver table whose change leaves earlier rows as an earlier declaration read them."""

_CLEANED = "the oldest commits are gone from the log"


@dataclass(frozen=True, slots=True)
class Comparable:
    """Which rows can be compared."""

    why: str = ""  # why some or all rows may rightly have other values, in words; empty: all can be compared
    # By partition, the offset from which on rows can be compared; a partition that is not named is compared
    # whole.
    begins: Mapping[Partition, int] = field(default_factory=dict)
    are_any: bool = True  # whether any rows can be
    # Why a difference is no fault, in words: an earlier release wrote rows, and no other program has changed
    # any; empty: it is one.
    excuse: str = ""
    # Why nobody can say which records must be in silver and which in quarantine, in words; empty: today's
    # verdict says it.
    why_no_verdict: str = ""

    @property
    def text(self) -> str:
        """Where the comparison begins, as people read it."""
        return ", ".join(f"{topic}/{part}/{first}" for (topic, part), first in sorted(self.begins.items()))

    def condition(self, topic: str, partition: str, offset: str) -> str:
        """The condition in SQL on rows that can be compared, by these columns."""
        parts = (
            f"({topic} = {standard_text(name)} AND {partition} = {number} AND {offset} < {first})"
            for (name, number), first in sorted(self.begins.items())
        )
        return " AND ".join(f"NOT {part}" for part in parts) or "true"


def comparable(
    silver: Silver,
    log: TableLog,
    bronze: Sequence[TableLog],
    accepted: Collection[str] = (),
    late: TableLog | None = None,
) -> Comparable:
    """Which rows of a silver table can be compared with bronze.

    Args:
        log: The table's.
        bronze: The logs of the bronze tables that it reads.
        accepted: Commits of other programs that the operator has accepted, as ``silver.orders@9``.
        late: The log of its late rows.
    """
    commits = since_rebuild(log.commits)
    names = (f"{log.table}@{one.version}" for one in commits if one.commit.removed)  # not of an append
    if taken := [name for name in names if name in accepted]:
        return Comparable(f"gold.accept_commits takes {', '.join(taken)} as it is", are_any=False)
    if why := changed_as_declared(silver, log):
        return Comparable(why, are_any=False)
    written = [one for one in commits if one.step == "accepted" or one.by == "first load"]
    is_whole = log.is_whole or any(one.is_rebuilt for one in commits[:1])
    last, why = _last_otherwise(silver, written)
    if last is None and not is_whole:
        last, why = next(iter(written), None), _CLEANED
        if last is None:
            return Comparable(why, are_any=False)
    excuse = _excuse([log, *bronze, *([] if late is None else [late])], written)
    no_verdict = _why_no_verdict(silver, commits, written)
    if last is None:
        return Comparable(excuse=excuse, why_no_verdict=no_verdict)
    begins = _ends_of(last, bronze)
    are_any = bool(begins) and last is not written[-1]
    return Comparable(why, begins, are_any, excuse, no_verdict or why)


def _why_no_verdict(silver: Silver, commits: Sequence[TableCommit], written: Sequence[TableCommit]) -> str:
    """Why records may rightly have another verdict than today's; empty: they may not."""
    if silver.lookups:
        return "its rules look values up, which may have changed since"
    if getattr(silver.value, "framing", "none") == "registry":
        return "a registry has the schemas of its values"
    if silver.each is not None:
        return "its rows are elements of records"
    columns = silver.columns if isinstance(silver.columns, Mapping) else {}
    texts = (*columns.values(), *(rule.condition for rule in silver.rules))
    if found := sorted({name for sql in texts for name in non_deterministic_in(sql)}):
        return f"its verdicts depend on {', '.join(found)}"
    if moved := next((one for one in commits if one.by in {"replay", "restatement", "repair"}), None):
        return f"version {moved.version} has moved records ({moved.by})"
    now = rule_marks(silver)
    other = next((one for one in written if one.metadata.get(JUDGED_BY) != now), None)
    return "" if other is None else f"version {other.version} was judged by another declaration"


def _last_otherwise(silver: Silver, written: Sequence[TableCommit]) -> tuple[TableCommit | None, str]:
    """The last commit of another declaration, with what is said of it.

    A first load of an earlier release has no marks: those of the micro-batch after it are taken.
    """
    now = rule_marks(silver)
    after: Mapping[str, str] | None = None
    for one in reversed(written):
        told = one.metadata.get(JUDGED_BY)
        marks = told if isinstance(told, dict) else after if one.by == "first load" else None
        if marks is not None and any(marks.get(name, now[name]) != now[name] for name in _DECISIVE):
            return one, f"the declaration by which version {one.version} was written is another one"
        after = marks if marks is not None else after
    return None, ""


def _ends_of(last: TableCommit, bronze: Sequence[TableLog]) -> Mapping[Partition, int]:
    """The ends of what silver had read by a commit; where a log begins later, the first ends that it has."""
    found: dict[Partition, int] = {}
    for place, log in enumerate(bronze):
        is_load = last.by == "first load"
        position = after_first_load(last.metadata, place) if is_load else delta_position(last, place)
        own = [one for one in log.commits if one.batch_id is not None]
        if position is None or not own:
            return {}
        read = [one for one in own if _is_begun(one, position)]
        found |= {place: end for one in read or own[:1] for place, end in kafka_positions(one).items()}
    return found


def _is_begun(one: TableCommit, position: DeltaPosition) -> bool:
    """Whether a stream at a position has read a part of a commit at least, or is in a snapshot with it."""
    is_in = position.in_snapshot or position.index >= 0
    return one.version < position.version or (is_in and one.version == position.version)


def _excuse(logs: Sequence[TableLog], written: Sequence[TableCommit]) -> str:
    """Why values that differ may be those of an earlier release; empty where another program wrote rows."""
    own = own_release()
    told = {str(one.metadata.get(RELEASE, "")) for one in written}
    theirs = {one or "an earlier release" for one in told if not (one and is_of_one_minor(own, one))}
    if not own or not theirs or any(one.is_foreign for log in logs for one in log.commits):
        return ""
    return f"rows were written by {', '.join(sorted(theirs))}, which may have read their values otherwise"
