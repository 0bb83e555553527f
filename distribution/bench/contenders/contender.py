"""What takes part: the same job, from a topic to bronze, silver with its quarantine, and two gold tables.

The job: keep every record as it came; read it strictly, set aside what cannot be read; one row per
``event_id`` within a watermark of ten minutes; count and cents per product written anew with every
micro-batch; the newest event of each user, merged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from distribution.bench.contenders.started_process import Started
from distribution.bench.data.topic import Source
from distribution.bench.measure.oracle import Tables

DRIVER_MEMORY = "2g"
"""Heap of each contender's JVM."""

CORES = 2


class Contender(Protocol):
    """Something that does the job.

    Attributes:
        name: As it is called on the command line and in reports.
        what: What it is, in half a sentence.
        drops_beyond: Whether events that come beyond the watermark are missing in its silver.
    """

    name: str
    what: str
    drops_beyond: bool

    def set_up(self) -> str | None:
        """Fetch what it needs, where that is not here; why it cannot run on this machine, or None."""

    def drain(self, folder: Path, source: Source, *, bronze_only: bool = False) -> Started:
        """Start it; it ends by itself once all is done that is there."""

    def run(self, folder: Path, source: Source) -> Started:
        """Start it; it goes on until it is stopped."""

    def tables(self, folder: Path) -> Tables:
        """Where its tables are, or will be."""
