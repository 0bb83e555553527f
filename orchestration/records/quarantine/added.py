"""Counts the rows that quarantine got while a job ran, from the tables' logs, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

from common.config.paths import Layout
from common.declare import Pipeline
from common.delta.log import LogReader, latest_version
from common.errors import TableError


class QuarantinedMeanwhile:
    """The rows that the quarantine of each silver table gets from now on."""

    def __init__(self, pipeline: Pipeline, layout: Layout) -> None:
        self._paths = {each.table: layout.table_path(each.quarantine) for each in pipeline.silver}
        self._before = {table: latest_version(path) for table, path in self._paths.items()}

    def counts(self) -> Iterator[tuple[str, int]]:
        """The silver tables whose quarantine has got rows, with their numbers."""
        for table, path in self._paths.items():
            before = self._before[table]
            try:
                commits = LogReader(path).commits(0 if before is None else before + 1)
                rows = sum(file.rows or 0 for each in commits if not each.is_change for file in each.added)
            except (TableError, OSError):
                continue  # the log's own readers say what is wrong with it
            if rows:
                yield table, rows
