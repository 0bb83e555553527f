"""``medallion rebuild``: fills a gold table again from silver, or a silver table from bronze."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from common.declare import Bronze, Gold, Silver
from common.delta.log import LogReader
from common.delta.maintenance.retention import expired_topics
from common.errors import UsageError
from common.machine.console import say
from common.machine.terminal import count_of, visible
from common.spark import jvm
from orchestration.access.declaration.context import Context
from orchestration.access.declaration.lineage import sources, written_by
from orchestration.access.history.effort import effort_of
from orchestration.cli.change.recover_output import effort_text
from orchestration.cli.json_output import print_document
from orchestration.cli.observe.status_output import bytes_text
from orchestration.cli.options import JsonOption, command_named
from orchestration.cli.warm_job import ask_holder

if TYPE_CHECKING:  # imports Spark, which other commands do not need
    from orchestration.change.rebuild.compare import Comparison


@command_named("rebuild")
def rebuild(  # the options of the command
    ready: Context,
    table: Annotated[str, typer.Argument(help="The table, such as gold.latest_orders or silver.orders.")],
    plan: Annotated[bool, typer.Option("--plan", help="Print rows, time and disk; change nothing.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take back the last rebuild of silver.")] = False,
    drop_expired: Annotated[
        bool, typer.Option("--drop-expired", help="Leave out silver's rows of records that have expired.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fill a gold table again from silver, or a silver table from bronze by today's declaration.

    Gold: at the next start of the gold job, or by the running job at once; the checkpoint is moved aside and
    nothing is deleted. Silver: beside the live table, which goes on; then the new rows take the place of the
    former ones in one commit, for which its silver and gold jobs must not run. `--undo` brings them back.
    Rows of records that retention (`Topic(keep=…)`) has deleted from bronze are carried over as they are.
    """
    declared = ready.pipeline.table(table)  # refuses a name that is not declared
    if isinstance(declared, Silver):
        _rebuild_silver(ready, declared, plan=plan, undo=undo, drop_expired=drop_expired, as_json=as_json)
        return
    if drop_expired:
        raise UsageError(f"{table}: --drop-expired is for a silver table, which is filled from bronze")
    if undo:
        raise UsageError(
            f"{table}: only the rebuild of a silver table can be taken back; RESTORE brings back a version"
        )
    if plan and not isinstance(declared, Bronze):
        _print_effort(ready, declared, as_json=as_json)
        return
    _rebuild_gold(ready, table, as_json=as_json)


def _rebuild_gold(ready: Context, table: str, *, as_json: bool) -> None:
    from orchestration.records.rejudge.refill_gold import refill as move_checkpoint

    asked = ask_holder(ready, [table], "rebuild", {"table": table})
    moved = move_checkpoint(ready.pipeline, ready.layout, table) if asked is None else asked["moved"]
    if as_json:
        print_document({"table": table, "checkpoint_moved_to": moved})
        return
    when = "the next start of the gold job" if asked is None else "the running job"
    if moved is None:
        say(f"{table} has no checkpoint: {when} fills it again")
        return
    say(f"{table}: the checkpoint was moved to {moved}")
    say(f"{when} fills the table again; its first micro-batch replaces the rows")


def _print_effort(ready: Context, declared: Silver | Gold, *, as_json: bool, **more: object) -> None:
    """Print what a rebuild reads and the disk that it needs; as JSON, with more facts."""
    effort = effort_of(ready.layout, declared.table, sources(declared))
    copies = [LogReader(ready.layout.table_path(name)).snapshot() for name in written_by(declared)]
    disk = sum(one.bytes for one in copies if one is not None)
    if as_json:
        print_document({"table": declared.table, **asdict(effort), "disk": disk, **more})
        return
    if not any(copies):
        say(f"{declared.table} does not exist yet: the next start of its job fills it")
        return
    say(f"{declared.table}: reads {effort_text(effort)}")
    say(f"until the former files are deleted, the tables need {bytes_text(disk)} more disk")


def _rebuild_silver(
    ready: Context, silver: Silver, *, plan: bool, undo: bool, drop_expired: bool, as_json: bool
) -> None:
    if plan:
        expired = _expired_rows(ready, silver)
        _print_effort(ready, silver, as_json=as_json, **({"expired": expired} if as_json else {}))
        for table, count in () if as_json else expired.items():
            say(
                f"{count:,} rows of {table} are of records that {silver.read_text} no longer has: they are "
                "carried over, if they fit the declared columns; --drop-expired leaves them out"
            )
        return
    from common.spark.session import build_session
    from orchestration.change.rebuild import rebuild_silver as shadow

    spark = build_session(ready.settings, f"rebuild_{silver.table}", ready.layout.log)
    given = (spark, ready.pipeline, ready.settings, ready.layout, silver, say)
    try:
        done = shadow.undo(*given) if undo else shadow.rebuild_silver(*given, drops_expired=drop_expired)
    finally:
        jvm.stop(spark)
    if as_json:
        print_document({"table": silver.table, **asdict(done)})
        return
    if done.comparison is not None:
        _print_comparison(silver, done.comparison)
    for table in done.again:
        say(f"{table} cannot follow replaced rows: the next start of the gold job fills it again")
    for table in done.by_hand:
        say(f"{table} cannot be filled again, and keeps what it has of the former rows: give it a new name")
    say(f"{silver.table}: the next start of the jobs goes on from there; to check: medallion audit")


def _expired_rows(ready: Context, silver: Silver) -> dict[str, int]:
    """Per table of a silver query, its rows of expired records; Spark is started only if there may be any."""
    layout = ready.layout
    is_there = LogReader(layout.table_path(silver.table)).latest_version() is not None
    expired = (expired_topics(LogReader(layout.table_path(one)).properties()) for one in silver.sources)
    if not is_there or not any(expired):
        return {}
    from orchestration.change.rebuild.expired_rows import expired_rows
    from orchestration.run.job import spark_for_reading

    with spark_for_reading(ready.pipeline, ready.settings, name="rebuild") as spark:
        return {table: rows.count() for table, rows in expired_rows(spark, layout, silver).items()}


def _print_comparison(silver: Silver, found: Comparison) -> None:
    for table, rows in found.live.items():
        say(f"{table}: {count_of(rows, 'rows')} before, {found.shadow[table]:,} now")
    before, now = found.checksums
    say(f"checksum of {silver.table}: {before} before, {now} now")
    say(f"rows of {silver.table}: {found.added:,} new, {found.removed:,} gone, {found.changed:,} changed")
    if found.copies:
        say(f"{found.copies:,} rows have the same values, and the coordinates of another copy of the event")
    for row in found.sample:
        place = f"{row['_kafka_topic']}/{row['_kafka_partition']}/{row['_kafka_offset']}"
        say(visible(f"  {place}: {row['live'] or 'no row'} -> {row['shadow'] or 'no row'}"))
