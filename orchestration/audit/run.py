"""The account of every offset of a silver table's topics, from the tables, their logs and checkpoints alone.

Offsets that bronze has read = silver + duplicates + late + quarantine + dropped + tombstones + erased
+ waiting, each in exactly one; and the micro-batches' own counts say the same. No broker is asked.

It may run while the jobs do: it looks at the newest micro-batch that is complete in every table. What an
audit found balanced, a later one need not look at again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from common.config.paths import Layout
from common.declare import Pipeline, Silver, Topic
from common.delta.log import LogReader
from common.errors import AccountError, TableMissingError, UsageError, nearest
from orchestration.audit import last_audit
from orchestration.audit.account import Account, PartitionAccount
from orchestration.audit.last_audit import Counted, Start
from orchestration.audit.offset_ranges import window
from orchestration.audit.table_log import Pins, pin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE = re.compile(r"\S+\.parquet")
_AGAIN_SECONDS = 5.0

Say = Callable[[str], None]
Since = datetime | Literal["last"] | None
"""From where on: a moment, the last audit that balanced, or the beginning."""


def moment(text: str) -> Since:
    """What ``--since`` means: ``last``, or a time with its offset from UTC.

    Raises:
        UsageError: It is neither.
    """
    if text == "last":
        return "last"
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise UsageError(f"--since {text!r} is neither 'last' nor a time such as 2026-01-01T00:00Z")
    return when.astimezone(UTC)


def chosen(pipeline: Pipeline, table: str | None) -> tuple[Silver, ...]:
    """The silver tables to audit: one by name, or all.

    Raises:
        UsageError: There is no such silver table.
    """
    named = {each.table: each for each in pipeline.silver}
    if table is None:
        return tuple(pipeline.silver)
    if table not in named and f"silver.{table}" not in named:
        raise UsageError(f"{table} is no silver table of {pipeline.name}; {nearest(table, named)}")
    return (named.get(table) or named[f"silver.{table}"],)


def audit(  # noqa: PLR0913  # what it reads, from where on, and how it tells of itself
    spark: SparkSession,
    pipeline: Pipeline,
    silver: Silver,
    layout: Layout,
    *,
    since: Since = None,
    say: Say = lambda text: None,
    again_seconds: float = _AGAIN_SECONDS,
) -> Account:
    """The account of one silver table; one that balances leaves a mark for the next.

    Where it does not balance and the tables have moved meanwhile, it looks once again: rows on their way
    from one table to another (a replay of quarantined rows) are in neither or in both for a moment.

    Raises:
        TableMissingError: Bronze does not exist yet.
        AccountError: A data file that a table's log names is gone.
    """
    topic = next(each for each in pipeline.bronze if each.table == silver.reads)
    try:
        found = _once(spark, topic, silver, layout, since, say)
    except (PySparkException, Py4JJavaError) as error:
        if "FILE_NOT_EXIST" not in str(error) or (lost := _FILE.search(str(error))) is None:
            raise
        raise AccountError(
            f"{silver.table} does not balance: a data file that a table's log names is gone: {lost[0]}. "
            "Restore it from a copy; without it nobody can tell from the tables what was in it."
        ) from error
    if found.faults and _has_moved(found, layout):
        say(f"{silver.table}: it did not balance, but its tables moved meanwhile: looking again")
        time.sleep(again_seconds)
        found = _once(spark, topic, silver, layout, since, say)
    return found


def _has_moved(found: Account, layout: Layout) -> bool:
    return any(
        LogReader(layout.table_path(table)).latest_version() != version
        for table, version in found.versions.items()
    )


def _once(  # noqa: PLR0913, PLR0917  # see above
    spark: SparkSession, topic: Topic, silver: Silver, layout: Layout, since: Since, say: Say
) -> Account:
    from orchestration.audit.one_table import Work  # loaded when it is used

    began = time.monotonic()
    say(f"{silver.table}: reading the logs")
    notes = []
    pins, start = _pinned(silver, layout, since)
    if pins.bronze.version is None:
        raise TableMissingError(silver.reads, pins.bronze.path, "Fill it first: medallion run bronze.")
    if since is not None:
        why = window(pins, start) if start is not None else "there is no mark, or no commit, to go on from"
        if why:
            notes.append(f"{silver.table}: audited from its beginning: {why}")
            pins, start = pin(silver, layout), None
    work = Work(spark, topic, silver, pins, say, start)
    partitions = work.partitions()
    batch_id = pins.batch.batch_id if pins.batch else start.batch_id if start else None
    total = tuple(_with_former(one, start) for one in partitions)
    is_from_beginning = start is None or bool(start.counted)
    if not work.faults and is_from_beginning and pins.batch is not None and not pins.is_loading:
        counted = {
            (one.topic, one.partition): Counted(
                one.first, {name: count for name, count in one.counts.items() if name != "waiting" and count}
            )
            for one in total
        }
        if not last_audit.save(layout, pins, pins.batch, counted):
            notes.append(f"{silver.table} is in the middle of a commit of {silver.reads}: no mark is left")
    return Account(
        table=silver.table,
        reads=silver.reads,
        versions={log.table: log.version for log in pins.tables if log.version is not None},
        batch_id=batch_id,
        since=start.label if start else "",
        looked_at=sum(one.offsets for one in partitions),
        partitions=total,
        faults=tuple(work.faults),
        notes=(*notes, *work.notes),
        seconds=time.monotonic() - began,
    )


def _pinned(silver: Silver, layout: Layout, since: Since) -> tuple[Pins, Start | None]:
    """The moment that is looked at, and where looking begins."""
    if isinstance(since, datetime):
        pins = pin(silver, layout)
        return pins, last_audit.since(pins, since)
    start = last_audit.load(layout, silver.table) if since == "last" else None
    if start is None:
        return pin(silver, layout), None
    # The commit before what is new tells whether the next one follows it.
    firsts = {**start.versions, silver.reads: max(0, start.position.version - 1)}
    pins = pin(silver, layout, firsts, start.batch_id)
    return (pins if pins.batch else replace(pins, position=start.position)), start


def _with_former(one: PartitionAccount, start: Start | None) -> PartitionAccount:
    """A partition with what was counted before the audit began."""
    former = start.counted.get((one.topic, one.partition)) if start else None
    if former is None:
        return one
    names = {*one.counts, *former.counts}
    counts = {name: one.counts.get(name, 0) + former.counts.get(name, 0) for name in names}
    return PartitionAccount(one.topic, one.partition, former.first, one.end, counts)
