"""``medallion status``: where every table stands, once or live."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType

from common.errors import UsageError
from common.machine.console import out
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.pipeline.context import context

if TYPE_CHECKING:
    from orchestration.status.collect import Collector


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("status")(status)


def status(  # one argument per option
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    overrides: SetOption = None,
    *,
    as_json: JsonOption = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep looking until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.2, metavar="SECONDS", help="How often, with --watch.")] = 1.0,
) -> None:
    """Rows, lag, speed, watermark and quarantine of every table.

    Reads tables, checkpoints, leases and the broker; starts nothing, and works while jobs run or are stopped.
    """
    from orchestration.cli.status_output import document, render
    from orchestration.status.collect import Collector
    from orchestration.status.topic_offsets import BrokerOffsets  # loaded when it is used

    if as_json and watch:
        raise UsageError("--json prints one document, --watch keeps looking: keep one of them.")
    around = context(pipeline, settings, overrides)
    broker = BrokerOffsets(around.pipeline, around.settings)
    collector = Collector(around.pipeline, around.layout, broker)
    if as_json:
        sys.stdout.write(json.dumps(document(collector.collect()), indent=2) + "\n")
    elif watch:
        _watch(collector, every)
    else:
        _show(render(collector.collect()))


def _show(picture: RenderableType) -> None:
    """Print it; into a file or a pipe, which have no width, as wide as it wants to be."""
    from orchestration.cli.status_output import WIDTH  # loaded when it is used

    console = out if out.is_terminal else Console(file=out.file, width=WIDTH)
    console.print(picture)


def _watch(collector: Collector, every: float) -> None:
    """The picture again and again; on a terminal in place, and the last one stays behind at the end."""
    from rich.live import Live

    from orchestration.cli.status_output import render

    picture = render(collector.collect())
    try:
        if not out.is_terminal:
            while True:
                _show(picture)
                time.sleep(every)
                picture = render(collector.collect())
        with Live(picture, console=out, screen=True, auto_refresh=False) as live:
            while True:
                live.update(picture, refresh=True)
                time.sleep(every)
                picture = render(collector.collect())
    except KeyboardInterrupt:
        if out.is_terminal:
            _show(picture)
