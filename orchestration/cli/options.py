"""The options that every command shares, and what they are read into."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.declare import Pipeline
from orchestration.pipeline.load_file import load_pipeline

PipelineOption = Annotated[
    Path | None,
    typer.Option("--pipeline", "-p", help="The pipeline file.", show_default="the setting 'pipeline'"),
]
SettingsOption = Annotated[
    Path | None,
    typer.Option("--settings", help="The settings file.", show_default="medallion.yaml, if it is here"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="One setting, such as bronze.trigger='5 seconds'; repeatable."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


@dataclass(frozen=True)
class Context:
    """What a command works with: settings at once, the pipeline when it is first asked for."""

    settings: Settings

    @functools.cached_property
    def pipeline(self) -> Pipeline:
        """The user's pipeline; reading it may raise ``PipelineError``."""
        return load_pipeline(self.settings.pipeline)

    @functools.cached_property
    def layout(self) -> Layout:
        """Where the pipeline's tables and checkpoints lie."""
        return Layout.of(self.pipeline, self.settings)


def context(
    pipeline: Path | None = None, settings: Path | None = None, overrides: list[str] | None = None
) -> Context:
    """Settings from all sources, flags first.

    Raises:
        SettingsError: A setting is unknown or does not fit.
    """
    return Context(load_settings(file=settings, overrides=overrides or (), flags={"pipeline": pipeline}))
