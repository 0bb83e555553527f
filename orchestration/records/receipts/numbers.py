"""Whether all receipts of a producer's run are there: they are numbered from 1, per topic and partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from orchestration.access.kafka.receipts import Receipt

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Numbers of one run and partition that are not those of one receipt each."""

    topic: str  # of the records, as the partition
    partition: int
    producer: str  # names the run
    first: int  # of consecutive numbers
    last: int
    is_twice: bool = False  # whether several receipts have them; otherwise none has
    names: tuple[str, ...] = ()  # of these receipts

    @property
    def receipts(self) -> int:
        """How many numbers they are."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        place = f"{self.topic}/{self.partition}: producer {self.producer} has"
        if self.is_twice:
            number = f"several receipts with the number {self.first:,}{named(self.names)}"
            return f"{place} {number}: each run needs a name of its own"
        if self.first == self.last:
            return f"{place} later receipts, and its receipt with the number {self.first:,} is missing"
        numbers = f"{self.first:,} to {self.last:,}"
        return f"{place} later receipts, and its receipts with the numbers {numbers} are missing"


def named(names: Sequence[str]) -> str:
    """The names of records, of many the first, in brackets; empty where they have none."""
    shown = ", ".join(names[:_MOST_NAMED])
    more = ", …" if len(names) > _MOST_NAMED else ""
    return f" ({shown}{more})" if any(names) else ""


def uncounted(receipts: Iterable[Receipt], dismissed: Iterable[Receipt] = ()) -> Iterator[Uncounted]:
    """The numbers that are missing or given twice, below the highest one of each run and partition.

    Args:
        dismissed: Others: their numbers are not missing, and none is missing for theirs.
    """
    runs: dict[tuple[str, int, str], dict[int, list[str]]] = {}
    for one in receipts:
        if one.number is not None:
            run = runs.setdefault((one.topic, one.partition, one.producer), {})
            run.setdefault(one.number, []).append(one.name)
    for one in dismissed:
        run = runs.get((one.topic, one.partition, one.producer), {})
        if one.number is not None and one.number < max(run, default=0):
            run.setdefault(one.number, [])
    for place, numbers in runs.items():
        for before, number in pairwise((0, *sorted(numbers))):
            if number > before + 1:
                yield Uncounted(*place, before + 1, number - 1)
            if len(names := numbers[number]) > 1:
                yield Uncounted(*place, number, number, is_twice=True, names=tuple(names))
