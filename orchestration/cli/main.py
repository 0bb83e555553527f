"""The ``medallion`` command: arguments in, exit code out (``common.codes.EXIT_CODES``).

A ``MedallionError`` is printed as its message; any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Annotated, Any

import typer

from common.codes import code_of
from common.errors import UNNAMED, MedallionError, Problem, RegistryError, SetupError, StoreError, UsageError
from common.machine import event_log
from common.machine.console import err, out, say
from common.machine.file_modes import DISK_REFUSES, USER_IS_REFUSED, refused
from common.machine.object_store import store_failure
from common.machine.output_encoding import substitute_unknown_characters
from common.machine.stop_signals import was_interrupted
from common.machine.terminal import visible, wrapped
from orchestration.cli import json_output
from orchestration.cli.completion import add_completion
from orchestration.cli.former_spellings import current
from orchestration.cli.options import register
from orchestration.cli.problems_output import frame

app = typer.Typer(
    name="medallion",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS = {
    "author": ("new", "init", "check", "explain", "cases", "schema"),
    "change": ("plan", "backfill", "rebuild", "recover"),
    "run": ("demo", "run", "hand_over", "queries", "maintain"),
    "observe": ("status", "page", "metrics", "alerts"),
    "quality": ("quality",),
    "records": ("audit", "trace", "reconcile", "quarantine", "restate", "erase", "files", "receipts"),
    "install": ("doctor", "jars", "deploy"),
    "access": ("produce", "query", "topic"),
}
"""Modules of this package by wing, which is their folder and their group in ``--help``; each has
functions that are ``command_named``, or a group."""


def _print_version(is_given: bool) -> None:  # noqa: FBT001  # typer passes an option's value by position
    if is_given:
        try:
            version = importlib.metadata.version("medallion-lakehouse")
        except importlib.metadata.PackageNotFoundError:
            version = "from source, not installed"
        out.print(f"medallion {version}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Kafka to bronze, silver and gold Delta tables, as chained Spark streams."""


def _register(wing: str, names: tuple[str, ...]) -> None:
    """Add the commands of a wing, as one group of the help."""
    before = len(app.registered_commands), len(app.registered_groups)
    for name in names:
        register(app, importlib.import_module(f"{__package__}.{wing}.{name}"))
    for command in app.registered_commands[before[0] :]:
        command.rich_help_panel = wing
    for group in app.registered_groups[before[1] :]:
        group.rich_help_panel = wing


for _wing, _names in COMMANDS.items():
    _register(_wing, _names)
add_completion(app)


_COMMANDS = functools.partial(typer.main.get_command, app)

# Some versions of Typer contain their own copy of click: the base class of Typer's errors is found from them.
_USAGE_ERROR: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)


_INTERRUPTED = 130


def main() -> None:
    """Run a command and end the process with its exit code."""
    substitute_unknown_characters(is_data=bool({"--json", "--csv"} & set(sys.argv)))
    words = _words()
    json_output.begin(is_wanted="--json" in words)
    try:
        code = app(args=words, standalone_mode=False, prog_name="medallion")
    except MedallionError as error:
        code = _INTERRUPTED if was_interrupted() else error.exit_code
        if not was_interrupted():
            _print_error(error)
    except typer.Abort:
        code = _INTERRUPTED
    except _USAGE_ERROR as error:
        _name_options(error)
        error.show()  # type: ignore[attr-defined]  # every ClickException can
        code = UsageError.exit_code
        json_output.print_error(UsageError(error.format_message()))  # type: ignore[attr-defined]
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout has ended (`medallion … | head`): no error can be shown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        if (found := _exit_code_of(error)) is None:
            raise
        code = found
    if code == _INTERRUPTED and was_interrupted():
        say("interrupted")
    sys.exit(code if isinstance(code, int) else 0)


def _name_options(error: Any) -> None:
    """Behind a word that the command has no place for: the options that take one."""
    if "extra argument" in error.message and error.ctx is not None:
        taking = [one.opts[0] for one in error.ctx.command.params if not getattr(one, "is_flag", True)]
        error.message += f". Options of {error.ctx.command_path} that take a word: {', '.join(taking)}"


def _words() -> list[str]:
    """The words of the command line, former spellings replaced, which is said."""
    words, notes = current(sys.argv[1:], _COMMANDS())
    for note in notes:
        say(note)
    return words


def _is_of_an_interrupt(error: BaseException | None) -> bool:
    """Whether an error was raised while an interrupt ended the command, such as by a JVM that ended first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def _exit_code_of(error: Exception) -> int | None:
    """Print an error of the disk, the object store or the schema registry; the exit code, None for a bug."""
    if was_interrupted() or _is_of_an_interrupt(error):
        return _INTERRUPTED
    known: MedallionError
    if isinstance(error, OSError):
        if (why := store_failure(error)) is not None:
            known = StoreError(
                f"the object store: {why}. Check that it runs, its address (AWS_ENDPOINT_URL, or "
                "spark.hadoop.fs.s3a.endpoint of spark.conf), the bucket and the credentials; then repeat "
                "the command. What is committed stays."
            )
            _print_error(known)
            return known.exit_code
        if error.errno not in DISK_REFUSES | USER_IS_REFUSED:
            return None
        known = SetupError(
            f"{refused(error)}; then repeat the command: what is committed stays, an interrupted micro-batch "
            "is replayed."
        )
    else:
        # Not only streams read values: any command that does may find the schema registry unavailable.
        from common.streaming.query import registry_failure

        if (unavailable := registry_failure(str(error))) is None:
            return None
        known = RegistryError(f"{unavailable}. Nothing was written; try again when it answers.")
    _print_error(known)
    return known.exit_code


def _print_error(error: MedallionError) -> None:
    """Print an error for people on stderr; under ``--json`` also its document on stdout."""
    json_output.print_error(error)
    code = code_of(error)
    if event_log.is_json():
        event_log.emit(visible(str(error)), {"exception": type(error).__name__, "code": code}, "error")
        return
    problems = getattr(error, "problems", ())
    head = "error: "
    for number, line in enumerate(_lines(error, problems, err.width - len(head))):
        err.print(f"[bold red]{head}[/]" if number == 0 else " " * len(head), end="", highlight=False)
        err.print(line, markup=False, highlight=False, soft_wrap=True)
    codes = sorted({each.code for each in problems} - {UNNAMED}) or [code]
    # The page of a wrong usage says no more than its message.
    more = "" if type(error) is UsageError else f": medallion explain {codes[0]}"
    err.print(f"{' ' * len(head)}{', '.join(codes)}{more}", style="dim", highlight=False)


def _lines(error: MedallionError, problems: Sequence[Problem], width: int) -> Iterator[str]:
    """The lines of an error; below a mistake in a file the line of the file."""
    for text, problem in zip_longest([str(error)] if not problems else str(error).split("\n"), problems):
        shown = visible(str(text))
        yield from (wrapped(shown, width, indent="") if err.is_terminal else shown).splitlines()
        if problem is not None:
            yield from (visible(line) for line in list(frame(problem))[1:])
