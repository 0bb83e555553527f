"""``medallion demo``: the options of the demo."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from common.machine.console import say
from orchestration.access.declaration.context import context
from orchestration.access.declaration.environment import refuse_in_sandbox
from orchestration.cli.options import PipelineOption, SetOption, SettingsOption, command_named

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "earthquakes" / "pipeline.py"
"""The example of the checkout, or of the wheel, whose package mirrors the checkout's root."""


@command_named("demo")
def demo(
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    seconds: Annotated[float, typer.Option(help="Seconds of sending after the first gold rows.")] = 45,
    rate: Annotated[float, typer.Option(help="Events per second.")] = 500,
    seed: Annotated[int, typer.Option(help="Seed of the sample events.")] = 7,
) -> None:
    """Watch sample events flow from a real Kafka broker through bronze, silver and gold for a minute."""
    began = time.monotonic()
    from orchestration.cli.run import run_demo as live

    ready, after = context(pipeline, settings, set_), []
    if shutil.which("medallion") is None:
        after.append(f"source {os.path.relpath(sys.prefix)}/bin/activate")
    if ready.settings.pipeline is None:
        say(f"no pipeline is named: this is the example, {EXAMPLE}")
        ready = context(EXAMPLE, settings, set_)
        after.append(f"export MEDALLION_PIPELINE={shlex.quote(str(EXAMPLE))}")
    refuse_in_sandbox(ready.settings, "demo")
    live.run(ready.pipeline, ready.settings, seconds=seconds, rate=rate, seed=seed, began=began, after=after)
