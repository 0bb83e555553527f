"""Finds the records of a micro-batch that end the process.

A micro-batch that has ended the process three times is read partition by partition, by itself, before the
query starts: where somebody else killed the process three times, these few reads are all. The range is
written to a file before it is read: a start that finds a range in the file knows that this range ended the
process, and splits it. So the search goes on over any number of processes, and each of them narrows it by a
factor of 32. A single record that ends the process twice is poison. The micro-batch is then run as it was
planned, and sets that record aside.

The file is ``<checkpoint>.poison/found.json``: it outlives a checkpoint that is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from common.machine.files.state_file import StateFile
from common.machine.storage_folder import StorageFolder
from silver.read.poison import Coordinates

DEATHS = 3
"""So many processes must have ended in a micro-batch before its records are searched."""

PARTS = 32
"""Into so many ranges a range is split that ended the process."""

_DEATHS_ALONE = 2
"""So many processes must a record have ended alone: one of them may have been ended from outside."""

_FILE = "found.json"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition, from ``first`` to ``last``, both included."""

    topic: str
    partition: int
    first: int
    last: int
    deaths: int = 0  # how many processes ended while they read this range

    def parts(self, count: int) -> Iterator[OffsetRange]:
        """The range as at most so many ranges, which differ in size by one at most."""
        size = self.last - self.first + 1
        count = min(count, size)
        for n in range(count):
            first, end = self.first + size * n // count, self.first + size * (n + 1) // count
            yield OffsetRange(self.topic, self.partition, first, end - 1)

    def __str__(self) -> str:
        offsets = str(self.first) if self.first == self.last else f"{self.first} to {self.last}"
        return f"{self.topic}, partition {self.partition}, offset {offsets}"


@dataclass(frozen=True, slots=True)
class _Search:
    """The search of one micro-batch."""

    batch_id: int  # the micro-batch
    left: tuple[OffsetRange, ...] = ()  # the ranges that are still to be read
    trying: OffsetRange | None = None  # the range that is being read; None between two
    # Once the search has ended: how many processes the micro-batch had ended until then.
    ended_after: int | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """The file: the records that were found, and the search that is under way or has ended last."""

    found: tuple[Coordinates, ...] = ()
    search: _Search | None = None


_KNOWN = StateFile(_Known)


class PoisonSearch:
    """The search for the poison records of one silver table, by the file beside its checkpoint."""

    def __init__(self, table: str, checkpoint: str, say: Callable[[str], None] = lambda text: None) -> None:
        self._table, self._say = table, say
        self._folder = StorageFolder(f"{checkpoint}.poison")
        known = _KNOWN.read(self._folder, _FILE) or _Known()
        self._found, self._search = known.found, known.search

    @property
    def found(self) -> tuple[Coordinates, ...]:
        """The records that were found, by all searches."""
        return self._found

    def run(
        self,
        batch_id: int,
        deaths: int,
        ranges: Callable[[], Sequence[OffsetRange]],
        read: Callable[[OffsetRange], None],
        is_alive: Callable[[], bool],
    ) -> None:
        """Search a micro-batch, or go on with its search; returns at once where there is nothing to search.

        Args:
            batch_id: The micro-batch that is planned and not committed.
            deaths: How many processes it has ended.
            read: Reads and judges a range of it as its query does.
            is_alive: Whether Spark's JVM lives; an error of a JVM that lives is no death.
        """
        search = self._search
        if search is None or search.batch_id != batch_id:
            search = _Search(batch_id, ended_after=0)
        if search.ended_after is not None:
            if deaths < search.ended_after + DEATHS:
                return
            self._say(
                f"{self._table}: micro-batch {batch_id} ended the process {deaths} times. Its records are "
                "read by themselves, to find the record that does"
            )
            search = _Search(batch_id, tuple(ranges()))
        search = self._after_death(search)
        while search.left:
            search = self._try(search, read, is_alive)
        self._write(replace(search, ended_after=deaths))

    def _after_death(self, search: _Search) -> _Search:
        """The search with the range that ended the last process split, or found to be poison."""
        died = search.trying
        if died is None:
            return search
        died = replace(died, deaths=died.deaths + 1)
        if died.first < died.last:
            self._say(f"{self._table}: {died} ended the process; it is split")
            return replace(search, left=(*died.parts(PARTS), *search.left), trying=None)
        if died.deaths < _DEATHS_ALONE:
            return replace(search, left=(died, *search.left), trying=None)
        self._say(f"{self._table}: {died} ends the process; the record goes to quarantine as poison")
        self._found = (*self._found, (died.topic, died.partition, died.first))
        search = replace(search, trying=None)
        self._write(search)
        return search

    def _try(
        self, search: _Search, read: Callable[[OffsetRange], None], is_alive: Callable[[], bool]
    ) -> _Search:
        first, *rest = search.left
        self._write(_Search(search.batch_id, tuple(rest), first))
        try:
            read(first)
        except BaseException:
            if is_alive():
                self._write(search)
            raise
        return replace(search, left=tuple(rest), trying=None)

    def _write(self, search: _Search) -> None:
        self._search = search
        _KNOWN.write(self._folder, _FILE, _Known(self._found, search))
