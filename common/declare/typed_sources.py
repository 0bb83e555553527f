"""Declarations of sources whose rows have typed columns: any Delta table, any streaming source of Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator

from common.declare.declared import absolute, declared, spelt
from common.declare.field_types import ByteSize, Count, Interval, Options, TableName, Trigger
from common.declare.table_options import NumberedKind, Storage, order_faults, start_faults
from common.errors import Fault, closest, nearest

FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
"""The columns that a change data feed has besides the table's."""


def _named(given: object) -> object:
    if isinstance(given, bool):
        raise ValueError("name the source's column of event time, such as 'at'")  # noqa: TRY004  # for pydantic
    return given


_NAME = re.compile(r"((\w+|`[^`./]+`)\.){0,2}(\w+|`[^`./]+`)")
"""A table's name in a catalog, with or without the catalog and the schema."""


@declared
class DeltaTable(NumberedKind):
    """One bronze table that is read from a Delta table, whoever writes that table.

    Grain: one row per row of the source, or per change of one with ``changes="feed"``, in bronze's envelope.
    ``value`` is a struct of the source's columns with their types, for ``Columns`` in silver; ``topic`` is
    ``delta:<name>``, ``partition`` is 0, and ``offset`` counts the rows in the order in which they were read.
    ``kafka_timestamp`` is when the row was read, or with ``changes="feed"`` when it was changed. The headers
    ``batch`` and ``row`` name the micro-batch, and the row's place in it from 0.

    A column that the source gets is added to ``value`` when the query meets it; one that the source loses is
    null from then on. A column of another type is refused.
    """

    PREFIX: ClassVar[str] = "delta:"
    EXAMPLES: ClassVar[Mapping[str, str]] = {"name": '"history"', "path": '"s3a://lake/orders"'}

    name: TableName
    """The table: ``bronze.<name>``."""
    path: str = ""
    """The source's folder: absolute, relative to the folder of the pipeline file, or a URI such as
    ``s3a://lake/orders``. Unset: ``table`` names the source.
    """
    changes: Literal["stop", "appends", "ignore_deletes", "ignore_changes", "feed"] = "stop"
    """What an update or a deletion in the source does. ``stop``: the query ends with an error; ``appends``:
    such commits are skipped (``skipChangeCommits``); ``ignore_deletes``: commits that only delete are
    skipped, an update stops; ``ignore_changes``: the rows of rewritten files come again, those that did not
    change too; ``feed``: the change data feed, each change a row with ``_change_type``, ``_commit_version``
    and ``_commit_timestamp``.
    """
    starting_version: int | Literal["latest"] | None = None
    """The first version to read; ``latest``: what is written after the first start; unset: the table as it
    is at the first start, then what follows.
    """
    starting_timestamp: str | None = None
    """The time of the first commit to read, as ``2026-01-31 12:00:00`` in UTC."""
    keep: Interval | None = None
    """How long bronze keeps a row after it has read it, as for ``Topic``; unset: for ever."""
    max_files_per_trigger: Count = field(default=200, kw_only=True)
    """Most files of the source per micro-batch."""
    max_bytes_per_trigger: ByteSize | None = field(default=None, kw_only=True)
    """Soft limit of bytes of the source per micro-batch, such as ``512m``; unset: none."""
    event_time_order: Annotated[str | None, BeforeValidator(_named)] = field(default=None, kw_only=True)
    """The source's column of event time, or an SQL expression over its columns: the table as it is at the
    first start is read by it, oldest rows first and all in one micro-batch. Unset: file by file, by the times
    at which they were written.
    """
    trigger: Trigger | None = field(default=None, kw_only=True)
    """When the query starts its next micro-batch, as for ``Topic``."""
    storage: Storage = field(default_factory=Storage, kw_only=True)
    """How the table's files are laid out."""
    in_catalog: str | None = spelt("table", default=None)
    """Written ``table="main.sales.orders"``, in the place of ``path``: the source's name in a catalog that
    the job has.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if self.in_catalog is not None:
            if self.path:
                yield Fault("MED-1105", "path and table are given; a source is named one way: keep one")
            if not _NAME.fullmatch(self.in_catalog):
                text = f"table {self.in_catalog!r} is no name such as 'main.sales.orders'; a folder is path=…"
                yield Fault("MED-1103", text)
        elif not self.path.strip():
            yield Fault("MED-1103", "path is empty; name the folder of a Delta table, or its name as table=…")
        if signs := sorted({"*", "?", "`"} & set(self.path)):
            text = f"path {self.path!r} has {' and '.join(signs)}; name the folder of one Delta table"
            yield Fault("MED-1103", text)
        yield from start_faults(self.starting_version, self.starting_timestamp)
        if self.event_time_order is not None and not self.event_time_order.strip():
            yield Fault("MED-1103", 'event_time_order is empty; name the column of event time, such as "at"')
        yield from order_faults(self.event_time_order is not None, self.begins_later)
        yield from self.unfit()

    @property
    def folder(self) -> str:
        """Path or URI of the source; a relative path begins at the folder of the pipeline file.

        Of a source that a catalog names, its name of three parts: ``Layout.table_path`` knows its folder.
        """
        if self.in_catalog is None:
            return absolute(self, self.path)
        parts = self.in_catalog.replace("`", "").split(".")
        return ".".join([*("spark_catalog", "default")[: 3 - len(parts)], *parts])

    @property
    def begins_later(self) -> bool:
        """Whether reading begins later than with what the source has at the first start."""
        return self.starting_version is not None or self.starting_timestamp is not None

    @property
    def reads(self) -> str:
        """The source's name among the tables that queries read: no table of the pipeline has a colon."""
        return self.coordinate


OWN_KINDS: Mapping[str, str] = {
    "kafka": "Topic",
    "delta": "DeltaTable",
    **dict.fromkeys(("json", "csv", "text", "parquet", "avro", "orc"), "Files"),
}
"""Sources of Spark that have a declaration of their own, which reads more strictly or counts more exactly."""

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "rate": ("rowsPerSecond", "rampUpTime", "numPartitions"),
    "socket": ("host", "port", "includeTimestamp"),
    "rate-micro-batch": ("rowsPerBatch", "numPartitions", "startTimestamp", "advanceMillisPerBatch"),
}
"""The options of Spark's own sources, which pass over one that they do not know; in any case of letters."""

_SPARKS = (*OWN_KINDS, *_OPTIONS)
_VERY_LIKE = 0.8
"""How like one of these a format is that is no connector's name."""

_FORMS = {
    "rampuptime": (
        re.compile(r"\d+(us|ms|s|m|min|h|d)?", re.IGNORECASE),
        "write a time like '30s' or '5m'",
    ),
    "includetimestamp": (re.compile("true|false", re.IGNORECASE), "write 'true' or 'false'"),
    "host": (re.compile(r"\S+"), "name a host"),
}
"""Options that are no numbers: their form, and what to write."""

_LEAST = {"starttimestamp": 0, "advancemillisperbatch": 0}
"""The lowest value of an option; of all others 1."""


def _option_faults(kind: str, options: Mapping[str, str]) -> Iterator[str]:
    """Faults of the options of Spark's own sources. One that is a reference is known at the start only."""
    if (known := _OPTIONS.get(kind)) is None:
        return
    right = {name.lower(): name for name in known}
    seen: dict[str, str] = {}
    for name, value in options.items():
        small = name.lower()
        if small not in right:
            yield Fault("MED-1103", f"option {name!r} is none of {kind}; {nearest(name, known)}")
            continue
        if (first := seen.setdefault(small, name)) != name:
            yield Fault("MED-1103", f"options {first!r} and {name!r} are one option; keep one")
        if not value.startswith(("env:", "file:")) and (fault := _value_fault(small, value)):
            code = "MED-1103" if small in _FORMS else "MED-1104"
            yield Fault(code, f"option {name!r} is {value!r}; {fault}")


def _value_fault(option: str, value: str) -> str:
    """What is wrong with the value of an option, in small letters; empty if nothing is."""
    if (form := _FORMS.get(option)) is not None:
        return "" if form[0].fullmatch(value) else form[1]
    least = _LEAST.get(option, 1)
    is_right = re.fullmatch(r"[0-9]+", value) and int(value) >= least
    return "" if is_right else f"it must be a whole number of at least {least}"


@declared
class Stream(NumberedKind):
    """One bronze table that is read from any streaming source of Spark, such as ``rate`` or a connector.

    Grain: one row per row of the source, in bronze's envelope. ``value`` is a struct of the source's columns
    with their types, for ``Columns`` in silver; ``topic`` is ``stream:<name>``, ``partition`` is 0, and
    ``offset`` counts the rows in the order in which they were read. ``kafka_timestamp`` is when the row was
    read. The headers ``batch`` and ``row`` name the micro-batch, and the row's place in it from 0.

    Each row is in bronze once if the source gives the same rows again between two of its positions.
    """

    PREFIX: ClassVar[str] = "stream:"
    EXAMPLES: ClassVar[Mapping[str, str]] = {"name": '"sensor"', "format": '"rate-micro-batch"'}

    name: TableName
    """The table: ``bronze.<name>``."""
    format: str
    """The source's name, as ``spark.readStream.format`` takes it; a setting names a connector's jar."""
    options: Options = field(default_factory=lambda: MappingProxyType({}))
    """The source's options, such as ``{"rowsPerBatch": "100"}``. A value ``env:NAME`` or ``file:/path`` is
    read from there when the query starts.
    """
    replayable: bool = True
    """Whether the source gives the same rows again between two of its positions. ``False``: rows that were
    read and not written are lost with a job that is killed.
    """
    keep: Interval | None = None
    """How long bronze keeps a row after it has read it, as for ``Topic``; unset: for ever."""
    trigger: Trigger | None = field(default=None, kw_only=True)
    """When the query starts its next micro-batch, as for ``Topic``."""
    storage: Storage = field(default_factory=Storage, kw_only=True)
    """How the table's files are laid out."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        kind = self.format.strip().lower()
        if not kind:
            yield Fault("MED-1103", 'format is empty; name a source, such as "rate-micro-batch"')
        if kind in OWN_KINDS:
            yield Fault("MED-1103", f"format {self.format!r} has a declaration of its own: {OWN_KINDS[kind]}")
        if kind == "cloudfiles":
            yield Fault("MED-1103", f"format {self.format!r} is a source of Databricks; Files reads files")
        if kind not in _SPARKS and (near := closest(kind, _SPARKS, cutoff=_VERY_LIKE)):
            yield Fault("MED-1103", f"format {self.format!r} is no source of Spark; did you mean {near!r}?")
        if kind == "socket":
            given = {name.lower() for name in self.options}
            if missing := [name for name in ("host", "port") if name not in given]:
                yield Fault("MED-1102", f"socket needs the option {' and the option '.join(missing)}")
            if self.replayable:
                yield Fault(
                    "MED-1105",
                    "a socket sends no line again, so what a job has read and not written is lost with it: "
                    "say replayable=False; or send the lines to a topic, or have them written to files",
                )
        yield from _option_faults(kind, self.options)
        if kind == "rate-micro-batch" and "rowsperbatch" not in map(str.lower, self.options):
            yield Fault("MED-1102", 'rate-micro-batch needs the option rowsPerBatch, such as "100"')
        yield from self.unfit()
