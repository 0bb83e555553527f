"""What the shell proposes: tables, topics and settings. A pipeline that cannot be loaded proposes nothing."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.models import ParameterInfo

from common.config.settings import setting_names
from common.declare import Pipeline, Table


def complete_settings(incomplete: str) -> list[str]:
    """Settings for ``--set``, each with its ``=``; sections are left out."""
    names = [*setting_names()]
    leaves = [name for name in names if not any(other.startswith(f"{name}.") for other in names)]
    return [f"{name}=" for name in leaves if name.startswith(incomplete)]


def complete_tables(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tables of the pipeline that the command line, or else the settings, name."""
    return [table.table for table in _tables(ctx) if table.table.startswith(incomplete)]


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics of the pipeline."""
    pipeline = _pipeline(ctx)
    topics = pipeline.topics if pipeline is not None else ()
    return [name for topic in topics for name in topic.topic_names if name.startswith(incomplete)]


def complete_queries(ctx: typer.Context, incomplete: str) -> list[str]:
    """Queries of the pipeline: its tables and publications."""
    pipeline = _pipeline(ctx)
    queries = () if pipeline is None else (*pipeline.tables, *pipeline.publish)
    return [each.table for each in queries if each.table.startswith(incomplete)]


_BY_PARAMETER: Mapping[str, Callable[..., Any]] = {
    "table": complete_tables,
    "tables": complete_tables,
    "topic": complete_topics,
    "query": complete_queries,
    "set_": complete_settings,
}
"""What the shell proposes for a parameter, by its name in the function of the command."""


def add_completion(app: typer.Typer) -> None:
    """Have the shell propose tables, topics and settings for every command."""
    for command in app.registered_commands:
        if command.callback is not None:
            for name, parameter in inspect.signature(command.callback, eval_str=True).parameters.items():
                for each in getattr(parameter.annotation, "__metadata__", ()):
                    if isinstance(each, ParameterInfo) and name in _BY_PARAMETER:
                        each.autocompletion = _BY_PARAMETER[name]
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_completion(group.typer_instance)


def _tables(ctx: typer.Context) -> tuple[Table, ...]:
    pipeline = _pipeline(ctx)
    return () if pipeline is None else pipeline.tables


def _pipeline(ctx: typer.Context) -> Pipeline | None:
    from orchestration.access.declaration.context import context

    given = ctx.params.get("pipeline")
    # The shell shows what is printed: whatever a pipeline file prints or raises is not for it.
    with contextlib.suppress(Exception, SystemExit), contextlib.redirect_stdout(io.StringIO()):
        return context(Path(given) if given else None, ctx.params.get("settings")).draft.pipeline
    return None
