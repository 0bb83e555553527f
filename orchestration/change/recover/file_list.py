"""Writes the list of files of a bronze table of files again, by the rows that the table has.

A row names its file, its number in the file and when the file was written. So the table knows which offsets
each file has; only how many records the last one has, of which some may be unread, is counted anew. One that
is another file now, or is gone, keeps its entry with a size that no file has: nothing of it is read again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from common.config.paths import Layout
from common.declare import Files
from common.delta.log import LogReader
from common.delta.maintenance.retention import EXPIRED
from common.delta.match.checkpoint_repair import Change
from common.delta.table import ERASED
from common.errors import CheckpointMismatchError
from common.machine.storage_folder import StorageFolder
from common.streaming.file_list import ITSELF, part_name
from common.streaming.file_source import listed_alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNREADABLE = b"\0unreadable unreadable_file"
"""How the one row of a file begins that could not be read: the file is read once it is another one."""

_WHY = "the list was written again by the rows of the table"


@dataclass(frozen=True, slots=True)
class _Found:
    """What the table has of a file: its path below the folder, and the records from ``offset`` on."""

    path: str
    offset: int
    rows: int
    modified_ms: int
    is_unreadable: bool


def written_again(spark: SparkSession, layout: Layout, files: Files, end: int) -> list[Change]:
    """The changes of the folder of the list.

    Args:
        end: The first offset that the table has not read.

    Raises:
        CheckpointMismatchError: The table lacks rows of its files, which the list would have told.
    """
    path = layout.table_path(files.table)
    gone = not LogReader(path).properties().keys().isdisjoint({ERASED, EXPIRED})
    found = sorted(_found(spark, path, files), key=lambda one: one.offset)
    if gone or (found[0].offset if found else end):
        raise CheckpointMismatchError(
            f"{files.table}: the list of files in {layout.file_list_path(files.table)} is lost or an older "
            "copy, and rows of the table that would tell which files were read were erased or have expired. "
            "Nothing was changed. Restore the list from a copy, or declare the files under another name, "
            "which begins anew."
        )
    lines = [json.dumps(entry, ensure_ascii=False) for entry in _entries(spark, files, found, end)]
    folder = StorageFolder(layout.file_list_path(files.table))
    why = f"{len(found):,} files, by the rows of the table"
    others = [
        Change(name, None, "of the list as it was") for name in folder.names() if name.endswith(".jsonl")
    ]
    content = "".join(f"{line}\n" for line in lines).encode()
    return [*(one for one in others if one.name != part_name(0)), Change(part_name(0), content, why)]


def _found(spark: SparkSession, path: str, files: Files) -> Iterator[_Found]:
    rows = spark.read.format("delta").load(path).where(F.col("topic") == files.coordinate)
    header = F.col("headers")
    number = header[1]["value"].cast("string").cast("bigint")
    is_unreadable = F.max(F.substring("value", 1, len(_UNREADABLE)) == F.lit(bytearray(_UNREADABLE)))
    groups = rows.groupBy(
        header[0]["value"].cast("string").alias("path"), (F.col("offset") - number).alias("first")
    )
    counted = groups.agg(
        (F.max(number) + 1).alias("rows"),
        F.max(F.unix_millis("kafka_timestamp")).alias("modified_ms"),
        is_unreadable.alias("is_unreadable"),
    )
    is_file = Path(StorageFolder(files.folder).path).is_file()
    for row in counted.collect():
        shown = f"{ITSELF}{row['path']}" if is_file else row["path"]
        yield _Found(shown, row["first"], row["rows"], row["modified_ms"], bool(row["is_unreadable"]))


def _entries(spark: SparkSession, files: Files, found: list[_Found], end: int) -> Iterator[Mapping[str, Any]]:
    """The entries of the files, and of the records of them that were skipped."""
    for one, after in pairwise(found):
        rows = after.offset - one.offset
        yield _entry(files, one, rows)
        if one.rows < rows:
            lost = {"offset": one.offset + one.rows, "rows": rows - one.rows, "why": _WHY}
            yield {"skipped": one.path, **lost}
    if found:
        last = found[-1]
        entry = dict(_entry(files, last, max(last.rows, end - last.offset)))
        if entry["size"] >= 0 and not last.is_unreadable:
            with tempfile.TemporaryDirectory(prefix="medallion-recover-") as folder:
                counted = listed_alone(spark, files, last.path, folder)
            entry |= {name: counted[name] for name in ("rows", "cuts") if name in counted}
        yield entry


def _entry(files: Files, one: _Found, rows: int) -> dict[str, Any]:
    folder, name = StorageFolder(files.folder), one.path
    if name.startswith(ITSELF):
        parent, _, name = files.folder.rpartition("/")
        folder = StorageFolder(parent)
    is_same = folder.modified_ms(name) == one.modified_ms
    size = (folder.size(name) if is_same else None) or 0
    fault = {"fault": "it could not be read"} if one.is_unreadable else {}
    known = {"path": one.path, "size": size if is_same else -1, "modified_ms": one.modified_ms}
    return {**known, "offset": one.offset, "rows": rows, **fault}
