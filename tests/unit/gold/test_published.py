"""Published files, their checkpoint and their source belong together; if not, it is refused, and repaired."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.config.paths import Layout
from common.declare import FileSink, Publish
from common.delta.checkpoint import Checkpoint
from common.delta.match.checkpoint_repair import repair
from common.delta.match.source_match import Source, SourceNote, last_commits
from common.delta.micro_batch import MicroBatch
from common.errors import CheckpointMismatchError
from gold.publish.published import PublishedFiles, plan_files_repair, publication_faults
from orchestration.change.recover.damage import damage


def position(version: int) -> dict[str, Any]:
    return {"reservoirId": "t", "reservoirVersion": version, "index": -1, "isStartingVersion": False}


class Export:
    """A table of six versions, of which three micro-batches were published."""

    def __init__(self, folder: Path) -> None:
        self.log, self.checkpoint = folder / "silver/orders/_delta_log", folder / "publish.files"
        for part in (self.log, self.checkpoint / "offsets", self.checkpoint / "commits"):
            part.mkdir(parents=True)
        self.path = str(self.checkpoint)
        (self.checkpoint / "metadata").write_text('{"id":"q"}')
        for version in range(6):
            self.commit(version)
        self.sources = [Source("silver.orders", str(folder / "silver/orders"))]
        self.publish = Publish("files", reads="silver.orders", to=FileSink(str(folder / "export")))
        self.files = PublishedFiles(str(folder / "export"))
        for number in range(3):
            self.write(number)

    def commit(self, version: int, at: int = 1) -> None:
        info = {"commitInfo": {"timestamp": at, "operation": "WRITE"}}
        (self.log / f"{version:020}.json").write_text(json.dumps(info))

    def batch(self, number: int) -> MicroBatch:
        before = (position(2 * number),) if number else ()
        after = (position(2 * number + 2),)
        commits = last_commits(after, self.sources)
        return MicroBatch("shop", "publish.files", "q", number, after, before=before, source_commits=commits)

    def plan(self, number: int, version: int) -> None:
        (self.checkpoint / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(position(version))}")

    def write(self, number: int) -> None:
        for version in range(6, 2 * number + 2):
            self.commit(version)
        self.plan(number, 2 * number + 2)
        since = self.files.own(self.batch(number), str(self.checkpoint))
        assert not self.files.has(self.batch(number), self.path, since)
        self.files.finish(self.batch(number), [], {}, since)
        assert self.files.has(self.batch(number), self.path, since)
        (self.checkpoint / "commits" / str(number)).write_text("v1\n{}")

    def declare(self, folder: str) -> None:
        """Give the publication a path."""
        self.publish = replace(self.publish, to=FileSink(folder))
        self.files = PublishedFiles(folder)

    def manifest(self, number: int) -> Path:
        return Path(self.files.folder, "_manifest", f"{number:020}.json")

    def lose(self, folder: str, number: int) -> None:
        (self.checkpoint / folder / str(number)).unlink()

    def faults(self) -> str:
        return "; ".join(publication_faults(self.publish, Checkpoint(str(self.checkpoint)), self.sources))

    def repaired(self) -> str | None:
        """The faults after a repair; None where positions do not repair it."""
        changes = plan_files_repair(self.publish, Checkpoint(str(self.checkpoint)), self.sources)
        if changes is None:
            return None
        repair(str(self.checkpoint), changes, "now")
        return self.faults()


@pytest.fixture
def export(tmp_path: Path) -> Export:
    return Export(tmp_path)


def _older_checkpoint(export: Export) -> None:
    for folder in ("offsets", "commits"):
        export.lose(folder, 2)


def _older_folder(export: Export) -> None:
    export.manifest(2).unlink()


def _cut_manifest(export: Export) -> None:
    """To nothing, as by a disk; the micro-batch is written again, in its place."""
    export.manifest(2).write_bytes(b"")


def _other_positions(export: Export) -> None:
    export.plan(2, 5)


def _older_source(export: Export) -> None:
    export.commit(5, at=2)


def _gone(export: Export) -> None:
    """Deleted, or put back to what it was before the first micro-batch; a running query refuses it too."""
    shutil.rmtree(export.files.folder)
    with pytest.raises(CheckpointMismatchError, match=r"medallion recover publish\.files"):
        export.files.own(export.batch(3), str(export.checkpoint))


def _cut_off_in_a_new_folder(export: Export) -> None:
    """The path is changed; the first micro-batch there fails, or its process ends, before its manifest."""
    export.declare(f"{export.files.folder}_new")
    assert not export.faults()
    for _ in range(2):
        since = export.files.own(export.batch(3), export.path)
        assert not export.files.has(export.batch(3), export.path, since)
    export.plan(3, 8)


def _new_folder_put_back(export: Export) -> None:
    """The path is changed, and the folder is put back to what it was in its first micro-batch."""
    _cut_off_in_a_new_folder(export)
    export.write(3)
    assert not export.faults()
    export.manifest(3).unlink()


def _changed_back(export: Export) -> None:
    """The path is changed, and changed back: what went elsewhere meanwhile is no gap."""
    former = export.files.folder
    export.declare(f"{former}_new")
    for number in (3, 4):
        export.write(number)
    export.declare(former)
    assert not export.faults()
    export.write(5)
    assert not export.faults()
    export.write(6)
    assert list(export.files.file_faults()) == []
    export.manifest(5).unlink()
    assert [one.rpartition("has ")[0] for one in export.files.file_faults()] == [
        f"{former} has no micro-batch 5, and "
    ]


def _changed_back_and_put_back(export: Export) -> None:
    _changed_back(export)
    export.manifest(6).unlink()


def _moved(export: Export) -> None:
    """With its files; nothing is left where it was."""
    folder = Path(export.files.folder)
    export.declare(str(folder.rename(f"{folder}_moved")))


def _moved_and_put_back(export: Export) -> None:
    _moved(export)
    export.manifest(2).unlink()


def _without_positions(export: Export) -> None:
    """As an earlier version of the engine has written it."""
    content = {"query": "publish.files", "query_id": "q", "batch": 2, "files": []}
    export.manifest(2).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("happens", "words", "repaired"),
    [
        (lambda export: None, "", ""),
        (lambda export: export.manifest(0).unlink(), "", ""),
        (_without_positions, "", None),
        (_older_checkpoint, "micro-batches up to 2, and the checkpoint .* has planned only 1", ""),
        (_older_folder, "has committed micro-batches up to 2, and .* ends with 1", ""),
        (_cut_manifest, f"_manifest/{2:020}.json cannot be read", ""),
        (_other_positions, "is that of other rows than micro-batch 2 has now", ""),
        (_older_source, "it has read another version 5 of silver.orders", None),
        (_gone, "has none of the micro-batches that were written there", None),
        (_cut_off_in_a_new_folder, "", None),
        (_new_folder_put_back, "has committed micro-batches up to 3, and .*_new ends with -1", None),
        (_changed_back, "", ""),
        (_changed_back_and_put_back, "has committed micro-batches up to 6, and .* ends with 2", ""),
        (_moved, "", ""),
        (_moved_and_put_back, "has committed micro-batches up to 2, and .*_moved ends with 1", ""),
    ],
)
def test_a_start_compares_files_checkpoint_and_source(
    export: Export, happens: Callable[[Export], None], words: str, repaired: str | None
) -> None:
    happens(export)
    found = export.faults()
    assert bool(found) == bool(words), found
    assert re.search(words, found), found
    assert export.repaired() == repaired


def test_a_micro_batch_of_other_rows_or_behind_a_gap_is_refused(export: Export) -> None:
    third = export.batch(3)
    assert not export.files.has(third, export.path, 0)
    for other in ({"before": (position(5),)}, {"batch_id": 2, "positions": (position(5),)}):
        changed = MicroBatch(**{**_fields(third if "before" in other else export.batch(2)), **other})
        with pytest.raises(CheckpointMismatchError, match="is that of other rows than micro-batch 2 has now"):
            export.files.has(changed, export.path, 0)
    SourceNote(export.path).write(third.before, last_commits(third.before, export.sources))
    assert not export.files.has(third, export.path, 0)
    SourceNote(export.path).write(third.before, [{"version": 5, "sha256": "of a job beside"}])
    with pytest.raises(CheckpointMismatchError, match="is that of other rows than micro-batch 2 has now"):
        export.files.has(third, export.path, 0)
    export.manifest(2).unlink()
    with pytest.raises(CheckpointMismatchError, match="lacks micro-batch 2, which was written there"):
        export.files.has(third, export.path, 0)


def test_files_that_are_gone_or_cut_off_are_faults_of_the_audit(export: Export, tmp_path: Path) -> None:
    """``recover`` writes all of them again where the publication is named, as the audit's command does."""
    folder = Path(export.files.folder)
    (folder / "batch=2").mkdir()
    for name, content in (("a", b"1234"), ("b", b"12")):
        (folder / "batch=2" / name).write_bytes(content)
    names = ["batch=2/a", "batch=2/b"]
    export.files.finish(export.batch(2), names, {"batch=2/a": 4, "batch=2/b": 2}, 0)
    assert list(export.files.file_faults()) == []
    (folder / "batch=2" / "a").write_bytes(b"123")
    (folder / "batch=2" / "b").unlink()
    export.manifest(1).unlink()
    told = "\n".join(export.files.file_faults())
    assert "batch=2/a has 3 bytes instead of 4" in told
    assert "batch=2/b, which its manifest names, is gone" in told
    assert "has no micro-batch 1, and has later ones" in told
    checkpoint = Checkpoint(str(export.checkpoint))
    assert plan_files_repair(export.publish, checkpoint, export.sources)
    assert plan_files_repair(export.publish, checkpoint, export.sources, is_deep=True) is None
    named = Layout(str(tmp_path), str(tmp_path), tmp_path), export.publish, None
    assert damage(*named, is_deep=True) == tuple(f"publish.files: {one}" for one in told.split("\n"))
    assert "is gone" not in "; ".join(damage(*named))  # a consumer may have taken files away


def _fields(batch: MicroBatch) -> dict[str, Any]:
    names = ("pipeline", "query", "query_id", "batch_id", "positions", "before", "source_commits")
    return {name: getattr(batch, name) for name in names}
