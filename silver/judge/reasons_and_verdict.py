"""Checks the rules on every row in one pass: all reasons for a rejection, and the verdict. Pure.

A rule that yields null counts as broken.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from common.declare import Protobuf, Rule, Silver
from common.declare.declared import ADDED_LATER, folder_of, source_of, text_of_function
from common.errors import PipelineError, Problem
from common.spark.sql_messages import refusal
from common.sql.expression import null_for_null_times
from silver.read.column_names import (
    ACCEPT,
    DROP,
    ELEMENT,
    EMPTY,
    FAIL,
    META,
    OTHER,
    QUARANTINE,
    REASONS,
    TOMBSTONE,
    VERDICT,
    WARNED,
)
from silver.read.try_expression import attempt, attempt_value
from silver.read.where import is_other_record

NULL_KEY = "null_key"
NULL_EVENT_TIME = "null_event_time"
FUTURE_EVENT_TIME = "future_event_time"


def judge_rows(  # noqa: PLR0913
    frame: DataFrame,
    *,
    key: Sequence[str],
    event_time: str,
    max_future: str,
    rules: Sequence[Rule],
    keep_tombstones: bool = False,
    max_future_after: str | None = None,
) -> DataFrame:
    """Add reasons and the verdict to each row.

    Adds ``__reasons``: array<string>, all reasons for a rejection, empty for an accepted row; ``__warned``:
    array<string>, broken rules that only warn; ``__verdict``: ``accept``, ``tombstone`` (no value: neither
    checked nor kept), ``other`` (another table's record), ``empty`` (no element: neither checked nor kept),
    ``fail``, ``quarantine`` or ``drop``, the first of these that applies.

    The only reason of a value that could not be parsed is its fault. A tombstone breaks no rule; its reasons
    can only concern key and event time, and only where tombstones are kept. A row with an event time later
    than Kafka's timestamp (or the column ``max_future_after``, if that is earlier) plus ``max_future`` is
    rejected here, before the watermark advances: else one wrong clock would make every later row late.
    """
    fault = F.col(f"{META}.fault")
    is_tombstone = F.col(f"{META}.value").isNull()
    is_empty = _is_empty(frame)
    no_key = reduce(or_, (F.col(name).isNull() for name in key))
    # Kafka's timestamp is from the producer's clock, which may be wrong too; ``ingested_at`` is from ours.
    # A record that was sent without a timestamp has -1 ms.
    sent = F.col(f"{META}.timestamp")
    clocks = [F.when(sent >= F.timestamp_seconds(F.lit(0)), sent), F.col(f"{META}.ingested_at")]
    if max_future_after is not None:
        clocks.append(F.col(max_future_after))
    known = F.least(*clocks)  # without those that are null
    bound = known + F.expr(f"interval '{max_future}'")
    own = [
        F.when(no_key, F.lit(NULL_KEY)),
        F.when(F.col(event_time).isNull(), F.lit(NULL_EVENT_TIME)),
        F.when(F.col(event_time) > bound, F.lit(FUTURE_EVENT_TIME)),
    ]
    checks = [F.when(_broken(rule), F.lit(rule.name)) for rule in rules if rule.on_fail != "warn"]
    warnings = [F.when(_broken(rule), F.lit(rule.name)) for rule in rules if rule.on_fail == "warn"]
    nothing = F.array().cast("array<string>")
    reasons = (
        F.when(is_tombstone, F.array_compact(F.array(*own)) if keep_tombstones else nothing)
        .when(fault.isNotNull(), F.array(fault))
        .when(is_empty, nothing)
        .otherwise(F.array_compact(F.array(*own, *checks)))
    )
    warned = (
        F.when(is_tombstone | fault.isNotNull() | is_empty, nothing).otherwise(
            F.array_compact(F.array(*warnings))
        )
        if warnings
        else nothing
    )
    return (
        frame.withColumn(REASONS, reasons)
        .withColumn(WARNED, warned)
        .withColumn(VERDICT, _verdict(rules, is_empty, keep_tombstones=keep_tombstones))
    )


def _is_empty(frame: DataFrame) -> Column:
    """Whether a row is a record that was read and has no element; false without ``Silver.each``."""
    if ELEMENT not in frame.schema[META].dataType.names:  # type: ignore[attr-defined]
        return F.lit(False)
    is_record = F.col(f"{META}.{ELEMENT}").isNull() & F.col(f"{META}.value").isNotNull()
    return is_record & F.col(f"{META}.fault").isNull()


def _verdict(rules: Sequence[Rule], is_empty: Column, *, keep_tombstones: bool) -> Column:
    """The verdict by the reasons; a reason that is no rule's name is the engine's own and quarantines."""
    by_verb = {verb: [rule.name for rule in rules if rule.on_fail == verb] for verb in (FAIL, DROP)}
    verdict = F.when(F.col(f"{META}.value").isNull() & F.lit(not keep_tombstones), TOMBSTONE)
    verdict = verdict.when(is_other_record(), OTHER).when(is_empty, EMPTY)
    if by_verb[FAIL]:
        verdict = verdict.when(F.arrays_overlap(REASONS, F.array(*map(F.lit, by_verb[FAIL]))), FAIL)
    if by_verb[DROP]:
        all_drop = F.size(F.array_except(REASONS, F.array(*map(F.lit, by_verb[DROP])))) == 0
        verdict = verdict.when((F.size(REASONS) > 0) & all_drop, DROP)
    return verdict.when(F.size(REASONS) > 0, QUARANTINE).otherwise(ACCEPT)


def check_rules(frame: DataFrame, rules: Sequence[Rule], place: str) -> None:
    """Refuse rules that are no boolean condition over the columns.

    Raises:
        PipelineError: Names every such rule.
    """
    problems = []
    for rule in rules:
        try:
            kind = frame.select(F.expr(f"({rule.condition})")).schema[0].dataType.simpleString()
        except PySparkException as error:
            text: str = refusal(error)
        else:
            if kind == "boolean":
                continue
            text = f"is a {kind}, not a boolean; write a condition such as amount > 0"
        problems.append(Problem(f"{place}, rule {rule.name!r}", text, source_of(rule)))
    if problems:
        raise PipelineError(problems)


def rules_version(silver: Silver) -> str:
    """A hash of 12 hex digits over everything in a declaration that decides a row's verdict.

    That is the value's format, ``where``, the columns, key, event time and future bound, rules and lookups. A
    schema in a file counts by its content, a columns function by its source text.
    """
    decisive = (silver.value, silver.columns, silver.key, silver.event_time, silver.max_future)
    # An attribute that is newer than the versions in existing tables counts only where it is used.
    kept = () if silver.tombstones == "count" else (silver.tombstones,)
    after = () if silver.max_future_after is None else ({"max_future_after": silver.max_future_after},)
    where = () if silver.where is None else ({"where": silver.where},)
    each = () if silver.each is None else ({"each": silver.each},)
    more = (*kept, *after, *where, *each)
    text = json.dumps([_plain(each) for each in (*decisive, silver.rules, silver.lookups, *more)])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


JUDGED_BY = "judged_by"
"""The entry of a commit's metadata with the marks of what decides a verdict."""

RELEASE = "release"
"""The entry of a commit's metadata with the release of the product that has read the rows' values."""


def rule_marks(silver: Silver) -> Mapping[str, str]:
    """A hash per attribute, and per rule, of what decides a row's verdict; all that ``rules_version`` has."""
    decisive: dict[str, object] = {
        "value": silver.value,
        "columns": silver.columns,
        "key": silver.key,
        "event_time": silver.event_time,
        "max_future": (silver.max_future, silver.max_future_after),
        "lookups": silver.lookups,
        "tombstones": silver.tombstones,
        # Only where it is declared: commits of earlier versions have no mark of it.
        **({} if silver.where is None else {"where": silver.where}),
        **({} if silver.each is None else {"each": silver.each}),
        **{f"rule {rule.name!r}": rule for rule in silver.rules},
    }
    texts = {name: json.dumps(_plain(each)) for name, each in decisive.items()}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:8] for name, text in texts.items()}


def changed_rules(before: Mapping[str, str], now: Mapping[str, str]) -> Sequence[str]:
    """What differs between two results of ``rule_marks``, in words."""
    new = [f"{name} is new" for name in now if name not in before]
    gone = [f"{name} is gone" for name in before if name not in now]
    return [*(f"{n} has changed" for n in now if n in before and before[n] != now[n]), *new, *gone]


def _plain(given: object) -> object:
    """A declaration's value as JSON can hold it; equal declarations give equal values in any process."""
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        named = {
            each.name: getattr(given, each.name)
            for each in dataclasses.fields(given)
            if not each.metadata.get(ADDED_LATER) or getattr(given, each.name) != each.default
        }
        files = (folder_of(given) / text for text in named.values() if _is_file(text))
        contents = [file.read_text("utf-8") for file in files]
        if isinstance(given, Protobuf):
            contents.append(hashlib.sha256((folder_of(given) / given.schema).read_bytes()).hexdigest())
        return [type(given).__name__, _plain(named), contents]
    if hasattr(given, "jsonValue"):
        return given.jsonValue()
    if isinstance(given, Mapping):
        return [[str(name), _plain(each)] for name, each in given.items()]
    if isinstance(given, Sequence) and not isinstance(given, str):
        return [_plain(each) for each in given]
    return text_of_function(given) if callable(given) else given


def _is_file(given: object) -> bool:
    return isinstance(given, str) and given.strip().lower().endswith((".json", ".avsc"))


def _broken(rule: Rule) -> Column:
    """Whether the row breaks the rule: its condition is false, is null, or throws."""
    condition = F.expr(f"({null_for_null_times(rule.condition)})")
    met = attempt_value(attempt(condition, F.col(f"{META}.fault").isNull()))
    return ~F.coalesce(met, F.lit(False))
