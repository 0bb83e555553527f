"""Tables of Paimon as a reader of files sees them; made here by hand, as its writers leave them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import polars as pl
import pytest

from distribution.bench.measure.oracle import LATEST
from distribution.bench.measure.paimon import PaimonTables, PaimonWatch

FILE = {
    "type": "record",
    "name": "file",
    "fields": [
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_LEVEL", "type": "int"},
    ],
}
ENTRY = {
    "type": "record",
    "name": "entry",
    "fields": [
        {"name": "_KIND", "type": "int"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_FILE", "type": FILE},
    ],
}
LIST = {"type": "record", "name": "list", "fields": [{"name": "_FILE_NAME", "type": "string"}]}

Change = tuple[int, str, int]
"""Of a file: 0 for added and 1 for taken away, its name, its level."""


class Writer:
    """Writes one table, a snapshot a time."""

    def __init__(self, path: Path, keys: Sequence[str] = (), **options: str) -> None:
        self.path, self.number, self.all = path, 0, list[str]()
        self.write("schema/schema-0", json.dumps({"primaryKeys": list(keys), "options": options}))

    def write(self, name: str, text: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def avro(self, name: str, schema: dict[str, Any], records: list[dict[str, Any]]) -> None:
        file = self.path / "manifest" / name
        file.parent.mkdir(exist_ok=True)
        with file.open("wb") as content:
            fastavro.writer(content, schema, records)

    def data(self, name: str, rows: pl.DataFrame) -> None:
        file = self.path / "bucket-0" / name
        file.parent.mkdir(exist_ok=True)
        rows.write_parquet(file)

    def snapshot(self, *changes: Change, kind: str = "APPEND") -> None:
        self.number += 1
        entries = [
            {"_KIND": k, "_BUCKET": 0, "_FILE": {"_FILE_NAME": name, "_FILE_SIZE": 10, "_LEVEL": level}}
            for k, name, level in changes
        ]
        self.avro(f"manifest-{self.number}", ENTRY, entries)
        self.avro(f"base-{self.number}", LIST, [{"_FILE_NAME": name} for name in self.all])
        self.all.append(f"manifest-{self.number}")
        self.avro(f"delta-{self.number}", LIST, [{"_FILE_NAME": self.all[-1]}])
        lists = {"baseManifestList": f"base-{self.number}", "deltaManifestList": f"delta-{self.number}"}
        self.write(f"snapshot/snapshot-{self.number}", json.dumps({"commitKind": kind, **lists}))


def numbers(*values: int) -> pl.DataFrame:
    return pl.DataFrame({"n": values})


def found(watch: PaimonWatch) -> list[int]:
    return [number for seen in watch.poll() for number in seen.rows["n"].to_list()]


def tables(folder: Path) -> PaimonTables:
    return PaimonTables(*(folder / name for name in ("bronze", "silver", "quarantine", "groups", "latest")))


def test_a_poll_finds_the_rows_of_new_snapshots_once_and_none_that_compaction_moves(tmp_path: Path) -> None:
    watch = PaimonWatch(tmp_path, ["n"])
    assert found(watch) == []  # no table yet
    writer = Writer(tmp_path)
    for name, rows in (("a", numbers(1, 2)), ("b", numbers(3)), ("c", numbers(1, 2, 3)), ("d", numbers(4))):
        writer.data(name, rows)
    writer.snapshot((0, "a", 0))
    writer.snapshot((0, "b", 0))
    assert sorted(found(watch)) == [1, 2, 3]
    writer.snapshot((1, "a", 0), (1, "b", 0), (0, "c", 0), kind="COMPACT")
    assert found(watch) == []
    writer.snapshot((0, "d", 0))
    assert found(watch) == [4]


def test_rows_are_those_of_live_files(tmp_path: Path) -> None:
    where = tables(tmp_path)
    assert where.rows("bronze", ["n"]).height == 0
    assert where.facts("bronze") is None
    writer = Writer(where.bronze)
    for name, rows in (("a", numbers(1, 2)), ("b", numbers(3)), ("c", numbers(1, 2, 3))):
        writer.data(name, rows)
    writer.snapshot((0, "a", 0), (0, "b", 0))
    assert sorted(where.rows("bronze", ["n"])["n"]) == [1, 2, 3]
    writer.snapshot((1, "a", 0), (1, "b", 0), (0, "c", 0), kind="COMPACT")
    assert sorted(where.rows("bronze", ["n"])["n"]) == [1, 2, 3]
    assert where.facts("bronze") == {"files": 1, "commits": 2, "bytes": 10}


def versions(*rows: tuple[int, int, int, int]) -> pl.DataFrame:
    """Key, second of the event, number of writing, kind."""
    columns = zip(*rows, strict=True)
    user, second, number, kind = (list(column) for column in columns)
    return pl.DataFrame(
        {
            "_SEQUENCE_NUMBER": number,
            "_VALUE_KIND": pl.Series(kind, dtype=pl.Int8),
            "user_id": user,
            "event_id": [f"e{each}" for each in second],
            "event_time": [datetime(2026, 1, 1, 0, 0, each, tzinfo=UTC) for each in second],
            "sent_at": second,
            "product": ["p"] * len(user),
            "cents": number,
        }
    )


@pytest.mark.parametrize(("fields", "newest"), [("event_time,event_id", 10), (None, 11)])
def test_of_a_key_the_last_row_counts_and_none_that_is_deleted(
    tmp_path: Path, fields: str | None, newest: int
) -> None:
    """By the sequence fields, then by the order of writing: the file that is read last need not have it."""
    where = tables(tmp_path)
    writer = Writer(where.latest, ["user_id"], **({"sequence.field": fields} if fields else {}))
    writer.data("a", versions((1, 9, 10, 0), (2, 1, 12, 0), (3, 1, 13, 0)))
    writer.data("b", versions((1, 5, 11, 2), (2, 2, 14, 3)))
    writer.snapshot((0, "b", 0))
    writer.snapshot((0, "a", 0))
    writer.snapshot((1, "a", 0), (0, "a", 5), kind="COMPACT")  # it moves to another level as it is
    rows = where.rows("latest", LATEST).sort("user_id")
    assert rows.columns == list(LATEST)
    assert rows["user_id"].to_list() == [1, 3]
    assert rows["cents"].to_list() == [newest, 13]
    assert rows.schema["event_time"] == pl.Datetime("us", "UTC")
