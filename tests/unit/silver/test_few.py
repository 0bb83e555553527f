"""A micro-batch's rows told apart and counted in the driver: the same as Spark does it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from common.config.driver_limits import DriverLimits
from common.declare import Rule
from common.rows.materialized import Settled, local
from common.rows.row_size import RowSizeEstimate
from silver.judge.rules import ACCEPT, DROP, FAIL, QUARANTINE, TOMBSTONE
from silver.write.judged_batch import Judged
from silver.write.table_columns import accepted, rejected

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


def both(spark: Any) -> tuple[Judged, Judged]:
    """The same rows with the executors, and in the driver."""
    frame = rows(spark)
    small = DriverLimits(rows=100)
    with_driver = local(spark, frame.toArrow(), frame.schema)
    return Judged(Settled(frame, 0), DriverLimits(), DriverLimits()), Judged(with_driver, small, small)


def test_rows_are_counted_by_verdict_and_by_rule(spark: Any) -> None:
    """A row counts once for a rule, however often it is named."""
    there, here = both(spark)
    assert here.tally(RULES) == there.tally(RULES)
    assert here.tally(RULES).rules == {"plain": 4, "warns": 2, "stops": 1}


def test_rows_are_told_apart(spark: Any) -> None:
    """Rows, columns and types are those of the frames that Spark would write."""
    there, here = both(spark)
    for what, want in (
        (here.accepted(2), accepted(there.frame)),
        (here.rejected("v1", 4), rejected(there.frame, "v1")),
    ):
        assert what.arrow is not None
        assert what.arrow.to_pylist() == want.toArrow().to_pylist()
        assert what.arrow.schema.names == want.columns
        assert what.frame.schema.simpleString() == want.schema.simpleString()
        assert what.frame.toArrow().to_pylist() == what.arrow.to_pylist()
        assert what.rows == what.arrow.num_rows
        assert [kind.id for kind in what.arrow.schema.types] == [
            kind.id for kind in want.toArrow().schema.types
        ]


def test_without_a_row(spark: Any) -> None:
    """An empty micro-batch has empty tables, with their columns."""
    _, here = both(spark)
    empty = Judged(local(spark, here.kept.arrow.slice(0, 0), here.kept.schema), here.small, here.fewer)  # type: ignore[union-attr]
    assert not empty.tally(RULES).accepted
    assert empty.accepted(0).arrow.schema.names == here.accepted(2).arrow.schema.names  # type: ignore[union-attr]
    assert not empty.rejected("v1", 0).rows
    assert not empty.has_unknown


def test_unknown_fields_are_seen(spark: Any) -> None:
    """One row that has some is enough."""
    frame = rows(spark).selectExpr(
        "named_struct('rescued', if(id = 'id1', '{}', null)) as _kafka", "id", "__verdict"
    )
    assert Judged(
        local(spark, frame.toArrow(), frame.schema), DriverLimits(rows=9), DriverLimits(rows=9)
    ).has_unknown


def test_a_weight_is_learned_from_what_the_executors_keep(spark: Any) -> None:
    """The next micro-batch is known to be light, or heavy, though none came to the driver yet."""
    frame = rows(spark).persist()
    try:
        judged = Judged(Settled(frame, 0), DriverLimits(rows=100), DriverLimits(rows=100))
        tally = judged.tally(RULES)
        assert tally.rows == len(ROWS)
        weight = RowSizeEstimate(2**20, bytes_per_row=10)
        assert judged.weighed(weight, tally).small.rows
        assert weight.bytes_per_row == 2**10
        heavy = replace(judged, small=DriverLimits(rows=100, batch_bytes=10))
        assert not heavy.weighed(weight, tally).small.rows
    finally:
        frame.unpersist()
