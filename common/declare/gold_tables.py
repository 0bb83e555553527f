"""The kinds of gold table that a pipeline may declare; a pipeline imports them from ``medallion``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator

from common.declare.author_texts import place_of
from common.declare.declared import declared, folder_of, is_outside
from common.declare.field_types import Expressions, Interval, Names, TableName
from common.declare.intervals import length_of
from common.declare.table_options import Paced, Reading, Storage
from common.declare.value_formats import refuse_bare_text
from common.declare.windows import ZERO_WATERMARK, Session, Window, Within
from common.errors import Fault, SqlError


class GoldKind:
    """What is true of every gold table unless its kind says otherwise."""

    LAYER: ClassVar[str] = "gold"

    name: str
    where: str | None = None
    """The condition on the rows that count; a kind that can have one declares it."""
    truncates: str | None = None
    """The condition of a row that takes away all before it; a kind that can have one declares it."""

    @property
    def table(self) -> str:
        """``gold.<name>``; also names its query and checkpoint."""
        return f"gold.{self.name}"

    @property
    def side_tables(self) -> tuple[str, ...]:
        """Tables that the query writes besides the one of its own name."""
        return ()

    @property
    def takes_rows_back(self) -> bool:
        """Whether a row that its source deletes or replaces leaves this table too."""
        return True

    @property
    def replaces_columns(self) -> bool:
        """Whether the first micro-batch of its query replaces all rows and columns that the table has."""
        return True

    @property
    def reads_in_order(self) -> bool:
        """Whether its query needs all commits of its source in the order of arrival."""
        return False

    @property
    def keeps_state(self) -> bool:
        """Whether its query always keeps state; of a ``Custom`` only its checkpoint says."""
        return False


@declared
class GoldTable(Paced, GoldKind):
    """A gold table with one source that its declaration names."""

    name: TableName
    """The table: ``gold.<name>``."""
    reads: str
    """The silver table it reads."""
    reading: Reading = field(default_factory=Reading, kw_only=True)
    """How that table is read."""
    storage: Storage = field(default_factory=Storage, kw_only=True)
    """How the gold table's files are laid out."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The tables that its query reads; one that is named by its path is none of the pipeline."""
        return (self.reads,)

    @property
    def streamed(self) -> tuple[str, ...]:
        """Those whose changes its query follows, in the order of its positions."""
        return self.sources

    @property
    def reads_removals(self) -> bool:
        """Whether its kind takes rows back, and the declaration does not say that it reads appends only."""
        return self.takes_rows_back and self.reading.changes != "appends"


@declared
class Aggregate(GoldTable):
    """A gold table with one row per group of a silver table's rows.

    Grain: one row per value of ``by`` and, with a ``window``, per window; null is a group of its own.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.orders"',
        "by": '["country"]',
        "measures": '{"orders": "count(*)"}',
    }

    reads: str
    """The silver table it reads; with ``mode="recompute"`` also a gold Upsert or ChangeFeed that keeps a
    change data feed.
    """
    by: Expressions | None = None
    """Grouping columns, or ``{"name": "SQL expression"}``; optional with a window."""
    measures: Expressions = field(default_factory=lambda: MappingProxyType({}))
    """``{"name": "SQL aggregate"}``, such as ``{"orders": "count(*)"}``. With a window it may name
    ``window_start`` and ``window_end``, unless the source has columns of these names.
    """
    where: str | None = None
    """SQL condition; a row for which it is false or null does not count."""
    window: Window | Session | None = None
    """Windows of event time: tumbling, sliding or sessions."""
    mode: Literal["complete", "update", "append", "recompute"] = "complete"
    """Spark's output modes: ``complete`` overwrites the whole result, for up to some ten thousand groups;
    ``update`` merges changed groups; ``append`` writes a window once, when the watermark closes it.
    ``recompute``: the groups of a micro-batch's rows are computed from all of silver and merged: no state,
    any aggregate, and the only mode that takes rows back. A start in ``reading`` then says from where changes
    are followed, not which rows count.
    """
    watermark: Interval | None = None
    """How late a row may arrive in a window; required for ``append``, optional for ``update``. A row whose
    window has closed does not count, and is counted as ``late`` in the commit: once per micro-batch, group
    and window (with sessions: group and event time). Windows that end by 1970 are left out (``before_1970``).
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if self.by is None and self.window is None:
            yield Fault("MED-1102", 'needs by, such as by=["country"], or a window')
        if not self.measures:
            yield Fault("MED-1102", 'needs measures, such as measures={"orders": "count(*)"}')
        if self.mode == "append" and (self.window is None or self.watermark is None):
            yield Fault(
                "MED-1105",
                'mode="append" writes a window when its watermark closes it; give window and watermark',
            )
        if self.watermark is not None and (self.mode in {"complete", "recompute"} or self.window is None):
            yield Fault(
                "MED-1105",
                'watermark closes the windows of mode="update" or "append"; leave it out or give those',
            )
        if self.watermark is not None and length_of(self.watermark).seconds == 0:
            yield Fault("MED-1104", f"watermark is {self.watermark}: {ZERO_WATERMARK}")
        if self.mode == "update" and isinstance(self.window, Session):
            yield Fault("MED-1105", 'Spark has no session windows in mode="update"; take mode="recompute"')
        if self.mode != "recompute" and self.reading.changes == "feed":
            yield Fault(
                "MED-1305",
                f'mode={self.mode!r} cannot take a row back; read appends, or take mode="recompute"',
            )

    @property
    def takes_rows_back(self) -> bool:
        """Whether a row that its source deletes or replaces leaves this table too."""
        return self.mode == "recompute"

    @property
    def reads_in_order(self) -> bool:
        """Whether its query needs all commits of its source in the order of arrival."""
        return self.watermark is not None

    @property
    def keeps_state(self) -> bool:
        """Whether its query always keeps state."""
        return self.mode != "recompute"

    @property
    def watermark_ms(self) -> int:
        """How far the watermark that closes windows is behind the newest event; 0 without one.

        A row exactly at the end of a session belongs to it, so a session is open a millisecond longer.
        """
        if self.watermark is None:
            return 0
        return length_of(self.watermark).milliseconds + isinstance(self.window, Session)


@declared
class Upsert(GoldTable):
    """A gold table with the newest row per key (SCD1), merged by every micro-batch.

    Order: ``newest_by``, nulls lowest; ties by Kafka timestamp, topic, partition and offset, so the order is
    total. An older row never replaces a newer one.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.orders"',
        "key": '["order_id"]',
        "newest_by": '["updated_at"]',
    }

    key: Names
    """Columns that identify a row."""
    newest_by: Names
    """Columns that order the rows of one key."""
    columns: Expressions | None = None
    """Columns of the table, or ``{"name": "SQL expression"}``; unset: all of silver's."""
    delete_when: str | None = None
    """SQL condition over silver's columns: a key whose newest row meets it has no row in the table.
    ``gold.<name>__deleted`` keeps the order of that row, so that an older row does not bring the key
    back, and a newer one does.
    """
    unchanged: str | None = field(default=None, kw_only=True)
    """A text that stands for a value which the row leaves as it was, such as Debezium's
    ``__debezium_unavailable_value``: the table has the value of the newest row before it that has one,
    also where that row comes late.
    """
    where: str | None = field(default=None, kw_only=True)
    """SQL condition over silver's columns; a row for which it is false or null does not count, so a key has
    the newest of its rows that meet it. ``delete_when`` is for a key that leaves by its newest row.
    """
    ignore_nulls: bool = field(default=False, kw_only=True)
    """Whether null leaves a value as it was (partial updates): each column but ``key`` and ``newest_by`` has
    the value of the newest row that has one, also where that row comes late. A row that meets
    ``delete_when`` ends what is known before it.
    """

    @property
    def deleted(self) -> str:
        """``gold.<name>__deleted``: deleted keys, each with the order of the row that deleted it."""
        return f"{self.table}__deleted"

    @property
    def side_tables(self) -> tuple[str, ...]:
        """Tables that the query writes besides the one of its own name."""
        return () if self.delete_when is None else (self.deleted,)


@declared
class ChangeFeed(GoldTable):
    """A copy of a source table, from the change envelopes of a CDC connector such as Debezium.

    Silver has one row per change, this table one row per key of the source. Inserts, updates, deletes and
    re-inserts are applied in the order of ``sequence_by``, in whatever order they arrive; ties by Kafka
    coordinates. ``gold.<name>__deleted`` has the deleted keys. The envelope of a delete has the key only in
    ``before``, so silver's key is ``coalesce(after.id, before.id)``.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.customers"',
        "key": '["customer_id"]',
        "sequence_by": '["log_position"]',
    }

    reads: str
    """The silver table of changes."""
    key: Names
    """Columns of the source's primary key."""
    sequence_by: Names
    """Columns that order the changes of one key, such as the source's log position."""
    operation: str = "op"
    """Column or SQL text with the operation: Debezium's ``c``, ``r``, ``u``, ``d``."""
    upserts: Names = ("c", "r", "u")
    """Values of ``operation`` that insert or update the row."""
    deletes: Names = ("d",)
    """Values of ``operation`` that delete the row."""
    ignores: Annotated[Sequence[str], BeforeValidator(refuse_bare_text), AfterValidator(tuple)] = ("m",)
    """Values of ``operation`` that are skipped: Debezium's ``m`` is a message without a row. Any other
    value, and null, stops the query: so does a truncation (``t``) that ``truncates`` does not name.
    """
    columns: Expressions | None = None
    """Columns of the table, or ``{"name": "SQL expression"}``; unset: all of silver's, with those that
    silver gets later.
    """
    unchanged: str | None = field(default="__debezium_unavailable_value", kw_only=True)
    """The text that stands for a value which a change leaves as it was, as for PostgreSQL's large values
    (TOAST): the connector's ``unavailable.value.placeholder``. The table has the value of the newest
    change before it that has one, also where that change comes late; null after a delete. ``None``: such
    a text is a value like others.
    """
    where: str | None = field(default=None, kw_only=True)
    """SQL condition over silver's columns; a change for which it is false or null does not count, whatever
    its operation. A delete has its row in ``before`` only: ``coalesce(after.country, before.country) =
    'de'``; without ``before`` deleted rows would stay in the table.
    """
    truncates: str | None = field(default=None, kw_only=True)
    """SQL condition over silver's columns, such as ``op = 't'``: a change that meets it deletes each row that
    is before it in the order, whatever ``where`` says of it and however late it comes. The newest one is the
    row of ``gold.<name>__deleted`` without a key. One that is the change of a row too leaves also those that
    are equal to it in ``sequence_by``, so that a new snapshot takes away what it lacks.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        given = [*self.upserts, *self.deletes, *self.ignores]
        for value in sorted({each for each in given if given.count(each) > 1}):
            yield Fault(
                "MED-1105", f"operation {value!r} is named twice in upserts, deletes and ignores; keep one"
            )

    @property
    def newest_by(self) -> Sequence[str]:
        """Columns that order the changes of a row, as an ``Upsert`` calls them."""
        return self.sequence_by

    @property
    def deleted(self) -> str:
        """``gold.<name>__deleted``: deleted keys, each with the order of the change that deleted it."""
        return f"{self.table}__deleted"

    @property
    def side_tables(self) -> tuple[str, ...]:
        """Tables that the query writes besides the one of its own name."""
        return (self.deleted,)


@declared
class History(GoldTable):
    """Every state of a key with its time interval (SCD2).

    Grain: one row per key and unbroken run of equal ``columns``. Columns: the key, ``columns``,
    ``untracked``, ``valid_from`` (inclusive), ``valid_to`` (exclusive; null: still valid), ``is_current``,
    ``versions`` (number of versions in the run), ``last_at`` (``valid_by`` of the last one), and the Kafka
    coordinates of the first version. The intervals of a key do not overlap, and have no gap except after
    ``delete_when`` and where ``snapshots`` lack the key.

    A late version is inserted into the history at its time. Of versions with the same key and ``valid_by``
    the one that is highest by ``sequence_by`` and coordinates counts; a version without ``valid_by`` is not
    in the table, and is counted as ``unplaced`` in the commit. Null is a key of its own. With a start in
    ``reading``, a key that changes after it still gets its whole history.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.orders"',
        "key": '["order_id"]',
        "valid_by": '"updated_at"',
        "columns": '["status"]',
    }

    key: Names
    """Columns that identify the entity."""
    valid_by: str
    """The column with the start of a version's validity, of any ordered type."""
    columns: Expressions
    """Columns whose change starts a new row, or ``{"name": "SQL expression"}``."""
    delete_when: str | None = None
    """SQL condition over silver's columns: a version that meets it ends the previous interval and starts
    none.
    """
    unchanged: str | None = field(default="__debezium_unavailable_value", kw_only=True)
    """The text that stands for a value which a version leaves as it was, as in a ``ChangeFeed``: the
    version has the value of the one before it.
    """
    where: str | None = field(default=None, kw_only=True)
    """SQL condition over silver's columns; a version for which it is false or null does not count: the
    interval before it goes on. ``delete_when`` is for a version that ends it.
    """
    sequence_by: Names | None = field(default=None, kw_only=True)
    """Columns that order versions with the same key and ``valid_by``: the one with the highest values counts,
    null being the lowest; of equal ones the one with the highest coordinates.
    """
    untracked: Expressions | None = field(default=None, kw_only=True)
    """Columns whose change starts no new row, or ``{"name": "SQL expression"}``: a row has the value of its
    run's newest version.
    """
    ignore_nulls: bool = field(default=False, kw_only=True)
    """Whether null leaves a value as it was (partial updates): a version has the value of the newest version
    before it that has one, since the last one that meets ``delete_when``.
    """
    surrogate_key: str | None = field(default=None, kw_only=True)
    """The name of a column that identifies a row by one value: the SHA-256, in hexadecimal, of the key and
    ``valid_from``. A rebuild gives the same values.
    """
    snapshots: Literal["followed", "arrived"] | None = field(default=None, kw_only=True)
    """Given where silver has full snapshots, each with a value of ``valid_by`` of its own: a key ends at the
    first complete snapshot that lacks it, and has a new row when it returns. ``followed``: a snapshot is
    complete when a later one has a row; ``arrived``: with its first row.
    """
    truncates: str | None = field(default=None, kw_only=True)
    """SQL condition over silver's columns, as in a ``ChangeFeed``: a row that meets it ends the interval of
    every key that is open at its time, by ``valid_by`` and then ``sequence_by``. It is no version, unless it
    has a key.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if self.snapshots is None:
            return
        for name in ("delete_when", "truncates"):
            if getattr(self, name) is not None:
                text = f"snapshots ends the keys that a snapshot lacks; leave {name} out"
                yield Fault("MED-1105", f"{text}, and rows that do not count by where")
        if self.reading.has_start:
            yield Fault("MED-1105", "snapshots follows every snapshot; leave the start out of reading")
        if self.reading.changes == "appends":
            yield Fault("MED-1105", "snapshots follows all changes; leave changes out of reading")

    @property
    def replaces_columns(self) -> bool:
        """Unless it begins at a later version: then it keeps the rows of the time before."""
        return not self.reading.has_start


@declared
class Join(GoldTable):
    """Rows of a silver table joined with another table.

    Grain: one row per matching pair; with ``how="left"`` also one per row without a match, with
    ``how="semi"`` one per row with a match. Null never matches. The columns ``_kafka_*``
    identify the row of ``reads``; with ``mode="recompute"`` the number ``_match`` distinguishes its matches.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.orders"',
        "joins": '"gold.customers"',
        "on": '{"customer_id": "customer_id"}',
        "columns": '{"order_id": "order_id", "country": "customers.country"}',
    }

    reads: str
    """The silver table whose rows are joined; with ``mode="recompute"`` also a gold Upsert or ChangeFeed
    that keeps a change data feed.
    """
    joins: str
    """Another silver or gold table of the pipeline, or the path or URI of any Delta table."""
    on: Expressions
    """Column of that table -> SQL text over the columns of ``reads``."""
    columns: Expressions
    """SQL text per column over the columns of ``reads``, and over those of the other table as a struct of
    its name: ``{"country": "customers.country"}``; of a table by its path: ``joined``.
    """
    how: Literal["inner", "left", "semi"] = "left"
    """``inner``, ``left`` (outer) or ``semi``."""
    mode: Literal["lookup", "recompute", "stream"] = "recompute"
    """``lookup``: each row is joined once, with the other table as of its micro-batch (Spark's stream-static
    join). ``recompute``: the table always equals a join of both tables as they are now. ``stream``: both
    sides are streams (Spark's stream-stream join): a pair is written when both rows are there, a left row
    without a match when the watermark rules one out; needs ``within``. Rows later than their watermark
    (``late``), of before 1970 (``before_1970``) and without event time are not joined, and are not in a left
    join.
    """
    within: Within | None = None
    """Bounds in event time for ``mode="stream"``."""
    where: str | None = field(default=None, kw_only=True)
    """SQL condition over the columns of ``reads``; a row for which it is false or null is not joined, and is
    not in a left join.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if (self.mode == "stream") != (self.within is not None):
            yield Fault("MED-1105", 'within bounds mode="stream", which needs it; give both or neither')
        if self.joins == self.reads:
            yield Fault(
                "MED-1105", "joins the table that it reads; join a table derived from it, such as an Upsert"
            )
        if self.joins.startswith("bronze."):
            yield Fault("MED-1301", f"joins {self.joins}, which is raw; join the silver table that reads it")
        if self.mode == "recompute" and self.reading.has_start:
            yield Fault("MED-1105", 'mode="recompute" joins all rows; leave the start out of reading')
        if self.mode != "recompute" and self.reading.changes == "feed":
            yield Fault(
                "MED-1305",
                f'mode={self.mode!r} cannot take a row back; read appends, or take mode="recompute"',
            )

    @property
    def takes_rows_back(self) -> bool:
        """Whether a row that its source deletes or replaces leaves this table too."""
        return self.mode == "recompute"

    @property
    def reads_in_order(self) -> bool:
        """Whether its query needs all commits of its source in the order of arrival."""
        return self.mode == "stream"

    @property
    def keeps_state(self) -> bool:
        """Whether its query always keeps state."""
        return self.mode == "stream"

    @property
    def sources(self) -> tuple[str, ...]:
        """The table that it reads, and the one that is joined."""
        return self.reads, self.joins

    @property
    def streamed(self) -> tuple[str, ...]:
        """The tables whose changes it follows: a lookup takes the other table as it is."""
        return self.sources[:1] if self.mode == "lookup" else self.sources

    @property
    def joins_a_table(self) -> bool:
        """Whether ``joins`` is a table of the pipeline, not a path."""
        return not is_outside(self.joins)

    @property
    def joined(self) -> str:
        """The name of the other table's row in ``columns``."""
        return self.joins.partition(".")[2] if self.joins_a_table else "joined"


@declared
class Custom(GoldTable):
    """Gold tables that the user's function writes, once per micro-batch.

    ``write(rows, gold)`` gets the rows of a micro-batch and a ``gold.custom.Writer``, whose writes are
    idempotent when the micro-batch is replayed. Rows that the function ignores are not written anywhere, nor
    are those of a micro-batch whose exception the function catches. The engine does not know how the tables
    follow from silver, so it cannot rebuild them.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.orders"',
        "write": "merge_orders",
        "tables": '{"orders_by_day": "day date, orders bigint"}',
    }

    name: TableName
    """The query, its checkpoint and one of its tables."""
    reading: Reading = field(default_factory=Reading, kw_only=True)
    """How silver is read. With ``changes="feed"`` rows also have ``_change_type``, ``_commit_version``
    and ``_commit_timestamp``.
    """
    write: Callable[[Any, Any], None]
    """The function."""
    tables: Annotated[Mapping[TableName, str], AfterValidator(lambda given: MappingProxyType(dict(given)))]
    """The tables that the function writes, one of the query's name among them: name -> DDL text of the
    columns; each is ``gold.<name>``.
    """
    also_reads: Annotated[Sequence[str], BeforeValidator(refuse_bare_text), AfterValidator(tuple)] = field(
        default=(), kw_only=True
    )
    """Other silver and gold tables of the pipeline whose commits run the function too. It gets no rows of
    them; ``Writer.source`` has each at the version that the micro-batch has read.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if self.name not in self.tables:
            yield Fault("MED-1105", f"tables lacks {self.name!r}: one of them has the name of the query")
        given = (self.reads, *self.also_reads)
        for table in sorted({each for each in given if given.count(each) > 1}):
            yield Fault("MED-1105", f"also_reads names {table}, which it reads already; leave it out")

    @property
    def sources(self) -> tuple[str, ...]:
        """The table whose rows it gets, and those whose commits run it too."""
        return self.reads, *self.also_reads

    @property
    def side_tables(self) -> tuple[str, ...]:
        """The tables that the function writes, except the one of the query's name."""
        return tuple(f"gold.{name}" for name in self.tables if name != self.name)

    @property
    def replaces_columns(self) -> bool:
        """Its function decides what it writes."""
        return False

    @property
    def takes_rows_back(self) -> bool:
        """Whether the function gets rows that silver deletes or replaces."""
        return self.reading.changes == "feed"


@declared
class Stateful(GoldTable):
    """A gold table of rows that a processor of your own emits, which keeps state per key.

    Spark's ``transformWithState``: ``processor`` is a ``StatefulProcessor`` with values, lists and maps as
    state, and timers. It gets the rows of its source once, in micro-batches; those of one key and
    micro-batch by ``event_time`` and then by Kafka coordinates. Rows and state are committed with the
    micro-batch, so that a replay changes neither. It takes no row back, and how its rows follow from the
    source the engine does not know: they are not compared with a definition.

    Grain: ``append``: a row per row that was emitted; ``update``: a row per ``key``, the last one that was
    emitted.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.readings"',
        "key": '["device"]',
        "processor": "Silence",
        "output": '"device string, silent_since timestamp"',
    }

    key: Names
    """Columns of the source that state is kept by; null is a key."""
    processor: Any
    """The class of the processor; it is made without arguments, and sent to the workers."""
    output: str
    """DDL text of the columns that the processor emits, as ``pyspark.sql.Row``."""
    mode: Literal["append", "update"] = "append"
    """``append``: each row that is emitted is added. ``update``: it replaces the row of its ``key``, whose
    columns are in ``output``.
    """
    where: str | None = None
    """SQL condition; a row for which it is false or null is not given to the processor."""
    event_time: str | None = None
    """The column by which the rows of a key are ordered, and which moves the watermark."""
    watermark: Interval | None = None
    """How late a row may arrive; a later one is not given to the processor, and is counted as ``late`` in
    the commit.
    """
    timers: Literal["event_time", "processing_time"] | None = None
    """What ``registerTimer`` counts by. ``event_time``: a timer expires when the watermark has passed it;
    needs ``event_time`` and ``watermark``. ``processing_time``: by the clock. Unset: no timers.
    """
    initial: str | None = field(default=None, kw_only=True)
    """The path or URI of a Delta table with the columns of ``key``: the first micro-batch gives each of its
    rows to the processor's ``handleInitialState``, before the rows of the source.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if not (isinstance(self.processor, type) and hasattr(self.processor, "handleInputRows")):
            yield Fault(
                "MED-1103",
                f"processor is {self.processor!r}; give a class that extends "
                "pyspark.sql.streaming.StatefulProcessor",
            )
        if self.watermark is not None and self.event_time is None:
            yield Fault("MED-1105", "watermark needs event_time, the column that moves it")
        if self.watermark is not None and length_of(self.watermark).seconds == 0:
            yield Fault("MED-1104", f"watermark is {self.watermark}: {ZERO_WATERMARK}")
        if self.timers == "event_time" and self.watermark is None:
            yield Fault(
                "MED-1105",
                'timers="event_time" expire when the watermark has passed them; give event_time and '
                "watermark",
            )
        if self.reading.changes == "feed":
            yield Fault("MED-1305", "a processor cannot take a row back; leave changes out")
        if self.initial is not None and "/" not in self.initial:
            yield Fault(
                "MED-1105",
                f"initial is {self.initial!r}; name a Delta table by its path or URI: one that the pipeline "
                "fills may still be empty when the first micro-batch reads it",
            )
        if self.initial is not None and not _has_own(self.processor, "handleInitialState"):
            yield Fault(
                "MED-1105",
                f"initial gives rows to handleInitialState, which {self.processor!r} does not have; write "
                "it, or leave initial out",
            )

    @property
    def takes_rows_back(self) -> bool:
        """Whether a row that its source deletes or replaces leaves this table too."""
        return False

    @property
    def reads_in_order(self) -> bool:
        """Whether its query needs all commits of its source in the order of arrival."""
        return True

    @property
    def keeps_state(self) -> bool:
        """Whether its query always keeps state."""
        return True


def _has_own(kind: Any, method: str) -> bool:
    """Whether a class has a method that is not Spark's."""
    own = (base for base in getattr(kind, "__mro__", ()) if not base.__module__.startswith("pyspark."))
    return any(method in vars(base) for base in own)


@declared
class View(Paced, GoldKind):
    """A gold table that a SELECT statement defines, kept by the changes of its sources.

    After each commit the table has exactly the rows, as a multiset, that Spark gives for the statement over
    the versions of its sources that the commit names. It keeps no state and needs no watermark; late rows,
    updates and deletes of the sources change its rows.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "sql": '"select country, count(*) as orders from silver.orders group by country"',
    }

    name: TableName
    """The table: ``gold.<name>``."""
    sql: str
    """The statement in Spark's SQL, or the name of a file ``….sql`` beside the pipeline file. It reads silver
    and gold tables of the pipeline, and Delta tables by ``delta.`path```.
    """
    kept: Literal["by row", "by key", "whole"] | None = field(default=None, kw_only=True)
    """The way in which every micro-batch keeps it: ``by row`` or ``by key``, where the statement allows it,
    or ``whole``; unset: each micro-batch takes the cheaper one, which ``medallion explain`` tells.
    """
    storage: Storage = field(default_factory=Storage, kw_only=True)
    """How the table's files are laid out."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if self.is_file and not self.file.is_file():
            yield Fault(
                "MED-1103",
                f"sql is the file {self.file}, which there is not; write the statement, or the file's name",
            )
            return
        from common.sql.statement import tables_of

        try:
            found = tables_of(self.statement)
        except UnicodeDecodeError:
            yield Fault("MED-1103", f"sql is the file {self.file}, which is no text in UTF-8")
        except SqlError as error:
            for each in (error, *error.also):
                yield self.fault(each.code, f"sql {each}", each.at)
        else:
            if not found:
                yield Fault(
                    "MED-1201",
                    "sql reads no table; a view is kept by the changes of the tables that it reads",
                )

    def fault(self, code: str, sentence: str, at: int | None) -> Fault:
        """A mistake of the statement, with the file, line and column of the word that is wrong.

        Args:
            sentence: What is wrong. Where the pipeline file does not have the statement's text as it is, the
                place in the statement follows.
            at: The place in the statement, in characters from 0; None if it is not known.
        """
        from common.sql.places import line_and_column

        if at is None:
            return Fault(code, sentence)
        if place := place_of(self, self.statement, at):
            return Fault(code, sentence, place)
        line, column = line_and_column(self.statement, at)
        return Fault(code, f"{sentence} (line {line}, column {column} of the statement)")

    @property
    def is_file(self) -> bool:
        """Whether the statement is in a file."""
        return self.sql.endswith(".sql") and len(self.sql.split()) == 1

    @property
    def file(self) -> Path:
        """The file of the statement; a relative path begins at the folder of the pipeline file."""
        return folder_of(self) / self.sql

    @cached_property
    def statement(self) -> str:
        """The text of the statement."""
        return self.file.read_text(encoding="utf-8-sig") if self.is_file else self.sql

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that the statement reads, in the order of its text; none where it cannot be read."""
        from common.sql.statement import tables_of  # sqlglot, which most commands do not need

        with suppress(SqlError, OSError, UnicodeDecodeError):  # a mistake of the declaration
            return tables_of(self.statement)
        return ()

    def table_fault(self, code: str, sentence: str, table: str) -> Fault:
        """A mistake of one of its tables, with the place where the statement names the table first."""
        from common.sql.statement import table_places

        return self.fault(code, sentence, table_places(self.statement).get(table))

    @property
    def sources(self) -> tuple[str, ...]:
        """Its tables in the order of its query's sources: those of the pipeline before those by path."""
        return tuple(sorted(self.tables, key=is_outside))

    @property
    def streamed(self) -> tuple[str, ...]:
        """All of them."""
        return self.sources

    @property
    def reads(self) -> str:
        """The first of its tables."""
        return self.tables[0] if self.tables else ""

    @property
    def reading(self) -> Reading:
        """All of its sources, from the beginning."""
        return Reading()

    @property
    def reads_removals(self) -> bool:
        """Whether its query reads removed rows: it reads every change of its sources."""
        return True


Gold = Aggregate | Upsert | ChangeFeed | History | Join | View | Stateful | Custom
