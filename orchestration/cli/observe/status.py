"""``medallion status``: the state of every table, once or live."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType

from common.errors import UsageError
from common.machine.console import out
from orchestration.access.declaration.context import Context
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named

if TYPE_CHECKING:
    from orchestration.observe.status.collect import Collector


@command_named("status")
def status(
    ready: Context,
    *,
    as_json: JsonOption = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option(min=0.2, metavar="SECONDS", help="Refresh interval of --watch.")
    ] = 1.0,
) -> None:
    """Show rows, lag, speed, watermark, late rows and quarantine of every table.

    Reads tables, checkpoints, leases and the broker. Starts no process; jobs may be running or stopped.
    Exit code 1: the process of a query was killed or does not answer, and no other goes on.
    """
    from orchestration.cli.observe.status_output import render
    from orchestration.observe.status.collect import Collector
    from orchestration.observe.status.document import document
    from orchestration.observe.status.topic_offsets import BrokerOffsets

    if as_json and watch:
        raise UsageError("--json prints one document, --watch refreshes until Ctrl-C: use only one of them.")
    broker = BrokerOffsets(ready.pipeline, ready.settings)
    collector = Collector(ready.pipeline, ready.layout, broker, ready.settings)
    if watch:
        _watch(collector, every)
        return
    found = collector.collect()
    if as_json:
        print_document(document(found))
    else:
        _show(render(found))
    if found.is_unanswered:
        raise typer.Exit(1)


def _show(picture: RenderableType) -> None:
    """Print the status; a file or a pipe has no width, so it gets the full stacked layout."""
    from orchestration.cli.observe.status_output import WIDTH

    console = out if out.is_terminal else Console(file=out.file, width=WIDTH)
    console.print(picture)


def _watch(collector: Collector, every: float) -> None:
    """Print the status repeatedly; a terminal shows it in place and keeps the last one after Ctrl-C."""
    from rich.live import Live

    from orchestration.cli.observe.status_output import render

    status = collector.collect()
    try:
        if not out.is_terminal:
            while True:
                _show(render(status))
                time.sleep(every)
                status = collector.collect()
        with Live(console=out, screen=True, auto_refresh=False) as live:
            while True:
                live.update(render(status, rows=out.height - 1), refresh=True)
                time.sleep(every)
                status = collector.collect()
    except KeyboardInterrupt:
        if out.is_terminal:
            _show(render(status))
