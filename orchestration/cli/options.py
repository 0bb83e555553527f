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
from types import FunctionType, MappingProxyType, ModuleType
from typing import Annotated, Any, TypeVar

import typer

from common.config.settings import Settings, load_settings
from common.config.wrong_settings import PREFIX
from common.errors import SettingsError
from orchestration.access.declaration.context import Context, context

_typed: ContextVar[Mapping[str, Any]] = ContextVar("_typed", default=MappingProxyType({}))
"""The options of the running command, by the names of its parameters."""


def options_as_typed() -> str:
    """The options with which the running command was told its pipeline and settings, for a further command.

    ``-p`` is left out where the settings name that pipeline file anyway; begins with a blank, or is empty.
    """
    given = _typed.get()
    pipeline = given.get("pipeline") or given.get("path")
    settings, overrides = given.get("settings"), given.get("set_") or ()
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
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON; its keys are on the page reference/json of the docs.")
]

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


CommandT = TypeVar("CommandT", bound=Callable[..., None])

_NAMES: dict[Callable[..., Any], str] = {}
"""The functions that are commands, with their names."""

_ENVIRONMENT: Mapping[str, Any] = {"env": EnvironmentOption, "sandbox": SandboxOption}
_SETTINGS: Mapping[str, Any] = {"settings": SettingsOption, "set_": SetOption, **_ENVIRONMENT}
_OF_KIND: Mapping[type, Mapping[str, Any]] = {
    Context: {"pipeline": PipelineOption, **_SETTINGS},
    Settings: _SETTINGS,
}
"""The options in the place of a parameter of a command, by its type."""


def command_named(name: str) -> Callable[[CommandT], CommandT]:
    """Make a function of a module a command."""

    def named(function: CommandT) -> CommandT:
        _NAMES[function] = name
        return function

    return named


def register(app: typer.Typer, module: ModuleType) -> None:
    """Add the commands of a module, in their order, or its group, with the options that they share.

    A command gets the options by which pipeline, settings and environment are found, and what these name as
    its parameter that is a ``Context`` or ``Settings``. One with the option ``settings`` itself gets
    ``--env`` and ``--sandbox`` beside it.
    """
    for each in vars(module).values():
        if isinstance(each, typer.Typer):
            for command in (*each.registered_commands, each.registered_callback):
                if command is not None and command.callback is not None:
                    command.callback = _with_options(command.callback)
            app.add_typer(each)
        elif isinstance(each, FunctionType) and each in _NAMES and each.__module__ == module.__name__:
            app.command(_NAMES[each])(_with_options(each))


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the options that it lacks; the environment is in variables for child processes too."""
    signature = inspect.signature(command, eval_str=True)
    own = dict(signature.parameters)
    asked = next((name for name, each in own.items() if each.annotation in _OF_KIND), None)
    if "env" in own or (asked is None and "settings" not in own):
        return command
    added = _ENVIRONMENT if asked is None else _OF_KIND[own.pop(asked).annotation]
    option = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY, default=None)
    parameters = [*own.values(), *(option(name, annotation=kind) for name, kind in added.items())]

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        typed = _typed.set(given)
        try:
            with _variables({name: given[name] for name in _ENVIRONMENT}):
                words = {name: value for name, value in given.items() if name in own}
                if asked is not None:
                    ready = context(given.get("pipeline"), given["settings"], given["set_"])
                    is_whole = signature.parameters[asked].annotation is Context
                    words[asked] = ready if is_whole else ready.settings
                return command(**words)
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
