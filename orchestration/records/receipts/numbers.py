"""Whether all receipts of a producer's run are there: they are numbered from 1, per topic and partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from orchestration.access.kafka.receipts import Receipt


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Numbers of one run and partition that are not those of one receipt each.

    Attributes:
        topic: The topic of the records.
        partition: The partition of the records.
        producer: Names the run.
        first: The first of consecutive numbers.
        last: The last of them.
        is_twice: Whether several receipts have them; otherwise none has.
    """

    topic: str
    partition: int
    producer: str
    first: int
    last: int
    is_twice: bool = False

    @property
    def receipts(self) -> int:
        """How many numbers they are."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        place = f"{self.topic}/{self.partition}: producer {self.producer} has"
        if self.is_twice:
            number = f"several receipts with the number {self.first:,}"
            return f"{place} {number}: each run needs a name of its own"
        if self.first == self.last:
            return f"{place} later receipts, and its receipt with the number {self.first:,} is missing"
        numbers = f"{self.first:,} to {self.last:,}"
        return f"{place} later receipts, and its receipts with the numbers {numbers} are missing"


def uncounted(receipts: Iterable[Receipt]) -> Iterator[Uncounted]:
    """The numbers that are missing or given twice, below the highest one of each run and partition."""
    runs: dict[tuple[str, int, str], list[int]] = {}
    for one in receipts:
        if one.number is not None:
            runs.setdefault((one.topic, one.partition, one.producer), []).append(one.number)
    for place, numbers in runs.items():
        for first, last, is_twice in _steps([0, *sorted(numbers)]):
            yield Uncounted(*place, first, last, is_twice)


def _steps(numbers: Sequence[int]) -> Iterator[tuple[int, int, bool]]:
    """Where ascending numbers do not count by one: what lies between, or the number that is there again."""
    for at, (before, number) in enumerate(pairwise(numbers)):
        if number > before + 1:
            yield before + 1, number - 1, False
        elif number == before != numbers[at - 1]:
            yield number, number, True
