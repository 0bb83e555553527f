"""Prints once per run that a field of a schema was probably renamed upstream."""

from __future__ import annotations

from common.config.paths import Layout
from common.declare import Pipeline
from common.machine.console import say
from orchestration.access.declaration.field_use import FieldSampler

_RENAMED = (
    "If a field was renamed, add its new name to the schema and the columns; until then such columns are "
    "null. If not, add it to the schema alone: that ends this line"
)
_GONE = (  # each field of the newest row is declared
    "It is null in rows that are written from then on. To end this line, take it out of the schema and the "
    "columns"
)


class FieldNotices:
    """Compares bronze's newest records with silver's schemas, outside of any micro-batch."""

    def __init__(self, pipeline: Pipeline, layout: Layout) -> None:
        self._silver = pipeline.silver
        self._sampler = FieldSampler(pipeline, layout)
        self._said: dict[str, tuple[str, ...]] = {}

    def check(self) -> None:
        """Print a line per silver table whose records lack a field of the schema and have another."""
        for silver in self._silver:
            use = self._sampler.use(silver.table)
            if use is None or not use.is_rename:
                continue
            gone = use.absent if use.is_of_rows else use.lost
            if self._said.get(silver.table) == gone:
                continue
            self._said[silver.table] = gone
            what = _RENAMED if use.unknown else _GONE
            say(f"{silver.table}: of {silver.read_text}, {use.text()}. {what}")
