"""``medallion new``: the files of a first pipeline, from a template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from common.errors import UsageError
from common.machine.console import out
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named

_TEMPLATES = Path(__file__).resolve().parents[3] / "examples" / "templates"
"""The templates of the checkout, or of the wheel, whose package mirrors the checkout's root."""

_NAME_IN_TEMPLATES = "shop"
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_IGNORED = "# What medallion writes beside its tables.\n/data/\n__pycache__/\n"

ExampleOption = Annotated[
    Literal["events", "changes", "files"],
    typer.Option(
        "--example",
        help="events: JSON of a topic; changes: a database table by Debezium; files: a folder of CSV files.",
    ),
]


@command_named("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name, such as shop.")],
    example: ExampleOption = "events",
    as_json: JsonOption = False,
) -> None:
    """Write a first pipeline into this folder: pipeline.py, medallion.yaml, tests, README.md, .gitignore.

    It runs as it is, with a few records to try it with. No file is overwritten.
    """
    if not _NAME.fullmatch(name):
        proposed = "_".join(re.findall(r"[a-z0-9]+", name.lower())).lstrip("0123456789_")
        hint = f"; try {proposed}" if proposed else ""
        raise UsageError(
            f"{name!r} is no name of a pipeline: lower-case words joined by single underscores{hint}"
        )
    files = {**_files(_TEMPLATES / example, name), ".gitignore": _IGNORED}
    if there := [file for file in files if Path(file).exists()]:
        raise UsageError(
            f"this folder has {', '.join(there)} already, and no file is overwritten: mkdir {name}, and "
            f"write it there"
        )
    for file, text in files.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")
    if as_json:
        print_document({"name": name, "example": example, "files": sorted(files)})
        return
    out.print(f"written: {', '.join(sorted(files))}", markup=False, highlight=False, soft_wrap=True)
    out.print(
        "next: medallion check, then medallion test; README.md says what else there is", highlight=False
    )


def _files(folder: Path, name: str) -> Mapping[str, str]:
    """The files of a template by their paths, with the pipeline's name in place of the template's."""
    texts = {
        file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(folder.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    texts["pipeline.py"] = texts["pipeline.py"].replace(f'"{_NAME_IN_TEMPLATES}"', f'"{name}"', 1)
    texts["README.md"] = texts["README.md"].replace(f"# {_NAME_IN_TEMPLATES}", f"# {name}", 1)
    return texts
