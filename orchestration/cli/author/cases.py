"""``medallion test``: runs a pipeline's own tests, and records new ones."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from common.config.settings import Settings
from common.errors import CaseError, CasesFailedError, MedallionError, UsageError
from common.machine.console import err, out, say
from orchestration.access.declaration.context import Context
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named

if TYPE_CHECKING:
    from orchestration.author.cases.run_case import Outcome
    from orchestration.author.cases.session import CaseSession
    from orchestration.author.cases.suite import Suite

_POLL_SECONDS = 0.3

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE…]",
        help="Files of cases.",
        show_default="*.cases.yaml and *.cases.py beside the pipeline",
    ),
]
RecordOption = Annotated[
    str | None,
    typer.Option(
        "--record",
        metavar="SOURCE",
        help="Write a case instead: of bronze's records TOPIC/PARTITION/OFFSET or "
        "TOPIC/PARTITION/FIRST-LAST, or of the newest record in silver.NAME__quarantine.",
    ),
]


@command_named("test")
def command(
    ready: Context,
    files: FilesArgument = None,
    *,
    only: Annotated[
        str | None, typer.Option("-k", metavar="TEXT", help="Only cases with this text in their names.")
    ] = None,
    is_watching: Annotated[
        bool, typer.Option("--watch", help="Run again when a file changes; Spark stays warm.")
    ] = False,
    record: RecordOption = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="With --record: of the quarantine, only these rows."),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", help="With --record: also expect this table's rows; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline's own tests: given messages, expected rows of silver, quarantine, late and gold.

    No broker is needed, and no table of the pipeline is touched. Exit code 5 if a case fails.
    """
    from orchestration.run.supervisor import term_interrupts

    with term_interrupts():
        if record is not None:
            _record(ready, record, where=where, tables=tables or (), to=files)
        elif is_watching:
            _watch(ready, files or (), only)
        else:
            _run_once(ready.settings, files or (), only, as_json=as_json)


def _run_once(settings: Settings, files: Sequence[Path], only: str | None, *, as_json: bool) -> None:
    from orchestration.author.cases.output import outcome_document, summary
    from orchestration.author.cases.session import open_cases

    suite = _suite(settings, files, only)
    began = time.monotonic()
    with open_cases(settings) as session:
        started = time.monotonic() - began
        outcomes = _run(session, suite, settings, is_quiet=as_json)
    if as_json:
        print_document({"cases": [outcome_document(one) for one in outcomes]})
    else:
        out.print(summary(outcomes, time.monotonic() - began - started, started), highlight=False)
    if not all(outcome.has_passed for outcome in outcomes):
        raise typer.Exit(CasesFailedError.exit_code)


def _suite(settings: Settings, files: Sequence[Path], only: str | None) -> Suite:
    """The cases to run."""
    from dataclasses import replace

    from orchestration.author.cases.suite import load_suite

    suite = load_suite(files, settings)
    if suite.problems:
        raise CaseError(suite.problems)
    if only is None:
        return suite
    chosen = tuple(pair for pair in suite.cases if only.lower() in pair[0].name.lower())
    if not chosen:
        raise UsageError(f"-k {only}: no case has this text in its name; there are {len(suite.cases)} cases.")
    return replace(suite, cases=chosen)


def _run(session: CaseSession, suite: Suite, settings: Settings, *, is_quiet: bool = False) -> list[Outcome]:
    from orchestration.author.cases.output import file_of, print_outcome

    shown: list[str] = []

    def print_one(outcome: Outcome) -> None:
        if is_quiet:
            return
        if (file := file_of(outcome.case)) not in shown[-1:]:
            shown.append(file)
            out.print(file, markup=False, highlight=False, soft_wrap=True)
        print_outcome(out, outcome)

    return session.run([(case, pipeline, settings) for case, pipeline in suite.cases], print_one)


def _watch(ready: Context, files: Sequence[Path], only: str | None) -> None:
    """Run the cases now, and after each change of a file those that changed, until Ctrl-C."""
    from dataclasses import replace

    from orchestration.author.cases.output import summary
    from orchestration.author.cases.session import open_cases
    from orchestration.author.cases.suite import forget_modules
    from orchestration.author.cases.unchanged import PassedCases

    watched: Sequence[Path] = tuple(files) or tuple(filter(None, [ready.settings.pipeline]))
    passed = PassedCases()
    with open_cases(ready.settings) as session:
        while True:
            before = _times(watched)
            forget_modules(watched)
            began = time.monotonic()
            try:
                suite = _suite(ready.settings, files, only)
                watched = suite.files
                before = _times(watched)
                cases = passed.changed(suite.cases, ready.settings, before)
                outcomes = _run(session, replace(suite, cases=cases), ready.settings)
                passed.learn(cases, outcomes, ready.settings, before)
                kept = len(suite.cases) - len(cases)
                out.print(summary(outcomes, time.monotonic() - began, None, kept), highlight=False)
            except MedallionError as error:
                say(f"error: {error}")
            err.print("waiting for a change of a file; Ctrl-C ends", style="dim", highlight=False)
            while _times(watched) == before:
                time.sleep(_POLL_SECONDS)
            out.print(time.strftime("\n%H:%M:%S"), highlight=False)


def _times(files: Sequence[Path]) -> dict[Path, float]:
    """When each file in the folders of these files was changed."""
    found: dict[Path, float] = {}
    for folder in {file.resolve().parent for file in files}:
        for file in folder.iterdir():
            if file.is_file() and not file.name.startswith("."):
                found[file] = file.stat().st_mtime
    return found


def _record(
    ready: Context, source: str, *, where: str | None, tables: Sequence[str], to: Sequence[Path] | None
) -> None:
    from orchestration.access.declaration.load_file import load_pipeline
    from orchestration.author.cases.record import record_case

    if to is not None and len(to) > 1:
        raise UsageError("--record writes into one file; name one, or none.")
    pipeline_file = ready.settings.pipeline
    file = to[0] if to else (pipeline_file or Path()).with_name("recorded.cases.yaml")
    plain = load_pipeline(pipeline_file)
    made = record_case(ready.pipeline, plain, ready.settings, source, where=where, tables=tables, file=file)
    sys.stdout.write(made)
    say(f"written to {file}: it has the records' payloads, and today's result as what is expected")
