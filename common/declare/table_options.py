"""How a gold table reads its source, and how its files are laid out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, fields
from datetime import datetime
from typing import ClassVar, Literal

from common.declare.declared import ADDED_LATER, SHARED, absolute, declared
from common.declare.field_types import ByteSize, Count, FollowingTrigger, Names
from common.declare.intervals import length_of
from common.errors import Fault, nearest

_MOST_CLUSTERED = 4
_OF_ALL = ("location", "foreign")
"""Attributes that are no layout."""
_OFFSETS = (
    "its account is the offsets that its own query has read. Rows of another program come by a bronze table "
    "of their own, and Silver(reads=[…]) reads both; or they are appended to the silver table"
)
_LEAST_PARTS = 3
"""The bucket, a folder and the table of a URI."""

_SHARED = {SHARED: True}

_BRONZE = ("topic", "partition", "offset", "kafka_timestamp", "ingested_at")
"""The columns of bronze with statistics, by which its rows may be clustered."""


@declared
class Paced:
    """When the query of a table starts a micro-batch, and how much it reads in one."""

    trigger: FollowingTrigger | None = field(default=None, kw_only=True, metadata=_SHARED)
    """When the query starts its next micro-batch: an interval such as ``5 seconds``, ``follow`` or ``asap``;
    unset: the setting of the layer.
    """
    max_files_per_trigger: Count | None = field(default=None, kw_only=True, metadata=_SHARED)
    """Most files of the source table per micro-batch; unset: the setting of the layer."""
    max_bytes_per_trigger: ByteSize | None = field(default=None, kw_only=True, metadata=_SHARED)
    """Soft limit of bytes per micro-batch, such as ``512m``; unset: the setting of the layer."""


@declared
class Reading:
    """How a query reads its source table."""

    changes: Literal["feed", "appends"] | None = None
    """``feed``: the source's change data feed, which also has deleted and replaced rows; ``appends``: new
    rows only, with ``skipChangeCommits``; unset: the feed, if this kind of gold table can take a row back
    and the source keeps a feed.
    """
    starting_version: int | Literal["latest"] | None = None
    """The first version to read; ``latest``: what is written after the first start; unset: all versions."""
    starting_timestamp: str | None = None
    """The time of the first commit to read, as ``2026-01-31 12:00:00`` in UTC."""
    event_time_order: bool = False
    """Whether the table as it is at the first start is read in one micro-batch, of which a watermark calls no
    row late; for kinds with a watermark.
    """

    @property
    def has_start(self) -> bool:
        """Whether reading starts later than with the source's first version."""
        return self.starting_version is not None or self.starting_timestamp is not None

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from start_faults(self.starting_version, self.starting_timestamp)
        yield from order_faults(self.event_time_order, self.has_start)


def order_faults(is_ordered: bool, has_start: bool) -> Iterator[str]:  # noqa: FBT001  # what is declared
    """Faults of an order by event time, which the table has as it is at the first start."""
    if is_ordered and has_start:
        yield Fault(
            "MED-1105",
            "event_time_order is for the table as it is at the first start; with starting_version or "
            "starting_timestamp commits are read in their order: keep one",
        )


def start_faults(version: int | str | None, timestamp: str | None) -> Iterator[str]:
    """Faults of the place where the reading of a table begins."""
    if version is not None and timestamp is not None:
        yield Fault(
            "MED-1105",
            "starting_version and starting_timestamp are given; a start is chosen one way: keep one",
        )
    if isinstance(version, int) and version < 0:
        yield Fault("MED-1104", f"starting_version is {version}; versions begin at 0")
    if timestamp is not None and not _is_time(timestamp):
        yield Fault("MED-1103", f"starting_timestamp {timestamp!r} is no time such as '2026-01-31 12:00:00'")


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


@declared
class Storage:
    """Physical layout of a table, fixed when it is created. Every Delta reader reads the default.

    A bronze table takes ``cluster_by``, a silver table ``cluster_by`` and ``partition_by``; gold tables take
    all of them. Each takes ``location``, which may change. A table with clustering columns is written by
    Spark alone, also where few rows come.
    """

    cluster_by: Names | None = None
    """Up to four columns for liquid clustering: compaction puts rows of similar values together, so that
    a MERGE or a query reads fewer files. Any Delta reader still reads the table; other writers need
    Delta's writer version 7.
    """
    partition_by: Names | None = None
    """Partition columns, which should have few values; any value is a partition. An empty text
    in such a column, or Hive's name of the folder of nulls, is null, as Delta stores it; the rules of a
    silver table see null too.
    """
    change_feed: bool = False
    """Keep a change data feed for readers that stream the table. Any Delta reader still reads the table."""
    deletion_vectors: bool = False
    """Mark changed rows as deleted, and do not rewrite their files. The table gets reader version 3, which
    delta-rs's pyarrow and pandas readers, and readers older than deletion vectors, refuse. ``medallion
    status`` then counts the marked rows too.
    """
    location: str | None = field(default=None, kw_only=True, metadata={ADDED_LATER: True})
    """The table's own folder, elsewhere than below ``warehouse``: absolute, relative to the folder of the
    pipeline file, or a URI of the object store that ``warehouse`` is in. Side tables are beside it, and an
    environment's prefix is put before the last part.
    """
    foreign: Literal["appends", "changes"] | None = field(
        default=None, kw_only=True, metadata={ADDED_LATER: True}
    )
    """What other programs do to a silver or gold table. ``appends``: they append rows, in a silver table
    without coordinates; ``changes``: they also update and delete rows. Unset: a change by another program is
    a fault.
    """
    newer_types: bool = False
    """Allow columns of the types ``timestamp_ntz`` and ``variant``. A table with such a column gets
    reader version 3: readers older than the type refuse it.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if self.location is not None and (fault := _location_fault(self.location)):
            yield Fault("MED-1103", f"location {self.location!r} {fault}")
        if self.cluster_by is not None and self.partition_by is not None:
            yield Fault(
                "MED-1105", "cluster_by and partition_by are given; Delta supports one of them: keep one"
            )
        for name in ("cluster_by", "partition_by"):
            names = getattr(self, name) or ()
            if twice := [one for place, one in enumerate(names) if one in names[:place]]:
                yield Fault("MED-1105", f"{name}: {twice[0]!r} is there twice; keep one")
        if self.cluster_by is not None and len(self.cluster_by) > _MOST_CLUSTERED:
            yield Fault(
                "MED-1104",
                f"cluster_by has {len(self.cluster_by)} columns; Delta supports at most {_MOST_CLUSTERED}",
            )

    def unfit(self, layer: str, *fit: str) -> Iterator[str]:
        """Faults of attributes that a layer does not take."""
        default = Storage()
        for name in (each.name for each in fields(Storage) if each.name not in {*fit, *_OF_ALL}):
            if getattr(self, name) != getattr(default, name):
                yield Fault("MED-1105", f"storage: a {layer} table takes {' and '.join(fit)}, not {name}")

    @property
    def folder(self) -> str | None:
        """Path or URI of the table, if said; a relative path begins at the folder of the pipeline file."""
        return None if self.location is None else absolute(self, self.location).rstrip("/")

    def unfit_for_bronze(self) -> Iterator[str]:
        """Faults of the layout of a bronze table.

        It is never partitioned: the audit and late rows read coordinates from its files alone, and the files
        of a partitioned table lack the columns of its partitions.
        """
        yield from self.unfit("bronze", "cluster_by")
        if self.foreign is not None:
            yield Fault("MED-1105", f"storage: foreign={self.foreign!r} is not for bronze: {_OFFSETS}")
        for name in self.cluster_by or ():
            if name not in _BRONZE:
                known = nearest(name, _BRONZE)
                yield Fault("MED-1105", f"storage: bronze cannot be clustered by {name!r}; {known}")


class BronzeKind:
    """What is true of every bronze table."""

    LAYER: ClassVar[str] = "bronze"

    name: str
    keep: str | None
    storage: Storage

    @property
    def table(self) -> str:
        """``bronze.<name>``; also names its query and checkpoint."""
        return f"bronze.{self.name}"

    @property
    def side_tables(self) -> tuple[str, ...]:
        """The tables that the query writes besides the one of its own name: none."""
        return ()

    def unfit(self) -> Iterator[str]:
        """Faults of what is declared of every bronze table."""
        if self.keep is not None and not length_of(self.keep).milliseconds:
            yield Fault("MED-1104", f"keep={self.keep!r} keeps nothing; leave keep out to keep every row")
        yield from self.storage.unfit_for_bronze()


class NumberedKind(BronzeKind):
    """What is true of a bronze table whose rows are numbered by the engine itself: all but those of Kafka."""

    PREFIX: ClassVar[str]
    """What the column ``topic`` of its rows begins with; no Kafka topic can have a colon in its name."""

    @property
    def coordinate(self) -> str:
        """The value of the column ``topic`` of the rows; also the source's name among the tables."""
        return f"{self.PREFIX}{self.name}"

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The one value of the column ``topic``, as a bronze table of Kafka has the names of its topics."""
        return (self.coordinate,)

    @property
    def pattern(self) -> None:
        """None: the values of the column ``topic`` are known."""
        return

    @property
    def may_have_gaps(self) -> bool:
        """Every offset has a row."""
        return False


def _location_fault(text: str) -> str:
    """What is wrong with the folder of a table, in words; empty if nothing is.

    The lease of a table in an object store is beside the folder that its folder is in.
    """
    if not text.strip("/. ") or set(text) & set("*?`'\n"):
        return "is no folder of a table, such as '/lake/orders' or 's3a://lake/shop/orders'"
    scheme, found, rest = text.partition("://")
    if found and len([part for part in rest.split("/") if part]) < _LEAST_PARTS:
        return f"is too near its bucket; write at least {scheme}://bucket/folder/table"
    return ""
