"""Mends the mistakes that have exactly one answer: a word for which the message proposes one other word."""

from __future__ import annotations

import ast
import difflib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import Problem
from orchestration.author.check.locate import Spot, locate

_PROPOSED = re.compile(r"did you mean '([^']+)'\?")
_WRONG = re.compile(r"'([^']+)'|(\S+) is not a setting|(\w+)\(\)")
_AS_LIST = re.compile(r"^(\w+): must be a list, even of one: \[\"([^\"]+)\"\] \(got '\2'\)$")


@dataclass(frozen=True, slots=True)
class Fix:
    """One word of a file, and the word that takes its place."""

    spot: Spot
    text: str

    @property
    def mark(self) -> tuple[Path, int, str]:
        """What a fix that is made a second time has in common with the first."""
        return self.spot.file, self.spot.line, self.text


def fixes(problems: Sequence[Problem]) -> tuple[Fix, ...]:
    """The mistakes that have exactly one answer, in the order of their places; each place once."""
    found: dict[tuple[Path, int, int], Fix] = {}
    for problem in problems:
        fix = _fix(problem)
        if fix is not None:
            found.setdefault((fix.spot.file, fix.spot.line, fix.spot.column), fix)
    return tuple(found[place] for place in sorted(found))


def mended(found: Sequence[Fix]) -> Mapping[Path, tuple[str, str]]:
    """The text of each file before and after its fixes."""
    by_file: dict[Path, list[Fix]] = defaultdict(list)
    for fix in found:
        by_file[fix.spot.file].append(fix)
    return {file: _mended(file, own) for file, own in by_file.items()}


def difference(file: Path, before: str, after: str) -> Iterator[str]:
    """The lines of a unified diff."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), str(file), str(file), lineterm="", n=1
    )
    yield from lines


def _fix(problem: Problem) -> Fix | None:
    spot = locate(problem)
    if spot is None:
        return None
    as_list = _AS_LIST.match(problem.message)
    if as_list is not None:
        return _listed(spot, as_list[2])
    proposed = _PROPOSED.findall(problem.message)
    if len(proposed) != 1:
        return None
    said = problem.message.partition("did you mean")[0]
    for match in _WRONG.finditer(said):
        word = next(filter(None, match.groups()))
        if spot.word == word:
            return Fix(spot, proposed[0])
        # Of a dotted name the file has the last part alone.
        head, _, tail = word.rpartition(".")
        if head and spot.word == tail and proposed[0].rpartition(".")[0] == head:
            return Fix(spot, proposed[0].rpartition(".")[2])
    got = re.search(r"\(got '([^']+)'\)$", problem.message)
    return Fix(spot, proposed[0]) if got is not None and spot.word == got[1] else None


def _listed(spot: Spot, word: str) -> Fix | None:
    """Brackets around a text that must be a list."""
    begin = spot.column - 1
    quoted = spot.text[begin : begin + spot.length]
    if spot.word == word and begin and spot.text[begin - 1] in "\"'":
        begin -= 1
        quoted = spot.text[begin : begin + spot.length + 2]
    try:
        is_whole = ast.literal_eval(quoted) == word
    except (SyntaxError, ValueError):
        return None
    wider = Spot(spot.file, spot.line, begin + 1, len(quoted), spot.text)
    return Fix(wider, f"[{quoted}]") if is_whole else None


def _mended(file: Path, own: Sequence[Fix]) -> tuple[str, str]:
    before = file.read_bytes().decode("utf-8")
    lines = before.splitlines(keepends=True)
    for fix in sorted(own, key=lambda each: each.spot.column, reverse=True):
        line = lines[fix.spot.line - 1]
        begin = fix.spot.column - 1
        lines[fix.spot.line - 1] = line[:begin] + fix.text + line[begin + fix.spot.length :]
    return before, "".join(lines)
