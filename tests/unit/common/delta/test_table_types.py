"""Types that no Delta table has are refused before one is created; those that grew are told apart."""

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

from common.delta.table import ensure, shape_difference
from common.errors import TableShapeError
from common.spark.types import is_grown


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


@pytest.mark.parametrize(
    ("have", "want", "expected"),
    [
        ("struct<a:int>", "struct<a:int,b:string>", True),
        ("array<struct<a:int>>", "array<struct<a:int,b:struct<x:int,y:int>>>", True),
        ("map<string,struct<a:int>>", "map<string,struct<a:int,b:int>>", True),
        ("struct<a:int,s:struct<x:int>>", "struct<a:int,s:struct<x:int,y:decimal(9,2)>,z:int>", True),
        ("struct<a:int>", "struct<b:int,a:int>", False),
        ("struct<a:int>", "struct<a:bigint,b:int>", False),
        ("struct<a:int,b:int>", "struct<a:int>", False),
        ("int", "bigint", False),
    ],
)
def test_a_type_is_grown_if_its_structs_have_more_fields_at_their_ends(
    have: str, want: str, *, expected: bool
) -> None:
    assert is_grown(have, want) is expected
    found = shape_difference({"c": have}, {"c": want, "d": "int"})
    assert found.is_growth is expected
    assert found.grown == ({"c"} if expected else set())
