"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PipelineOption = Annotated[
    Path | None,
    typer.Option("--pipeline", "-p", help="The pipeline file.", show_default="the setting 'pipeline'"),
]
SettingsOption = Annotated[
    Path | None,
    typer.Option("--settings", help="The settings file.", show_default="medallion.yaml, if it exists"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A setting, such as bronze.trigger='5 seconds'; repeatable."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Serve page, metrics and health there, such as 127.0.0.1:8484.",
        show_default="the setting http.address",
    ),
]
