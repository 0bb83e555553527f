"""Writes Delta's version checksum files for commits of delta-rs, which writes none.

Spark reads a table's protocol and metadata from the checksum file of the newest commit. Without that file
Spark runs a job over the whole log, in every micro-batch of every query that reads the table. A checksum is
computed from the previous checksum and the commit's actions. Where one of them is missing, no file is
written, until Spark's next commit to the table writes one. Checksum files are optional; a missing one only
costs speed.

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
"""Fields that a commit of rows does not change; all other fields of a checksum are optional and left out."""

_log = structlog.get_logger(__name__)

_KEPT = 100
"""Number of newest checksums kept. Readers use the newest only, and delta-rs' log cleanup deletes none."""

_ROWS = frozenset({"add", "remove", "cdc", "commitInfo"})


def write_checksums(path: str, since: int, until: int) -> None:
    """Write the checksums of the commits after ``since`` up to ``until``; existing files stay.

    Args:
        path: A table on a local disk.
        since: A version.
        until: A version up to the newest.
    """
    log = Path(StorageFolder(path).path) / "_delta_log"
    try:
        for version in range(since + 1, until + 1):
            if not _write_checksum(log, version):
                return
    except OSError as error:  # the commits are valid without
        _log.warning("no checksum is written beside a commit", table=path, error=str(error))


def _write_checksum(log: Path, version: int) -> bool:
    """Write the checksum of one version if it is missing; returns whether it exists now."""
    file = log / f"{version:020}.crc"
    if file.exists():
        return True
    try:
        before = json.loads((log / f"{version - 1:020}.crc").read_bytes())
        commit = (log / f"{version:020}.json").read_bytes()
        after = checksum_after(before, [json.loads(line) for line in commit.splitlines()])
    except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        return False  # a file is missing, or of a form that this code does not know
    if after is None:
        return False
    _write_if_absent(file, json.dumps(after, separators=(",", ":")))
    (log / f"{version - _KEPT:020}.crc").unlink(missing_ok=True)
    return True


def checksum_after(before: dict[str, Any], actions: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The checksum after a commit; ``None`` where it does more than add and remove files of known sizes."""
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


def _write_if_absent(file: Path, text: str) -> None:
    """Create a file atomically; an existing file stays."""
    draft = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    try:
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()
