"""Options that commands share."""

from __future__ import annotations

import functools
import inspect
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from common.config.settings import load_settings
from common.config.wrong_settings import PREFIX
from common.errors import SettingsError

_typed: ContextVar[Mapping[str, Any]] = ContextVar("_typed", default=MappingProxyType({}))
"""The options of the running command, by the names of its parameters."""


def options_as_typed() -> str:
    """The options with which the running command was told its pipeline and settings, for a further command.

    ``-p`` is left out where the settings name that pipeline file anyway; begins with a blank, or is empty.
    """
    given = _typed.get()
    pipeline = given.get("pipeline") or given.get("path")
    settings, overrides = given.get("settings"), given.get("set_") or given.get("overrides") or ()
    words = []
    if pipeline is not None and not _is_named(pipeline, settings, overrides):
        words.append(f"-p {shlex.quote(str(pipeline))}")
    if settings is not None:
        words.append(f"--settings {shlex.quote(str(settings))}")
    words += [f"--set {shlex.quote(text)}" for text in overrides]
    words += [f"--{name} {shlex.quote(given[name])}" for name in ("env", "sandbox") if given.get(name)]
    return "".join(f" {word}" for word in words)


def _is_named(pipeline: Path, settings: Path | None, overrides: Sequence[str]) -> bool:
    """Whether the settings name this pipeline file."""
    try:
        named = load_settings(file=settings, overrides=list(overrides)).pipeline
    except SettingsError:
        return False
    return named is not None and named.resolve() == Path(pipeline).resolve()


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
        "--set",
        metavar="KEY=VALUE",
        help="A setting, such as bronze.trigger='5 seconds'; repeatable.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

EnvironmentOption = Annotated[
    str | None,
    typer.Option(
        "--env", metavar="NAME", help="The environment: medallion.NAME.yaml is laid over medallion.yaml."
    ),
]
SandboxOption = Annotated[
    str | None,
    typer.Option(
        "--sandbox", metavar="NAME", help="Read the bronze tables of another environment, write own tables."
    ),
]


def add_environment_options(app: typer.Typer) -> None:
    """Give every command that takes settings the options ``--env`` and ``--sandbox``."""
    for command in app.registered_commands:
        if command.callback is not None and "settings" in inspect.signature(command.callback).parameters:
            command.callback = _in_environment(command.callback)
    own = app.registered_callback
    if (
        own is not None
        and own.callback is not None
        and "settings" in inspect.signature(own.callback).parameters
    ):
        own.callback = _in_environment(own.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_environment_options(group.typer_instance)


def _in_environment(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with two more options, which are variables while it runs: child processes get them too."""
    signature = inspect.signature(command, eval_str=True)
    added = {"env": EnvironmentOption, "sandbox": SandboxOption}
    parameters = [
        *signature.parameters.values(),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in added.items()
        ),
    ]

    @functools.wraps(command)
    def run(*args: Any, env: str | None = None, sandbox: str | None = None, **given: Any) -> Any:
        typed = _typed.set({**given, "env": env, "sandbox": sandbox})
        try:
            with _variables({"env": env, "sandbox": sandbox}):
                return command(*args, **given)
        finally:
            _typed.reset(typed)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


@contextmanager
def _variables(given: Mapping[str, str | None]) -> Iterator[None]:
    """Within the block the settings have these values as variables."""
    names = {f"{PREFIX}{name.upper()}": value for name, value in given.items() if value is not None}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Serve page, metrics and health there, such as 127.0.0.1:8484.",
        show_default="the setting http.address",
    ),
]
