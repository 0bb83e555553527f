"""Which shard of the long tests a test file is in: the same for every run of a commit. What each file costs.

``seconds.tsv`` has a line per file: the seconds of its long and drawn tests, added up over the workers.
``test_cpu.tsv`` has the CPU seconds of each file in ``make test``. ``python -m tests.runs weigh`` writes into
both what the last runs of this folder have measured.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

SHARDS = 12
TURN = 2
"""Shards that a run of CI runs."""
TABLE = Path(__file__).with_name("seconds.tsv")
TEST_CPU = TABLE.with_name("test_cpu.tsv")
DEARER_SECONDS = 5.0
NEW_FILE_SECONDS = 60.0
"""A file that the table lacks counts as so many."""
DEALT = frozenset({"tests/pipeline/gold/statements/test_drawn.py"})
"""Files whose long tests are dealt to all shards by the number of their ``part``: too long for one."""
PARTS = 20
"""Parts of such a test that one shard has, one per run of it."""


T = TypeVar("T")


@cache
def commits() -> int:
    """The number of commits up to the one that is checked out; 0 outside of a repository."""
    command = ["git", "rev-list", "--count", "HEAD"]
    counted = subprocess.run(command, cwd=TABLE.parent, capture_output=True, text=True, check=False).stdout
    return int(counted or 0)


def turn(number: int) -> list[int]:
    """The shards of a commit, by the number of commits up to it: after six commits each has had its turn."""
    return [(number * TURN + place) % SHARDS + 1 for place in range(TURN)]


def in_turn(cases: Sequence[T], of: int) -> Sequence[T]:
    """Every ``of``-th case of many that repeat a proof; the others when their shard has its next turn.

    With the variable ``TESTS_EVERY`` it is all of them.
    """
    return cases if "TESTS_EVERY" in os.environ else cases[commits() * TURN // SHARDS % of :: of]


def read_seconds(table: Path = TABLE) -> dict[str, float]:
    """The seconds of each test file in the table; a file's name begins with ``tests/``."""
    lines = table.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines if line and not line.startswith("#"))
    return {file: float(seconds) for seconds, file in pairs}


def write_seconds(seconds: Mapping[str, float], table: Path = TABLE) -> None:
    """Replace the lines of the table, and keep its comment."""
    comment = [line for line in table.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    digits = 1 if table.name == TEST_CPU.name else 0
    lines = [f"{one:.{digits}f}\t{file}" for file, one in sorted(seconds.items())]
    table.write_text("\n".join([*comment, *lines, ""]), encoding="utf-8")


def shards_of(
    files: Iterable[str], seconds: Mapping[str, float] | None = None, shards: int = SHARDS
) -> dict[str, int]:
    """The shard of each file, from 1: the slowest files first, each into the shard that has least.

    Files that the table lacks come last, by name: a new file moves no other one. Those of ``DEALT`` are left
    out: each shard has as much of them.
    """
    known = read_seconds() if seconds is None else seconds
    ordered = sorted(known.keys() - DEALT, key=lambda file: (-known[file], file))
    ordered += sorted(set(files) - known.keys() - DEALT)
    loads = [0.0] * shards
    found = {}
    for file in ordered:
        lightest = loads.index(min(loads))
        loads[lightest] += known.get(file, NEW_FILE_SECONDS)
        found[file] = lightest + 1
    return found


def shard_of_part(part: int) -> int:
    """The shard of one test of a file of ``DEALT``, from 1."""
    return part // PARTS % SHARDS + 1


def dearer(measured: Mapping[str, float], known: Mapping[str, float]) -> list[str]:
    """Files of ``make test`` that take twice the CPU seconds of the table, or are new, and what they take."""
    return [
        f"{file}: {known.get(file, 0.0):.0f} -> {cpu:.0f} CPU s"
        for file, cpu in sorted(measured.items(), key=lambda each: -each[1])
        if cpu > 2 * known.get(file, 0.0) and cpu - known.get(file, 0.0) > DEARER_SECONDS
    ]
