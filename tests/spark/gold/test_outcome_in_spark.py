"""What a micro-batch makes of a key: every history of three versions, and every point of a cut-off write."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from common.declare.row_order import COORDINATES, total_order
from common.delta.delta_rs import DELETED
from common.rows.latest_in_spark import with_orders
from common.rows.spark_rows import SparkRows
from gold.upsert.outcome import (
    END,
    IN_DELETED,
    IN_TABLE,
    IS_DELETE,
    IS_REMOVED,
    ROW,
    decide,
    is_recomputed,
    placed,
    recomputed,
    reduced,
)

KEY, ORDER = ["k"], total_order(["version"])
PLACE = "_kafka_timestamp timestamp, _kafka_topic string, _kafka_partition int, _kafka_offset bigint"
SCHEMA = f"k int, version int, {PLACE}"
COLUMNS = ["k", "version", *COORDINATES]

# What became of a version: it was there and is, was there and left, came, or came and left.
FATES = [None, *product(["stays", "leaves", "comes", "passes"], [True, False])]
HISTORIES = list(enumerate(product(FATES, repeat=3)))

Place = dict[int, int]
"""Key -> the version that a table has of it."""


def row(key: int, version: int) -> tuple[Any, ...]:
    return (key, version, None, "t", 0, version)


def split(pick: set[str]) -> tuple[Place, Place]:
    """The table and its deleted keys, where the source has the versions of these fates."""
    there: Place = {}
    ended: Place = {}
    for key, fates in HISTORIES:
        versions = [(at, fate[1]) for at, fate in enumerate(fates) if fate is not None and fate[0] in pick]
        if versions:
            version, ends = versions[-1]
            (ended if ends else there)[key] = version
    return there, ended


def batch() -> tuple[list[tuple[Any, ...]], dict[int, tuple[Any, ...]]]:
    """The micro-batch's rows, and the newest row that the source has of each key after it."""
    changes: list[tuple[Any, ...]] = []
    newest: dict[int, tuple[Any, ...]] = {}
    for key, fates in HISTORIES:
        for version, (what, ends) in ((at, fate) for at, fate in enumerate(fates) if fate is not None):
            if what in {"comes", "passes"}:
                changes.append((*row(key, version), ends, False))
            if what in {"leaves", "passes"}:
                changes.append((*row(key, version), ends, True))
            if what in {"comes", "stays"}:
                newest[key] = (*row(key, version), ends)
    return changes, newest


def done(spark: Any, there: Place, ended: Place) -> tuple[Place, Place]:
    """Both tables after the micro-batch, if it finds them like this."""
    changes, left = batch()
    came = reduced(
        spark.createDataFrame(changes, f"{SCHEMA}, {IS_DELETE} boolean, {IS_REMOVED} boolean"),
        key=KEY,
        order=ORDER,
    )
    tables = [
        spark.createDataFrame([row(*each) for each in place.items()], SCHEMA) for place in (there, ended)
    ]
    others = dict(zip((ROW, END), tables, strict=True))
    compared = with_orders(came, others, key=KEY, order=ORDER, count=len(HISTORIES))
    asked = {each["k"] for each in compared.where(is_recomputed(ORDER)).select("k").collect()}
    newest = [each for key, each in left.items() if key in asked]
    source = spark.createDataFrame(newest, f"{SCHEMA}, {IS_DELETE} boolean")
    compared = recomputed(compared, source, key=KEY, is_again=is_recomputed(ORDER))
    after = (dict(there), dict(ended))
    for each in decide(SparkRows(placed(compared, ORDER)), COLUMNS).frame.collect():
        for place, what in zip(after, (each[IN_TABLE], each[IN_DELETED]), strict=True):
            if what == DELETED:
                del place[each["k"]]
            elif what is not None:
                place[each["k"]] = each["version"]
    return after


@pytest.mark.long
def test_every_history_ends_right_wherever_the_writes_were_cut_off(spark: Any) -> None:
    """Each key has what the source has now; also where one of the two tables was written before."""
    before, want = split({"stays", "leaves"}), split({"stays", "comes"})
    assert done(spark, *before) == want
    assert done(spark, before[0], want[1]) == want
    assert done(spark, want[0], before[1]) == want
    assert done(spark, *want) == want
