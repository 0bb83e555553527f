"""Under which name and with which comment a table is registered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Bronze, DeltaTable, Files, Pipeline, Silver, Stream, Table, Topic


@dataclass(frozen=True, slots=True)
class Name:
    """A table that is to be registered."""

    table: str  # the engine's name, such as ``silver.orders__late``
    database: str  # the database: prefix of the environment and layer, such as ``dev_silver``
    name: str  # the name in the database
    path: str  # folder or URI of the table
    comment: str  # what the table is

    @property
    def full(self) -> str:
        """Database and name: ``dev_silver.orders``."""
        return f"{self.database}.{self.name}"


def names(pipeline: Pipeline, settings: Settings, layout: Layout, layers: Sequence[str]) -> Iterator[Name]:
    """The tables that the jobs of these layers write, side tables included, in the order of data flow."""
    # Hive's names have letters, digits and underscores.
    prefix = re.sub(r"\W", "_", settings.table_prefix)
    for declared in pipeline.tables:
        for table in (declared.table, *declared.side_tables):
            layer, _, name = table.partition(".")
            is_read_only = layer == "bronze" and layout.bronze is not None
            if layer in layers and not is_read_only and table not in layout.shared:
                comment = f"{_comment(declared, table)} Written by the pipeline {pipeline.name}."
                yield Name(table, f"{prefix}{layer}", name, layout.table_path(table), comment)


def _comment(declared: Table, table: str) -> str:
    if table != declared.table:
        suffix = table.removeprefix(declared.table).strip("_").replace("_", " ")
        return f"Side table of {declared.table}: {suffix} rows."
    if isinstance(declared, Bronze):
        return _bronze_comment(declared)
    source = f"from {declared.read_text if isinstance(declared, Silver) else declared.reads}"
    if isinstance(declared, Silver):
        return f"Typed and judged rows {source}, one per event."
    return f"{type(declared).__name__} {source}."


def _bronze_comment(declared: Bronze) -> str:
    match declared:
        case Files():
            return f"Records of {declared.format} files as they were written ({declared.path})."
        case DeltaTable():
            return f"Rows of a Delta table as they were written ({declared.path})."
        case Stream():
            return f"Rows of the source {declared.format} as they came."
        case Topic():
            names = ", ".join(declared.topic_names) or declared.pattern
            return f"Records of Kafka as they were sent ({names})."
