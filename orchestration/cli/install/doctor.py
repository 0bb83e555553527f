"""``medallion doctor`` examines this machine; ``medallion setup`` installs what a first run needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from common.config.settings import Settings
from common.java import jar_cache
from common.java.compile_sources import reader_jar
from common.java.find_java import Java
from common.java.sealed_file import state_of
from common.machine.console import awaited, err, out, page
from common.machine.terminal import megabytes, say, wrapped
from common.spark import class_archive
from orchestration.access.declaration.context import Context
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named
from orchestration.install.machine.doctor import EAGER_SETS, Finding, examine
from orchestration.install.machine.setup import ensure_java

_WIDEST_NAME = 24
_STYLES = {"ok": "green", "warn": "bold yellow", "fail": "bold red"}


@command_named("doctor")
def doctor(ready: Context, *, as_json: JsonOption = False) -> None:
    """Examine what a run needs, with advice; exit code 1 where a run would fail."""
    loaded = ready.settings
    if as_json:
        findings = list(examine(loaded))
        states = Counter(finding.state for finding in findings)
        document = {"ok": not states["fail"], "findings": [asdict(finding) for finding in findings]}
        print_document(document)
    else:
        with err.status("examining this machine"):
            findings = list(examine(loaded))
        states = Counter(finding.state for finding in findings)
        page().print(_Page(findings), crop=False)
        warnings, failures = _counted(states["warn"], "warning"), _counted(states["fail"], "failure")
        out.print(Text(f"\n{states['ok']} ok, {warnings}, {failures}"))
    if states["fail"]:
        raise typer.Exit(1)


@command_named("setup")
def setup(loaded: Settings, *, as_json: JsonOption = False) -> None:
    """Install what a first run needs: Java if there is none, and the jars of Spark and the broker."""
    java = ensure_java(loaded)
    sets = (*EAGER_SETS, jar_cache.PACKAGES)
    paths = jar_cache.require(loaded, *sets)
    reader = reader_jar(loaded)
    classes = _class_archive(loaded, java)
    if as_json:
        found = {"home": str(java.home), "version": java.version, "origin": java.origin}
        document = {"java": found, "jars": [str(path) for path in paths], "class_archive": classes}
        document["value_reader"] = str(reader)
        print_document(document)
        return
    size = megabytes(sum(jar.size_bytes for jar in jar_cache.jars_of(loaded, *sets)))
    for line in (
        f"Java {java.version} in {java.home} (found by: {java.origin})",
        f"{len(paths)} jars, {size}, verified in {jar_cache.cache_dir(loaded)}",
    ):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _class_archive(loaded: Settings, java: Java) -> str | None:
    """Path of the class data sharing archive of Spark's classes, recorded if there is none.

    ``None`` if this Java cannot record one.
    """
    class_path = (*jar_cache.require(loaded, *jar_cache.session_sets(loaded)), reader_jar(loaded))
    file = class_archive.archive_file(java, class_path)
    if state_of(file) != "ok":
        say(
            err,
            "recording an archive of Spark's classes, once (half a minute where cores are free, 190 MB): "
            "starts are 5 s faster",
        )
        with awaited("the archive"):
            made = class_archive.create_archive(loaded, java, class_path)
        if made is None:
            say(
                err,
                f"no archive was made ({file.with_suffix('.log')} says why): a start takes about 5 s longer",
            )
            return None
    return str(file)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


class _Page:
    """The findings by area, in the order of the probes; advice stands on lines of its own."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._findings = findings

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = min(_WIDEST_NAME, max(len(finding.name) for finding in self._findings))
        for area in dict.fromkeys(finding.area for finding in self._findings):
            yield Text(area, style="bold")
            for finding in self._findings:
                if finding.area == area:
                    yield from _lines(finding, names, options.max_width)


def _lines(finding: Finding, names: int, width: int) -> Iterator[Text]:
    state = f"  {finding.state:<4}  "
    name = f"{finding.name:<{names}}  "
    value = wrapped(finding.value, width, indent=" " * len(state), used=len(state) + len(name))
    yield _unbroken(Text.assemble((state, _STYLES[finding.state]), name, value))
    if finding.advice:
        indent = " " * (len(state) + 2)
        advice = wrapped(finding.advice, width, indent=indent, used=len(indent))
        yield _unbroken(Text(f"{indent[:-2]}→ {advice}", style="cyan"))


def _unbroken(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ignore"
    return text
