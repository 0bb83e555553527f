"""A micro-batch's rows told apart and counted in the driver: the same as Spark does it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from common.config.driver_limits import DriverLimits
from common.declare import Rule
from common.rows.expressions import column, is_in
from common.rows.row_size import RowSizeEstimate
from common.rows.rows import Rows
from common.rows.spark_rows import SparkRows
from silver.read.column_names import ACCEPT, DROP, FAIL, QUARANTINE, TOMBSTONE, VERDICT
from silver.write.judged_batch import JudgedBatch
from silver.write.table_columns import accepted, rejected
from silver.write.verdict_counts import count_verdicts

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KAFKA = """topic string, partition int, offset bigint, timestamp timestamp, timestamp_type int,
    ingested_at timestamp, key binary, value binary, headers array<struct<key: string, value: binary>>,
    fault string, fault_field string, rescued string"""
SCHEMA = f"""_kafka struct<{KAFKA}>, id string, `odd name` array<struct<n: int>>, __reasons array<string>,
    __warned array<string>, __verdict string, __key string, __event_time timestamp"""
RULES = [Rule("plain", "true"), Rule("warns", "true", on_fail="warn"), Rule("stops", "true", on_fail="fail")]

# Verdict, reasons, warnings.
ROWS: list[tuple[str, list[str], list[str]]] = [
    (ACCEPT, [], []),
    (ACCEPT, [], ["warns"]),
    (QUARANTINE, ["plain"], ["warns"]),
    (QUARANTINE, ["malformed_json"], []),
    (QUARANTINE, ["plain", "null_key", "plain"], []),
    (DROP, ["plain"], []),
    (TOMBSTONE, [], []),
    (FAIL, ["stops", "plain"], []),
]


def rows(spark: Any) -> Any:
    """Judged rows of every kind, the third without headers and value."""
    made = []
    for at, (verdict, reasons, warned) in enumerate(ROWS):
        raw = (None, None, None) if at == 2 else (b"k", b"\xff", [("h", b"1"), ("h", None)])
        kafka = ("t", 0, at, NOON, 0, NOON, *raw, "fault" if at == 3 else None, "a.b", None)
        made.append((kafka, f"id{at}", [(at,)], reasons, warned, verdict, f"{at}", NOON))
    return spark.createDataFrame(made, SCHEMA).coalesce(1)


def both(spark: Any) -> tuple[Rows, Rows]:
    """The same rows with the executors, and in the driver."""
    frame = rows(spark)
    in_driver = SparkRows(frame, None, DriverLimits(rows=100)).collected()
    assert in_driver.arrow is not None
    return SparkRows(frame), in_driver


def test_rows_are_counted_by_verdict_and_by_rule(spark: Any) -> None:
    """A row counts once for a rule, however often it is named."""
    there, here = both(spark)
    assert count_verdicts(here, RULES) == count_verdicts(there, RULES)
    assert count_verdicts(here, RULES).rules == {"plain": 4, "warns": 2, "stops": 1}


def test_rows_have_the_columns_of_their_tables(spark: Any) -> None:
    """Rows, columns and types are those of the frames that Spark would write."""
    there, here = both(spark)
    for what, want in (
        (accepted(here, count=2), accepted(there).frame),
        (rejected(here, "v1", 4), rejected(there, "v1").frame),
    ):
        assert what.arrow is not None
        assert what.arrow.to_pylist() == want.toArrow().to_pylist()
        assert what.arrow.schema.names == want.columns
        assert what.frame.schema.simpleString() == want.schema.simpleString()
        assert what.frame.toArrow().to_pylist() == what.arrow.to_pylist()
        assert what.count == what.arrow.num_rows
        assert [kind.id for kind in what.arrow.schema.types] == [
            kind.id for kind in want.toArrow().schema.types
        ]


def test_without_a_row(spark: Any) -> None:
    """An empty micro-batch has empty tables, with their columns."""
    _, here = both(spark)
    empty = here.where(is_in(column(VERDICT), ["none"]))
    tally = count_verdicts(empty, RULES)
    assert tally.rows == tally.with_unknown_fields == 0
    assert accepted(empty).arrow.schema.names == accepted(here).arrow.schema.names  # type: ignore[union-attr]
    assert not rejected(empty, "v1").count


def test_unknown_fields_are_counted(spark: Any) -> None:
    """One row that has some is enough."""
    rescued = F.when(F.col("id") == "id1", "{}")
    frame = rows(spark).withColumn("_kafka", F.col("_kafka").withField("rescued", rescued))
    for limits in (DriverLimits(rows=100), DriverLimits()):
        assert count_verdicts(SparkRows(frame, None, limits).collected(), []).with_unknown_fields == 1


def test_a_size_is_learned_from_what_the_executors_keep(spark: Any) -> None:
    """The next micro-batch is known to be light, or heavy, though none came to the driver yet."""
    frame = rows(spark).persist()
    try:
        kept = SparkRows(frame, None, DriverLimits(rows=100))
        tally = count_verdicts(kept, RULES)
        assert tally.rows == len(ROWS)
        size = RowSizeEstimate(2**20, bytes_per_row=10)
        light = JudgedBatch(kept, kept).measured(size, tally)
        assert light.rows.limits.rows
        assert size.bytes_per_row == 2**10
        heavy = kept.with_limits(DriverLimits(rows=100, batch_bytes=10))
        measured = JudgedBatch(heavy, heavy).measured(size, tally)
        assert not measured.rows.limits.rows
        assert measured.kept.limits.rows, "a few of them may still come to the driver"
    finally:
        frame.unpersist()
