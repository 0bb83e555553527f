"""Checksums after commits of delta-rs: what Spark would count, and no job to learn a table's metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import StructType

from common.config.driver_limits import DriverLimits
from common.delta import delta_rs
from common.delta import table as delta_table
from common.delta.checksums.version_checksum import checksum_after, write_checksums
from common.delta.micro_batch import MicroBatch
from common.rows.spark_rows import rows_in_driver

SMALL = DriverLimits(100, 1_000)
BEFORE: dict[str, Any] = {
    "txnId": "t",
    "tableSizeBytes": 1000,
    "numFiles": 3,
    "numMetadata": 1,
    "numProtocol": 1,
    "setTransactions": [{"appId": "a", "version": 1}],
    "metadata": {"id": "m", "schemaString": "{}"},
    "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
    "allFiles": [{"path": "gone"}],
}


def batch(number: int) -> MicroBatch:
    """A micro-batch's identity."""
    return MicroBatch("shop", "gold.t", "q", number, ({"reservoirVersion": number},), is_first=False)


def add(path: str, size: int) -> dict[str, Any]:
    """A file that comes."""
    return {"add": {"path": path, "size": size, "dataChange": True}}


def remove(path: str, size: int | None) -> dict[str, Any]:
    """A file that goes."""
    return {"remove": {"path": path} | ({} if size is None else {"size": size})}


def test_a_commit_of_rows_changes_files_and_bytes_alone() -> None:
    after = checksum_after(BEFORE, [{"commitInfo": {}}, add("x", 70), add("y", 30), remove("z", 400)])
    same = {name: BEFORE[name] for name in ("numMetadata", "numProtocol", "metadata", "protocol")}
    assert after == {
        **same,
        "setTransactions": BEFORE["setTransactions"],
        "tableSizeBytes": 700,
        "numFiles": 4,
    }


@pytest.mark.parametrize(
    "actions",
    [
        [add("x", 1), {"metaData": {"id": "m"}}],
        [{"protocol": {"minReaderVersion": 3}}],
        [{"txn": {"appId": "a", "version": 2}}],
        [{"domainMetadata": {"domain": "d"}}],
        [remove("x", None)],
        [{"remove": {"path": "x", "size": None}}],
        [add("x", 1), remove("x", 1)],
        [{"add": {"path": "x", "size": 1, "deletionVector": {"storageType": "u"}}}],
    ],
)
def test_of_anything_else_nothing_is_said(actions: list[dict[str, Any]]) -> None:
    assert checksum_after(BEFORE, actions) is None


def test_nothing_is_made_of_one_that_lacks_the_metadata() -> None:
    assert checksum_after({**BEFORE, "metadata": None}, [add("x", 1)]) is None


@pytest.mark.parametrize("before", ["{", "[]", "{}", '{"metadata": 1, "protocol": 1}', "null"])
def test_one_that_is_not_as_it_should_be_is_not_carried_on(tmp_path: Path, before: str) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.crc").write_text(before)
    (log / f"{1:020}.json").write_text(json.dumps(add("x", 1)))
    write_checksums(str(tmp_path), 0, 1)
    assert checksum(str(tmp_path), 1) is None


def made(spark: Any, folder: Path) -> str:
    """A table with one commit of Spark and four of the driver: rows appended, replaced, changed, none."""
    path = str(folder / "t")
    delta_table.ensure(
        spark, "gold.t", path, StructType.fromDDL("k int, v int"), {"delta.minReaderVersion": "1"}
    )
    rows = rows_in_driver(
        spark, pa.table({"k": pa.array([1, 2], pa.int32()), "v": pa.array([1, 1], pa.int32())}), SMALL
    )
    delta_table.append(rows, path, batch(1), "a", {})
    delta_table.append(rows, path, batch(2), "a", {})
    for number, write in (
        (3, lambda table: table.append(rows.arrow, "3", mode="overwrite")),
        (
            4,
            lambda table: table.change(
                pa.table(
                    {
                        "k": pa.array([2, 3], pa.int32()),
                        "v": pa.array([5, 5], pa.int32()),
                        delta_rs.ACTION: pa.array(["updated", "inserted"]),
                    }
                ),
                "4",
                key=["k"],
            ),
        ),
        (5, lambda table: table.append(None, "5")),
    ):
        assert delta_rs.try_write(path, SMALL, str(number), write), number
    return path


def newest(path: str) -> int:
    """The newest version."""
    return int(DeltaTable(path).version())


def checksum(path: str, version: int) -> dict[str, Any] | None:
    """A version's, as it is on the disk."""
    file = Path(path) / "_delta_log" / f"{version:020}.crc"
    return json.loads(file.read_bytes()) if file.exists() else None


def opened(spark: Any, path: str, group: str) -> tuple[dict[str, Any], int]:
    """Files, bytes and protocol as a new Spark sees them, and the jobs that its metadata alone took."""
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    log.clearCache()
    spark.sparkContext.setJobGroup(group, group)
    snapshot = log.forTable(spark._jsparkSession, path).unsafeVolatileSnapshot()
    snapshot.metadata().id()
    jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
    row = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0].asDict()
    spark.sparkContext.setJobGroup("", "")
    return {name: row[name] for name in ("numFiles", "sizeInBytes", "minReaderVersion", "id")}, jobs


def test_spark_learns_a_tables_metadata_without_a_job(spark: Any, tmp_path: Path) -> None:
    path = made(spark, tmp_path)
    last = newest(path)
    assert all(checksum(path, version) for version in range(last + 1))
    told, jobs = opened(spark, path, "with")
    assert jobs == 0
    own = checksum(path, last) or {}
    assert (own["numFiles"], own["tableSizeBytes"]) == (told["numFiles"], told["sizeInBytes"])
    assert own["metadata"]["id"] == told["id"]

    for version in range(1, last + 1):
        (Path(path) / "_delta_log" / f"{version:020}.crc").unlink()
    without, jobs = opened(spark, path, "without")
    assert jobs > 0
    assert without == told


@pytest.mark.long
def test_the_chain_goes_on_from_sparks_next_commit(spark: Any, tmp_path: Path) -> None:
    """Where one lacks, those after it lack too, until Spark writes one; what is there stays as it is."""
    path = made(spark, tmp_path)
    first = newest(path)
    (Path(path) / "_delta_log" / f"{first:020}.crc").unlink()
    rows = rows_in_driver(
        spark, pa.table({"k": pa.array([7], pa.int32()), "v": pa.array([7], pa.int32())}), SMALL
    )
    delta_table.append(rows, path, batch(8), "a", {})
    assert checksum(path, first + 1) is None
    delta_table.append(rows.frame, path, batch(9), "a", {})
    delta_table.append(rows, path, batch(10), "a", {})
    told, jobs = opened(spark, path, "again")
    own = checksum(path, first + 3) or {}
    assert jobs == 0
    assert (own["numFiles"], own["tableSizeBytes"]) == (told["numFiles"], told["sizeInBytes"])
    before = checksum(path, first + 2)
    write_checksums(path, first, first + 3)
    assert checksum(path, first + 2) == before


def test_old_ones_do_not_pile_up(tmp_path: Path) -> None:
    """A log is cleaned up by delta-rs, which leaves checksums in it."""
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.crc").write_text(json.dumps(BEFORE))
    for version in range(1, 151):
        (log / f"{version:020}.json").write_text(json.dumps(add(f"f{version}", 1)))
    write_checksums(str(tmp_path), 0, 150)
    assert sorted(int(file.stem) for file in log.glob("*.crc")) == [*range(51, 151)]
    last = checksum(str(tmp_path), 150) or {}
    assert (last["numFiles"], last["tableSizeBytes"]) == (153, 1150)
    assert not list(log.glob(".*"))


@pytest.mark.long
def test_a_write_stands_without_its_checksum(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a help, and nobody is held up for it."""

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("common.delta.checksums.version_checksum._write_if_absent", full)
    path = made(spark, tmp_path)
    last = newest(path)
    assert checksum(path, last) is None
    told, jobs = opened(spark, path, "full")
    assert jobs > 0
    assert told["numFiles"] > 0
