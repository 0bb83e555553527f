"""Which groups of an aggregate differ rightly from its definition: those of rows that it does not follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Aggregate, Gold, Session
from common.delta.commit import Commit
from common.delta.log import LogReader
from gold.aggregate.stateful import groups_of
from gold.aggregate.windows import END
from gold.table.context import Context
from orchestration.records.audit.gold.state import Excuse
from orchestration.records.audit.offset_places import read_files
from orchestration.records.audit.offset_ranges import all_exist

_MOST_BYTES = 1 << 30
"""Bytes of files with such rows that are read; of larger ones the table is not compared."""

Rest = Callable[[DataFrame], DataFrame]


def untouched(context: Context, gold: Gold, excuse: Excuse) -> Rest | None:
    """A function that leaves the rows of groups that an excuse says nothing of; None where nobody knows them.

    A late row is of a window that had ended by the watermark; of sessions it may have joined two.
    """
    until, removals = excuse.late_until_ms, excuse.removals
    if not isinstance(gold, Aggregate) or removals is None:
        return None
    if isinstance(gold.window, Session) and (until is not None or not gold.by):
        return None
    groups = None
    if versions := removals.get(gold.reads, ()):
        rows = _changed_rows(context, context.path(gold.reads), versions)
        if rows is None:
            return None
        groups = groups_of(rows, gold)

    def rest(frame: DataFrame) -> DataFrame:
        if groups is not None:
            pairs = ((F.col(f"own.`{name}`"), F.col(f"gone.`{name}`")) for name in groups.columns)
            same = reduce(and_, (own.eqNullSafe(gone) for own, gone in pairs))
            frame = frame.alias("own").join(groups.alias("gone"), same, "left_anti")
        return frame if until is None else frame.where(F.unix_micros(END) > F.lit(until * 1000))

    return rest


def _changed_rows(context: Context, path: str, versions: Sequence[int]) -> DataFrame | None:
    """The rows that versions of a table took away or added, but those that they only wrote again.

    None where their files are gone, large, or have marks of deleted rows.
    """
    log = LogReader(path)
    commits = [commit for commit in map(log.commit, versions) if commit is not None]
    files = [file for one in commits for file in (*one.removed, *one.added)]
    if len(commits) < len(versions) or any(map(_has_marks, commits)):
        return None
    if sum(file.bytes for file in files) > _MOST_BYTES or not all_exist(log, files):
        return None
    whole = context.spark.read.format("delta").load(path)
    found = []
    for one in commits:
        sides = (
            read_files(context.spark, path, side, whole).select(
                F.struct("*").alias("row"), F.lit(sign).alias("n")
            )
            for side, sign in ((one.removed, -1), (one.added, 1))
            if side
        )
        text = F.to_json("row").alias("text")  # a row may have values that cannot be compared
        by_text = (
            reduce(DataFrame.unionAll, sides)
            .groupBy(text)
            .agg(F.sum("n").alias("n"), F.first("row").alias("row"))
        )
        found.append(by_text.where("n <> 0").select("row.*"))
    return reduce(DataFrame.unionAll, found)


def _has_marks(commit: Commit) -> bool:
    """Whether a file is taken away and added: with a deletion vector, which is not read here."""
    return not {file.path for file in commit.removed}.isdisjoint(file.path for file in commit.added)
