"""Which records are a table's own, and which of the tables that cannot decide keeps a record."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.declare import Bytes, Csv, Debezium, Json, Silver, Text
from common.errors import PipelineError
from silver.judge.read_and_judge import judge, read_rows
from silver.read.column_names import META, OTHER_RECORD
from silver.read.where import keeps_undecided

OWN = None
"""The fault of a record that was read and is the table's own."""


def silver(where: str, value: Any, **changed: Any) -> Silver:
    given: dict[str, Any] = {
        "columns": {"id": "cast(_kafka.offset as string)", "at": "_kafka.timestamp"},
        "key": ["id"],
        "event_time": "at",
        "watermark": "1 day",
    }
    return Silver("s", reads="bronze.t", value=value, where=where, **{**given, **changed})


def faults(spark: Any, table: Silver, values: list[bytes | None], **how: Any) -> list[str | None]:
    """The fault of each record, as the table reads it; and how Spark judges it does not fail."""
    headers = [("type", b"dns")]
    rows = [("t", 0, at, None, 0, None, b"k", value, headers) for at, value in enumerate(values)]
    read = read_rows(spark.createDataFrame(rows, SCHEMA).coalesce(1), table, **how)
    judge(read, table).collect()
    found = read.select(F.col(f"{META}.offset").alias("at"), F.col(f"{META}.fault")).orderBy("at").collect()
    return [row[1] for row in found]


NESTED = "type string, id int, detail struct<kind: string, n: int>, tags array<struct<k: int>>"
CASES = [
    ("type = 'a'", b'{"type": "a", "id": 1}', OWN),
    ("type = 'a'", b'{"type": "b", "id": 1}', OTHER_RECORD),
    ("type = 'a'", b'{"id": 1}', OTHER_RECORD),
    ("type <> 'a'", b'{"id": 1}', OTHER_RECORD),
    ("type is null", b'{"id": 1}', OWN),
    # A fault elsewhere is the table's only if the record is.
    ("type = 'a'", b'{"type": "a", "id": "x"}', "wrong_type"),
    ("type = 'a'", b'{"type": "b", "id": "x"}', OTHER_RECORD),
    ("TYPE = 'a'", b'{"type": "b", "id": "x"}', OTHER_RECORD),
    # Of a struct only the named field has to be read.
    ("detail.kind = 'a'", b'{"detail": {"kind": "b", "n": "x"}}', OTHER_RECORD),
    ("detail.kind = 'a'", b'{"detail": {"kind": "a", "n": "x"}}', "wrong_type"),
    ("detail.kind = 'a' and detail.n = 1", b'{"detail": {"kind": "b", "n": "x"}}', "wrong_type"),
    ("detail is null", b'{"id": "x"}', "wrong_type"),
    ("tags[0].k = 1", b'{"id": "x", "tags": [{"k": 2}]}', OTHER_RECORD),
    ("tags[0].k = 1", b'{"tags": []}', OTHER_RECORD),
    # What cannot be decided is kept.
    ("type = 'a'", b'{"type": "b"', "malformed_json"),
    ("id = 1", b'{"type": "b", "id": "x"}', "wrong_type"),
    ("type = 'a' or _kafka.topic = 't'", b'{"type": "b", "id": "x"}', "wrong_type"),
    # A condition over the record alone is decided for any bytes.
    ("_kafka.offset < 0", b"\xff", OTHER_RECORD),
    ("exists(_kafka.headers, h -> h.key = 'type' and h.value = X'646e73')", b"\xff", "not_utf8"),
    ("type = 'a'", None, OWN),
]


@pytest.mark.long
@pytest.mark.parametrize(("where", "value", "fault"), CASES)
def test_a_record_is_own_other_or_kept_with_its_fault(
    spark: Any, where: str, value: bytes | None, fault: str | None
) -> None:
    assert faults(spark, silver(where, Json(NESTED)), [value]) == [fault]


@pytest.mark.long
def test_each_format_reads_the_fields_of_the_condition_alone(spark: Any) -> None:
    csv = silver("type = 'a'", Csv("type string, n int"))
    assert faults(spark, csv, [b"a,1", b"b,x", b"a,x", b"a,1,2", b'"a']) == [
        OWN,
        OTHER_RECORD,
        "wrong_type",
        "wrong_field_count",
        "malformed_csv",
    ]
    change = {"op": "c", "source": {"table": "users"}, "after": {"id": "x"}}
    values = [{**change, "source": {"table": name}} for name in ("users", "orders")]
    debezium = silver("source.`table` = 'orders'", Debezium("id int"))
    wrapped = [json.dumps({"schema": None, "payload": each}).encode() for each in values]
    plain = [json.dumps(each).encode() for each in values]
    assert faults(spark, debezium, [*plain, *wrapped]) == [OTHER_RECORD, "wrong_type"] * 2
    text = silver("value like 'a%'", Text())
    assert faults(spark, text, [b"a", b"b", b"\xff"]) == [OWN, OTHER_RECORD, "not_utf8"]
    raw = silver("substring(value, 1, 1) = X'61'", Bytes())
    assert faults(spark, raw, [b"a", b"b", b"\xff"]) == [OWN, OTHER_RECORD, OTHER_RECORD]
    lenient = silver("type = 'a'", Json("type string", strict=False))
    assert faults(spark, lenient, [b'{"type": "a"}', b'{"type": "b"}', b"{"]) == [
        OWN,
        OTHER_RECORD,
        "malformed_json",
    ]


def test_fields_of_another_record_are_null_to_a_columns_function(spark: Any) -> None:
    table = silver(
        "type = 'a'",
        Json("type string, n int"),
        columns=lambda frame: frame.selectExpr(META, "n", "type", "n as id", "_kafka.timestamp as at"),
    )
    rows = [
        ("t", 0, at, None, 0, None, b"k", b'{"type": "%s", "n": 1}' % kind, None)
        for at, kind in enumerate((b"a", b"b"))
    ]
    read = read_rows(spark.createDataFrame(rows, SCHEMA), table)
    assert sorted(map(tuple, read.select("n", "type").collect()), key=str) == [(1, "a"), (None, None)]


@pytest.mark.long
def test_of_the_tables_that_cannot_decide_the_first_keeps_a_record(spark: Any) -> None:
    """Each record is kept once, whatever fields the tables' conditions name."""
    first = replace(silver("kind = 1", Json("kind int, n int")), name="first")
    same = replace(silver("kind = 2", Json("kind int, n string")), name="same")
    other = replace(silver("level = 1", Json("level int")), name="other")
    tables = [first, same, other]
    values: list[bytes | None] = [
        b'{"kind": 1',
        b'{"kind": "x", "level": 2}',
        b'{"kind": 7, "level": "high"}',
        b'{"kind": "x", "level": "high"}',
    ]

    def keepers(tables: list[Silver]) -> list[list[str]]:
        found = {
            table.name: faults(spark, table, values, keeps_undecided=keeps_undecided(spark, table, tables))
            for table in tables
        }
        return [
            [name for name, kept in found.items() if kept[place] != OTHER_RECORD]
            for place in range(len(values))
        ]

    assert keepers(tables) == [["first"], ["first"], ["other"], ["first"]]
    assert keepers([other, same, first]) == [["other"], ["same"], ["other"], ["other"]]
    # A table without a condition quarantines whatever it cannot read, so that no other has to.
    whole = replace(first, name="whole", where=None)
    assert keepers([first, other, whole]) == [["whole"], ["whole"], ["other", "whole"], ["whole"]]
    of_header = replace(silver("_kafka.offset = 9", Json("type string")), name="of_header")
    assert keepers([of_header, same]) == [["same"], ["same"], [], ["same"]]


@pytest.mark.parametrize(("where", "text"), [("typ = 'a'", "typ"), ("type", "is a string, not a boolean")])
def test_a_condition_that_does_not_fit_is_refused_at_the_start(spark: Any, where: str, text: str) -> None:
    with pytest.raises(PipelineError, match=r"silver\.s, where") as error:
        faults(spark, silver(where, Json("type string")), [b"{}"])
    assert text in str(error.value)
