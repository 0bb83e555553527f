"""``medallion audit``: where every offset is, from the tables alone."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from common.machine.console import page, say
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.pipeline.context import context


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("audit")(audit)


def audit(
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    table: Annotated[
        str | None, typer.Option("--table", help="One silver table.", show_default="all")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN|last",
            help="Only what is new since a time such as 2026-01-01T00:00Z, or the last balanced audit.",
        ),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Prove that every Kafka offset that bronze has read is in exactly one place.

    Offsets = silver + duplicates + late + quarantine + dropped + tombstones + erased + waiting, per topic
    and partition; every duplicate has its witness in silver, and the micro-batches' counts add up to the
    same. Reads tables and logs alone: no broker, no lease; jobs may run. Exit code 1: it does not balance.

    A balanced audit leaves a mark; --since last goes on from it, and is cheap enough for every few minutes.
    Where rows were changed since (an erasure, a replay), it looks at everything again.

    --json: {"balanced", "offsets", "tables": [{"table", "reads", "balanced", "since", "batch_id",
    "versions": {table: version}, "offsets", "looked_at", "totals": {place: offsets}, "partitions": [{"topic",
    "partition", "first", "end", "offsets", and a number per place}], "faults": [{"fault", "text", "count",
    "examples": [{"topic", "partition", "offset"}]}], "notes", "seconds"}]}. Numbers are exact; examples
    are the first 20.
    """
    from common.spark.session import build_session  # loaded when it is used
    from orchestration.audit import run as account
    from orchestration.cli import audit_output as view

    ready = context(pipeline, settings, set_)
    begin = account.moment(since) if since is not None else None
    silvers = account.chosen(ready.pipeline, table)
    spark = build_session(ready.settings, "audit", ready.layout.log, compiled="rows")
    try:
        found = [
            account.audit(spark, ready.pipeline, silver, ready.layout, since=begin, say=say)
            for silver in silvers
        ]
    finally:
        spark.stop()
    if as_json:
        sys.stdout.write(json.dumps(view.document(found), indent=2) + "\n")
    else:
        out = page()
        for one in found:
            out.print(view.table(one))
            for note in one.notes:
                say(f"note: {note}")
    if any(one.faults for one in found):
        raise view.error(found)
    if not as_json:
        page().print(view.verdict(found), highlight=False)
