"""``medallion audit``: proves from the tables where every offset is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.errors import UsageError
from common.machine.console import page, say
from common.machine.file_modes import umask
from common.spark import jvm
from orchestration.access.declaration.context import Context
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named
from orchestration.cli.warm_job import ask_holder

if TYPE_CHECKING:
    from common.declare import Silver
    from orchestration.records.audit.audit import Since
    from orchestration.records.audit.result import Account


TableOption = Annotated[
    str | None, typer.Option("--table", "-t", help="One silver table.", show_default="all")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        metavar="WHEN|last",
        help="Only offsets read since a time (2026-01-01T00:00Z), or since the last balanced audit.",
    ),
]
ScriptOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write a script for DuckDB that proves it from the tables without the engine, and no more.",
    ),
]


@command_named("audit")
def audit(
    ready: Context,
    table: TableOption = None,
    since: SinceOption = None,
    gold: Annotated[bool, typer.Option("--gold", help="Compare all rows of gold, not a sample.")] = False,
    script: ScriptOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Prove that every Kafka offset that bronze has read is in exactly one place.

    Offsets = silver + duplicates + late + quarantine + dropped + tombstones + other + erased + waiting, per
    topic and partition; every duplicate has its witness in silver, and the counts of the micro-batches add up
    to the same numbers. Reads only tables and logs; jobs may run, and a running silver job does the work in
    its session. Exit code 1: not balanced.

    The broker is asked whether the topics are the ones that bronze has read, and whether they still have
    what bronze has not read yet. Without its answer the last line says what was not compared.

    Silver's values are compared with what today's declaration makes of the bytes in bronze. Each gold table
    is compared with what its declaration gives over silver at the version that its commit
    names: of a table with more than 10,000 rows a range of keys that is chosen anew each time, with --gold
    all rows. An audit with --since compares gold tables with --gold only.

    If the topic has receipts of its producers, what they say they have sent is compared with bronze: count
    and bytes; with --since from there on. A note says how many records have no receipt, and since when.

    A balanced audit records its result; --since last continues from there, cheaply enough to run every few
    minutes. If rows were changed since then (an erasure, a replay), it reads everything again. A gold table
    that another program has changed is a fault, too.

    --script proof.sql writes one script for DuckDB and ends. Whoever runs it needs nothing of the engine: it
    computes from the tables, at the versions that it names, the place of every offset, the witness of each
    duplicate, silver's values from bronze's bytes, and each Upsert, Aggregate and View from its definition.
    """
    from orchestration.records.audit import audit as audits

    begin = None if since is None else audits.parse_since(since)
    silvers = audits.select_tables(ready.pipeline, table)
    if script is not None:
        _write_script(ready, silvers, script, is_partial=as_json or gold or since is not None)
        return
    audits.require_bronze(silvers, ready.layout)
    asked = ask_holder(
        ready, [one.table for one in silvers], "audit", {"table": table, "since": since, "gold": gold}
    )
    accounts = _accounts(ready, silvers, begin, is_whole=gold) if asked is None else _parsed(asked)
    _print(accounts, as_json=as_json)


def _write_script(ready: Context, silvers: Sequence[Silver], file: Path, *, is_partial: bool) -> None:
    """Write the script of a proof, and say how it is run."""
    from orchestration.records.proof.script import write

    if is_partial:
        raise UsageError(
            "--script writes a file that covers all offsets; leave out --json, --gold and --since."
        )
    text = write(ready.pipeline, silvers, ready.layout, ready.settings)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{file} cannot be written: {error.strerror}. Name a file in a folder that exists."
        ) from error
    page().print(
        f"{file} is written; anybody who can read the tables runs it: duckdb < {file}", highlight=False
    )


def _print(accounts: Sequence[Account], *, as_json: bool) -> None:
    """Print the accounts and the verdict."""
    from orchestration.cli.records import audit_output

    if as_json:
        print_document(audit_output.document(accounts))
    else:
        for one in accounts:
            page().print(audit_output.table(one))
            for note in audit_output.notes(one):
                say(f"note: {note}")
    if any(one.faults for one in accounts):
        raise audit_output.error(accounts)
    if not as_json:
        page().print(audit_output.verdict(accounts), highlight=False)


def _parsed(found: Any) -> list[Account]:
    from orchestration.run.serving.commands import ACCOUNTS

    return ACCOUNTS.validate_python(found)


def _accounts(ready: Context, silvers: Sequence[Silver], begin: Since, *, is_whole: bool) -> list[Account]:
    """The accounts of some silver tables, computed in a session of the command's own."""
    from common.spark.session import build_session
    from orchestration.records.audit import audit as audits
    from orchestration.run.topic_checks import broker_asker, receipts_reader

    ask, known = (
        broker_asker(ready.pipeline, ready.settings, ready.layout),
        ready.settings.gold.accept_commits,
    )
    gold = audits.gold_proof(ready.settings, begin, is_whole=is_whole)
    receipts = receipts_reader(ready.pipeline, ready.settings)
    run = partial(audits.audit_all, since=begin, say=say, ask=ask, accepted=known, gold=gold)
    spark = build_session(ready.settings, "audit", ready.layout.log, compiled="rows")
    try:
        with umask(ready.settings.umask):
            return run(spark, ready.pipeline, silvers, ready.layout, receipts=receipts)
    finally:
        jvm.stop(spark)
