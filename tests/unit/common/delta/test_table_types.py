"""Columns of types that no Delta table has are refused before one is created."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql.types import ArrayType, DayTimeIntervalType, LongType, StructType, YearMonthIntervalType

from common.delta.table import ensure
from common.errors import TableShapeError


def test_a_table_with_an_interval_is_refused_by_table_and_column(tmp_path: Path) -> None:
    """Spark's own error ended the whole start, and named neither."""
    schema = StructType().add("n", LongType()).add("took", DayTimeIntervalType())
    schema = schema.add("many", ArrayType(YearMonthIntervalType()))
    with pytest.raises(TableShapeError, match=r"^gold\.x: took, many would be an interval"):
        ensure(cast("Any", None), "gold.x", str(tmp_path / "x"), schema, {})
