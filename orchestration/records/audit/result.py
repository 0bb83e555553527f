"""The result of an audit: how many offsets of each partition are in which place, and the faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHOWN = 20
"""Most example coordinates that one fault lists; its count covers all of them."""

FATES = (
    "silver",
    "duplicates",
    "late",
    "quarantine",
    "dropped",
    "tombstones",
    "other",
    "empty",
    "erased",
    "expired",
    "gaps",
    "foreign",
    "waiting",
)
"""The places where an offset may be; ``expired``: retention (``Topic.keep``) has deleted the record from
bronze, and no other table has it; ``gaps`` only for a topic that is declared with gaps, ``other`` only for
a table with a condition ``where``, ``empty`` (a record without an element) only for one with a row per
element (``Silver.each``), of which all places up to ``empty`` count elements."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One finding that breaks the balance."""

    # ``missing``, ``twice``, ``unknown``, ``no witness``, ``gap``, ``counts``, ``lost commit``, ``erased``
    # for a record that was erased and is in a table again, ``topic``, ``history`` for a table whose source
    # has gone back, ``changed`` for a gold table that another program has written, ``content`` for one that
    # is not what its declaration gives, ``publication`` for files that are not what was published,
    # ``published`` for a published version that is not the table's any more, ``values`` for rows of silver
    # that are not what their records give, ``bytes`` for rows of bronze that are not what was read, ``files``
    # for data files that are not what was written, or ``receipt`` for records that are not what a producer
    # has sent
    name: str
    text: str  # the explanation for a user
    # Number of offsets affected, of keys, or of micro-batches whose bytes differ; 1 for a fault of counts or
    # commits
    count: int = 1
    # The first affected coordinates, as topic, partition, offset
    examples: tuple[tuple[str, int, int], ...] = ()
    # The first affected keys of a gold table, each with what is wrong with its row
    keys: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # the tables from whose faults it may follow; empty where it stands by itself
    # The table or publication whose fault it is; empty for silver, what is beside it and its topics
    table: str = ""
    command: str = ""  # the sentence with what to type, with which the text ends; empty where there is none


@dataclass(frozen=True, slots=True)
class GoldTable:
    """How a gold table was compared with its definition."""

    table: str  # the table
    version: int | None  # the version that was compared; None: none was
    range_of: str = ""  # the column a range of whose values was compared; empty: all rows were
    # Columns that were not compared, because their values depend on the order of rows or on the time; with
    # commas between them
    without: str = ""
    why: str = ""  # why the table was not compared, in words; empty if it was
    # Rows that are others than those computed now, where the statement leaves open which come
    open_rows: int = 0
    left_out: str = ""  # which newer versions cannot be compared yet, in words; empty where there are none


@dataclass(frozen=True, slots=True)
class PartitionAccount:
    """One partition: its offsets from ``first`` up to but not including ``end``, counted per place.

    Those before ``looked_from`` were counted by an earlier audit; None: none were.
    """

    topic: str
    partition: int
    first: int
    end: int
    counts: Mapping[str, int]
    looked_from: int | None = None

    @property
    def offsets(self) -> int:
        """Number of offsets that the account must cover."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Account:
    """The account of one silver table."""

    table: str
    reads: str
    versions: Mapping[str, int]  # the audited version of each table
    batch_id: int | None  # the newest micro-batch of silver that the audit covers; None before the first one
    since: str  # where the audit started; empty for an audit from the beginning
    looked_at: int  # number of offsets that this audit read; an earlier audit counted the others
    partitions: tuple[PartitionAccount, ...]  # ordered by topic and partition
    faults: tuple[Fault, ...]  # empty if the table balances
    notes: tuple[str, ...] = ()  # what the audit could not check, in words
    seconds: float = 0.0  # duration of the audit
    not_compared: str = ""  # why the topics were not compared with the broker; empty if they were
    # How the gold tables that are made of it were compared; empty if they were not
    gold: tuple[GoldTable, ...] = ()
    undigested: int = 0  # micro-batches of bronze without a digest, so that their bytes were not compared
    each: str = ""  # the array whose elements are the table's rows; empty: its rows are whole records

    @property
    def offsets(self) -> int:
        """Number of offsets of all partitions."""
        return sum(one.offsets for one in self.partitions)

    @property
    def totals(self) -> dict[str, int]:
        """Number of offsets per place."""
        return {name: sum(one.counts.get(name, 0) for one in self.partitions) for name in FATES}
