"""Flink SQL on tables of Apache Paimon, as a peer; ``flink_job`` is what runs."""

from __future__ import annotations

from pathlib import Path

from common.errors import JarError, JavaError
from distribution.bench.contenders import flink_job
from distribution.bench.contenders.script import Script
from distribution.bench.measure.oracle import Tables
from distribution.bench.measure.paimon import PaimonTables


class Flink(Script):
    """Three chained jobs, whose tables lie in the database ``default`` of the folder."""

    drops_beyond = False

    def set_up(self) -> str | None:
        """Fetch its jars, once; without Java or network it is left out."""
        try:
            flink_job.set_up()
        except (JarError, JavaError) as error:
            return str(error).partition("\n")[0]
        return None

    def tables(self, folder: Path) -> Tables:
        """Tables of Paimon."""
        root = folder / "default.db"
        names = ("bronze", "silver", "quarantine", "groups", "latest")
        return PaimonTables(*(root / name for name in names))
