"""A peer: a script beside this module, ``<name>_job``, in a process of its own."""

from __future__ import annotations

from pathlib import Path

from distribution.bench.contenders.started_process import Started
from distribution.bench.data.topic import Source
from distribution.bench.measure.oracle import Tables


class Script:
    """A contender whose tables lie in ``<folder>/tables``.

    Args:
        name: Of the contender, and of its script.
        what: What it is, in half a sentence.
        words: Further words for the script.
    """

    drops_beyond = True

    def __init__(self, name: str, what: str, words: tuple[str, ...] = ()) -> None:
        self.name, self.what, self._words = name, what, words

    def set_up(self) -> str | None:
        """Nothing but the packages that are installed."""
        return None

    def drain(self, folder: Path, source: Source, *, bronze_only: bool = False) -> Started:
        """Until it has what is there, layer after layer or as it sees fit."""
        return self._start(folder, source, *(["--bronze-only"] if bronze_only else []))

    def run(self, folder: Path, source: Source) -> Started:
        """Until it is stopped: a micro-batch as soon as the last one is done."""
        return self._start(folder, source, "--running")

    def tables(self, folder: Path) -> Tables:
        """In ``tables``."""
        root = folder / "tables"
        return Tables(root / "bronze", root / "silver", root / "quarantine", root / "groups", root / "latest")

    def _start(self, folder: Path, source: Source, *words: str) -> Started:
        folder.mkdir(parents=True, exist_ok=True)
        # As ``script_options`` reads them.
        given = ("--folder", str(folder), "--bootstrap", source.bootstrap_servers, "--topic", source.topic)
        module = f"{__package__}.{self.name}_job"
        return Started(module, (*given, *self._words, *words), folder / f"{self.name}.log")
