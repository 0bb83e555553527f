"""When a query whose micro-batch has failed at a row is tried again: once its sources have newer commits.

Such a query computes its table from versions of its sources. The next attempt at the same micro-batch reads
them to the newest ones, which may have the row corrected; without a newer commit it would fail again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from common.delta.checkpoint import Checkpoint
from common.delta.log import latest_version
from common.delta.micro_batch import MicroBatch
from common.streaming.query import Stream
from orchestration.run.failures.restart_schedule import RestartPolicy, Restarts

_Versions = tuple[int | None, ...]

_LOOK_SECONDS = 2.0
"""How often the sources are looked at, at most."""


@dataclass
class Healing:
    """The queries that have failed at a row and may go on by themselves."""

    policy: RestartPolicy  # how long the pauses between attempts grow
    _read: dict[str, _Versions] = field(default_factory=dict)
    _pauses: dict[str, Restarts] = field(default_factory=dict)

    def failed(self, stream: Stream) -> bool:
        """A micro-batch has failed at a row; whether its query may go on by itself."""
        if not stream.heals:
            return False
        self._read.setdefault(stream.name, _read_to(stream))
        self._pauses.setdefault(stream.name, Restarts(self.policy)).failed()
        return True

    def is_watched(self, name: str) -> bool:
        """Whether a query has failed at a row, and may go on by itself."""
        return name in self._read

    def is_again(self, name: str) -> bool:
        """Whether a query has failed several times, without a micro-batch in between."""
        return name in self._pauses and self._pauses[name].in_a_row > 1

    def has_newer(self, stream: Stream) -> bool:
        """Whether the sources have commits that no attempt has read; the next attempt then reads them."""
        newest = tuple(latest_version(source.path) for source in stream.streamed)
        if newest == self._read[stream.name]:
            return False
        self._read[stream.name] = newest
        return True

    def is_due(self, stream: Stream) -> bool:
        """Whether the query is to be tried again now: its pause is over, and ``has_newer``."""
        pause = self._pauses[stream.name]
        if not pause.is_due():
            return False
        if not self.has_newer(stream):
            pause.due = pause.clock() + _LOOK_SECONDS
            return False
        pause.restarted()
        return True

    def forget(self, name: str) -> None:
        """A query works again, or is started by hand."""
        self._read.pop(name, None)
        self._pauses.pop(name, None)


def _read_to(stream: Stream) -> _Versions:
    """The version of each source to which the planned micro-batch reads."""
    checkpoint = Checkpoint(stream.checkpoint)
    entry = checkpoint.planned_batch(checkpoint.last_planned())
    batch = MicroBatch("", stream.name, "", 0, tuple(entry.sources) if entry else ())
    return tuple(batch.source_version(place) for place in range(len(stream.streamed)))
