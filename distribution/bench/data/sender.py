"""Sends a stream on its schedule, in a process of its own, until it is told to stop.

Each message carries the moment at which it was to be sent, not the one at which it was: a sender that is
held up makes rows older, it does not leave the wait out. How many it sent is in a file at the end.

    with sending(source, stream, folder) as sender:
        ...
        sent = sender.stop()
"""

from __future__ import annotations

import argparse
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distribution.bench.contenders.started_process import Started
from distribution.bench.data.events import Stream
from distribution.bench.data.topic import Letter, Outbox, Source, letters

_TICK_SECONDS = 0.01
_AHEAD_SECONDS = 2
_CHUNKS_PER_SECOND = 5


class Sender:
    """A running sender.

    Attributes:
        started: Its process.
    """

    def __init__(self, started: Started, count: Path) -> None:
        self.started, self._count = started, count

    def stop(self) -> int:
        """Stop it; how many messages of the stream are in the topic now."""
        self.started.stop()
        self.started.await_end(0)
        return int(self._count.read_text(encoding="ascii"))


@contextmanager
def sending(source: Source, stream: Stream, folder: Path) -> Iterator[Sender]:
    """A sender of a stream, begun; nothing of it is left at the end."""
    count = folder / "sent"
    words = ("--bootstrap", source.bootstrap_servers, "--topic", source.topic, "--count", str(count))
    given = ("--seed", str(stream.seed), "--start", str(stream.start), "--per-second", str(stream.per_second))
    with Started("distribution.bench.data.sender", (*words, *given), folder / "sender.log") as started:
        yield Sender(started, count)


def main() -> None:
    """Send until SIGINT."""
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--topic"):
        parser.add_argument(name, required=True)
    for name in ("--seed", "--start", "--per-second"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--count", type=Path, required=True)
    given = parser.parse_args()
    stopped: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
    stream = Stream(seed=given.seed, start=given.start, per_second=given.per_second)
    outbox = Outbox(Source(given.bootstrap, given.topic), linger_ms=5)
    ready: deque[Letter] = deque()
    made = sent = 0
    chunk = max(1, stream.per_second // _CHUNKS_PER_SECOND)
    while not stopped:
        due = (time.time_ns() // 1_000 - stream.start) // stream.step + 1
        while made < due or (made - sent < _AHEAD_SECONDS * stream.per_second and sent >= due):
            ready.extend(letters(stream.batch(made, chunk)))
            made += chunk
        now = max(0, due - sent)
        outbox.send(ready.popleft() for _ in range(now))
        sent += now
        time.sleep(_TICK_SECONDS)
    outbox.close()
    given.count.write_text(str(sent), encoding="ascii")


if __name__ == "__main__":
    main()
