"""A reader of Delta tables that notes when each row can be seen: delta-rs, polled, new files only.

    watch = Watch(path, ["sent_at"])
    for seen in watch.poll(): ...          # every so often

A poll asks the disk for the next commit's name; only when it is there is the table brought up to date by
delta-rs, and the files that its new versions added are read. Rows count as seen when they have been read. A
table that is not there yet has no rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import polars as pl
from deltalake import DeltaTable
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
_SHIFT = 43
"""Bits of a moment, in microseconds since some days before the stream's start: a hundred days."""
_BEFORE = 2 * 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class Seen:
    """Rows that a poll found; ``at`` is when they had been read, microseconds since 1970."""

    at: int
    rows: pl.DataFrame


class Watch:
    """One table.

    Args:
        path: Where it is, or will be.
        columns: Those to read.
    """

    first = 0
    """The number of a table's first version."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path, self._columns = path, list(columns)
        self._table: DeltaTable | None = None
        self._version = self.first - 1

    def poll(self) -> Iterator[Seen]:
        """Rows of versions that are new since the last poll."""
        if files := self._new_files():
            rows = pl.concat([pl.read_parquet(file, columns=self._columns) for file in files])
            yield Seen(time.time_ns() // 1_000, rows)

    def _new_files(self) -> list[Path]:
        """What the versions since the last call have added."""
        if not self._commit(self._version + 1).exists():
            return []
        if self._table is None:
            self._table = DeltaTable(str(self._path))
        self._table.update_incremental()
        newest = self._table.version()
        files = [file for version in range(self._version + 1, newest + 1) for file in self._added(version)]
        self._version = newest
        return files

    def _added(self, version: int) -> Iterator[Path]:
        for line in self._commit(version).read_bytes().splitlines():
            action = json.loads(line)
            if "add" in action and action["add"]["dataChange"]:
                yield self._path / unquote(action["add"]["path"])

    def _commit(self, version: int) -> Path:
        return self._path / "_delta_log" / f"{version:020}.json"


@dataclass
class Moments:
    """When each key's value was first at least so high: rows that are replaced by newer ones of their key.

    A key is a small number, a value a moment. An event counts as seen when its key's value is its own or a
    later one.
    """

    start: int
    keys: int
    _newest: Numbers = field(init=False)
    _found: list[tuple[int, Numbers, Numbers]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._newest = np.full(self.keys, -1, dtype=np.int64)

    def note(self, at: int, keys: Numbers, values: Numbers) -> None:
        """Rows that can be seen since ``at``; of several of one key the highest counts."""
        order = np.lexsort((values, keys))
        keys, values = keys[order], values[order] - (self.start - _BEFORE)
        is_last = np.append(keys[1:] != keys[:-1], values=True)[: len(keys)]
        keys, values = keys[is_last], values[is_last]
        grown = values > self._newest[keys]
        keys, values = keys[grown], values[grown]
        self._newest[keys] = values
        self._found.append((at, keys, values))

    def first_seen(self, keys: Numbers, values: Numbers) -> Numbers:
        """When each event could be seen; -1 where it never was."""
        places = [(key << _SHIFT) | value for _, key, value in self._found]
        known = np.concatenate([np.empty(0, dtype=np.int64), *places])
        moments = np.repeat(
            np.array([at for at, _, _ in self._found], dtype=np.int64), [len(p) for p in places]
        )
        order = np.argsort(known, kind="stable")
        known, moments = known[order], moments[order]
        wanted = (keys << _SHIFT) | (values - (self.start - _BEFORE))
        at = np.searchsorted(known, wanted)
        inside = np.minimum(at, max(0, len(known) - 1))
        if not len(known):
            return np.full(len(keys), -1, dtype=np.int64)
        is_same = (at < len(known)) & (known[inside] >> _SHIFT == keys)
        return np.where(is_same, moments[inside], -1)


@dataclass
class Arrivals:
    """When each message's event was first in silver, by the number of the message."""

    start: int
    step: int
    _found: list[tuple[int, Numbers]] = field(default_factory=list)

    def note(self, at: int, sent_at: Numbers) -> None:
        """Rows that can be seen since ``at``."""
        self._found.append((at, (sent_at - self.start) // self.step))

    def first_seen(self, numbers: Numbers) -> Numbers:
        """When each message's event could be seen; -1 where it never was."""
        size = 1 + max([int(numbers.max(initial=0)), *(int(n.max(initial=0)) for _, n in self._found)])
        first = np.full(size, -1, dtype=np.int64)
        for at, found in reversed(self._found):
            first[found] = at
        return first[numbers]
