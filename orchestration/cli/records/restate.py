"""``medallion restate silver.x``: judges a range of records again by today's declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from common.declare import Silver
from common.errors import UsageError
from common.machine.console import say
from common.machine.terminal import count_of
from orchestration.access.declaration.context import Context
from orchestration.access.declaration.lineage import sources
from orchestration.access.history.effort import Effort, effort_of, effort_of_range
from orchestration.cli.change.recover_output import effort_text
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named

if TYPE_CHECKING:  # imports Spark, which --plan does not need
    from orchestration.access.progress.record_range import RecordRange

_PLACE = "A time as 2026-01-05T10:00Z, or offsets as orders/0=120,orders/1=80"


@command_named("restate")
def restate(  # the options of the command
    ready: Context,
    table: Annotated[str, typer.Argument(help="The silver table, such as silver.orders.")],
    begin: Annotated[
        str | None, typer.Option("--from", metavar="PLACE", help=f"{_PLACE}: the first of the records.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="PLACE", help="The same: the first record after them.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print rows and time; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Judge a range of records again by today's declaration, in the place of their former rows.

    The records are named by the time when bronze has read them, or by their offsets: both are exact,
    whatever a declaration makes of a record. The silver and gold jobs of the table must not run; silver
    changes by one commit, gold follows, and the audit balances. After a crash the same command goes on.
    """
    from orchestration.access.progress.named_places import require_known_places
    from orchestration.access.progress.record_range import parse_range

    silver = ready.pipeline.table(table)  # refuses a name that is not declared
    if not isinstance(silver, Silver):
        raise UsageError(
            f"{table} is no silver table. Bronze keeps what was sent, and gold follows silver; to fill a "
            f"gold table again: medallion rebuild {table}"
        )
    records = parse_range(begin, end)
    require_known_places(ready.pipeline, ready.layout, silver.sources, records)
    if plan:
        _print_plan(ready, silver, records, as_json=as_json)
        return
    _restate(ready, silver, records, as_json=as_json)


def _print_plan(ready: Context, silver: Silver, records: RecordRange, *, as_json: bool) -> None:
    """Print what a restatement reads, and which gold tables are filled again if rows leave silver."""
    from common.delta.log import LogReader
    from orchestration.records.rejudge.followers import cannot_follow, filled_again

    layout = ready.layout
    if LogReader(layout.table_path(silver.table)).latest_version() is None:
        say(f"{silver.table} does not exist yet: the next start of its job fills it")
        if as_json:
            none = asdict(Effort(rows=0, seconds=0.0))
            told = {"table": silver.table, "records": records.options, **none}
            print_document({**told, "again": (), "by_hand": ()})
        return
    effort = effort_of_range(layout, silver.table, silver.sources, records.filter())
    stay = cannot_follow(ready.pipeline, layout, silver)
    again, by_hand = filled_again(stay)
    if as_json:
        data = {"table": silver.table, "records": records.options, **asdict(effort)}
        print_document({**data, "again": again, "by_hand": by_hand})
        return
    say(f"{silver.table}: reads {effort_text(effort)} of {silver.read_text} ({records})")
    for gold in (one for one in stay if one.table in again):
        read = effort_text(effort_of(layout, gold.table, sources(gold)))
        say(f"{gold.table}: if rows change or leave, its next start fills it again: {read}")
    for name in by_hand:
        say(f"{name} cannot be filled again, and keeps what it has of rows that change or leave")


def _restate(ready: Context, silver: Silver, records: RecordRange, *, as_json: bool) -> None:
    from orchestration.records.rejudge.followers import written_tables
    from orchestration.records.rejudge.restate import require_restatable
    from orchestration.records.rejudge.restate import restate as judge_again
    from orchestration.run.job import spark_for_writing

    tables = written_tables(ready.pipeline, silver)
    with spark_for_writing(
        ready.pipeline,
        ready.settings,
        tables,
        name="restate",
        require=lambda: require_restatable(ready.layout, silver),
    ) as spark:
        done = judge_again(spark, ready.pipeline, ready.settings, ready.layout, silver, records, say)
    if as_json:
        print_document({"table": silver.table, "range": records.options, **asdict(done)})
        return
    say(f"{silver.table}: {count_of(done.records, 'records')} judged again")
    for table, numbers in done.changes.items():
        say(f"{table}: {_changes_text(numbers)}")
    for table in done.again:
        say(f"{table} cannot follow replaced rows: the next start of the gold job fills it again")
    for table in done.by_hand:
        say(f"{table} cannot be filled again, and keeps what it has of the former rows: give it a new name")
    if done.has_changed:
        say(f"{silver.table}: the next start of the jobs goes on from there; to check: medallion audit")


def _changes_text(numbers: Mapping[str, int]) -> str:
    if not any(numbers.values()):
        return "no row differs"
    words = {"inserted": "new", "updated": "changed", "deleted": "gone"}
    return ", ".join(f"{numbers.get(name, 0):,} {word}" for name, word in words.items())
