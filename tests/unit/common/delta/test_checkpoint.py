"""A Spark checkpoint's files are read as Spark writes them, whatever a running query does meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from common.delta.checkpoint import (
    Checkpoint,
    DeltaPosition,
    delete_interrupted_first_writes,
    delta_position,
    delta_position_of,
    follow_move,
    kafka_position,
)
from common.errors import CheckpointMismatchError

DELTA = {
    "sourceVersion": 1,
    "reservoirId": "t-1",
    "reservoirVersion": 7,
    "index": -1,
    "isStartingVersion": False,
}


def plan(
    root: Path, batch: int, *sources: object, watermark: int = 0, at: int = 1_000, commit: bool = False
) -> None:
    head = {
        "batchWatermarkMs": watermark,
        "batchTimestampMs": at,
        "conf": {"spark.sql.shuffle.partitions": "2"},
    }
    lines = ["v1", json.dumps(head), *("-" if source is None else json.dumps(source) for source in sources)]
    for folder, text in (("offsets", "\n".join(lines)), ("commits", 'v1\n{"nextBatchWatermarkMs":0}')):
        if folder == "offsets" or commit:
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / str(batch)).write_text(text)


def test_a_checkpoint_that_is_not_there_says_none(tmp_path: Path) -> None:
    none = Checkpoint(str(tmp_path / "bronze.quakes"))
    assert not none.exists()
    assert none.query_id() is None
    assert none.last_planned() is None
    assert none.last_committed() is None
    assert none.planned_batch(0) is None
    assert none.planned_batch(none.last_committed()) is None
    assert none.batches() == ()


def test_the_query_id_is_read(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text('{"id":"0b0e7c3a-1"}')
    assert Checkpoint(str(tmp_path)).query_id() == "0b0e7c3a-1"
    assert Checkpoint(str(tmp_path)).exists()


def test_a_planned_batch_is_not_a_committed_one(tmp_path: Path) -> None:
    plan(tmp_path, 9, {"quakes": {"0": 90}}, commit=True)
    plan(tmp_path, 10, {"quakes": {"0": 100}})
    checkpoint = Checkpoint(str(tmp_path))
    assert (checkpoint.last_committed(), checkpoint.last_planned()) == (9, 10)
    assert checkpoint.batches() == (9, 10)


def test_a_commit_has_its_time(tmp_path: Path) -> None:
    plan(tmp_path, 9, {"quakes": {"0": 90}}, commit=True)
    os.utime(tmp_path / "commits" / "9", (1_700_000_000.25, 1_700_000_000.25))
    assert Checkpoint(str(tmp_path)).committed_ms(9) == 1_700_000_000_250
    assert Checkpoint(str(tmp_path)).committed_ms(10) is None


def test_only_whole_numbers_are_batches(tmp_path: Path) -> None:
    plan(tmp_path, 3, {"quakes": {"0": 1}}, commit=True)
    for name in (".3.crc", ".4.5d0c.tmp", "9.compact", "5.tmp"):
        (tmp_path / "offsets" / name).write_text("")
    assert Checkpoint(str(tmp_path)).batches() == (3,)


def test_an_entry_has_its_times_and_positions(tmp_path: Path) -> None:
    plan(tmp_path, 0, {"a": {"0": 5, "1": 7}}, None, watermark=123, at=456)
    entry = Checkpoint(str(tmp_path)).planned_batch(0)
    assert entry is not None
    assert (entry.batch_id, entry.watermark_ms, entry.timestamp_ms) == (0, 123, 456)
    assert entry.sources == ({"a": {"0": 5, "1": 7}}, None)
    assert kafka_position(entry) == {"a": {0: 5, 1: 7}}


def test_the_partitions_of_a_state_are_read(tmp_path: Path) -> None:
    plan(tmp_path, 0, DELTA)
    checkpoint = Checkpoint(str(tmp_path))
    assert checkpoint.state_partitions() is None  # it keeps none
    (tmp_path / "state" / "0").mkdir(parents=True)
    assert checkpoint.state_partitions() == 2


def test_a_state_whose_partitions_are_not_recorded_says_none(tmp_path: Path) -> None:
    (tmp_path / "state" / "0").mkdir(parents=True)
    checkpoint = Checkpoint(str(tmp_path))
    assert checkpoint.state_partitions() is None
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0}\n-')
    assert checkpoint.state_partitions() is None


def test_a_delta_position_is_read(tmp_path: Path) -> None:
    plan(tmp_path, 0, DELTA)
    plan(tmp_path, 1, None)
    checkpoint = Checkpoint(str(tmp_path))
    first, second = checkpoint.planned_batch(0), checkpoint.planned_batch(1)
    assert first is not None
    assert second is not None
    assert delta_position(first) == DeltaPosition(version=7, index=-1, table_id="t-1", in_snapshot=False)
    assert delta_position(second) is None


def test_a_delta_position_without_an_index_has_read_no_file_of_its_commit() -> None:
    found = delta_position_of([{"reservoirVersion": 7, "reservoirId": "t-1"}], 0)
    assert found == DeltaPosition(version=7, index=-1, table_id="t-1", in_snapshot=False)


def test_a_batch_purged_after_listing_is_absent(tmp_path: Path) -> None:
    plan(tmp_path, 0, DELTA)
    checkpoint = Checkpoint(str(tmp_path))
    newest = checkpoint.last_planned()
    (tmp_path / "offsets" / "0").unlink()
    assert checkpoint.planned_batch(newest) is None


def test_an_empty_file_is_no_planned_batch(tmp_path: Path) -> None:
    plan(tmp_path, 0, DELTA)
    (tmp_path / "offsets" / "1").write_bytes(b"")
    assert Checkpoint(str(tmp_path)).planned_batch(1) is None


@pytest.mark.parametrize("text", ["v2\n{}\n{}", "v1", "v1\n{}\ntrue", "v1\nnot json\n-", 'v1\n{"conf":7}\n-'])
def test_a_foreign_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(CheckpointMismatchError, match="offsets/0 is not what Spark"):
        Checkpoint(str(tmp_path)).planned_batch(0)


def test_a_foreign_metadata_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text("{}")
    with pytest.raises(CheckpointMismatchError, match="metadata is not what Spark"):
        Checkpoint(str(tmp_path)).query_id()


def test_a_file_uri_is_a_local_path(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    plan(folder, 0, DELTA, commit=True)
    assert Checkpoint(folder.as_uri()).last_committed() == 0


def test_an_object_store_is_read_through_pyarrow(tmp_path: Path) -> None:
    plan(tmp_path, 4, DELTA, commit=True)
    (tmp_path / "metadata").write_text('{"id":"q"}')
    from pyarrow import fs  # only this test needs it

    checkpoint = Checkpoint("s3a://bucket/checkpoints/silver.quakes")
    store = (fs.LocalFileSystem(), str(tmp_path))
    checkpoint._root._store = store
    for name in ("offsets", "commits"):
        getattr(checkpoint, f"_{name}")._store = (store[0], f"{store[1]}/{name}")
    assert checkpoint.query_id() == "q"
    assert checkpoint.last_committed() == 4
    assert checkpoint.planned_batch(4) is not None
    assert checkpoint.planned_batch(5) is None
    assert checkpoint.exists()


UUID = "0f4ae5a2-7c0e-4e0e-9d5c-3a2f1b6c7d8e"
LEFT = (
    f".metadata.{UUID}.tmp",
    f"offsets/.0.{UUID}.tmp",
    f"offsets/..0.{UUID}.tmp.crc",
    f"commits/.0.{UUID}.TID41.tmp",
    f"sources/0/.0.{UUID}.tmp",
    f"sources/11/.0.{UUID}.tmp",
)
KEPT = (
    "metadata",
    "sources/0/0",
    f"state/0/0/.1.delta.{UUID}.tmp",
    f"offsets/.1.{UUID}.tmp",
    f".notes.{UUID}.tmp",
    "offsets/.0.tmp",
    "offsets/0.tmp",
)


@pytest.mark.parametrize("as_uri", [False, True])
def test_interrupted_first_writes_are_deleted_and_nothing_else(tmp_path: Path, *, as_uri: bool) -> None:
    """Only temporary names that Spark gives to the first files."""
    for name in (*LEFT, *KEPT):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    path = tmp_path.as_uri() if as_uri else str(tmp_path)
    assert sorted(delete_interrupted_first_writes(path)) == sorted(LEFT)
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert left == set(KEPT)
    assert delete_interrupted_first_writes(path) == ()


def test_temporary_files_of_a_query_that_has_planned_a_micro_batch_stay(tmp_path: Path) -> None:
    """Spark ignores them, and a file of that name may be a later one's."""
    plan(tmp_path, 0, DELTA)
    temporary = tmp_path / "offsets" / f".0.{UUID}.tmp"
    temporary.touch()
    assert delete_interrupted_first_writes(str(tmp_path)) == ()
    assert temporary.exists()


def test_a_checkpoint_that_is_not_there_stays_so(tmp_path: Path) -> None:
    """Nothing is created."""
    assert delete_interrupted_first_writes(str(tmp_path / "gold.latest")) == ()
    assert not list(tmp_path.iterdir())


def test_the_state_of_a_processor_follows_a_move(tmp_path: Path) -> None:
    """The schemas of its state, which Spark names by whole paths; nothing else, and once."""
    was = tmp_path / "former place" / "gold.counts"
    metadata = was / "state" / "0" / "_metadata" / "v2"
    metadata.mkdir(parents=True)
    schema = "state/0/_stateSchema/default/0_9474"
    text = 'v2\n{"stateSchemaFilePaths":["file:%s/%s"],"x":"{\\"state/0\\":1}"}'
    (metadata / "0").write_text(text % (was, schema))
    (metadata / ".0.crc").write_bytes(b"crc")
    assert follow_move(str(was)) == ()
    assert (metadata / ".0.crc").exists()
    now = tmp_path / "now"
    was.rename(now)
    for _ in range(2):
        assert follow_move(str(now), is_look=True) == ("state/0/_metadata/v2/0",)
    assert follow_move(str(now)) == ("state/0/_metadata/v2/0",)
    assert (now / "state/0/_metadata/v2/0").read_text() == text % (now, schema)
    assert not (now / "state/0/_metadata/v2/.0.crc").exists()
    assert follow_move(str(now)) == follow_move(str(tmp_path / "none")) == ()
