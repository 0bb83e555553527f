"""What the newest audit has found of a topic's receipts: a file per bronze table, beside the last audit's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from common.config.paths import Layout
from common.machine.files.state_file import StateFile


@dataclass(frozen=True, slots=True)
class ReceiptsState:
    """What was found, and when."""

    at: datetime
    text: str  # how many records have no receipt, which, since when, and when the newest receipt came
    without: int  # how many records of bronze have none
    since: datetime | None  # Kafka's time of the oldest of them
    faults: int
    wrong: tuple[str, ...] = ()  # the names of receipts of whose records bronze has others, or not all


_FILE = StateFile(ReceiptsState)


def keep_receipts_state(layout: Layout, bronze: str, state: ReceiptsState) -> None:
    """Replace what is known of a bronze table."""
    _FILE.write(*_file(layout, bronze), state)


def receipts_state(layout: Layout, bronze: str) -> ReceiptsState | None:
    """What is known of a bronze table; None before the first audit that read its receipts."""
    return _FILE.read_or_none(*_file(layout, bronze))


def _file(layout: Layout, bronze: str) -> tuple[Path, str]:
    return layout.local / "audit", f"{bronze}.receipts.json"
