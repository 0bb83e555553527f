"""``medallion trace``: the whole way of a record, from Kafka's offset to each gold table that it reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from common.errors import UsageError
from common.machine.console import page, say
from orchestration.access.declaration.context import Context
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named

if TYPE_CHECKING:
    from orchestration.access.query.record_place import Place
    from orchestration.records.trace.trace import Trace


_SLASHES = 2
"""Those of topic/partition/offset: neither a topic nor a table has one in its name."""

TableArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[TABLE]",
        help="A silver or gold table whose rows are traced back; or one record, TOPIC/PARTITION/OFFSET.",
    ),
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", help="The row with this key; once per column of the key, in its order."),
]
WhereOption = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help="The rows that meet a condition.")
]
OffsetOption = Annotated[
    str | None, typer.Option("--offset", metavar="TOPIC/PARTITION/OFFSET", help="This record.")
]


@command_named("trace")
def trace(
    ready: Context,
    table: TableArgument = None,
    key: KeyOption = None,
    where: WhereOption = None,
    offset: OffsetOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most records that are traced.")] = 5,
    *,
    is_quarantined: Annotated[
        bool, typer.Option("--quarantine", help="Look in the quarantine of the silver table.")
    ] = False,
    has_values: Annotated[
        bool, typer.Option("--values", help="Also print the gold rows before and after, with their values.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show where a record came from and what became of it, from tables and logs, without Spark.

    medallion trace silver.orders --key o1; trace gold.revenue --where "country = 'DE'"; trace --offset
    orders/3/1842; trace silver.orders --quarantine --where "list_contains(reasons, 'null_key')".

    Per record: topic, partition, offset and Kafka's time; bronze's version and file; in each silver table its
    verdict, reasons, the row that it is a duplicate of, late, replayed, restated, erased, expired; each gold
    table that it reached, the version that has read it, and how the row of its key changed there. Of rows of
    gold, the records that they are made of are traced. Keys of gold rows are printed, other values only with
    --values.
    """
    from orchestration.access.query.shown_values import plain
    from orchestration.cli.records.trace_output import tree
    from orchestration.records.trace.trace import Trace
    from orchestration.records.trace.words import in_words

    if table is not None and table.count("/") == _SLASHES and offset is None:
        table, offset = None, table  # as quarantine prints a record
    traced = Trace(ready.pipeline, ready.layout, has_values=has_values)
    if offset is not None:
        places = [_only_place(offset, is_alone=table is None and not (key or where or is_quarantined))]
    else:
        places = _found(traced, table, key, where, limit, is_quarantined=is_quarantined)
    found = traced.records(places[:limit])
    if as_json:
        print_document({"records": plain(found)})
        return
    for one in found:
        page().print(tree(in_words(one)))
    if len(places) > limit:
        say(f"there are more records; --limit {limit * 10} traces more of them")


def _only_place(offset: str, *, is_alone: bool) -> Place:
    """The record that ``--offset`` names."""
    from orchestration.access.query.record_place import Place

    if not is_alone:
        raise UsageError("--offset names the record; leave out the table and everything else.")
    return Place.parse(offset)


def _found(
    traced: Trace,
    table: str | None,
    key: list[str] | None,
    where: str | None,
    limit: int,
    *,
    is_quarantined: bool,
) -> list[Place]:
    """The records that the options name, and one more than the limit if there are more."""
    if table is None:
        raise UsageError(
            "Name a record: medallion trace silver.x --key …, or --offset topic/partition/offset."
        )
    if is_quarantined and key:
        raise UsageError("Quarantined rows have no key of their own; find them by --where.")
    if is_quarantined:
        found = traced.in_quarantine(table, where, limit)
    elif key and where is None:
        found = traced.by_key(table, key, limit)
    elif where is not None and not key:
        found = traced.by_condition(table, where, limit)
    else:
        raise UsageError("Give either --key or --where.")
    if not found:
        raise UsageError(
            f"No row of {table} is meant by that. Look with medallion query, or in --quarantine."
        )
    return found
