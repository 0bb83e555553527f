"""Any bytes at all become exactly one row: typed fields, or nulls and the reason why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType

from bronze.table import SCHEMA
from common.declare import Json
from common.errors import PipelineError
from common.schema.value_fields import spark_schema_text
from silver.read.column_names import META
from silver.read.declared_columns import parse_values, select_columns
from silver.read.value_reader import struct_type

DDL = "id string, n bigint, price decimal(10,2), at timestamp, nested struct<a: int>"
NOTHING = (None, None, None, None)

CASES: dict[bytes | None, tuple[str | None, tuple[Any, ...]]] = {
    None: (None, NOTHING),
    b"": ("empty_value", NOTHING),
    b" \n\t ": ("empty_value", NOTHING),
    b'{"id":"\xff"}': ("not_utf8", NOTHING),
    b"\xff\xfe": ("not_utf8", NOTHING),
    b'{"id":"a","n":1,"price":2.50,"nested":{"a":7}}': (None, ("a", 1, "2.50", 7)),
    b'{"id":null}': (None, NOTHING),
    b"{}": (None, NOTHING),
    b'{"id":"a","unknown":[1,{"x":2}]}': (None, ("a", None, None, None)),
    '{"id":"Łódź 🌍"}'.encode(): (None, ("Łódź 🌍", None, None, None)),
    b'{"id":"a"': ("malformed_json", NOTHING),
    b"not json": ("malformed_json", NOTHING),
    b"null": ("not_an_object", NOTHING),
    b"5": ("not_an_object", NOTHING),
    b"[1]": ("not_an_object", NOTHING),
    b'[{"id":"a"},{"id":"b"}]': ("not_an_object", NOTHING),
    b'{"id":"a","n":"text"}': ("wrong_type", NOTHING),
    b'{"id":"a","n":9223372036854775808}': ("number_out_of_range", NOTHING),
    b'{"id":"a","n":1.5}': ("wrong_type", NOTHING),
    b'{"id":"a","price":1e20}': ("number_out_of_range", NOTHING),
    b'{"id":"a","at":"yesterday"}': ("invalid_timestamp", NOTHING),
    b'{"id":"a","nested":{"a":"x"}}': ("wrong_type", NOTHING),
    b'{"id":"a",}': ("malformed_json", NOTHING),
    b"\x00": ("malformed_json", NOTHING),
    b"\xef\xbb\xbf{}": ("malformed_json", NOTHING),
}


@pytest.fixture(scope="module")
def bronze(spark: Any) -> Callable[..., Any]:
    """A bronze frame with these values, at offsets from 0 on."""

    def frame(*values: bytes | None) -> Any:
        rows = [("t", 0, at, None, 0, None, b"k", value, None) for at, value in enumerate(values)]
        return spark.createDataFrame(rows, SCHEMA)

    return frame


def test_each_value_is_one_row_with_its_fields_or_its_fault(bronze: Callable[..., Any]) -> None:
    price = F.col("price").cast("string").alias("price")
    frame = parse_values(bronze(*CASES), Json(DDL))
    rows = frame.select(F.col(META), "id", "n", price, F.col("nested.a").alias("a")).collect()
    found = {
        None if row[META].value is None else bytes(row[META].value): (row[META].fault, tuple(row)[1:])
        for row in rows
    }
    assert found == CASES
    assert sorted(row[META].offset for row in rows) == list(range(len(CASES)))


def test_the_coordinates_and_the_raw_bytes_stay_beside_the_fields(bronze: Callable[..., Any]) -> None:
    frame = parse_values(bronze(b"{"), Json("id string"))
    assert frame.columns == [META, "id"]
    assert frame.schema[META].dataType.names == [
        *("topic", "partition", "offset", "timestamp", "timestamp_type", "ingested_at"),
        *("key", "value", "headers", "fault", "fault_field", "rescued"),
    ]


def test_ddl_a_struct_type_and_a_schema_file_read_the_same(
    bronze: Callable[..., Any], tmp_path: Path
) -> None:
    typed = StructType(
        [
            StructField("id", StringType()),
            StructField("n", LongType()),
            StructField("price", DecimalType(10, 2)),
        ]
    )
    (tmp_path / "order.json").write_text(json.dumps(typed.jsonValue()), encoding="utf-8")
    ways = [Json("id string, n bigint, price decimal(10,2)"), Json(typed), Json("order.json")]
    schemas = [struct_type(spark_schema_text(way, tmp_path)) for way in ways]
    assert schemas == [typed, typed, typed]


def _failing(frame: Any) -> Any:
    return frame.select("_kafka", F.col("nowhere"))


HOOKS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "drops _kafka": (lambda frame: frame.select("id"), "dropped '_kafka'"),
    "filters": (lambda frame: frame.where("n > 1"), "one row per row, but it has Filter"),
    "explodes": (lambda frame: frame.select("*", F.explode(F.array("n", "n"))), "Generate"),
    "deduplicates": (lambda frame: frame.dropDuplicates(["id"]), "Deduplicate"),
    "limits": (lambda frame: frame.limit(1), "Limit"),
    "doubles": (lambda frame: frame.unionByName(frame), "Union"),
    "does not resolve": (_failing, "nowhere"),
}


@pytest.mark.parametrize("name", HOOKS)
def test_a_columns_function_that_is_not_row_for_row_is_refused_by_table_and_line(
    bronze: Callable[..., Any], name: str
) -> None:
    hook, word = HOOKS[name]
    with pytest.raises(PipelineError, match=r"silver\.orders") as refused:
        select_columns(
            parse_values(bronze(b"{}"), Json("id string, n bigint")), hook, "silver.orders", "p.py:3"
        )
    assert word in str(refused.value)
    assert str(refused.value).startswith("p.py:3: silver.orders")


def test_a_columns_function_may_add_change_and_drop_columns(bronze: Callable[..., Any]) -> None:
    def columns(frame: Any) -> Any:
        return frame.withColumn("twice", F.col("n") * 2).withColumnRenamed("id", "order_id").drop("n")

    frame = select_columns(
        parse_values(bronze(b'{"id":"a","n":4}'), Json("id string, n bigint")), columns, "silver.orders", ""
    )
    assert [tuple(row) for row in frame.drop(META).collect()] == [("a", 8)]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"good": "id", "bad": "no_such_field"}, ["column 'bad'", "no_such_field"]),
        ({"good": "id", "bad": "nested.x"}, ["column 'bad'", "`x`"]),
        ({"good": "id", "bad": "n +"}, ["column 'bad'"]),
        ({"bad": "null"}, ["column 'bad' has no type"]),
    ],
)
def test_a_sql_column_that_does_not_resolve_is_told_by_its_name(
    bronze: Callable[..., Any], columns: dict[str, str], told: list[str]
) -> None:
    frame = parse_values(bronze(b"{}"), Json("id string, n bigint, nested struct<a: int>"))
    with pytest.raises(PipelineError) as refused:
        select_columns(frame, columns, "silver.orders", "p.py:3")
    assert all(word in str(refused.value) for word in told)
    assert "good" not in str(refused.value).partition("did you mean")[0].partition("Did you mean")[0]
