"""What a publication sends of a table whose rows nothing identifies, or only what cannot be compared."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from common.declare import ForeachSink, Publish
from gold.publish.query import in_order, shaped

CHANGES = [
    ("insert", 3, "a", 2),
    ("update_preimage", 4, "a", 2),
    ("update_postimage", 4, "a", 4),
    ("update_preimage", 5, "a", 4),
    ("update_postimage", 5, "a", 5),
    ("delete", 6, "a", 5),
    ("insert", 6, "a", 6),
    ("delete", 7, "a", 6),
]


def test_a_row_that_nothing_identifies_is_deleted_before_its_newer_state(spark: Any) -> None:
    """By one task, in the order of versions; also where the key is a map, which cannot be compared."""
    publish = Publish(
        "even", reads="gold.own", to=ForeachSink(print), columns=["v"], where="v % 2 = 0", deletes=True
    )
    schema = "_change_type string, _commit_version bigint, k string, v int"
    changes = spark.createDataFrame([*reversed(CHANGES)], schema).repartition(3)
    for key, columns in ((), changes), (("k",), changes.withColumn("k", F.expr("map(k, v)"))):
        sent = in_order(shaped(columns, publish, key), publish)
        assert [(row._change_type, row.v) for row in sent.collect()] == [
            ("insert", 2),
            ("delete", 2),
            ("update_postimage", 4),
            ("delete", 4),
            ("insert", 6),
            ("delete", 6),
        ]
