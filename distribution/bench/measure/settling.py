"""Whether the tables of a running contender come to equal the oracle; if not, what is still wrong."""

from __future__ import annotations

import time
from pathlib import Path

from distribution.bench.contenders.contender import Contender
from distribution.bench.contenders.started_process import Started
from distribution.bench.data.events import Stream
from distribution.bench.measure.oracle import Tables, differences, expected

POLL_SECONDS = 2.0


def all_paths(tables: Tables) -> dict[str, Path]:
    """Every table of ours by name, the one of late events among them, whether it is there or not."""
    return {**tables.all(), "late": tables.silver.with_name(f"{tables.silver.name}__late")}


def settled(
    contender: Contender, folder: Path, started: Started, stream: Stream, sent: int, *, seconds: float
) -> list[str]:
    """Wait until all tables are what the messages must become; what differs after so many seconds.

    Args:
        contender: Whose tables.
        folder: Where they are.
        started: Its running process.
        stream: What was sent.
        sent: How many messages of it are in the topic.
        seconds: How long to wait at most.

    Raises:
        ContenderError: The process has ended.
    """
    wanted, tables = expected(stream, sent), contender.tables(folder)
    over = time.monotonic() + seconds
    while found := differences(tables, wanted, may_lack_beyond=contender.drops_beyond):
        started.check()
        if time.monotonic() > over:
            return found
        time.sleep(POLL_SECONDS)
    return []
