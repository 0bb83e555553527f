"""``medallion jars``: fetches, verifies, lists and exports the locked jars of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from common.config.settings import Settings
from common.errors import JarError
from common.java import jar_cache
from common.java.jar_lock import Jar, State
from common.machine.console import err, out, page
from common.machine.terminal import megabytes
from orchestration.access.query.shown_values import part
from orchestration.cli.grid import Column, Grid
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption

_COLOURS = {"ok": "green", "missing": "yellow", "altered": "bold red"}

SetNameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set-name",
        metavar="NAME",
        help="A set: spark, kafka-server, avro, s3, or packages (spark.packages); repeatable.",
        show_default="all",
    ),
]
FromOption = Annotated[
    Path | None,
    typer.Option("--bundle", metavar="DIR", help="A bundle written by `jars export`; no network is used."),
]

commands = typer.Typer(
    name="jars", no_args_is_help=True, help="The locked jars of Spark and the embedded broker."
)


@commands.command()
def fetch(
    loaded: Settings,
    set_name: SetNameOption = None,
    source: FromOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Download missing or altered jars into the cache, and verify all of them."""
    sets = set_name or (jar_cache.bundle_sets(source) if source else ())
    fetched = jar_cache.fetch(loaded, *sets, source=source)
    states = jar_cache.verify(loaded, *sets)
    if as_json:
        _print_json(loaded, states, fetched=[jar.coordinate for jar in fetched])
    else:
        _print_summary(loaded, states)


@commands.command()
def verify(loaded: Settings, set_name: SetNameOption = None, *, as_json: JsonOption = False) -> None:
    """Read every byte of the cached jars; exit 1 when one is missing or altered."""
    states = jar_cache.verify(loaded, *(set_name or ()))
    faults = [(jar, state) for jar, state in states if state != "ok"]
    if as_json:
        _print_json(loaded, states)
    elif not faults:
        _print_summary(loaded, states)
    for jar, state in faults:
        path = jar_cache.jar_path(loaded, jar)
        err.print(f"{path} is {state}", markup=False, highlight=False, soft_wrap=True)
    if faults:
        raise JarError(
            f"{len(faults)} of {_counted(states)} missing or altered in {jar_cache.cache_dir(loaded)}. "
            "To download them: medallion jars fetch"
        )


@commands.command("list")
def list_jars(loaded: Settings, set_name: SetNameOption = None, *, as_json: JsonOption = False) -> None:
    """List the locked jars: set, coordinate, size and state."""
    states = jar_cache.verify(loaded, *(set_name or ()))
    if as_json:
        _print_json(loaded, states)
        return
    columns = (
        Column("set", rank=1),
        Column("coordinate"),
        Column("size", "right", rank=2),
        Column("state"),
    )
    rows = [
        (jar.set, jar.coordinate, megabytes(jar.size_bytes), Text(state, style=_COLOURS[state]))
        for jar, state in states
    ]
    page().print(Grid(columns, rows))


@commands.command()
def export(
    loaded: Settings,
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the bundle; created if it does not exist.")
    ],
    set_name: SetNameOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Copy the jars and their lock into a folder, for a machine without a network."""
    copies = jar_cache.export(loaded, target, *(set_name or ()))
    if as_json:
        print_document({"bundle": str(target.resolve()), "jars": [str(copy) for copy in copies]})
        return
    size = megabytes(sum(copy.stat().st_size for copy in copies))
    out.print(f"{_counted(copies)}, {size}, in {target}", highlight=False, soft_wrap=True)
    out.print(
        f"on the other machine: medallion jars fetch --bundle {target}", highlight=False, soft_wrap=True
    )


def _counted(things: Sequence[object]) -> str:
    return "1 jar" if len(things) == 1 else f"{len(things)} jars"


def _print_summary(loaded: Settings, states: Sequence[tuple[Jar, State]]) -> None:
    size = megabytes(sum(jar.size_bytes for jar, _ in states))
    text = f"{_counted(states)}, {size}, verified in {jar_cache.cache_dir(loaded)}"
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def _print_json(
    loaded: Settings, states: Sequence[tuple[Jar, State]], *, fetched: Sequence[str] | None = None
) -> None:
    rows = [
        {
            **part(jar, "set", "coordinate", "size_bytes", "sha256"),
            "path": str(jar_cache.jar_path(loaded, jar)),
            "state": state,
        }
        for jar, state in states
    ]
    document: dict[str, object] = {"cache": str(jar_cache.cache_dir(loaded)), "jars": rows}
    if fetched is not None:
        document["fetched"] = list(fetched)
    print_document(document)
