"""Columns of types that no Delta table has are refused before one is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    LongType,
    StringType,
    StructType,
    TimeType,
    YearMonthIntervalType,
)

from common.delta.table import ensure
from common.errors import TableShapeError


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (DayTimeIntervalType(), r"x \(interval day to second\) would be an interval"),
        (ArrayType(YearMonthIntervalType()), r"x \(array<interval year to month>\) would be an interval"),
        (CalendarIntervalType(), r"x \(interval\) would be an interval"),
        (StringType("UTF8_LCASE"), r"x \(string collate UTF8_LCASE\) would be a text of a collation"),
        (StructType().add("f", StringType("UNICODE_CI")), r"x \(struct<f:string collate UNICODE_CI>\) would"),
        (TimeType(6), r"x \(time\(6\)\) would be a time of day.* Cast it to string\.$"),
    ],
    ids=lambda each: each.simpleString() if isinstance(each, DataType) else "",
)
def test_a_column_is_refused_by_table_name_and_type(tmp_path: Path, kind: DataType, told: str) -> None:
    """Spark's own error ended the whole start, and named neither."""
    schema = StructType().add("n", LongType()).add("x", kind)
    with pytest.raises(TableShapeError, match=rf"^gold\.x: {told}"):
        ensure(cast("Any", None), "gold.x", str(tmp_path / "x"), schema, {})
