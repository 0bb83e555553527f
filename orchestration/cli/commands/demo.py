"""``medallion demo``."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from orchestration.cli import demo as show
from orchestration.cli.options import PipelineOption, SetOption, SettingsOption
from orchestration.pipeline.context import context


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(demo)


def demo(  # a command has this many options
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    seconds: Annotated[
        float, typer.Option(help="How long events are sent, from the first gold rows on.")
    ] = 45,
    rate: Annotated[float, typer.Option(help="Events per second.")] = 500,
    seed: Annotated[int, typer.Option(help="Of the sample's events.")] = 7,
) -> None:
    """Watch sample events flow from a real Kafka broker through bronze, silver and gold for a minute."""
    began = time.monotonic()
    ready = context(pipeline, settings, set_)
    show.run(ready.pipeline, ready.settings, seconds=seconds, rate=rate, seed=seed, began=began)
