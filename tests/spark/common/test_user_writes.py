"""What a user's function merges: only rows whose values differ are updated, whatever the types of values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.delta import user_writes

pytestmark = pytest.mark.long


def test_a_merge_updates_only_maps_and_variants_that_differ(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")

    def rows(value: int) -> Any:
        return spark.range(4).selectExpr(
            "id",
            f"map('a', if(id = 1, {value}, 0)) AS tags",
            f"parse_json(if(id = 2, '{value}', '0')) AS note",
        )

    user_writes.write_frame(rows(1), path, "overwrite")
    user_writes.merge(rows(2), path, on=["id"])
    frame = spark.read.format("delta").load(path).selectExpr("id", "tags['a']", "to_json(note)")
    assert [tuple(row) for row in frame.orderBy("id").collect()] == [
        (0, 0, "0"),
        (1, 2, "0"),
        (2, 0, "2"),
        (3, 0, "0"),
    ]
    commit = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0]
    assert commit["operationMetrics"]["numTargetRowsUpdated"] == "2"


def test_keys_of_another_type_meet_those_of_the_table(spark: Any, tmp_path: Path) -> None:
    """As texts, 9 and 10 are the greatest and the least: between them lies no number."""
    path = str(tmp_path / "t")
    spark.sql("select * from values (9, 'a'), (10, 'a') t(id, v)").write.format("delta").save(path)
    user_writes.merge(spark.sql("select * from values ('9', 'b'), ('10', 'b') t(id, v)"), path, on=["id"])
    assert spark.read.format("delta").load(path).orderBy("id").collect() == [(9, "b"), (10, "b")]
