"""Tables written by delta-rs, without Spark, with the checksums that Spark leaves beside its commits."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, WriterProperties, write_deltalake

from common.delta.checksums import version_checksum
from common.delta.log import LogReader
from common.delta.table import maintenance_metadata

_FILE = "__file"
_AT_ONCE = 50
"""Files made by one write; their rows are in memory together."""

OWN = maintenance_metadata("bench", "bench", "repair")
"""Metadata of a commit of the engine's own: rows that another program appends are refused."""


def created(path: Path, schema: pa.Schema, properties: Mapping[str, str]) -> None:
    """A new empty table, with the checksum that Spark leaves beside the first commit of one."""
    table = DeltaTable.create(str(path), Schema.from_arrow(schema), configuration=dict(properties))
    log = path / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_bytes().splitlines()]
    told = {name: action[name] for action in actions for name in ("metaData", "protocol") if name in action}
    checksum = {
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": told["metaData"],
        "protocol": told["protocol"],
    }
    (log / f"{table.version():020}.crc").write_text(json.dumps(checksum), encoding="utf-8")


def append(path: Path, rows: pa.Table, *, files: int = 1) -> int:
    """One commit of so many files, with its checksum; gives its version."""
    table = DeltaTable(str(path))
    before = table.version()
    size = -(-rows.num_rows // files)
    parts = [rows.slice(first, size) for first in range(0, rows.num_rows, size)]
    if len(parts) == 1:
        write_deltalake(
            table,
            rows,
            mode="append",
            writer_properties=_compressed(),
            commit_properties=CommitProperties(custom_metadata={"userMetadata": OWN}),
        )
    else:
        _committed(path, before + 1, "WRITE", OWN, [*_written(path, parts)], data_change=True)
    after = int(LogReader(str(path)).latest_version() or 0)
    version_checksum.write_checksums(str(path), before, after)
    return after








def _written(path: Path, files: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    """Data files put into a table's folder, each with the action that would add it: with statistics."""
    table = DeltaTable(str(path))
    whole = table.metadata().configuration
    names = "delta.dataSkippingStatsColumns"
    kept = {names: whole[names]} if names in whole else {}
    rest = iter(files)
    while some := list(islice(rest, _AT_ONCE)):
        scratch = path.with_name(f".{path.name}.growing")
        try:
            # One write, cut into files by a column that they do not have.
            marked = [rows.append_column(_FILE, pa.repeat(n, rows.num_rows)) for n, rows in enumerate(some)]
            write_deltalake(
                str(scratch),
                pa.concat_tables(marked),
                partition_by=[_FILE],
                configuration=kept,
                writer_properties=_compressed(),
            )
            text = (scratch / "_delta_log" / f"{0:020}.json").read_text(encoding="utf-8")
            found = [action["add"] for action in map(json.loads, text.splitlines()) if "add" in action]
            for add in sorted(found, key=lambda add: int(add["partitionValues"][_FILE])):
                place = scratch / unquote(add["path"])
                place.rename(path / place.name)
                yield {"add": {**add, "path": place.name, "partitionValues": {}}}
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _committed(
    path: Path,
    version: int,
    operation: str,
    told: str | None,
    actions: Iterable[dict[str, Any]],
    *,
    data_change: bool,
) -> None:
    now = int(time.time() * 1000)
    info: dict[str, Any] = {"timestamp": now, "operation": operation, "operationParameters": {}}
    if told is not None:
        info["userMetadata"] = told
    marked = (
        {kind: {**fields, "dataChange": data_change} for kind, fields in action.items()} for action in actions
    )
    lines = [{"commitInfo": info}, *marked]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    file = path / "_delta_log" / f"{version:020}.json"
    with file.open("x", encoding="utf-8") as out:
        out.write(text)






def _compressed() -> WriterProperties:
    return WriterProperties(compression="ZSTD")  # as the engine's own files are
