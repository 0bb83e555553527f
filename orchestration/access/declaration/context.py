"""Settings, pipeline and layout that a command works with."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.declare import Pipeline
from common.errors import PipelineError
from common.machine import event_log
from orchestration.access.declaration.environment import in_environment
from orchestration.access.declaration.load_file import Draft, load_draft


@dataclass(frozen=True)
class Context:
    """Loaded settings; pipeline and layout are loaded on first access."""

    settings: Settings

    @functools.cached_property
    def draft(self) -> Draft:
        """What the pipeline file holds, in the environment of the settings, with its problems."""
        draft = load_draft(self.settings.pipeline)
        if draft.pipeline is None or draft.problems:
            return draft
        return Draft(in_environment(draft.pipeline, self.settings))

    @functools.cached_property
    def pipeline(self) -> Pipeline:
        """The user's pipeline.

        Raises:
            PipelineError: The pipeline file cannot be loaded.
        """
        if self.draft.pipeline is None or self.draft.problems:
            raise PipelineError(self.draft.problems)
        return self.draft.pipeline

    @functools.cached_property
    def layout(self) -> Layout:
        """Paths of the pipeline's tables and checkpoints."""
        return Layout.of(self.pipeline, self.settings)

    def use_log_format(self) -> None:
        """Write the messages of this process as JSON from now on, if ``log.format`` is ``json``."""
        log = self.settings.log
        if log.format == "json":
            event_log.write_json(self.pipeline.name, exception_messages=log.exception_messages)


def context(
    pipeline: Path | None = None, settings: Path | None = None, overrides: list[str] | None = None
) -> Context:
    """Load the settings: defaults, then the settings file, the environment and the flags; the last one wins.

    Raises:
        SettingsError: A setting is unknown or has a wrong value.
    """
    return Context(load_settings(file=settings, overrides=overrides or (), flags={"pipeline": pipeline}))
