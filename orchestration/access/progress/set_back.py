"""Whether a broker still has the records that bronze has read: an older copy of it lacks some.

The id of the topic stays what it was, and once as many new records have come, the offsets fit again. So the
last record that bronze has of each partition is compared with the broker's record at that offset: bytes and
Kafka timestamp. Where they differ, or the topic ends before, the last offset up to which both have the same
records is searched by halves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from common.machine.object_store import storage_options
from common.streaming.topic_identity import (
    RECOVERED,
    SAME_TOPIC,
    BrokerTopic,
    SetBack,
    TopicState,
    read_ends,
    recorded_topics,
)
from orchestration.access.kafka.single_records import Record, SingleRecords, digest

if TYPE_CHECKING:
    import pyarrow.compute as pc

_SECONDS = 3.0
"""How long records are waited for; what has not come until then is not compared."""

_NEAR = 16
"""Offsets before the end in which the last record is looked for: a transaction's marker has none."""


def with_set_back(
    path: str,
    last: Mapping[str, Any],
    found: Mapping[str, BrokerTopic],
    bootstrap: str,
    options: Mapping[str, str],
) -> dict[str, BrokerTopic]:
    """Topics as the broker has them, with the partitions that were set back, and what was not compared.

    Args:
        path: The bronze table.
        last: The metadata of its newest micro-batch.
        found: The topics that the broker has; topics with another id than bronze has read are left as they
            are.
        bootstrap: The broker's address.
        options: Client options.

    Raises:
        BrokerError: The topics cannot be read by this user.
    """
    states, ends = recorded_topics(last), read_ends(last)
    moved = {name for name, way in (last.get(RECOVERED) or {}).items() if way == SAME_TOPIC}
    checked = {
        name: states.get(name, TopicState())
        for name in found
        if name in ends and name not in moved and states.get(name, TopicState()).id in {"", found[name].id}
    }
    if not checked:
        return dict(found)
    rows = _BronzeRows(path)
    read = {name: rows.last(_Names.of(name, state), ends[name]) for name, state in checked.items()}
    if not any(read.values()):
        return dict(found)
    with SingleRecords(bootstrap, options) as client:
        compared = {}
        for name, state in checked.items():
            comparison = _Comparison(client, rows, _Names.of(name, state), found[name], ends[name])
            compared[name] = comparison.compared(read[name])
    return {**found, **compared}


@dataclass(frozen=True, slots=True)
class _Names:
    """A topic's name, and what its rows have as topic: the newest generation first.

    A generation that began at a later offset has the records before it of the generation before.
    """

    topic: str
    rows: tuple[str, ...]

    @classmethod
    def of(cls, topic: str, state: TopicState) -> _Names:
        """The names of a topic and its generations."""
        generations = range(state.generation, 0, -1)
        return cls(topic, tuple(TopicState(generation=each).coordinate(topic) for each in generations))


@dataclass(frozen=True)
class _Comparison:
    """Compares one topic with what bronze has read of it.

    Attributes:
        client: Reads records of the broker.
        rows: Reads those of bronze.
        names: The topic's names.
        now: The topic as the broker has it.
        ends: Per partition, the next offset that bronze reads.
    """

    client: SingleRecords
    rows: _BronzeRows
    names: _Names
    now: BrokerTopic
    ends: Mapping[int, int]

    def compared(self, read: Mapping[int, int]) -> BrokerTopic:
        """The topic with what was set back and what was not compared.

        Args:
            read: Per partition, the offset of the last record that bronze has.
        """
        first, end = self.now.first, self.now.end
        short = [n for n in read if end.get(n, 0) < self.ends[n]]
        there = {n: offset for n, offset in read.items() if first.get(n, 0) <= offset < end.get(n, 0)}
        theirs, mine = self._theirs(there), self.rows.records(self.names, there)
        unknown = [n for n in there if n not in theirs or n not in mine or theirs[n].offset != there[n]]
        changed = [n for n in there if n not in unknown and theirs[n] != mine[n]]
        unknown += [n for n in read if n not in there and n not in short]
        common = self._common_ends({*changed, *short})
        back = {
            n: SetBack(end, self.rows.count(self.names, n, end, self.ends[n])) for n, end in common.items()
        }
        return replace(self.now, set_back=back, not_compared=tuple(sorted({*unknown} - {*back})))

    def _common_ends(self, partitions: Collection[int]) -> dict[int, int]:
        """Per partition, the offset up to which broker and bronze have the same records."""
        low = {n: self.now.first.get(n, 0) for n in partitions}
        high = {n: max(low[n], min(self.ends[n], self.now.end.get(n, 0))) for n in partitions}
        while looked := {n: (low[n] + high[n]) // 2 for n in partitions if low[n] < high[n]}:
            theirs = {n: one for n, one in self._theirs(looked).items() if one.offset < high[n]}
            mine = self.rows.records(self.names, {n: one.offset for n, one in theirs.items()})
            for number, middle in looked.items():
                if number in theirs and theirs[number] == mine.get(number):
                    low[number] = theirs[number].offset + 1
                else:
                    high[number] = middle
        return low

    def _theirs(self, places: Mapping[int, int]) -> dict[int, Record]:
        """The broker's first record from an offset on, by partition."""
        wanted = [(self.names.topic, number, offset) for number, offset in places.items()]
        found = self.client.first(wanted, _SECONDS) if wanted else {}
        return {number: record for (_, number, _), record in found.items()}


class _BronzeRows:
    """Rows of a bronze table by their coordinates; files are chosen by their statistics."""

    def __init__(self, path: str) -> None:
        from deltalake import DeltaTable

        self._data = DeltaTable(path, storage_options=storage_options(path)).to_pyarrow_dataset()

    def last(self, names: _Names, ends: Mapping[int, int]) -> dict[int, int]:
        """Per partition, the offset of the newest generation's last row before an end, if it is near that."""
        near = [_at(names.rows, number, max(0, end - _NEAR), end) for number, end in ends.items() if end > 0]
        if not near:
            return {}
        rows = self._data.to_table(columns=["topic", "partition", "offset"], filter=reduce(or_, near))
        found = rows.group_by(["topic", "partition"]).aggregate([("offset", "max")]).to_pylist()
        found.sort(key=lambda row: names.rows.index(row["topic"]), reverse=True)
        return {row["partition"]: row["offset_max"] for row in found}

    def records(self, names: _Names, places: Mapping[int, int]) -> dict[int, Record]:
        """The table's records at an offset per partition, of the newest generation that has them."""
        wanted = [_at(names.rows, number, offset, offset + 1) for number, offset in places.items()]
        if not wanted:
            return {}
        rows = self._data.to_table(filter=reduce(or_, wanted)).to_pylist()
        rows.sort(key=lambda row: names.rows.index(row["topic"]), reverse=True)
        return {row["partition"]: _record(row) for row in rows}

    def count(self, names: _Names, partition: int, first: int, end: int) -> int:
        """How many rows the table has of the newest generation from one offset to before another."""
        return int(self._data.count_rows(filter=_at(names.rows[:1], partition, first, end)))


def _at(topics: Collection[str], partition: int, first: int, end: int) -> pc.Expression:
    import pyarrow.compute as pc

    offset = pc.field("offset")
    is_there = pc.field("topic").isin(list(topics)) & (pc.field("partition") == partition)
    return is_there & (offset >= first) & (offset < end)


def _record(row: Mapping[str, Any]) -> Record:
    headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
    sent = digest(row["key"], row["value"], headers)
    return Record(row["offset"], round(row["kafka_timestamp"].timestamp() * 1000), sent)
