"""What an audit found: per partition where its offsets are, and what does not balance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHOWN = 20
"""Coordinates that a fault names; its count is of all."""

FATES = (
    "silver",
    "duplicates",
    "late",
    "quarantine",
    "dropped",
    "tombstones",
    "erased",
    "gaps",
    "waiting",
)
"""The places an offset may be in; ``gaps`` only where the topic is declared to have them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that does not balance.

    Attributes:
        name: ``missing``, ``twice``, ``unknown``, ``no witness``, ``gap``, ``counts`` or ``lost commit``.
        text: What it means here, in words.
        count: Offsets concerned; 1 for a fault of counts or commits.
        examples: The first of them as topic, partition, offset.
    """

    name: str
    text: str
    count: int = 1
    examples: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionAccount:
    """One partition: offsets from ``first`` to before ``end``, and how many are in each place."""

    topic: str
    partition: int
    first: int
    end: int
    counts: Mapping[str, int]

    @property
    def offsets(self) -> int:
        """Offsets that are to be accounted for."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one silver table.

    Attributes:
        versions: Per table the version that was read.
        batch_id: The newest micro-batch of silver that it covers; None before the first.
        since: From where on it looked: empty for all there is.
        looked_at: Offsets that it looked at; the others were counted by an audit before.
        partitions: Ordered by topic and partition.
        faults: Empty where it balances.
        notes: What could not be looked at, in words.
        seconds: How long it took.
    """

    table: str
    reads: str
    versions: Mapping[str, int]
    batch_id: int | None
    since: str
    looked_at: int
    partitions: tuple[PartitionAccount, ...]
    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def offsets(self) -> int:
        """Offsets of all partitions."""
        return sum(one.offsets for one in self.partitions)

    @property
    def totals(self) -> dict[str, int]:
        """Offsets per place."""
        return {name: sum(one.counts.get(name, 0) for one in self.partitions) for name in FATES}
