"""Tables of Apache Paimon, read without it: snapshots are JSON, manifests Avro, data files Parquet.

A snapshot names two lists of manifests: those of its own change, and those of all before. An entry of a
manifest adds a data file or takes one away. A table with a primary key is a log-structured merge tree: of a
key's rows in all its files the last one counts, by the table's sequence fields and then by the order of
writing, and none where that row deletes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import polars as pl

from distribution.bench.measure.oracle import Tables, of_one_width
from distribution.bench.measure.watch import Watch

_ADD = 0
_NUMBER, _KIND = "_SEQUENCE_NUMBER", "_VALUE_KIND"
_INSERTS = (0, 2)
"""Kinds of a row that leave one: inserted, and the new one of an update."""


class PaimonTables(Tables):
    """Where a contender keeps tables of Paimon."""

    __slots__ = ()

    def watch(self, name: str, columns: Sequence[str]) -> Watch:
        """What polls a table for new rows."""
        return PaimonWatch(self.all()[name], columns)

    def rows(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """A table's rows, merged; none where it is not there."""
        path = self.all()[name]
        files = [path / f"bucket-{bucket}" / file["_FILE_NAME"] for bucket, file in _live(path)]
        if not files:
            return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
        schema = json.loads((path / "schema" / "schema-0").read_bytes())
        rows = pl.concat([pl.read_parquet(file) for file in files])
        if keys := schema["primaryKeys"]:
            fields = schema["options"].get("sequence.field")
            order = [*(fields.split(",") if fields else ()), _NUMBER]
            rows = rows.sort(order).unique(keys, keep="last").filter(pl.col(_KIND).is_in(_INSERTS))
        return of_one_width(rows.select(columns))

    def facts(self, name: str) -> dict[str, int] | None:
        """Live files, snapshots and bytes of a table; None where there is none."""
        path = self.all()[name]
        sizes = [file["_FILE_SIZE"] for _, file in _live(path)]
        return {"files": len(sizes), "commits": _newest(path), "bytes": sum(sizes)} if sizes else None


class PaimonWatch(Watch):
    """One table of Paimon: files that its snapshots add, but for those that compaction writes."""

    first = 1

    def _new_files(self) -> list[Path]:
        files: list[Path] = []
        while (file := _snapshot(self._path, self._version + 1)).exists():
            self._version += 1
            snapshot = json.loads(file.read_bytes())
            if snapshot["commitKind"] != "COMPACT":
                files += (
                    self._path / f"bucket-{entry['_BUCKET']}" / entry["_FILE"]["_FILE_NAME"]
                    for entry in _entries(self._path, snapshot["deltaManifestList"])
                    if entry["_KIND"] == _ADD
                )
        return files


def _snapshot(path: Path, number: int) -> Path:
    return path / "snapshot" / f"snapshot-{number}"


def _newest(path: Path) -> int:
    names = (file.name for file in (path / "snapshot").glob("snapshot-*"))
    return max((int(name.partition("-")[2]) for name in names), default=0)


def _live(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Data files of the newest snapshot, each with its bucket."""
    if not (newest := _newest(path)):
        return []
    snapshot = json.loads(_snapshot(path, newest).read_bytes())
    added, gone = {}, set()
    for manifests in (snapshot["baseManifestList"], snapshot["deltaManifestList"]):
        for entry in _entries(path, manifests):
            file = entry["_FILE"]
            # A file that only moves to another level is taken away from the old one.
            place = entry["_BUCKET"], file["_FILE_NAME"], file["_LEVEL"]
            if entry["_KIND"] == _ADD:
                added[place] = entry["_BUCKET"], file
            else:
                gone.add(place)
    return [file for place, file in added.items() if place not in gone]


def _entries(path: Path, manifests: str) -> Iterator[Any]:
    for manifest in _records(path / "manifest" / manifests):
        yield from _records(path / "manifest" / manifest["_FILE_NAME"])


def _records(file: Path) -> list[Any]:
    with file.open("rb") as content:
        return list(fastavro.reader(content))
