"""The hand-written peer does the job: strictly, and once, also where it was cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from deltalake import DeltaTable

from distribution.bench.contenders.polars_job import Loop, parsed
from distribution.bench.data.events import Batch, Stream
from distribution.bench.measure import oracle
from distribution.bench.measure.oracle import Tables

STREAM = Stream(seed=4, malformed=0.1)
MESSAGES = 3_000


class Record(NamedTuple):
    """A message as the client hands it over."""

    place: tuple[int, int]
    both: tuple[bytes, bytes]

    def partition(self) -> int:
        return self.place[0]

    def offset(self) -> int:
        return self.place[1]

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def key(self) -> bytes:
        return self.both[0]

    def value(self) -> bytes:
        return self.both[1]


def records(batch: Batch) -> list[Record]:
    ends: dict[int, int] = {}
    found = []
    for key, value, partition in zip(batch.keys(), batch.values(), batch.partition.tolist(), strict=True):
        offset = ends.get(partition, 0)
        ends[partition] = offset + 1
        found.append(Record((partition, offset), (key, value)))
    return found


def tables(folder: Path) -> Tables:
    return Tables(*(folder / name for name in ("bronze", "silver", "quarantine", "groups", "latest")))


def test_each_message_has_its_row_whatever_is_in_it() -> None:
    event = {"event_id": "a", "event_time": "2026-01-01T00:00:00.000001Z", "cents": 1, "user": {"id": 2}}
    good = json.dumps(event).encode()
    bad = [
        b"",
        None,
        b"null",
        b"[1]",
        good[:-9] + b"}",
        b"\xff" + good,
        b'{"event_id": "\xff"}',
        b"{" * 99 + b"}",
    ]
    found = parsed([good, *bad, good.replace(b": 1", b': "x"'), good])
    assert found["event_id"].to_list() == ["a", *[None] * len(bad), "a", "a"]
    assert found["cents"].to_list() == [1, *[None] * len(bad), None, 1]
    assert str(found["event_time"][0]) == "2026-01-01 00:00:00.000001+00:00"


def test_its_tables_equal_the_oracle(tmp_path: Path) -> None:
    loop = Loop(tmp_path, bronze_only=False)
    all_records = records(STREAM.batch(0, MESSAGES))
    for first in range(0, MESSAGES, 700):
        loop.take(all_records[first : first + 700])  # type: ignore[arg-type]
    wanted = oracle.expected(STREAM, MESSAGES)
    assert oracle.differences(tables(tmp_path), wanted, may_lack_beyond=True) == []


class Cut(Exception):  # noqa: N818  # not an error
    """The process dies."""


@pytest.mark.parametrize("fuse", range(7))
def test_a_loop_that_was_cut_off_goes_on_to_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fuse: int
) -> None:
    """After each of a micro-batch's five writes, before the first, and not at all."""
    all_records = records(STREAM.batch(0, MESSAGES))
    loop = Loop(tmp_path, bronze_only=False)
    loop.take(all_records[:1_000])  # type: ignore[arg-type]
    left = [fuse]

    def burning(write: str) -> None:
        real = getattr(Loop, write)

        def cut(self: Loop, *given: object, **named: object) -> None:
            if left[0] == 0:
                raise Cut
            left[0] -= 1
            real(self, *given, **named)

        monkeypatch.setattr(Loop, write, cut)

    burning("_write")
    burning("_merge")
    try:
        loop.take(all_records[1_000:2_000])  # type: ignore[arg-type]
    except Cut:
        assert fuse < 5
    monkeypatch.undo()
    again = Loop(tmp_path, bronze_only=False)
    again.resume()
    read = sum(again.offsets.values())
    assert read == (1_000 if fuse == 0 else 2_000)
    rest = [one for one in all_records if one.offset() >= again.offsets.get(one.partition(), 0)]
    assert len(rest) == MESSAGES - read
    again.take(rest)  # type: ignore[arg-type]
    wanted = oracle.expected(STREAM, MESSAGES)
    assert oracle.differences(tables(tmp_path), wanted, may_lack_beyond=True) == []


def test_bronze_alone(tmp_path: Path) -> None:
    loop = Loop(tmp_path, bronze_only=True)
    loop.take(records(STREAM.batch(0, MESSAGES)))  # type: ignore[arg-type]
    wanted = oracle.expected(STREAM, MESSAGES, bronze_only=True)
    assert oracle.differences(tables(tmp_path), wanted, bronze_only=True) == []
    assert not DeltaTable.is_deltatable(str(tmp_path / "silver"))
    assert pl.read_delta(str(tmp_path / "bronze")).height == MESSAGES


def test_all_fields_are_read_where_all_are_asked_for(tmp_path: Path) -> None:
    stream = Stream(seed=4, malformed=0.1, products=50, note=135)
    batch = stream.batch(0, MESSAGES)
    loop = Loop(tmp_path, bronze_only=False, wide=True)
    loop.take(records(batch))
    wanted = oracle.expected(stream, MESSAGES, wide=True)
    assert wanted.silver.width == 15 + 1
    assert oracle.differences(tables(tmp_path), wanted, may_lack_beyond=True) == []
    assert {
        len(value) for value, is_valid in zip(batch.values(), batch.is_valid, strict=True) if is_valid
    } == {478}
