"""The tutorial, typed from top to bottom in an empty folder: each command does what the pages show.

Files are made of the pages' blocks, and edits of the pages' differences. Times, ports, paths, partitions
and speeds are other ones in each run, and are not compared; rows are compared as they are.
``WRITE_TUTORIAL=1`` writes the output of the run into the pages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes import DEADLINE_SECONDS, ROOT

pytestmark = pytest.mark.long

PAGES = [ROOT / "docs" / "tutorial.md", ROOT / "docs" / "tutorial-changes.md"]
WRITES = "WRITE_TUTORIAL" in os.environ

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"`(\w+\.jsonl)`")
_NOT_COMPARED = re.compile(
    r"starting Kafka|waiting for the broker|broker ready|─+$|topic/partition |orders/\d+ |orders/\d+/\d+: "
    r"|checksum of |.*: [\d,]+( of [\d,]+)? (rows|offsets), [\d.,]+ rows/s"
)
"""Lines of progress, and of partitions and examples that are other ones in each run."""
_LEFT_OUT = re.compile(
    r"starting Kafka|broker ready|embedded Kafka at|Spark [\d.]+ on|.*: reads |  orders/\d+/\d+: "
    r"|(bronze|silver|gold): .* in [\d.,]+ s|(bronze|silver|gold): nothing to read"
)
"""What the first page shows once: where a block of a page has a line ``…``, it stands for such lines."""
_OF_THE_RUN = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*Z?"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"about (a second|[\d.,]+ \w+) at .*"), "SOON"),
    (re.compile(r"[\d.,]+ (s|ms|min|KiB|MiB|B)\b"), "SIZE"),
    (re.compile(r"[\d.,]+(/s| rows/s)"), "SPEED"),
    (re.compile(r"orders/\d+/\d+"), "PLACE"),
    (re.compile(r"part-[\w.-]+"), "FILE"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "DIGEST"),
)


@dataclass(frozen=True)
class Shown:
    """A block of a page: a file to make, an edit of the pipeline, or a command with its output."""

    page: Path
    kind: str
    text: str
    file: str = ""

    @property
    def command(self) -> str:
        """What is typed."""
        return self.text.partition("\n")[0].removeprefix("$ ")

    @property
    def output(self) -> str:
        """What the page shows of it."""
        return self.text.partition("\n")[2]


def shown(page: Path) -> Iterator[Shown]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        names = _FILE.findall(text[: block.start()])
        yield Shown(page, block[1] or "command", block[2], names[-1] if names else "")


def edit(pipeline: Path, difference: str) -> None:
    """Put the lines with a plus in the place of those with a minus."""
    lines = difference.splitlines()
    before = "\n".join(line[1:] for line in lines if line.startswith("-"))
    after = "\n".join(line[1:] for line in lines if line.startswith("+"))
    text = pipeline.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{before!r} is not once in {pipeline}:\n{text}"
    pipeline.write_text(text.replace(before, after), encoding="utf-8")


def typed(command: str, folder: Path) -> str:
    """Type a command in a folder, and return all that it prints, with ``…`` for the folder."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {name: value for name, value in os.environ.items() if not name.startswith("MEDALLION_")}
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**env, "PATH": path, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_SECONDS * 3,
        check=False,
    )
    print(f"$ {command}\n{done.stdout}")  # noqa: T201  # the log of the test
    expected = 6 if command == "medallion plan" else 0
    assert done.returncode == expected, done.stdout
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.replace(str(folder), "…").splitlines())


def shortened(block: Shown, output: str) -> str:
    """The output as the block shows it: whole, or with ``…`` for lines that the first page shows."""
    if "…" not in block.output.splitlines():
        return output
    marked = ["…" if _LEFT_OUT.match(line) else line for line in output.splitlines()]
    kept = [line for place, line in enumerate(marked) if line != "…" or marked[place - 1 : place] != ["…"]]
    return "".join(f"{line}\n" for line in kept)


def compared(command: str, output: str) -> list[str]:
    """The lines that are the same in every run; those of a query in their order, others sorted."""
    squeezed = (" ".join(line.split()) for line in output.splitlines())
    lines = [line for line in squeezed if line != "…" and not _NOT_COMPARED.match(line)]
    if command.startswith("medallion query"):
        return lines
    for pattern, word in _OF_THE_RUN:
        lines = [pattern.sub(word, line) for line in lines]
    return sorted(line for line in lines if line)


def written(page: Path, outputs: list[tuple[Shown, str]]) -> None:
    """Put what the run has printed into the page."""
    text = page.read_text(encoding="utf-8")
    for block, output in outputs:
        text = text.replace(f"```\n{block.text}```", f"```\n$ {block.command}\n{output}```", 1)
    page.write_text(text, encoding="utf-8")


def test_the_tutorial_goes_as_it_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    found: dict[Path, list[tuple[Shown, str]]] = {page: [] for page in PAGES}
    differing = {}
    try:
        for block in (each for page in PAGES for each in shown(page)):
            if block.kind == "json":
                (folder / block.file).write_text(block.text, encoding="utf-8")
            elif block.kind == "diff":
                edit(folder / "pipeline.py", block.text)
            else:
                output = shortened(block, typed(block.command, folder))
                found[block.page].append((block, output))
                expected, got = compared(block.command, block.output), compared(block.command, output)
                if expected != got:
                    differing[block.command] = {"page": expected, "run": got}
    finally:
        if WRITES:
            for page, outputs in found.items():
                written(page, outputs)
    assert len(found[PAGES[0]]) == 7
    assert len(found[PAGES[1]]) >= 15
    assert WRITES or differing == {}
