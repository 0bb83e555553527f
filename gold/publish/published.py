"""What a publication has written to its folder, compared with its checkpoint and the table that it reads.

The number of a micro-batch says nothing by itself: with an older copy of the data folder or of a checkpoint
the same number comes again, with other rows. So a manifest names the positions of its micro-batch, and the
last commit of the source that they cover. A manifest of an earlier version of the engine names neither, and
then numbers alone are compared.

A folder may lack its oldest micro-batches, which a consumer has taken away; never its newest. Where the path
is changed, the new folder gets what is published from then on, and a former one to which it is changed back
lacks what went elsewhere: the checkpoint notes the folder and the first micro-batch of this stay there, and
so does each manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from common.declare import FileSink, Publish
from common.delta.checkpoint import COMMIT_ENTRY, FIRST_HEAD, Checkpoint, offsets_entry
from common.delta.match.checkpoint_repair import Change
from common.delta.match.source_match import Source, SourceNote, source_faults
from common.delta.micro_batch import SOURCE_COMMITS, MicroBatch
from common.errors import CheckpointMismatchError
from common.machine.storage_folder import StorageFolder

MANIFEST = "_manifest"
OWNER = "query.json"
POSITIONS = "positions"
SINCE = "since"
"""The entry of a manifest with the first micro-batch of the query's stay in the folder."""

_TAKEN = "medallion_folder"
"""Name of the file in a publication's checkpoint with the folder that it writes to, and since when."""

_REMEDY = (
    "Going on would leave rows out. Nothing was written. Restore the newest copy, or stop the job; then: "
    "medallion recover"
)


@dataclass(frozen=True)
class PublishedFiles:
    """The folder of one publication."""

    folder: str

    @property
    def _manifests(self) -> StorageFolder:
        return StorageFolder(self.folder) / MANIFEST

    def owner(self) -> Mapping[str, Any] | None:
        """The query whose micro-batches the folder has; None for a folder without any."""
        return _parsed(self._manifests.read(OWNER))

    def own(self, batch: MicroBatch, checkpoint: str) -> int:
        """Take the folder for a query; nothing changes where it is its own.

        The checkpoint notes the folder before anything is in it: one of which a later micro-batch finds no
        owner was deleted or put back to what it was before. A folder that was declared since has none either.

        Args:
            batch: The micro-batch that is about to be written.

        Returns:
            The first micro-batch of this stay in the folder.

        Raises:
            CheckpointMismatchError: It holds the micro-batches of another query or checkpoint, or lacks those
                that were written there.
        """
        owner, since = self.owner(), self.since(checkpoint)
        if owner is None and since is not None and batch.batch_id > since:
            raise CheckpointMismatchError(f"{batch.query}: {_gone(self.folder)}. {_REMEDY} {batch.query}")
        if owner is not None and owner["query_id"] != batch.query_id:
            raise CheckpointMismatchError(_other_owner(batch.query, self.folder, owner))
        first = batch.batch_id if since is None else min(since, batch.batch_id)
        if _taken(checkpoint) != (self.folder, first):
            content = {"folder": self.folder, SINCE: first}
            StorageFolder(checkpoint).write(_TAKEN, json.dumps(content).encode())
        if owner is None:
            content = {"query": batch.query, "query_id": batch.query_id}
            self._manifests.write(OWNER, json.dumps(content).encode())
        return first

    def since(self, checkpoint: str) -> int | None:
        """The first micro-batch of the stay in the folder of a checkpoint's query.

        None where it has yet to write there, or has written elsewhere since. A folder that was moved with
        its files is known by its newest manifest.
        """
        folder, since = _taken(checkpoint)
        if folder == self.folder:
            return since
        if folder is None:  # an earlier version of the engine notes none
            return None if self.owner() is None else since
        newest = self.manifest(self.newest())
        return since if newest is not None and newest.get(SINCE, 0) == since else None

    def numbers(self) -> list[int]:
        """The micro-batches that have a manifest, in order."""
        names = self._manifests.names()
        return sorted(int(name[:-5]) for name in names if name[:-5].isdigit() and name.endswith(".json"))

    def manifest(self, number: int) -> Mapping[str, Any] | None:
        """The manifest of a micro-batch; None where there is none, or none that can be read."""
        return _parsed(self._manifests.read(_name(number)))

    def has(self, batch: MicroBatch, checkpoint: str, since: int) -> bool:
        """Whether a micro-batch is whole in the folder.

        Args:
            batch: The micro-batch that is about to be written.
            checkpoint: The query's checkpoint, which names the commit up to which the one before has read.
            since: The first micro-batch of this stay in the folder, as ``own`` gives it.

        Raises:
            CheckpointMismatchError: The folder has other rows under its number, or under that of the one
                before, or lacks the one before.
        """
        before = self.manifest(batch.batch_id - 1) if batch.batch_id else None
        if batch.batch_id > since and before is None:
            raise CheckpointMismatchError(_lacking(batch.query, self.folder, batch.batch_id - 1))
        note = SourceNote(checkpoint).read()
        commits = note.get(SOURCE_COMMITS) or () if note.get(POSITIONS) == list(batch.before) else ()
        if before is not None and not _is_at(before, batch.before, commits):
            raise CheckpointMismatchError(_other_rows(batch.query, self.folder, batch.batch_id - 1))
        own = self.manifest(batch.batch_id)
        if own is None:
            return False
        if not _is_at(own, batch.positions, batch.source_commits):
            raise CheckpointMismatchError(_other_rows(batch.query, self.folder, batch.batch_id))
        return True

    def newest(self) -> int:
        """The newest micro-batch whose manifest can be read; -1 where there is none."""
        return next((one for one in reversed(self.numbers()) if self.manifest(one) is not None), -1)

    def finish(self, batch: MicroBatch, files: Sequence[str], sizes: Mapping[str, int], since: int) -> None:
        """Write the manifest of a micro-batch, whose files are there; ``since`` as ``own`` gives it."""
        content = {
            "query": batch.query,
            "query_id": batch.query_id,
            "batch": batch.batch_id,
            SINCE: since,
            POSITIONS: list(batch.positions),
            SOURCE_COMMITS: list(batch.source_commits),
            "files": list(files),
            "bytes": dict(sizes),
        }
        self._manifests.write(_name(batch.batch_id), json.dumps(content).encode())

    def file_faults(self, up_to: int | None = None) -> Iterator[str]:
        """Files that a manifest names and that are gone or have another size, in words.

        Args:
            up_to: The last micro-batch that is looked at; None: all are.
        """
        folder = StorageFolder(self.folder)
        numbers = [one for one in self.numbers() if up_to is None or one <= up_to]
        manifests = {number: self.manifest(number) for number in numbers}
        for before, number in pairwise(numbers):
            for lost in range(max(before + 1, (manifests[number] or {}).get(SINCE, 0)), number):
                yield f"{self.folder} has no micro-batch {lost}, and has later ones"
        for number, manifest in manifests.items():
            if manifest is None:
                yield f"{self.folder}/{MANIFEST}/{_name(number)} cannot be read"
                continue
            for name in manifest.get("files", ()):
                found, size = folder.size(name), manifest.get("bytes", {}).get(name)
                if found is None:
                    yield f"{self.folder}/{name}, which its manifest names, is gone"
                elif size not in {None, found}:
                    yield f"{self.folder}/{name} has {found} bytes instead of {size}"


def lock_folders(publications: Sequence[Publish]) -> dict[str, Path]:
    """By publication to files on a local disk, the folder of its lock file."""
    files = {one.table: StorageFolder(one.to.folder) for one in publications if isinstance(one.to, FileSink)}
    return {name: Path(folder.path, MANIFEST) for name, folder in files.items() if folder.is_local}


def refuse_other_publication(publish: Publish, checkpoint: Checkpoint, sources: Sequence[Source]) -> None:
    """Refuse to publish on where the folder, the checkpoint and the table do not belong together.

    Raises:
        CheckpointMismatchError: Names what was put back, and the command to go on.
    """
    if isinstance(publish.to, FileSink):
        owner = PublishedFiles(publish.to.folder).owner()
        if owner is not None and owner["query_id"] != checkpoint.query_id():
            raise CheckpointMismatchError(_other_owner(publish.table, publish.to.folder, owner))
    for fault in publication_faults(publish, checkpoint, sources):
        raise CheckpointMismatchError(
            f"{publish.table}: {fault}. Going on would leave rows out. Nothing was written. Restore the "
            f"newest copy, or have it made right from what is there: medallion recover {publish.table}"
        )


def publication_faults(publish: Publish, checkpoint: Checkpoint, sources: Sequence[Source]) -> Iterator[str]:
    """Why a publication to files cannot go on, in words; nothing where it can, and for another sink."""
    if not isinstance(publish.to, FileSink):
        return
    files = PublishedFiles(publish.to.folder)
    owner, since = files.owner(), files.since(checkpoint.path)
    query_id, planned, last = checkpoint.query_id(), checkpoint.last_planned(), checkpoint.last_committed()
    committed = -1 if last is None else last
    # Into a new folder goes what is published from now on; of that, nothing may be committed yet.
    has_come = since is not None and committed >= since
    if owner is None:
        yield from (_gone(files.folder),) if has_come else ()
        return
    if owner["query_id"] != query_id:
        yield f"{files.folder} holds micro-batches of {owner['query']} by another checkpoint"
        return
    newest = files.newest()
    is_behind = has_come and newest < committed
    if is_behind and committed in files.numbers():
        yield f"{files.folder}/{MANIFEST}/{_name(committed)} cannot be read"
    elif newest > (-1 if planned is None else planned):
        yield (
            f"{files.folder} holds micro-batches up to {newest}, and the checkpoint {checkpoint.path} has "
            f"planned {'none' if planned is None else f'only {planned}'}: an older copy of it was restored, "
            "or a copy of it publishes to the same folder"
        )
    elif is_behind:
        yield (
            f"the checkpoint {checkpoint.path} has committed micro-batches up to {committed}, and "
            f"{files.folder} ends with {newest}: an older copy of the folder was restored"
        )
    elif (manifest := files.manifest(newest)) is not None:
        entry = checkpoint.planned_batch(newest)
        if entry is not None and not _is_at(manifest, entry.sources, ()):
            yield _other_rows(publish.table, files.folder, newest).partition(": ")[2].partition(". ")[0]
    manifest = files.manifest(newest) or {}
    yield from source_faults(manifest.get(POSITIONS, ()), manifest.get(SOURCE_COMMITS, ()), sources)


def plan_files_repair(
    publish: Publish, checkpoint: Checkpoint, sources: Sequence[Source], *, is_deep: bool = False
) -> list[Change] | None:
    """What brings a checkpoint to the newest micro-batch of the folder; None where that is not enough.

    The rows behind it are read again from the source, whose history must be the one that was published.

    Args:
        sources: The table that it reads.
        is_deep: All files must be there, too.
    """
    if not isinstance(publish.to, FileSink):
        return None
    files = PublishedFiles(publish.to.folder)
    owner, newest = files.owner(), files.newest()
    if owner is None or owner["query_id"] != checkpoint.query_id() or newest < 0:
        return None
    if is_deep and any(files.file_faults(up_to=newest)):
        return None
    manifest = files.manifest(newest) or {}
    positions, commits = manifest.get(POSITIONS), manifest.get(SOURCE_COMMITS, ())
    if not positions or any(source_faults(positions, commits, sources)):
        return None
    before = (files.manifest(newest - 1) or {}).get(POSITIONS) or positions
    why = f"the published folder ends with micro-batch {newest}"
    head = json.dumps(FIRST_HEAD, separators=(",", ":"))
    wanted: dict[str, bytes | None] = {f"offsets/{newest}": offsets_entry(head, positions)}
    if newest:
        wanted[f"offsets/{newest - 1}"] = offsets_entry(head, before)
    wanted |= {f"offsets/{one}": None for one in checkpoint.batches() if one > newest}
    wanted |= {f"commits/{one}": None for one in checkpoint.committed_batches() if one > newest}
    wanted[f"commits/{newest}"] = COMMIT_ENTRY
    note = {POSITIONS: positions, SOURCE_COMMITS: commits}
    wanted[SOURCE_COMMITS] = json.dumps(note).encode()
    return [Change(name, content, why) for name, content in wanted.items()]


def _is_at(manifest: Mapping[str, Any], positions: Sequence[Any], commits: Sequence[Any]) -> bool:
    """Whether a manifest is that of a micro-batch, as far as both say."""
    known, read = manifest.get(POSITIONS), manifest.get(SOURCE_COMMITS) or ()
    if known and positions and list(known) != list(positions):
        return False
    pairs = zip(read, commits, strict=False)
    return all(mine is None or its is None or mine == its for mine, its in pairs)


def _parsed(content: bytes | None) -> Mapping[str, Any] | None:
    try:
        found = json.loads(content or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _taken(checkpoint: str) -> tuple[str | None, int]:
    """The folder to which a checkpoint's query has written last, and since which micro-batch.

    Where nothing is noted: it has written to some folder since its first one.
    """
    noted = _parsed(StorageFolder(checkpoint).read(_TAKEN)) or {}
    return noted.get("folder"), noted.get(SINCE, 0)


def _name(number: int) -> str:
    return f"{number:020}.json"


def _other_owner(query: str, folder: str, owner: Mapping[str, Any]) -> str:
    return (
        f"{query}: {folder} holds micro-batches of {owner['query']} by another checkpoint. To write there "
        "again would double or mix rows. Nothing was written. Give the publication a new path, or have "
        f"the folder moved aside and all rows written again: medallion recover {query}"
    )


def _other_rows(query: str, folder: str, number: int) -> str:
    return (
        f"{query}: {folder}/{MANIFEST}/{_name(number)} is that of other rows than micro-batch {number} has "
        "now: an older copy of the checkpoint or of the table was restored, or a copy of them publishes "
        "to the same folder. Going on would leave rows out. Nothing was written. Stop the job; then: "
        f"medallion recover {query}"
    )


def _gone(folder: str) -> str:
    return (
        f"{folder} has none of the micro-batches that were written there: it was deleted, or an older copy "
        "of it was restored"
    )


def _lacking(query: str, folder: str, number: int) -> str:
    return (
        f"{query}: {folder} lacks micro-batch {number}, which was written there: an older copy of the folder "
        "was restored. Going on would leave rows out. Nothing was written. Restore the newest copy, or stop "
        f"the job; then: medallion recover {query}"
    )
