"""The kinds of gold table that a pipeline may declare.

They are part of ``common.declare.pipeline``, which is where a pipeline imports them from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator

from common.declare.declared import declared
from common.declare.field_types import Expressions, Interval, Names, TableName
from common.declare.intervals import length_of
from common.declare.table_options import Reading, Storage
from common.declare.value_formats import refuse_bare_text
from common.declare.windows import ZERO_WATERMARK, Session, Window, Within


@declared
class GoldTable:
    """What every gold table has, whatever its kind.

    Attributes:
        name: The table: ``gold.<name>``.
        reads: The silver table it reads.
        reading: How that table is read.
        storage: How the gold table's files are laid out.
    """

    LAYER: ClassVar[str] = "gold"

    name: TableName
    reads: str
    reading: Reading = field(default_factory=Reading, kw_only=True)
    storage: Storage = field(default_factory=Storage, kw_only=True)

    @property
    def table(self) -> str:
        """``gold.<name>``; also names its query and checkpoint."""
        return f"gold.{self.name}"

    @property
    def side_tables(self) -> tuple[str, ...]:
        """Tables that its query writes besides its own."""
        return ()

    @property
    def takes_rows_back(self) -> bool:
        """Whether a row that its source deletes or replaces leaves this table too."""
        return True


@declared
class Aggregate(GoldTable):
    """A gold table of one row per group over all of a silver table.

    Grain: one row per value of ``by`` and, with a ``window``, per window; null is a group of its own.

    Attributes:
        reads: The silver table it reads; with ``mode="recompute"`` also a gold Upsert or ChangeFeed that
            keeps a change data feed.
        by: Grouping columns, or ``{"name": "SQL expression"}``; may be left out where there is a window.
        measures: ``{"name": "SQL aggregate"}``, such as ``{"orders": "count(*)"}``.
        where: SQL text; rows that do not meet it are left out. Null leaves out.
        window: Windows of event time, tumbling, sliding or sessions.
        mode: ``complete``: Spark's, the whole result is written anew by every micro-batch, its groups stay
            in state for ever: for up to some ten thousand groups. ``update``: Spark's, changed groups are
            merged; state for every group, or with a ``watermark`` for open windows only. ``append``:
            Spark's, a window is written once, when the watermark closes it. ``recompute``: the groups that
            a micro-batch touches are computed anew from silver and merged: no state, any aggregate, and
            the one mode that takes rows back when silver deletes or replaces them. It is over all of
            silver: a start of ``reading`` says from where on it follows changes, not which rows count.
        watermark: How late a row may come to a window; needed for ``append``, possible for ``update``.
            What comes after its window has closed is left out, and counted as ``late`` in the commit: once
            per micro-batch, group and window (of sessions: group and event time).
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.orders"',
        "by": '["country"]',
        "measures": '{"orders": "count(*)"}',
    }

    by: Expressions | None = None
    measures: Expressions = field(default_factory=lambda: MappingProxyType({}))
    where: str | None = None
    window: Window | Session | None = None
    mode: Literal["complete", "update", "append", "recompute"] = "complete"
    watermark: Interval | None = None

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        if self.by is None and self.window is None:
            yield 'needs by, such as by=["country"], or a window'
        if not self.measures:
            yield 'needs measures, such as measures={"orders": "count(*)"}'
        if self.mode == "append" and (self.window is None or self.watermark is None):
            yield 'mode="append" writes a window when its watermark closes it; give window and watermark'
        if self.watermark is not None and (self.mode in {"complete", "recompute"} or self.window is None):
            yield 'watermark closes the windows of mode="update" or "append"; leave it out or give those'
        if self.watermark is not None and length_of(self.watermark).seconds == 0:
            yield f"watermark is {self.watermark}: {ZERO_WATERMARK}"
        if self.mode == "update" and isinstance(self.window, Session):
            yield 'Spark has no session windows in mode="update"; take mode="recompute"'
        if self.mode not in _TAKES_FEED and self.reading.changes == "feed":
            yield f'mode={self.mode!r} cannot take a row back; read appends, or take mode="recompute"'

    @property
    def takes_rows_back(self) -> bool:
        """Whether rows that silver deletes or replaces leave this table too."""
        return self.mode in _TAKES_FEED


_TAKES_FEED = {"recompute"}


@declared
class Upsert(GoldTable):
    """A gold table of the newest row per key (SCD1), merged micro-batch by micro-batch.

    Order: ``newest_by``, highest last, nulls lowest; ties by Kafka timestamp, topic, partition and
    offset, so the order is total. An older row never overwrites a newer one.

    Attributes:
        key: Columns that name one row.
        newest_by: Columns that order versions of one key.
        columns: Columns kept, or ``{"name": "SQL expression"}``; unset: all of silver's.
        delete_when: SQL text over silver's columns: where the newest row of a key meets it, the key has no
            row. When it went is kept in ``gold.<name>__deleted``, so that an older row does not
            bring it back, and a newer one does.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.orders"',
        "key": '["order_id"]',
        "newest_by": '["updated_at"]',
    }

    key: Names
    newest_by: Names
    columns: Expressions | None = None
    delete_when: str | None = None

    @property
    def deleted(self) -> str:
        """``gold.<name>__deleted``: keys that were deleted, and by which version."""
        return f"{self.table}__deleted"

    @property
    def side_tables(self) -> tuple[str, ...]:
        """The tables that its query writes beside it."""
        return () if self.delete_when is None else (self.deleted,)


@declared
class ChangeFeed(GoldTable):
    """A copy of a source table, kept from the change envelopes of a CDC connector such as Debezium.

    Silver has one row per change; this table one per key that the source has. Inserts, updates, deletes
    and re-inserts are applied in ``sequence_by`` order whatever order they come in, ties by Kafka
    coordinates; what was deleted, and when, is in ``gold.<name>__deleted``. The key of a change that deletes
    is in what the row was before: ``coalesce(after.id, before.id)`` in silver.

    Attributes:
        reads: The silver table of changes.
        key: Columns that are the source's primary key.
        sequence_by: Columns that order the changes of one key, such as the source's log position.
        operation: Column or SQL text with the kind of change: Debezium's ``c``, ``r``, ``u``, ``d``.
        upserts: Values of ``operation`` that insert the row or change it.
        deletes: Values of ``operation`` that delete the row.
        ignores: Values of ``operation`` that are passed over: Debezium's ``m`` is a message, and of no row.
            A row with any other value, or with none, stops the query: a truncation (``t``) concerns rows
            that it does not name.
        columns: Columns kept, or ``{"name": "SQL expression"}``; unset: all of silver's, with those that
            it gets later.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.customers"',
        "key": '["customer_id"]',
        "sequence_by": '["log_position"]',
    }

    key: Names
    sequence_by: Names
    operation: str = "op"
    upserts: Names = ("c", "r", "u")
    deletes: Names = ("d",)
    ignores: Annotated[Sequence[str], BeforeValidator(refuse_bare_text), AfterValidator(tuple)] = ("m",)
    columns: Expressions | None = None

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        given = [*self.upserts, *self.deletes, *self.ignores]
        for value in sorted({each for each in given if given.count(each) > 1}):
            yield f"operation {value!r} is named twice in upserts, deletes and ignores; it does one thing"

    @property
    def deleted(self) -> str:
        """``gold.<name>__deleted``: keys that were deleted, and by which change."""
        return f"{self.table}__deleted"

    @property
    def side_tables(self) -> tuple[str, ...]:
        """The tables that its query writes beside it."""
        return (self.deleted,)


@declared
class History(GoldTable):
    """Every state that a key was in, and from when to when (SCD2).

    Grain: one row per key and unbroken run of equal ``columns``. Columns: the key, ``columns``,
    ``valid_from`` (in the interval), ``valid_to`` (not in it; null: it still holds), ``is_current``,
    ``versions`` (versions in the run), ``last_at`` (the last of them), and the Kafka coordinates of its
    first. The intervals of a key neither overlap nor leave a gap, but where ``delete_when`` ended one.
    A late version is put where it belongs. Of versions of one key with one ``valid_by``, the one with the
    highest coordinates counts; one without ``valid_by`` has no place, and is counted as ``unplaced`` in
    the commit. A null key is a key. With a start in ``reading``, a key that changes after it still gets
    its whole history.

    Attributes:
        key: Columns that name one thing.
        valid_by: The column that says from when on a version holds; a timestamp, or anything in order.
        columns: Columns whose change begins a new row, or ``{"name": "SQL expression"}``.
        delete_when: SQL text over silver's columns: a version that meets it ends the interval before it
            and begins none.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.orders"',
        "key": '["order_id"]',
        "valid_by": '"updated_at"',
        "columns": '["status"]',
    }

    key: Names
    valid_by: str
    columns: Expressions
    delete_when: str | None = None


@declared
class Join(GoldTable):
    """Rows of a silver table, each with what another table says of it.

    Grain: one row per pair that matches; with ``how="left"`` also one per row without a match, with
    ``how="semi"`` one per row with a match. A null never matches. The columns ``_kafka_*`` of ``reads``
    name the row; with ``mode="recompute"`` a running number, ``_match``, tells its matches apart.

    Attributes:
        reads: The silver table whose rows are joined; with ``mode="recompute"`` also a gold Upsert or
            ChangeFeed that keeps a change data feed.
        joins: Another silver or gold table of the pipeline, or the path or URI of any Delta table.
        on: Column of that table -> SQL text over the columns of ``reads``.
        columns: SQL text per column over the columns of ``reads``, and over those of the other table as a
            struct of its name: ``{"country": "customers.country"}``; of a table by its path: ``joined``.
        how: ``inner``, ``left`` (outer) or ``semi``.
        mode: ``lookup``: each row meets the other table as it is when the row comes, and is not touched
            again (Spark's stream-static join). ``recompute``: a change on either side has the rows that
            it concerns joined anew, so that the table is always what a join of both would give now.
            ``stream``: both sides are streams (Spark's stream-stream join): a pair is written when it is
            complete, a left row without one when the watermark says that none will come; needs ``within``.
            Rows of either side that are later than their watermark, counted as ``late`` in the commit,
            and rows without event time are left out.
        within: Bounds in event time for ``mode="stream"``.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.orders"',
        "joins": '"gold.customers"',
        "on": '{"customer_id": "customer_id"}',
        "columns": '{"order_id": "order_id", "country": "customers.country"}',
    }

    joins: str
    on: Expressions
    columns: Expressions
    how: Literal["inner", "left", "semi"] = "left"
    mode: Literal["lookup", "recompute", "stream"] = "recompute"
    within: Within | None = None

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        if (self.mode == "stream") != (self.within is not None):
            yield 'within bounds mode="stream", which needs it; give both or neither'
        if self.joins == self.reads:
            yield "joins the table that it reads; join one that was made of it, such as an Upsert"
        if self.joins.startswith("bronze."):
            yield f"joins {self.joins}, which is raw; join the silver table that is made of it"
        if self.mode == "recompute" and self.reading.has_start:
            yield 'mode="recompute" joins all rows; leave the start out of reading'
        if self.mode != "recompute" and self.reading.changes == "feed":
            yield f'mode={self.mode!r} cannot take a row back; read appends, or take mode="recompute"'

    @property
    def takes_rows_back(self) -> bool:
        """Whether rows that silver deletes or replaces leave this table too."""
        return self.mode == "recompute"

    @property
    def joins_a_table(self) -> bool:
        """Whether ``joins`` is a table of the pipeline, not a path."""
        return self.joins.startswith(("silver.", "gold.")) and "/" not in self.joins

    @property
    def joined(self) -> str:
        """What ``columns`` call the other table's row."""
        return self.joins.partition(".")[2] if self.joins_a_table else "joined"


@declared
class Custom(GoldTable):
    """Gold tables that a function of the user's own writes, micro-batch by micro-batch.

    ``write(rows, gold)`` gets the batch's rows and a ``gold.custom.Writer``, whose writes happen once
    however often the batch is replayed. Rows that it does not look at are lost without a word, and so is
    the batch of an exception that it swallows. What the tables are to hold is the function's to say: such
    a table is never made anew from silver.

    Attributes:
        name: The query, its checkpoint and the first of its tables.
        write: The function.
        tables: The tables it writes, the one of its own name among them: name -> DDL text of their
            columns; ``gold.<name>`` each.
        reading: How silver is read. With ``changes="feed"`` rows have the columns ``_change_type``,
            ``_commit_version`` and ``_commit_timestamp``.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {
        "reads": '"silver.orders"',
        "write": "merge_orders",
        "tables": '{"orders_by_day": "day date, orders bigint"}',
    }

    write: Callable[[Any, Any], None]
    tables: Annotated[Mapping[TableName, str], AfterValidator(lambda given: MappingProxyType(dict(given)))]

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        if self.name not in self.tables:
            yield f"tables lacks {self.name!r}: one of them has the name of the query"

    @property
    def side_tables(self) -> tuple[str, ...]:
        """The tables that it writes, but the one that has its own name."""
        return tuple(f"gold.{name}" for name in self.tables if name != self.name)

    @property
    def takes_rows_back(self) -> bool:
        """Whether rows that silver deletes or replaces leave this table too: for the function to say."""
        return self.reading.changes == "feed"


Gold = Aggregate | Upsert | ChangeFeed | History | Join | Custom
