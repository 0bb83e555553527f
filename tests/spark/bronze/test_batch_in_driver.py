"""How many records a micro-batch may have, by its offsets, and whether they come to the driver."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from bronze.batch_in_driver import DriverBatch
from common.config.driver_limits import DriverLimits
from common.delta.micro_batch import MicroBatch
from common.rows.row_size import RowSizeEstimate

KIB = 1024


def batch(before: Any, after: Any) -> MicroBatch:
    """One that ends at these offsets."""
    positions = (before,) if before else ()
    return MicroBatch("shop", "bronze.orders", "q", 3, (after,), before=positions, is_first=False)


def test_records_are_counted_by_their_offsets() -> None:
    assert batch({"a": {"0": 5, "1": 0}}, {"a": {"0": 9, "1": 2}}).most_records() == 6
    assert batch({"a": {"0": 5}}, {"a": {"0": 5}}).most_records() == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, {"a": {"0": 9}}), ({"a": {"0": 5}}, {"a": {"0": 9, "1": 2}}), ({}, {"b": {"0": 1}})],
)
def test_where_a_partition_begins_is_not_known_at_first(before: Any, after: Any) -> None:
    assert batch(before, after).most_records() is None


def test_records_come_to_the_driver_while_they_are_few_and_light(spark: Any, tmp_path: Path) -> None:
    most = 40_000 * KIB
    few = DriverBatch(
        str(tmp_path), DriverLimits(rows=9_000, file_rows=9_000, batch_bytes=most), RowSizeEstimate(most)
    )

    def come(records: int, size: int) -> bool:
        frame = spark.range(records).selectExpr(f"repeat('x', {size}) AS value")
        with few.rows(frame, batch({"a": {"0": 0}}, {"a": {"0": records}})) as (rows, _):
            assert rows.frame.count() == records
            return rows.arrow is not None

    assert not come(6_000, 10)  # 8 KiB each, as long as nobody knows
    assert come(4_900, 10)
    assert come(9_000, 10)
    assert not come(9_001, 10)
    assert come(30, 1000 * KIB)  # a surprise
    assert not come(50, 1000 * KIB)
    assert come(30, 10)  # so few light ones say nothing of the others
    assert not come(50, 10)


def test_the_time_that_they_share_is_the_plans(spark: Any, tmp_path: Path) -> None:
    """What Spark would write is left out of the code that it makes."""
    few = DriverBatch(str(tmp_path), DriverLimits(rows=100), RowSizeEstimate(1024 * KIB))
    frame = spark.range(3).selectExpr("id", "timestamp_millis(1700000000123) AS ingested_at")
    planned = replace(batch({"a": {"0": 0}}, {"a": {"0": 3}}), planned_ms=1_700_000_000_123)
    arrow = few.collect_if_light(frame, planned)
    assert arrow is not None
    assert arrow.sort_by("id").to_pylist() == [
        {"id": n, "ingested_at": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)} for n in range(3)
    ]
    assert arrow.select(["id", "ingested_at"]).schema.types == frame.toArrow().schema.types


def test_what_filled_the_driver_does_not_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so few of them as would fill a fourth of it."""
    weight, asked = RowSizeEstimate(1024 * KIB), []
    few = DriverBatch("/nowhere", DriverLimits(rows=1000, batch_bytes=1024 * KIB), weight)

    def come(records: int) -> None:
        monkeypatch.setattr("bronze.batch_in_driver.collect", lambda _: asked.append(records))
        few.collect_if_light("frame", batch({"a": {"0": 0}}, {"a": {"0": records}}))  # type: ignore[arg-type]

    for records in (128, 128, 33, 33):
        come(records)
    assert asked == [128, 33]
    weight.bytes_per_row = 52 * KIB
    for _ in range(160):
        come(128)
    assert asked.count(128) == 2, "after some micro-batches it is tried again"


def test_a_weight_is_learned_from_what_spark_has_written(spark: Any, tmp_path: Path) -> None:
    """As it is in memory: a start with much to catch up is not Spark's for long."""
    path, weight = str(tmp_path / "t"), RowSizeEstimate(1024 * KIB)
    few = DriverBatch(path, DriverLimits(rows=1000, batch_bytes=1024 * KIB), weight)
    few.learn_from_files()
    assert weight.bytes_per_row == 8 * KIB, "there is no table yet"

    def written(rows: int, value: str) -> float:
        frame = spark.range(rows).coalesce(1).selectExpr(f"cast({value} as binary) AS value")
        frame.write.format("delta").mode("append").save(path)
        few.learn_from_files()
        return weight.bytes_per_row / KIB

    assert 2 <= written(2000, "repeat(lpad(id, 8, '0'), 256)") < 2.1
    assert written(10, "repeat(lpad(id, 8, '0'), 30000)") > 230, "a few tell that there are heavy ones"
    assert written(2000, "repeat('x', 9000)") > 230, "each the same: the file has it once, and nobody knows"
    assert written(50_000, "lpad(id, 8, '0')") == 1, "and never less"
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()
    few.learn_from_files()
    assert weight.bytes_per_row == KIB, "files may be gone by then"


def test_a_start_knows_the_size_of_rows_by_the_newest_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records that waited for the start come to the driver, as they do later in the run."""
    path = str(tmp_path / "t")
    for first in range(0, 3_000, 500):
        values = [f"{n:08} {n * n:016}".encode() * 5 for n in range(first, first + 500)]
        write_deltalake(path, pa.table({"value": values}), mode="append")
    monkeypatch.setattr("bronze.batch_in_driver.collect", lambda _: pa.table({"value": [b"1"]}))
    limits = DriverLimits(rows=50_000, file_rows=9, batch_bytes=40_000 * KIB)
    waiting = batch({"a": {"0": 0}}, {"a": {"0": 30_000}})

    def is_collected(*, is_first: bool) -> bool:
        few = DriverBatch(path, limits, RowSizeEstimate(limits.batch_bytes))
        return few.collect_if_light("frame", replace(waiting, is_first=is_first)) is not None  # type: ignore[arg-type]

    assert is_collected(is_first=True)
    assert not is_collected(is_first=False)


@pytest.mark.parametrize(
    ("rows", "size", "expected"),
    [(5_000, 5_000 * 300, 2_400), (5_000, 5_000, 1_024), (999, 999, 8_192), (0, 0, 8_192)],
)
def test_the_size_of_compressed_rows_is_where_an_estimate_begins(rows: int, size: int, expected: int) -> None:
    estimate = RowSizeEstimate(64 * KIB * KIB)
    estimate.learn_from_compressed(rows, size)
    assert estimate.bytes_per_row == expected
    estimate.learn(2_000, 2_000 * 5_000)
    estimate.learn_from_compressed(rows, size)
    assert estimate.bytes_per_row == 5_000, "a measured size counts"


def test_a_batch_that_was_attempted_before_is_sparks(tmp_path: Path) -> None:
    """Its rows may have filled the driver, and ended it."""
    few = DriverBatch(str(tmp_path), DriverLimits(rows=100), RowSizeEstimate(1024 * KIB))
    again = replace(batch({"a": {"0": 0}}, {"a": {"0": 5}}), was_attempted=True)
    assert few.collect_if_light("frame", again) is None  # type: ignore[arg-type]


def test_a_batch_of_more_rows_than_any_before_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    few = DriverBatch("/nowhere", DriverLimits(rows=100), RowSizeEstimate(1024 * KIB))
    monkeypatch.setattr("bronze.batch_in_driver.collect", lambda _: None)
    few.row_size.learn_refused = lambda rows: None  # type: ignore[method-assign]
    marked: list[int] = []
    for records in (5, 7, 7, 6, 9, 101):
        whole = batch({"a": {"0": 0}}, {"a": {"0": records}})
        one = replace(whole, mark_attempt=lambda n=records: marked.append(n))  # type: ignore[misc]
        few.collect_if_light("frame", one)  # type: ignore[arg-type]
    assert marked == [5, 7, 9]
