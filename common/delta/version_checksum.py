"""The version checksum that Delta keeps beside a commit, carried on over commits of delta-rs.

Spark takes a table's protocol and metadata from it; without one it asks for them by a job over the whole log,
in every micro-batch of every query that reads the table. delta-rs writes none. A checksum is made of the one
before and the commit's actions alone; where either is missing none is written, and Spark's next commit to the
table writes one anew. A checksum is a help, no part of a table: nothing is wrong where one lacks.

Source: the Delta protocol, "Version Checksum File".
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from common.machine.storage_folder import StorageFolder

_CARRIED = ("numMetadata", "numProtocol", "metadata", "protocol", "setTransactions", "domainMetadata")
"""What a commit of rows leaves as it is; all else that a checksum may have is optional, and left out."""

_log = structlog.get_logger(__name__)

_KEPT = 100
"""So many are kept: readers ask for the newest, and delta-rs, which cleans a log up, leaves them in it."""

_ROWS = frozenset({"add", "remove", "cdc", "commitInfo"})


def write_checksums(path: str, since: int, until: int) -> None:
    """Write the checksums of the commits after ``since``, up to ``until``; those that are there stay.

    Args:
        path: A table on a local disk.
        since: A version.
        until: A version that is not above the newest.
    """
    log = Path(StorageFolder(path).path) / "_delta_log"
    try:
        for version in range(since + 1, until + 1):
            if not _is_carried(log, version):
                return
    except OSError as error:  # the commits stand
        _log.warning("no checksum is written beside a commit", table=path, error=str(error))


def _is_carried(log: Path, version: int) -> bool:
    """Write one version's checksum, where it is not there; whether it is now."""
    file = log / f"{version:020}.crc"
    if file.exists():
        return True
    try:
        before = json.loads((log / f"{version - 1:020}.crc").read_bytes())
        commit = (log / f"{version:020}.json").read_bytes()
        after = checksum_after(before, [json.loads(line) for line in commit.splitlines()])
    except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return False  # another's, and not as we know them
    if after is None:
        return False
    _put(file, json.dumps(after, separators=(",", ":")))
    (log / f"{version - _KEPT:020}.crc").unlink(missing_ok=True)
    return True


def checksum_after(before: dict[str, Any], actions: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The checksum after a commit; ``None`` where it did more than add and remove files of known sizes."""
    if not all(action.keys() <= _ROWS for action in actions):
        return None
    added = [action["add"] for action in actions if "add" in action]
    removed = [action["remove"] for action in actions if "remove" in action]
    if any(file.get("size") is None or file.get("deletionVector") for file in (*added, *removed)):
        return None
    names = [file["path"] for file in (*added, *removed)]
    if len(set(names)) != len(names) or not all(before.get(name) for name in ("metadata", "protocol")):
        return None
    return {
        "tableSizeBytes": before["tableSizeBytes"] + sum(_sizes(added)) - sum(_sizes(removed)),
        "numFiles": before["numFiles"] + len(added) - len(removed),
        **{name: before[name] for name in _CARRIED if name in before},
    }


def _sizes(files: list[dict[str, Any]]) -> list[int]:
    return [int(file["size"]) for file in files]


def _put(file: Path, text: str) -> None:
    """Whole or not at all; whoever was first stays."""
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    try:
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
