"""``medallion metrics`` writes a Grafana board, Prometheus alert rules, or the list of metrics."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from orchestration.access.declaration.context import context
from orchestration.cli.options import SetOption, SettingsOption

Kind = Literal["board", "rules", "reference"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("metrics")(metrics)


def metrics(
    what: Annotated[
        Kind, typer.Argument(help="board: Grafana JSON; rules: Prometheus; reference: Markdown.")
    ],
    settings: SettingsOption = None,
    set_: SetOption = None,
) -> None:
    """Print a Grafana board, Prometheus alert rules, or the reference of all metrics of /metrics.

    Works for every pipeline: the board chooses the pipeline by a variable.
    """
    from orchestration.observe.metrics.board import board
    from orchestration.observe.metrics.reference import reference
    from orchestration.observe.metrics.rules import rules

    goal = context(None, settings, set_).settings.http.goal_seconds
    texts = {"board": board, "rules": lambda: rules(goal), "reference": reference}
    sys.stdout.write(texts[what]())
