"""Finds the records in bronze that a silver table's ``where`` leaves to other tables.

Such a record is in no table of this silver table, as a lost record would be. It is recognized by the
conditions under which the table was filled: the declared one, and former ones. A former condition left a
record out if it is not true for it; which of them was in force for a record is not known. The counts of the
micro-batches show a record that is lost, also where a former condition would explain it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from common.declare import Silver
from common.errors import PipelineError
from silver.judge.read_and_judge import read_rows
from silver.read.column_names import META, row_place
from silver.read.where import is_other_record

IS_OTHER = "is_other"


@dataclass(frozen=True, slots=True)
class Decision:
    """What decides which records are a table's own."""

    # The declared condition and former ones; empty for a table that never had one.
    conditions: tuple[str, ...] = ()
    # Whether the table itself keeps every record on which its condition cannot be decided, because no other
    # table reads the same bronze table.
    keeps_undecided: bool = True


def read_marked(bronze: DataFrame, silver: Silver, decision: Decision) -> DataFrame:
    """The declared columns and ``_kafka`` of bronze rows, and ``is_other``; never null."""
    former = [condition for condition in decision.conditions if condition != silver.where]
    typed = read_rows(bronze, silver, keeps_undecided=decision.keeps_undecided)
    marked = typed.withColumn(IS_OTHER, is_other_record())
    place = row_place(marked.schema[META].dataType.names)  # type: ignore[attr-defined]
    if not former:
        return marked
    left_out = [_left_out(bronze, replace(silver, where=each), decision) for each in former]
    mark = F.lit(True).alias("__left_out")
    named = [F.col(name).alias(f"__{name}") for name in place]
    known = reduce(DataFrame.unionAll, left_out).distinct().select(*named, mark)
    same = [F.col(f"{META}.{name}").eqNullSafe(F.col(f"__{name}")) for name in place]
    both = marked.join(known, same, "left")
    is_other = F.col(IS_OTHER) | F.coalesce(F.col("__left_out"), F.lit(False))
    return both.withColumn(IS_OTHER, is_other).drop("__left_out", *(f"__{name}" for name in place))


def _left_out(bronze: DataFrame, silver: Silver, decision: Decision) -> DataFrame:
    """The coordinates of records that a condition leaves out; all of them if it cannot be evaluated now."""
    try:
        rows = read_rows(bronze, silver, keeps_undecided=decision.keeps_undecided).where(is_other_record())
    except PipelineError:  # it names fields that the schema no longer has
        rows = read_rows(bronze, replace(silver, where=None))
    place = row_place(rows.schema[META].dataType.names)  # type: ignore[attr-defined]
    return rows.select(*(F.col(f"{META}.{name}").alias(name) for name in place))
