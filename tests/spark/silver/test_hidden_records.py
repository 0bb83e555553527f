"""The bytes of a record that ends the process reach no expression that reads them."""

from __future__ import annotations

from typing import Any

from silver.read.poison import HIDDEN, hide

SCHEMA = (
    "topic string, partition int, offset long, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
ROWS = [("t", partition, offset, b"k", b"v", [("h", b"1")]) for partition in (0, 1) for offset in (6, 7)]


def test_a_hidden_record_has_its_bytes_in_one_column_alone(spark: Any) -> None:
    bronze = spark.createDataFrame(ROWS, SCHEMA)
    rows = hide(bronze, {("t", 1, 7)}).collect()
    found = {(row["partition"], row["offset"]): (row["key"], row["value"], row["headers"]) for row in rows}
    shown = (b"k", b"v", [("h", b"1")])
    assert found == {(0, 6): shown, (0, 7): shown, (1, 6): shown, (1, 7): (None, None, None)}
    assert {(row["partition"], row["offset"]): row[HIDDEN] for row in rows if row[HIDDEN]} == {(1, 7): shown}


def test_without_such_a_record_rows_are_as_they_were(spark: Any) -> None:
    bronze = spark.createDataFrame(ROWS, SCHEMA)
    assert hide(bronze, ()) is bronze
