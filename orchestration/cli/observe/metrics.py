"""``medallion metrics`` writes a Grafana board, Prometheus alert rules, or the list of metrics."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from common.config.settings import Settings
from orchestration.cli.options import command_named

Kind = Literal["board", "rules", "reference"]


@command_named("metrics")
def metrics(
    settings: Settings,
    what: Annotated[
        Kind, typer.Argument(help="board: Grafana JSON; rules: Prometheus; reference: Markdown.")
    ],
) -> None:
    """Print a Grafana board, Prometheus alert rules, or the reference of all metrics of /metrics.

    Works for every pipeline: the board chooses the pipeline by a variable.
    """
    from orchestration.observe.metrics.board import board
    from orchestration.observe.metrics.reference import reference
    from orchestration.observe.metrics.rules import rules

    texts = {"board": board, "rules": lambda: rules(settings.http.goal_seconds), "reference": reference}
    sys.stdout.write(texts[what]())
