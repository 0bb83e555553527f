"""The declaration of files as a source: history that Kafka no longer has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import ClassVar, Literal

from common.declare.declared import absolute, declared
from common.declare.field_types import Interval, TableName, Trigger
from common.declare.intervals import length_of
from common.declare.table_options import NumberedKind, Storage
from common.errors import Fault

PREFIX = "files:"
"""What the column ``topic`` of such rows begins with; no Kafka topic can have a colon in its name."""


def _pattern_fault(pattern: str) -> str:
    """What is wrong with a pattern of files; empty if nothing is."""
    if not pattern.strip("/ "):
        return "matches no file; leave only out to read every file"
    if pattern.startswith("/") or "://" in pattern:
        return "is matched with paths below path; leave out what is before them"
    if pattern.count("{") != pattern.count("}") or pattern.count("[") != pattern.count("]"):
        return "has a bracket without its other half"
    return ""


def _store(path: str) -> str:
    """Where a path is: the scheme and host of a URI; empty for the local disk."""
    scheme, sign, rest = path.partition("://")
    return f"{scheme}{sign}{rest.partition('/')[0]}" if sign else ""


@declared
class Files(NumberedKind):
    """One bronze table that is read from files, such as an export of what Kafka has deleted.

    Grain: one row per record of a file, once, in bronze's envelope. ``topic`` is ``files:<name>``,
    ``partition`` is 0, and ``offset`` counts the records of all files in the order in which they were read:
    files that are found by one look are read by the order of their paths. ``kafka_timestamp`` is the file's
    time of modification. The headers ``path`` and ``row`` name the file, and the record's place in it from 0;
    with ``header=True`` the header ``header`` has the file's first line.

    Which file has which offsets is written to a list beside the checkpoint before the first of its records is
    read. A file that changes after it was listed is not read again: ``medallion status`` names it.
    """

    PREFIX: ClassVar[str] = PREFIX
    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "name": '"history"',
        "path": '"s3a://archive/orders"',
        "format": '"jsonl"',
    }

    name: TableName
    """The table: ``bronze.<name>``."""
    path: str
    """A folder with all folders below it, or one file: absolute, relative to the folder of the pipeline file,
    or a URI such as ``s3a://bucket/export``. Names that begin with ``.`` or ``_`` are left out.
    """
    format: Literal["jsonl", "csv", "text", "parquet", "avro", "orc"]
    """``jsonl``: a line of a file is a record, as it stands, and an empty line is none; ``text``: an empty
    line is one too; ``csv``: as ``jsonl``, where a quoted field may have line breaks; ``parquet``, ``orc``
    and ``avro`` (container files): a record is written as JSON text, for ``Json`` in silver. Lines of files
    whose names end with ``.gz`` are decompressed.
    """
    header: bool | Literal["skip"] = False
    """Whether the first line of each CSV file has the names of the columns; it is no record then, and silver
    finds the fields of ``Csv`` by their names in it. ``"skip"``: it is no record, and fields are found by
    their positions.
    """
    max_rows_per_trigger: int | None = None
    """Most records per micro-batch; unset: the setting ``bronze.max_offsets_per_trigger``."""
    into: str | None = None
    """The bronze table of a topic, such as ``bronze.orders``, to which the records are appended; unset: a
    table of its own. The query keeps the name ``bronze.<name>``.
    """
    keep: Interval | None = None
    """How long bronze keeps a record after it has read it, as for ``Topic``; unset: for ever. With
    ``into`` the topic says it.
    """
    only: str | None = field(default=None, kw_only=True)
    """A pattern of the files to read: ``*`` and ``?`` are any letters of a name, ``**`` also crosses folders,
    ``{a,b}`` is one of several. Without a slash it is of names, in whatever folder (``"*.jsonl"``); with one,
    of paths below the folder (``"2026-*/orders/*"``). Unset: every file.
    """
    latest_first: bool = field(default=False, kw_only=True)
    """Whether of the files that are known the newest one is read first, also before those that wait already;
    else they are read by the order of their paths.
    """
    max_file_age: Interval | None = field(default=None, kw_only=True)
    """How much older than the newest file one may be that is read; with a longer one more are read. Unset:
    any age.
    """
    file_name_only: bool = field(default=False, kw_only=True)
    """Whether a file is known by its name, in whatever folder: one that has moved is not read again, another
    one of the same name is left out.
    """
    clean_source: Literal["archive", "delete"] | None = field(default=None, kw_only=True)
    """What becomes of a file of which bronze has all records: it is moved to ``source_archive_dir``, or
    deleted; unset: it stays.
    """
    source_archive_dir: str | None = field(default=None, kw_only=True)
    """The folder for ``clean_source="archive"``, outside of ``path`` and in the same store; files keep their
    paths below it.
    """
    trigger: Trigger | None = field(default=None, kw_only=True)
    """When the query starts its next micro-batch, as for ``Topic``."""
    storage: Storage = field(default_factory=Storage, kw_only=True)
    """How the table's files are laid out. With ``into`` the topic says it."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if not self.path.strip():
            yield Fault("MED-1103", "path is empty; name a folder or a file")
        if any(sign in self.path.rpartition("://")[2] for sign in "*?"):
            yield Fault(
                "MED-1103",
                f"path {self.path!r} is no pattern; name a folder, and say which files below it are read by "
                "only=…",
            )
        if self.only is not None and (fault := _pattern_fault(self.only)):
            yield Fault("MED-1103", f"only {self.only!r} {fault}")
        if self.header and self.format != "csv":
            yield Fault(
                "MED-1105",
                f"header is for format 'csv'; files of format {self.format!r} have no line of names",
            )
        if (most := self.max_rows_per_trigger) is not None and most < 1:
            yield Fault("MED-1104", f"max_rows_per_trigger is {most}; it must be at least 1")
        if self.keep is not None and self.into is not None:
            yield Fault(
                "MED-1105",
                f"keep is for a table of its own; the topic of {self.into} says how long it keeps records",
            )
        if self.into is not None and self.storage != Storage():
            yield Fault(
                "MED-1105", f"storage is for a table of its own; {self.into} is laid out as its topic says"
            )
        yield from self._of_ends()
        yield from self.unfit()

    def _of_ends(self) -> Iterator[Fault]:
        """Faults of what is left out, and of what becomes of a file that is read."""
        if self.max_file_age is not None and not length_of(self.max_file_age).milliseconds:
            yield Fault("MED-1104", f"max_file_age={self.max_file_age!r} leaves out all but the newest file")
        if (self.clean_source == "archive") != (self.source_archive_dir is not None):
            yield Fault(
                "MED-1105",
                'clean_source="archive" needs source_archive_dir, the folder to which files are moved; give '
                "both or neither",
            )
        if self.archive is not None:
            below = f"{self.archive.rstrip('/')}/".startswith(f"{self.folder.rstrip('/')}/")
            if below:
                yield Fault(
                    "MED-1105",
                    f"source_archive_dir {self.source_archive_dir!r} is below path: its files would be found "
                    "again; name a folder beside it",
                )
            elif _store(self.archive) != _store(self.folder):
                yield Fault(
                    "MED-1105",
                    f"source_archive_dir {self.source_archive_dir!r} is in another store than path, and a "
                    "file is moved within one; name a folder there",
                )

    @property
    def archive(self) -> str | None:
        """Path or URI of the folder to which read files are moved."""
        return None if self.source_archive_dir is None else absolute(self, self.source_archive_dir)

    @property
    def folder(self) -> str:
        """Path or URI of the folder or file; a relative path begins at the folder of the pipeline file."""
        return absolute(self, self.path)
