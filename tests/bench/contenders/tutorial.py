"""The tutorial way, as a contender: ``tutorial_job`` in a process of its own."""

from __future__ import annotations

from pathlib import Path

from tests.bench.contenders.started import Started
from tests.bench.oracle import Tables
from tests.bench.topic import Source


class Tutorial:
    """Three queries with Spark's default settings."""

    name = "tutorial"
    what = (
        "three readStream/writeStream queries, Spark's and Delta's default settings, the same jars and heap"
    )
    drops_beyond = True

    def drain(self, folder: Path, source: Source, *, bronze_only: bool = False) -> Started:
        """Each layer with ``availableNow``, one after the other."""
        return self._start(folder, source, *(["--bronze-only"] if bronze_only else []))

    def run(self, folder: Path, source: Source) -> Started:
        """All queries at once, a micro-batch as soon as the last one is done."""
        return self._start(folder, source, "--running")

    def tables(self, folder: Path) -> Tables:
        """In ``tables``."""
        root = folder / "tables"
        return Tables(root / "bronze", root / "silver", root / "quarantine", root / "groups", root / "latest")

    def _start(self, folder: Path, source: Source, *words: str) -> Started:
        folder.mkdir(parents=True, exist_ok=True)
        given = ("--folder", str(folder), "--bootstrap", source.bootstrap_servers, "--topic", source.topic)
        return Started("tests.bench.contenders.tutorial_job", (*given, *words), folder / "tutorial.log")
