"""The settings and the pipeline of one command."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.declare import Pipeline
from orchestration.pipeline.load_file import load_pipeline


@dataclass(frozen=True)
class Context:
    """What a command works with: the settings, and the pipeline, which is loaded at first use."""

    settings: Settings

    @functools.cached_property
    def pipeline(self) -> Pipeline:
        """The user's pipeline.

        Raises:
            PipelineError: The pipeline file is wrong.
            UsageError: No pipeline file is named, or the file does not exist.
        """
        return load_pipeline(self.settings.pipeline)

    @functools.cached_property
    def layout(self) -> Layout:
        """Where the pipeline's tables and checkpoints are."""
        return Layout.of(self.pipeline, self.settings)


def context(
    pipeline: Path | None = None, settings: Path | None = None, overrides: list[str] | None = None
) -> Context:
    """The context of a command. Command-line values win over the environment and the settings file.

    Raises:
        SettingsError: A setting is unknown, or its value does not fit.
    """
    return Context(load_settings(file=settings, overrides=overrides or (), flags={"pipeline": pipeline}))
