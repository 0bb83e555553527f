"""The typed columns of a source that bronze refuses: which, of what, and what to do."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from bronze import typed_value
from common.declare import DeltaTable
from common.errors import TableShapeError

FOLDER = "/lake/orders"


def refusal(source: StructType, path: str) -> str:
    """What is said of a source's columns; nothing is asked of Spark before."""
    spark = cast("Any", None)
    declared = DeltaTable("history", FOLDER)
    reads = f"the Delta table in {FOLDER}"
    with pytest.raises(TableShapeError) as raised:
        typed_value.ensure(spark, "shop", declared, path, source, reads=reads)
    return str(raised.value)


@pytest.mark.parametrize("kind", [StringType("UTF8_LCASE"), ArrayType(StringType("UTF8_LCASE"))])
def test_a_collation_is_refused_by_column_folder_and_way_out(
    kind: StringType | ArrayType, tmp_path: Any
) -> None:
    """A person who reads several tables sees which one it is."""
    told = refusal(StructType([StructField("word", kind)]), str(tmp_path / "bronze"))
    assert told.startswith(f"bronze.history: column 'word' of the Delta table in {FOLDER} is ")
    assert "string collate UTF8_LCASE" in told
    assert "word written to another table, as a plain string, and read that one" in told


def test_a_name_that_no_column_can_have_is_refused_with_its_folder(tmp_path: Any) -> None:
    """The place of a field within a struct too."""
    nested = StructType([StructField("net amount", IntegerType())])
    told = refusal(StructType([StructField("line", nested)]), str(tmp_path / "bronze"))
    assert told.startswith(f"bronze.history: column 'line.net amount' of the Delta table in {FOLDER} has a ")
