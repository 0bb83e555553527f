"""The hand-written loop, as a contender: ``polars_job`` in a process of its own."""

from __future__ import annotations

from pathlib import Path

from tests.bench.contenders.started import Started
from tests.bench.oracle import Tables
from tests.bench.topic import Source


class PolarsLoop:
    """confluent-kafka, Polars and delta-rs in one loop."""

    name = "polars"
    what = "a hand-written loop of confluent-kafka, Polars and delta-rs, one process"
    drops_beyond = True

    def drain(self, folder: Path, source: Source, *, bronze_only: bool = False) -> Started:
        """Until it has what is there."""
        return self._start(folder, source, *(["--bronze-only"] if bronze_only else []))

    def run(self, folder: Path, source: Source) -> Started:
        """A micro-batch of what came, as soon as the last one is done."""
        return self._start(folder, source, "--running")

    def tables(self, folder: Path) -> Tables:
        """In ``tables``."""
        root = folder / "tables"
        return Tables(root / "bronze", root / "silver", root / "quarantine", root / "groups", root / "latest")

    def _start(self, folder: Path, source: Source, *words: str) -> Started:
        root = folder / "tables"
        root.mkdir(parents=True, exist_ok=True)
        given = ("--folder", str(root), "--bootstrap", source.bootstrap_servers, "--topic", source.topic)
        return Started("tests.bench.contenders.polars_job", (*given, *words), folder / "polars.log")
