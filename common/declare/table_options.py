"""How a gold table reads its source, and how its files are laid out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from common.declare.declared import declared
from common.declare.field_types import Names

_MOST_CLUSTERED = 4


@declared
class Reading:
    """How a gold table reads the table it is made of.

    Attributes:
        changes: ``feed``: the table's change data feed, which tells of rows that were deleted or replaced
            as well; ``appends``: new rows only, with ``skipChangeCommits``; unset: the feed, where the
            kind of gold table can take back a row and the table keeps a feed.
        starting_version: The first version to read; unset: everything.
        starting_timestamp: The same by the time of a commit, as ``2026-01-31 12:00:00`` in UTC.
    """

    changes: Literal["feed", "appends"] | None = None
    starting_version: int | None = None
    starting_timestamp: str | None = None

    @property
    def has_start(self) -> bool:
        """Whether it begins later than with all that the table has."""
        return self.starting_version is not None or self.starting_timestamp is not None

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        if self.starting_version is not None and self.starting_timestamp is not None:
            yield "starting_version and starting_timestamp are given; a start is chosen one way: keep one"
        if self.starting_version is not None and self.starting_version < 0:
            yield f"starting_version is {self.starting_version}; versions begin at 0"
        if self.starting_timestamp is not None and not _is_time(self.starting_timestamp):
            yield f"starting_timestamp {self.starting_timestamp!r} is no time such as '2026-01-31 12:00:00'"


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


@declared
class Storage:
    """How a gold table is laid out; decided when it is made. Without any, every Delta reader reads it.

    Attributes:
        cluster_by: Up to four columns by which compaction lays rows together (liquid clustering), so
            that a MERGE or a query reads only the files that may hold its keys. Readers are as before;
            other writers need Delta's writer version 7.
        partition_by: Columns with few values, each of which gets folders of its own. In them an empty text is
            null: Delta keeps it so.
        change_feed: Keep a change data feed, for those who read the table as a stream. Readers are as before.
        deletion_vectors: A changed row costs a mark, not its file written anew. The table is reader version
            3: Spark, DuckDB, Polars and delta-rs's SQL read it; delta-rs's pyarrow and pandas readers, and
            Polars by way of them, refuse it, as do all readers older than deletion vectors. Rows that
            ``medallion status`` counts are those of the files, marked ones included.
        newer_types: Columns may be ``timestamp_ntz`` or ``variant``, which are refused else. A table that has
            one is reader version 3: readers older than the type refuse it.
    """

    cluster_by: Names | None = None
    partition_by: Names | None = None
    change_feed: bool = False
    deletion_vectors: bool = False
    newer_types: bool = False

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        if self.cluster_by is not None and self.partition_by is not None:
            yield "cluster_by and partition_by are given; Delta takes one of them"
        if self.cluster_by is not None and len(self.cluster_by) > _MOST_CLUSTERED:
            yield f"cluster_by has {len(self.cluster_by)} columns; Delta takes at most {_MOST_CLUSTERED}"
