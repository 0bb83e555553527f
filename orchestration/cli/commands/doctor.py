"""``medallion doctor`` (what this machine has and lacks) and ``medallion setup`` (bring what it lacks)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import typer
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from common.config.settings import Settings
from common.java import jar_cache
from common.java.compile_sources import reader_jar
from common.java.find_java import Java
from common.java.sealed_file import state_of
from common.machine.console import err, out, page
from common.machine.terminal import megabytes, say
from common.spark import class_archive
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption, context
from orchestration.install.doctor import EAGER_SETS, Finding, examine
from orchestration.install.setup import ensure_java

_STYLES = {"ok": "green", "warn": "bold yellow", "fail": "bold red"}


def register(app: typer.Typer) -> None:
    """Add ``doctor`` and ``setup`` to the command line."""
    app.command()(doctor)
    app.command()(setup)


def doctor(
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    overrides: SetOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Look at all that a run needs, and say what to do; exit 1 when something would fail."""
    chosen = context(pipeline, settings, overrides).settings
    if as_json:
        findings = list(examine(chosen))
        states = Counter(finding.state for finding in findings)
        document = {"ok": not states["fail"], "findings": [asdict(finding) for finding in findings]}
        out.print_json(json.dumps(document))
    else:
        with err.status("looking around"):
            findings = list(examine(chosen))
        states = Counter(finding.state for finding in findings)
        page().print(_page(findings))
        out.print(Text(f"\n{states['ok']} ok, {states['warn']} to look at, {states['fail']} to repair"))
    if states["fail"]:
        raise typer.Exit(1)


def setup(
    settings: SettingsOption = None, overrides: SetOption = None, *, as_json: JsonOption = False
) -> None:
    """Bring what a first run needs: a Java where there is none, and the jars of Spark and the broker."""
    chosen = context(settings=settings, overrides=overrides).settings
    java = ensure_java(chosen)
    paths = jar_cache.require(chosen, *EAGER_SETS)
    reader = reader_jar(chosen)
    classes = _class_archive(chosen, java)
    if as_json:
        found = {"home": str(java.home), "version": java.version, "origin": java.origin}
        document = {"java": found, "jars": [str(path) for path in paths], "class_archive": classes}
        document["value_reader"] = str(reader)
        out.print_json(json.dumps(document))
        return
    size = megabytes(sum(jar.size_bytes for jar in jar_cache.locked(*EAGER_SETS)))
    for line in (
        f"Java {java.version} in {java.home} (found by: {java.origin})",
        f"{len(paths)} jars, {size}, verified in {jar_cache.cache_dir(chosen)}",
    ):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def _class_archive(chosen: Settings, java: Java) -> str | None:
    """Path of the archive of Spark's classes, made now where there is none; ``None`` if it cannot be."""
    class_path = (*jar_cache.require(chosen, "spark"), reader_jar(chosen))
    file = class_archive.archive_file(java, class_path)
    if state_of(file) != "ok":
        say(err, "recording Spark's classes, once: half a minute, 190 MB in the cache, shorter starts after")
        if class_archive.create_archive(chosen, java, class_path) is None:
            say(err, "this Java keeps no archive of classes; starts take some five seconds longer")
            return None
    return str(file)


def _page(findings: Sequence[Finding]) -> Group:
    """The findings under their areas, in the order in which they were made."""
    parts: list[Text | Padding] = []
    width = max(len(finding.name) for finding in findings)
    for area in dict.fromkeys(finding.area for finding in findings):
        table = Table.grid(padding=(0, 2))
        table.add_column(width=4)
        table.add_column(min_width=min(width, 24), overflow="fold")
        table.add_column(overflow="fold")
        for finding in findings:
            if finding.area == area:
                table.add_row(*_cells(finding))
        parts += [Text(area, style="bold"), Padding(table, (0, 0, 0, 2))]
    return Group(*parts)


def _cells(finding: Finding) -> tuple[Text, Text, Text]:
    value = Text(finding.value)
    if finding.advice:
        value.append(f"\n→ {finding.advice}", style="cyan")
    return Text(finding.state, style=_STYLES[finding.state]), Text(finding.name), value
