"""Whether a broker still has the records that bronze has read: an older copy of it lacks some.

The id of the topic stays what it was, and once as many new records have come, the offsets fit again. So the
last record that bronze has of each partition is compared with the broker's record at that offset: bytes and
Kafka timestamp. Where they differ, or the topic ends before, the last offset up to which both have the same
records is searched. Behind its last record bronze has read offsets without one, such as those of
an aborted transaction: a record that the broker has there now is another history too, unless it was erased or
has expired in bronze.

A start compares all partitions. A running job compares those that a micro-batch reads on, before it is
written (``RecordWatch``): a broker may be put back at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from common.config.paths import ERASED as ERASED_RECORDS
from common.config.paths import Layout
from common.delta.log import LogReader, latest_version
from common.delta.maintenance.retention import expired_topics
from common.delta.micro_batch import KafkaOffsets
from common.delta.small_table import told_errors
from common.delta.table import ERASED
from common.errors import HistoryGoneError, TableError, first_line
from common.machine.file_modes import DISK_REFUSES, USER_IS_REFUSED
from common.machine.object_store import storage_options
from common.machine.storage_folder import StorageFolder
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
from orchestration.access.progress.erased import after_erased

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow.dataset import Dataset

_SECONDS = 30.0
"""How long records are waited for; without them nothing may be written: it would replace what is compared."""

_WINDOWS = (16, 10_000, 2**63)
"""Offsets before the end in which the last record is looked for, one after the other: most are near, and the
statistics of files then rule out all but the newest."""

_MOST_RUNS = 1_000
"""How many runs of erased records are passed over before it is left open whether others are behind them."""

_COLUMNS = ["topic", "partition", "offset", "kafka_timestamp", "key", "value", "headers"]

_ROWS = 1_024
"""How many rows with their content are looked through at once."""


def with_set_back(  # noqa: PLR0913, PLR0917  # both sides
    layout: Layout,
    table: str,
    last: Mapping[str, Any],
    found: Mapping[str, BrokerTopic],
    bootstrap: str,
    options: Mapping[str, str],
) -> dict[str, BrokerTopic]:
    """Topics as the broker has them, with the partitions that were set back, and what was not compared.

    Args:
        last: The metadata of its newest micro-batch.
        found: The topics that the broker has; topics with another id than bronze has read are left as they
            are.

    Raises:
        BrokerError: The topics cannot be read by this user, or the broker does not answer.
        HistoryGoneError: A file of the bronze table cannot be read.
    """
    states, ends, moved = recorded_topics(last), read_ends(last), _moved(last)
    checked = {
        name: states.get(name, TopicState())
        for name in found
        if any(ends.get(name, {}).values()) and states.get(name, TopicState()).id in {"", found[name].id}
    }
    if not checked:
        return dict(found)
    compared, path = {}, layout.table_path(table)
    with _explained(path):
        rows, taken = _BronzeRows(path), _Taken(layout, table, LogReader(path).properties())
        names = {name: _Names.of(name, state) for name, state in checked.items()}
        read = {name: rows.last(names[name], ends[name]) for name in checked if name not in moved}
        with SingleRecords(bootstrap, options) as client:
            for name, state in checked.items():
                sides = client, rows, taken, names[name], found[name], ends[name]
                comparison = _Comparison(*sides, is_same=bool(state.id))
                if name in moved:
                    compared[name] = replace(found[name], set_back=comparison.cut_off(ends[name]))
                else:
                    compared[name] = comparison.compared(read[name])
    return {**found, **compared}


def _moved(last: Mapping[str, Any]) -> set[str]:
    """Topics that a micro-batch goes on with in a copy: Kafka's timestamps may be others there."""
    return {name for name, way in (last.get(RECOVERED) or {}).items() if way == SAME_TOPIC}


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Name the bronze table, and what to do, where a file of it cannot be read.

    Raises:
        OSError: The object store does not answer, or the system refuses this user or the disk.
    """

    def told(error: Exception) -> TableError:
        if isinstance(error, OSError) and error.errno in DISK_REFUSES | USER_IS_REFUSED:
            raise error
        return HistoryGoneError(
            f"{path} cannot be read: {first_line(error)}. A file of the table is damaged or gone. Nothing "
            "was written. Restore the file from a copy; what can be done without one: medallion recover "
            "--plan"
        )

    with told_errors(told):
        yield


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


@dataclass(frozen=True, slots=True)
class _Taken:
    """Which records were erased or have expired in bronze: the broker may have them still."""

    layout: Layout  # where the tables are
    table: str  # the bronze table
    properties: Mapping[str, str]  # its properties

    def after(self, names: _Names, partition: int, offset: int) -> int | None:
        """The first offset from one on whose record was not taken out; None where that cannot be told."""
        if ERASED in self.properties and latest_version(self.layout.table_path(ERASED_RECORDS)) is None:
            return None  # which records were erased is not noted any more
        newest, older = names.rows[:1], names.rows[1:]
        try:
            if older and self._after(older, partition, offset) != offset:
                return None  # it may be a record of that generation, or none
            return self._after(newest, partition, offset)
        except TableError:
            return None

    def expired_end(self, topics: Sequence[str], partition: int) -> int:
        """The offset behind the last expired record."""
        known = expired_topics(self.properties)
        return max(
            (known[one].offsets.get(partition, (0, 0))[1] for one in topics if one in known), default=0
        )

    def _after(self, topics: Sequence[str], partition: int, offset: int) -> int:
        offset = max(offset, self.expired_end(topics, partition))
        return after_erased(self.layout, self.table, topics, partition, offset)


class _Met(NamedTuple):
    """A record of the broker that was not taken out of bronze, or none."""

    begin: int  # an offset behind what was erased before it: that must not come back
    offset: int | None  # its offset; None where there is none


@dataclass(frozen=True)
class _Comparison:
    """Compares one topic with what bronze has read of it."""

    client: SingleRecords  # reads records of the broker
    rows: _BronzeRows  # reads those of bronze
    taken: _Taken  # tells which of them bronze has no longer
    names: _Names  # the topic's names
    now: BrokerTopic  # the topic as the broker has it
    ends: Mapping[int, int]  # per partition, the next offset that bronze reads
    is_same: bool  # whether the topic's id is that of the one that bronze has read; else there is no id

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
        unknown += [n for n, end in self.ends.items() if end > 0 and n not in read]
        common = self._common_ends({*changed, *short})
        same = {n: read[n] + 1 for n in there if n not in {*unknown, *common} and read[n] + 1 < self.ends[n]}
        behind, unsure = self._not_taken(same, self.ends)
        unknown += unsure
        common |= {n: one.begin for n, one in behind.items() if one.offset is not None}
        back = {
            n: SetBack(end, self.rows.count(self.names, n, end, self.ends[n])) for n, end in common.items()
        }
        back |= self.cut_off(self.ends.keys() - read.keys())
        return replace(self.now, set_back=back, not_compared=tuple(sorted({*unknown} - {*back})))

    def cut_off(self, partitions: Iterable[int]) -> dict[int, SetBack]:
        """Those of some partitions that end before what bronze has read; no record is compared.

        Without an id it may be another topic, of which bronze has nothing.
        """
        short = [(n, self.now.end.get(n, 0)) for n in partitions if self.is_same]
        return {
            n: SetBack(end, self.rows.count(self.names, n, end, self.ends[n]))
            for n, end in short
            if end < self.ends[n]
        }

    def _common_ends(self, partitions: Collection[int]) -> dict[int, int]:
        """Per partition, the offset up to which broker and bronze have the same records."""
        first = {n: self.now.first.get(n, 0) for n in partitions}
        low = dict(first)
        high = {n: max(low[n], min(self.ends[n], self.now.end.get(n, 0))) for n in partitions}
        while looked := {n: (low[n] + high[n]) // 2 for n in partitions if low[n] < high[n]}:
            theirs = self._of_both(looked, high)
            mine = self.rows.records(self.names, {n: one.offset for n, one in theirs.items()})
            for number, middle in looked.items():
                if number in theirs and theirs[number] == mine.get(number):
                    low[number] = theirs[number].offset + 1
                else:
                    high[number] = middle
        same = {n: offset for n, offset in low.items() if offset > first[n]}
        behind, _ = self._not_taken(same, self.now.end)
        return low | {n: min(one.begin, max(low[n], self.now.end.get(n, 0))) for n, one in behind.items()}

    def _of_both(self, places: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, Record]:
        """The broker's first record from an offset on, before an end, where bronze has one too.

        Either may lack some: by compaction, erasure and expiry, or because bronze began later.
        """
        found: dict[int, Record] = {}
        asked = dict(places)
        while asked:
            theirs = {n: one for n, one in self._theirs(asked).items() if asked[n] <= one.offset < ends[n]}
            mine = self.rows.first(self.names, {n: (one.offset, ends[n]) for n, one in theirs.items()})
            found |= {n: theirs[n] for n, offset in mine.items() if offset == theirs[n].offset}
            asked = {n: offset for n, offset in mine.items() if offset > theirs[n].offset}
        return found

    def _not_taken(
        self, places: Mapping[int, int], ends: Mapping[int, int]
    ) -> tuple[dict[int, _Met], set[int]]:
        """The broker's first record from an offset on, before an end, that was not taken out of bronze.

        What was erased or has expired in bronze was read: that the broker has it says nothing.

        Returns:
            What was met per partition, and the partitions of which that cannot be told.
        """
        found: dict[int, _Met] = {}
        unsure, asked = set[int](), dict(places)
        for _ in range(_MOST_RUNS):
            theirs = {n: one.offset for n, one in self._theirs(asked).items()}
            theirs = {n: offset for n, offset in theirs.items() if asked[n] <= offset < ends.get(n, 0)}
            after = {n: self.taken.after(self.names, n, offset) for n, offset in theirs.items()}
            unsure |= {n for n, offset in after.items() if offset is None}
            found |= {
                n: _Met(begin, theirs.get(n)) for n, begin in asked.items() if after.get(n) == theirs.get(n)
            }
            asked = {n: at for n, at in after.items() if at is not None and at > theirs[n]}
            if not asked:
                break
        # Of an expired record the same offset may have become another one, which must not be left out.
        end = {n: self.taken.expired_end(self.names.rows[:1], n) for n in found}
        met = {n: one if places[n] >= end[n] else one._replace(begin=places[n]) for n, one in found.items()}
        return met, unsure | asked.keys()

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
        """Per partition, the offset of the newest generation's last row before an end, where it has a row."""
        found: dict[int, int] = {}
        for width in _WINDOWS:
            left = {number: end for number, end in ends.items() if end > 0 and number not in found}
            near = [_at(names.rows, number, max(0, end - width), end) for number, end in left.items()]
            spans = _spans(self._data, near)
            newest_last = sorted(spans.items(), key=lambda span: names.rows.index(span[0][0]), reverse=True)
            found |= {number: last for (_, number), (_, last) in newest_last}
        return found

    def first(self, names: _Names, ranges: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Per partition, the offset of the first row in a range, of any generation, where it has a row."""
        found: dict[int, int] = {}
        for width in _WINDOWS:
            left = {number: one for number, one in ranges.items() if number not in found}
            near = [_at(names.rows, n, first, min(first + width, end)) for n, (first, end) in left.items()]
            for (_, number), (first, _) in _spans(self._data, near).items():
                found[number] = min(first, found.get(number, first))
        return found

    def records(self, names: _Names, places: Mapping[int, int]) -> dict[int, Record]:
        """The table's records at an offset per partition, of the newest generation that has them."""
        rows = _rows_at(self._data, [(names.rows, number, offset) for number, offset in places.items()])
        rows.sort(key=lambda row: names.rows.index(row["topic"]), reverse=True)
        return {row["partition"]: _record(row) for row in rows}

    def count(self, names: _Names, partition: int, first: int, end: int) -> int:
        """How many rows the table has of the newest generation from one offset to before another."""
        return int(self._data.count_rows(filter=_at(names.rows[:1], partition, first, end)))


@dataclass
class RecordWatch:
    """Compares, in each micro-batch of bronze, the last record read of each partition that it reads on."""

    path: str  # the bronze table
    bootstrap: str  # the broker's address
    options: Mapping[str, str]  # client options
    _last: dict[tuple[str, int], Record | None] = field(default_factory=dict)  # None: of a moved topic
    _client: SingleRecords | None = None

    def is_same(self, start: KafkaOffsets, end: KafkaOffsets) -> bool:
        """Whether the broker surely has the history that bronze has read; else all is to be compared.

        Args:
            start: Where the micro-batch begins, by topic and partition.

        Raises:
            BrokerError: The topics cannot be read by this user, or the broker does not answer.
        """
        places = {
            (topic, int(number)): int(offset)
            for topic, partitions in start.items()
            for number, offset in partitions.items()
            if int(end.get(topic, {}).get(number, 0)) > int(offset) > 0
        }
        if not places:
            return True
        if not places.keys() <= self._last.keys():
            return False
        known = {place: last for place in places if (last := self._last[place]) is not None}
        now = self._records({place: last.offset for place, last in known.items()})
        if any(now.get(place) != last for place, last in known.items()):
            return False
        behind = {place: last.offset + 1 for place, last in known.items() if last.offset + 1 < places[place]}
        return all(one.offset >= places[place] for place, one in self._records(behind).items())

    def learn(self, rows: pa.Table | None) -> None:
        """Take the last records of a micro-batch that was written.

        Args:
            rows: Its rows; None: they are read from the files of its commit. Where these cannot be read, all
                is compared again before the next micro-batch.
        """
        learned = last_records(self.path, rows)
        if learned is None:
            self._last = {place: last for place, last in self._last.items() if last is None}
        self._last |= learned or {}

    def compared(self, last: Mapping[str, Any]) -> None:
        """Take the last record that bronze has of each partition, once all of them were compared.

        A partition without one is compared again by each micro-batch that reads it on.

        Args:
            last: The metadata of bronze's newest micro-batch.

        Raises:
            HistoryGoneError: A file of the bronze table cannot be read.
        """
        states, moved = recorded_topics(last), _moved(last)
        with _explained(self.path):
            rows = _BronzeRows(self.path)
            for topic, ends in read_ends(last).items():
                names = _Names.of(topic, states.get(topic, TopicState()))
                records = rows.records(names, rows.last(names, ends))
                known = dict.fromkeys(ends) if topic in moved else records
                self._last |= {(topic, number): record for number, record in known.items()}

    def _records(self, places: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], Record]:
        if not places:
            return {}
        if self._client is None:
            self._client = SingleRecords(self.bootstrap, self.options)
        found = self._client.first([(*place, offset) for place, offset in places.items()], _SECONDS)
        return {(topic, number): record for (topic, number, _), record in found.items()}


def last_records(path: str, rows: pa.Table | None) -> dict[tuple[str, int], Record] | None:
    """The last record of each partition, of some rows or of those of a bronze table's newest commit.

    By the topic's own name, also of a later generation. None where the files cannot be read, or not any more.
    """
    import pyarrow as pa
    from pyarrow import dataset

    try:
        files = _newest_files(path) if rows is None else ()
        if not files and rows is None:
            return None if files is None else {}
        data = dataset.dataset(files, format="parquet") if rows is None else dataset.dataset(rows)
        ends = [((topic,), partition, end) for (topic, partition), (_, end) in _spans(data).items()]
        last = _rows_at(data, ends)
    except (OSError, pa.ArrowException):
        return None
    return {(row["topic"].partition("#")[0], row["partition"]): _record(row) for row in last}


def _newest_files(path: str) -> list[str] | None:
    """The files that the newest commit has added; None where they cannot be read."""
    log, folder = LogReader(path), StorageFolder(path)
    commit = log.commit(log.latest_version() or 0)
    if commit is None or not folder.is_local:
        return None
    return [file.path_in(folder.path) for file in commit.added]


def _spans(
    data: Dataset, near: Sequence[pc.Expression] | None = None
) -> dict[tuple[str, int], tuple[int, int]]:
    """The lowest and the highest offset of each topic and partition, of the rows that meet a condition.

    The rows are read in parts.
    """
    import pyarrow as pa

    found: dict[tuple[str, int], tuple[int, int]] = {}
    if near is not None and not near:
        return found
    where = None if near is None else reduce(or_, near)
    for batch in data.to_batches(columns=["topic", "partition", "offset"], filter=where):
        rows = pa.Table.from_batches([batch]).group_by(["topic", "partition"])
        for row in rows.aggregate([("offset", "min"), ("offset", "max")]).to_pylist():
            place, span = (row["topic"], row["partition"]), (row["offset_min"], row["offset_max"])
            known = found.get(place, span)
            found[place] = min(known[0], span[0]), max(known[1], span[1])
    return found


def _rows_at(data: Dataset, places: Sequence[tuple[Sequence[str], int, int]]) -> list[dict[str, Any]]:
    """The rows at some places: the values of the column topic that may have it, partition, offset.

    Row group by row group: the content of a whole commit may be larger than the memory.
    """
    if not places:
        return []
    where = reduce(or_, (_at(topics, number, offset, offset + 1) for topics, number, offset in places))
    rows: list[dict[str, Any]] = data.to_table(
        columns=_COLUMNS, filter=where, batch_size=_ROWS, batch_readahead=1, fragment_readahead=1
    ).to_pylist()
    return rows


def _at(topics: Collection[str], partition: int, first: int, end: int) -> pc.Expression:
    import pyarrow.compute as pc

    offset = pc.field("offset")
    is_there = pc.field("topic").isin(list(topics)) & (pc.field("partition") == partition)
    return is_there & (offset >= first) & (offset < end)


def _record(row: Mapping[str, Any]) -> Record:
    headers = [(one["key"], one["value"]) for one in row["headers"] or ()]
    sent = digest(row["key"], row["value"], headers)
    return Record(row["offset"], round(row["kafka_timestamp"].timestamp() * 1000), sent)
