"""Every command with its arguments and options as Markdown, for ``docs/reference/commands.md``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from orchestration.cli.former_spellings import FORMER
from orchestration.cli.main import COMMANDS, app

_SHARED = {
    "--pipeline": "`-p FILE` the pipeline file, else the setting `pipeline`",
    "--settings": "`--settings FILE`, else `medallion.yaml`, if it exists",
    "--set": "`--set KEY=VALUE` a setting; repeatable",
    "--env": "`--env NAME` lays `medallion.NAME.yaml` over `medallion.yaml`",
    "--sandbox": "`--sandbox NAME` reads the bronze tables of another environment and writes own tables",
    "--json": "`--json` prints one object with `document_version`",
}
"""Options that mean the same wherever they are; a command lists them by name alone."""

_TOLD_IN = {
    "init": "author/files.md#times-as-they-are-written",
    "check": "author/gold.md#what-check-finds-in-sql",
    "explain": "author/gold.md#as-statements",
    "test": "author/testing.md",
    "schema": "author/testing.md#in-an-editor",
    "plan": "change/plan.md",
    "rebuild": "change/rebuild.md",
    "recover": "change/recover.md",
    "backfill": "change/backfill.md",
    "up": "run/keep-running.md",
    "hand-over": "run/standby.md#hand-over",
    "stop": "run/keep-running.md#one-query-stopped-and-started",
    "maintain": "access/time-travel.md#maintenance-medallion-maintain-table",
    "status": "run/operate.md",
    "page": "run/operate.md#the-page",
    "metrics": "observe/metrics.md",
    "alerts list": "run/operate.md#alerts",
    "quality run": "quality/quality.md",
    "audit": "records/what-happens-to-a-row.md",
    "trace": "records/trace.md",
    "reconcile": "records/reconcile.md",
    "restate": "records/restate.md",
    "erase": "records/erasure.md",
    "quarantine replay": "records/what-happens-to-a-row.md#quarantine-and-back",
    "files skip": "author/files.md#give-a-file-up",
    "receipts dismiss": "records/receipts.md#a-receipt-that-is-wrong-itself",
    "deploy": "install/deploy.md",
    "jars export": "install/wheel.md",
}
"""The page that tells more of a command."""

_HEAD = """\
# Commands

`medallion COMMAND --help` prints its part of this page. A default stands behind `=`. Without the address of
a broker, the commands that need one start an embedded broker; with one (`--set
kafka.bootstrap_servers=broker-1:9092,broker-2:9092`) they never do.

Commands that print results have `--json`: one object on stdout ([all keys](json.md)), or `{"ok": false,
"error": {…}}` where it fails before it has a result; the text for people is on stderr. Each exit code has
[one meaning](errors.md#exit-codes); stopping `up` or `run` at a micro-batch boundary is 0. `medallion
--version` prints the version, `medallion --install-completion` has the shell propose commands, options,
tables, topics and settings.

An option means the same in every command: `--plan` changes nothing, `--from` and `--to` are where records
begin and end, `--from-file` is a file of messages, `--since` a time, `--as-of` a version of a table.

Settings come from `medallion.yaml`, the file of an [environment](../author/testing.md#environments),
variables and flags, in that order ([all of them](../install/settings.md)). A table's own declaration wins
over the setting of its layer: `Upsert("daily", …, trigger="10 minutes")`.

Written by `python -m distribution.pages.commands_reference > docs/reference/commands.md`."""

_FEW = 9
"""Most words of an option that stands again wherever it is."""


def reference() -> str:
    """The page of commands and options."""
    lines = [
        _HEAD,
        "",
        "*Shared options*, which a command has unless it says otherwise:",
        "",
        *(f"- {text}" for text in _SHARED.values()),
    ]
    told: dict[str, str] = {}
    root = typer.main.get_command(app)
    panels = {command.name: command.rich_help_panel for command in root.commands.values()}  # type: ignore[attr-defined]
    for wing in COMMANDS:
        lines += ["", f"## {wing}"]
        for name, command in root.commands.items():  # type: ignore[attr-defined]
            if panels[name] == wing:
                for path, each in _leaves(command, (name,)):
                    lines += ["", *_command(path, each, told)]
    lines += ["", "## Former spellings", "", "They work, and say on stderr what is written now.", ""]
    lines += ["| command | formerly | now |", "|---|---|---|"]
    for path, pairs in FORMER.items():
        lines += [f"| `medallion {' '.join(path)}` | `{former}` | `{now}` |" for former, now in pairs.items()]
    return "\n".join(lines) + "\n"


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", {})
    if not inner or any(param.name == "pipeline" for param in command.params):
        yield path, command
    for name, each in inner.items():
        yield from _leaves(each, (*path, name))


def _command(path: tuple[str, ...], command: Any, told: dict[str, str]) -> Iterator[str]:
    """A command's section; options that ``told`` has of another one are a word on that command."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    own = [each for each in options if each.opts[0] not in _SHARED]
    shared = [_shown(each.opts[0]) for each in options if each.opts[0] in _SHARED]
    yield f"### {' '.join(path)}"
    yield ""
    if arguments:
        yield f"`{' '.join(('medallion', *path, *map(_argument, arguments)))}`"
        yield ""
    page = _TOLD_IN.get(" ".join(path))
    more = f" [More](../{page})." if page else ""
    yield _text(inspect.cleandoc(command.help or "").partition("\n\n")[0]) + more
    if arguments or own:
        yield ""
        yield from (_row(f"`{_argument(each)}`", each) for each in arguments if each.help)
        again: dict[str, list[str]] = {}
        for each in own:
            row = _row(_names(each), each)
            first = told.setdefault(row, " ".join(path))
            if first == " ".join(path) or len(row.split()) <= _FEW:
                yield row
            else:
                again.setdefault(first, []).append(_names(each))
        for first, names in again.items():
            yield f"- As for [{first}](#{first.replace(' ', '-')}): {', '.join(names)}."
    if words_of_shared := _shared_words(shared):
        yield ""
        yield words_of_shared


def _shared_words(shared: list[str]) -> str:
    """Which shared options a command has: nothing for all, else those that it lacks or has, if fewer."""
    lacks = [shown for shown in map(_shown, _SHARED) if shown not in shared]
    if len(lacks) < len(shared):
        return f"Without {', '.join(lacks)}." if lacks else ""
    return f"Of the shared options: {', '.join(shared) or 'none'}."


def _shown(option: str) -> str:
    return f"`{'-p' if option == '--pipeline' else option}`"


def _argument(argument: Any) -> str:
    name = (argument.metavar or argument.name).strip("[]").upper()
    name = f"{name}…" if argument.nargs == -1 and not name.endswith("…") else name
    return name if argument.required else f"[{name}]"


def _names(option: Any) -> str:
    names = ", ".join(f"`{each}`" for each in [*option.opts, *option.secondary_opts])
    takes = "" if option.is_flag else f" {option.metavar or ''}"
    return f"{names}{takes}".rstrip()


def _row(names: str, param: Any) -> str:
    default = param.show_default if isinstance(param.show_default, str) else param.default
    is_plain = isinstance(default, str | int | float | Path) and not isinstance(default, bool)
    shown = f" = `{default}`" if isinstance(param.show_default, str) or (is_plain and str(default)) else ""
    needed = ", required" if param.required and param.param_type_name == "option" else ""
    return f"- {names}{needed}{shown}: {_text(param.help or '')}"


def _text(text: str) -> str:
    return " ".join(re.sub(r"\s+", " ", text).split())


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201  # a generator of documentation prints it
