"""Plans micro-batches as Spark does, and hands each to the product's function.

An entry of ``offsets`` is written before a micro-batch runs, one of ``commits`` after it. A micro-batch that
is planned and not committed runs again. Offsets of Kafka are compared by number only, as Spark does it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from common.delta.checkpoint import COMMIT_ENTRY, FIRST_HEAD, Checkpoint, offsets_entry
from common.delta.log import LogReader
from common.errors import BrokerAwayError, QueryFailedError
from tests.simulation.broker import TOPIC
from tests.simulation.delta import Row
from tests.simulation.disk import Killed

if TYPE_CHECKING:
    from tests.simulation.world import World

Positions = Sequence[Any]


class Frame:
    """What a query reads: the topic, or tables; and the builder of its query."""

    def __init__(self, world: World, query: str, paths: Sequence[str]) -> None:
        self.world, self.query, self.paths = world, query, tuple(paths)
        self.sparkSession = world.spark
        self._checkpoint = ""
        self._function: Callable[[Any, int], None] = lambda frame, number: None

    @property
    def writeStream(self) -> Self:  # noqa: N802  # Spark's names
        return self

    def queryName(self, name: str) -> Self:  # noqa: N802
        return self

    def outputMode(self, mode: str) -> Self:  # noqa: N802
        return self

    def option(self, name: str, value: str) -> Self:
        self._checkpoint = value
        return self

    def foreachBatch(self, function: Callable[[Any, int], None]) -> Self:  # noqa: N802
        self._function = function
        return self

    def trigger(self, **kind: Any) -> Self:
        return self

    def start(self) -> Query:
        query = Query(self, self._checkpoint, self._function)
        self.world.running.append(query)
        return query


class Query:
    """A running query."""

    def __init__(self, frame: Frame, checkpoint: str, function: Callable[[Any, int], None]) -> None:
        self.frame, self.function, self.world = frame, function, frame.world
        self.checkpoint = Checkpoint(checkpoint)
        self.path = checkpoint
        self.isActive = True
        self.is_in_batch = False
        self._error: BaseException | None = None
        self.done = 0
        self._last: tuple[int, Positions] | None = None
        """The newest micro-batch that has ended, in the memory of the process."""
        self._has_begun = False
        self.id = self.checkpoint.query_id() or self._created()

    def _created(self) -> str:
        created = str(UUID(int=self.world.random.getrandbits(128)))
        self._enter("metadata", json.dumps({"id": created}).encode())
        return created

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": self.is_in_batch}

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802  # Spark's name
        return [{"batchId": self.done}] if self.done else []

    def exception(self) -> BaseException | None:
        return self._error

    def stop(self) -> None:
        self.isActive = False

    def trigger(self) -> bool:
        """Run one micro-batch if there is something to read; whether one ran."""
        if not self.isActive:
            return False
        try:
            return self._run()
        except Killed:
            raise
        except Exception as error:  # the query ends, the process goes on
            if self.world.is_dead:
                raise Killed from error
            self._error, self.isActive = error, False
            return True
        finally:
            self.is_in_batch = False

    def _run(self) -> bool:
        replayed = None if self._has_begun else self._began()
        self._has_begun = True
        number, before = (0, ()) if self._last is None else (self._last[0] + 1, self._last[1])
        if replayed is not None:
            after = replayed
        else:
            after = self._next(before)
            if list(after) == list(before) or not any(after):
                return False
            head = json.dumps({**FIRST_HEAD, "batchTimestampMs": self.world.disk.clock})
            self._enter(f"offsets/{number}", offsets_entry(head, after))
        self.is_in_batch = True
        session = SimpleNamespace(
            conf=SimpleNamespace(get=str, set=lambda name, value: None, unset=lambda name: None),
            sparkContext=SimpleNamespace(getLocalProperty=lambda name: self.id),
        )
        batch = SimpleNamespace(sparkSession=session, rows=lambda: list(self._rows(before, after)))
        self.function(batch, number)
        if self.world.is_dead:
            raise Killed
        self._enter(f"commits/{number}", COMMIT_ENTRY)
        self._last = number, after
        self.done += 1
        return True

    def _enter(self, name: str, content: bytes) -> None:
        """Write a file of the checkpoint; Spark overwrites none."""
        try:
            self.world.disk.create(f"{self.path}/{name}", content)
        except FileExistsError as error:
            raise QueryFailedError(self.frame.query, "another query uses the checkpoint") from error

    def _began(self) -> Positions | None:
        """Take the place of the checkpoint; the positions of a micro-batch that is to run again."""
        planned, committed = self.checkpoint.last_planned(), self.checkpoint.last_committed()
        if planned is None:
            return None
        if planned == committed:
            self._last = planned, self._positions(planned)
            return None
        self._last = (planned - 1, self._positions(planned - 1)) if planned else None
        return self._positions(planned)

    def _positions(self, number: int) -> Positions:
        entry = self.checkpoint.planned_batch(number)
        if entry is None:
            raise QueryFailedError(self.frame.query, f"offsets/{number} is gone")
        return entry.sources

    def _next(self, before: Positions) -> Positions:
        if not self.frame.paths:
            return self._next_offsets(before)
        found: list[Any] = []
        for place, path in enumerate(self.frame.paths):
            was = before[place] if before else None
            latest = LogReader(path).latest_version()
            start = 0 if was is None else was["reservoirVersion"]
            if latest is None or latest < start:
                found.append(was)
                continue
            if was is not None and was["reservoirId"] != self.world.tables.table_id(path):
                raise QueryFailedError(self.frame.query, "the table is another one")
            most = self.world.random.choice((1, 2, 100))
            end = {"sourceVersion": 1, "reservoirId": self.world.tables.table_id(path)}
            end |= {"reservoirVersion": min(latest, start + most - 1) + 1, "index": -1}
            found.append({**end, "isStartingVersion": False})
        return found

    def _next_offsets(self, before: Positions) -> Positions:
        broker = self.world.broker
        if broker.is_away:
            raise BrokerAwayError("the broker does not answer")
        was = before[0][TOPIC] if before else {}
        most = self.world.random.choice((5, 100))
        ends = {}
        for number, partition in enumerate(broker.partitions):
            start = was.get(str(number), broker.first[number])
            if len(partition) < start or start < broker.first[number]:
                raise QueryFailedError(self.frame.query, "Kafka has lost offsets")
            ends[str(number)] = min(len(partition), start + most)
        if not was and not any(ends.values()):
            return before
        return [{TOPIC: ends}]

    def _rows(self, before: Positions, after: Positions) -> Iterator[Row]:
        if not self.frame.paths:
            yield from self._records(before, after)
        for place, path in enumerate(self.frame.paths):
            log = LogReader(path)
            start = before[place]["reservoirVersion"] if before and before[place] else 0
            for version in range(start, after[place]["reservoirVersion"] if after[place] else 0):
                commit = log.commit(version)
                if commit is None:
                    raise QueryFailedError(self.frame.query, f"version {version} of its source is gone")
                if not commit.is_change:
                    yield from self.world.tables.rows_of(path, [one.path for one in commit.added])

    def _records(self, before: Positions, after: Positions) -> Iterator[Row]:
        broker = self.world.broker
        if broker.is_away:
            raise BrokerAwayError("the broker does not answer")
        for number, end in after[0][TOPIC].items():
            start = before[0][TOPIC].get(number, 0) if before else broker.first[int(number)]
            if len(broker.partitions[int(number)]) < end:
                raise QueryFailedError(self.frame.query, "Kafka has lost offsets")
            for offset, sent in broker.records(int(number), start, end):
                yield [TOPIC, int(number), offset, sent.at_ms, sent.number]
