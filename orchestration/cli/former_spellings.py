"""Former spellings of commands and options: they go on working, hidden, and say what is written now.

One option has one meaning: ``--plan`` changes nothing, ``--from`` is where records begin, ``--since`` a time,
``--as-of`` a version of a table; ``list`` lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FORMER: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("maintain",): {"--dry-run": "--plan"},
    ("quarantine", "replay"): {"--dry-run": "--plan"},
    ("quarantine",): {"ls": "list"},
    ("alerts",): {"ls": "list"},
    ("backfill",): {"ls": "list"},
    ("init",): {"--from": "--from-file"},
    ("produce",): {"--from": "--from-file"},
    ("jars", "fetch"): {"--from": "--bundle"},
    ("query",): {"--version": "--as-of"},
    ("quality", "profile"): {"--version": "--as-of"},
    ("quality", "run"): {"--since": "--since-version"},
}
"""What is written now, by command and former spelling."""


def current(words: Sequence[str], command: Any) -> tuple[list[str], list[str]]:
    """The words of a command line in today's spelling, and a note for each former one.

    Args:
        command: The command of click with all others in it.
    """
    path: tuple[str, ...] = ()
    written: list[str] = []
    notes: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return [*written, *words[place:]], notes
        name, equals, value = word.partition("=")
        now = FORMER.get(path, {}).get(name if name.startswith("--") else word, name)
        if now != name:
            notes.append(
                f"medallion {' '.join([*path, name])}: write {now} instead of {name}, which still works"
            )
        written.append(now + equals + value)
        if (inner := getattr(command, "commands", {}).get(now)) is not None:
            command, path = inner, (*path, now)
    return written, notes
