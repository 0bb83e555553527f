"""Which records a broker lacks that bronze has read: found in a real bronze table; the broker is a list."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pyarrow as pa
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake

from common.config.paths import Layout
from common.declare import Pipeline, Topic
from common.delta.maintenance.retention import EXPIRED, ExpiredTopic, expired_property
from common.delta.table import ERASED
from common.errors import BrokerAwayError, BrokerError, HistoryGoneError, TopicChangedError
from common.streaming.failure_cause import cause_of
from common.streaming.topic_identity import RECOVERED, TOPICS, BrokerTopic, SetBack, TopicState
from orchestration.access.kafka.single_records import Place, Record, digest
from orchestration.access.progress import set_back
from orchestration.access.progress.set_back import RecordWatch, with_set_back
from orchestration.change.recover.startable import _Beginning
from orchestration.records.audit.topic_faults import compare_with_broker
from orchestration.run import topic_checks
from orchestration.run.topic_checks import judged_topics, topic_identity
from tests.conftest import make_settings
from tests.unit.common.delta.test_small_table import DAMAGES

Log = Mapping[int, bytes]
"""A partition: the value at each offset."""

COUNTED = pa.proxy_memory_pool(pa.system_memory_pool())
"""Never freed: threads of Arrow may give memory back to it after the test."""
HEADER = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("kafka_timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADER),
    ]
)


def log(first: int, values: str) -> dict[int, bytes]:
    """A value per letter; a dot is an offset without a record."""
    return {first + at: letter.encode() for at, letter in enumerate(values) if letter != "."}


class Broker:
    """What the broker has, and how often it was asked."""

    asked = 0

    def __init__(self, partitions: Mapping[int, Log], ms: int = 0) -> None:
        self.partitions, self.ms = partitions, ms

    def __call__(self, *_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def first(self, places: Collection[Place], seconds: float) -> dict[Place, Record]:
        """As the broker's client."""
        self.asked += 1
        found = {}
        for place in places:
            later = [offset for offset in self.partitions[place[1]] if offset >= place[2]]
            if later:
                value = self.partitions[place[1]][min(later)]
                found[place] = Record(min(later), min(later) + self.ms, digest(None, value, ()))
        return found


def write(path: str, topic: str, partitions: Mapping[int, Log]) -> None:
    rows = [
        {
            "topic": topic,
            "partition": number,
            "offset": offset,
            "kafka_timestamp": datetime.fromtimestamp(offset / 1000, UTC),
            "key": None,
            "value": value,
            "headers": None,
        }
        for number, values in partitions.items()
        for offset, value in values.items()
    ]
    write_deltalake(path, pa.Table.from_pylist(rows, SCHEMA), mode="append")


def last_of(ends: Sequence[int], **facts: Any) -> dict[str, Any]:
    """The metadata of bronze's newest micro-batch."""
    return {
        "positions": [{"t": {str(n): end for n, end in enumerate(ends)}}],
        TOPICS: {"t": {"id": "A"}},
        **facts,
    }


def topics(broker: Broker) -> dict[str, BrokerTopic]:
    """As the broker describes its topics."""
    first = {n: min(values, default=0) for n, values in broker.partitions.items()}
    end = {n: max(values, default=-1) + 1 for n, values in broker.partitions.items()}
    return {"t": BrokerTopic("A", first, end)}


def layout(folder: Path) -> Layout:
    """Where the tables are."""
    return Layout(str(folder / "tables"), str(folder / "checkpoints"), folder)


def looked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, broker: Broker, ends: Sequence[int], **facts: Any
) -> BrokerTopic:
    """The topic ``t`` after comparing."""
    monkeypatch.setattr(set_back, "SingleRecords", broker)
    last = last_of(ends, **facts)
    return with_set_back(layout(folder), "bronze.t", last, topics(broker), "b:1", {})["t"]


READ = "abcdefghijklmnopqrst"


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (log(0, READ), {}),
        (log(0, READ + "uvw"), {}),
        (log(0, READ[:7] + "XYZ"), {0: SetBack(7, 13)}),
        (log(0, READ[:7] + "X" * 40), {0: SetBack(7, 13)}),
        (log(0, "X" * 40), {0: SetBack(0, 20)}),
        (log(5, READ[5:19] + "X"), {0: SetBack(19, 1)}),
        (log(0, READ[:3] + "..." + READ[6:9] + "X" * 40), {0: SetBack(9, 11)}),
        ({}, {0: SetBack(0, 20)}),
    ],
)
def test_the_first_record_that_differs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: Log, expected: Mapping[int, SetBack]
) -> None:
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ), 1: log(0, "aa")})
    found = looked(tmp_path, monkeypatch, Broker({0: now, 1: log(0, "aa")}), [20, 2])
    assert (found.set_back, found.not_compared) == (expected, ())


def test_what_bronze_has_never_read_is_not_taken_for_records_that_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began at offset 100, and the broker has the records before: none of them is read afterwards."""
    write(layout(tmp_path).table_path("bronze.t"), "t", {0: log(100, READ)})
    there = log(0, "e" * 100) | log(100, READ[:10]) | log(110, "X" * 40)
    assert looked(tmp_path, monkeypatch, Broker({0: there}), [120]).set_back == {0: SetBack(110, 10)}


def test_requests_where_nothing_differs_and_none_where_nothing_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ), 1: log(0, "ab..")})
    broker = Broker({0: log(0, READ), 1: log(0, "ab..c")})
    assert looked(tmp_path, monkeypatch, broker, [20, 4]) == BrokerTopic("A", {0: 0, 1: 0}, {0: 20, 1: 5})
    assert broker.asked == 2  # the last records, and what lies behind that of partition 1
    assert looked(tmp_path, monkeypatch, broker, [0, 0]).set_back == {}
    assert broker.asked == 2


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_bronze_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ)})
    DAMAGES[damage](Path(path))
    with pytest.raises(HistoryGoneError, match="cannot be read: ") as raised:
        looked(tmp_path, monkeypatch, Broker({0: log(0, READ)}), [20])
    assert str(raised.value).startswith(f"{path} ")
    assert "medallion recover --plan" in str(raised.value)


@pytest.mark.parametrize(
    "error", [OSError("AWS Error SLOW_DOWN during GetObject operation: wait"), PermissionError(13, "denied")]
)
def test_what_a_store_or_the_system_refuses_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refused(path: str) -> None:
        raise error

    monkeypatch.setattr(set_back, "_BronzeRows", refused)
    with pytest.raises(OSError, match=r"SLOW_DOWN|denied") as raised:
        looked(tmp_path, monkeypatch, Broker({0: log(0, READ)}), [20])
    assert cause_of(raised.value) == cause_of(error)


def test_a_record_with_another_time_differs_unless_the_topic_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ)})
    broker = Broker({0: log(0, READ)}, ms=1)
    assert looked(tmp_path, monkeypatch, broker, [20]).set_back == {0: SetBack(0, 20)}
    moved = {RECOVERED: {"t": "same topic"}}
    assert looked(tmp_path, monkeypatch, broker, [20], **moved).set_back == {}


def test_what_is_not_there_any_more_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention has deleted it, compaction has, or bronze has no row of it."""
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ), 1: log(0, READ)})
    found = looked(
        tmp_path, monkeypatch, Broker({0: log(25, "X"), 1: log(0, "abc" + "." * 17 + "X")}), [20, 20]
    )
    assert (found.set_back, found.not_compared) == ({}, (0, 1))
    found = looked(tmp_path, monkeypatch, Broker({2: log(0, "X" * 90)}), [0, 0, 80])
    assert (found.set_back, found.not_compared) == ({}, (2,))


def test_what_bronze_has_read_without_a_record_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a long aborted transaction."""
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ)})
    assert looked(tmp_path, monkeypatch, Broker({0: log(0, READ + "X" * 70)}), [80]).set_back == {
        0: SetBack(20, 0)
    }
    assert looked(tmp_path, monkeypatch, Broker({0: log(0, READ)}), [80]).set_back == {0: SetBack(20, 0)}
    same = looked(tmp_path, monkeypatch, Broker({0: {**log(0, READ), **log(80, "X")}}), [80])
    assert (same.set_back, same.not_compared) == ({}, ())


def erase(folder: Path, *offsets: int, is_noted: bool = True) -> None:
    """Note records of partition 0 as erased, as an erasure does before it deletes their rows."""
    path = layout(folder).table_path("bronze.t")
    value = {ERASED: datetime(2026, 3, 1, tzinfo=UTC).isoformat()}
    DeltaTable(path).alter.set_table_properties(value, raise_if_not_exists=False)
    rows = [
        {"bronze": "bronze.t", "topic": "t", "partition": 0, "offset": offset, "run_id": "a"}
        for offset in offsets
    ]
    if is_noted:
        write_deltalake(layout(folder).table_path("ops.erased"), pa.Table.from_pylist(rows))


def expire(folder: Path, topic: str, end: int) -> None:
    """Note records of partition 0 as expired, as an expiry does before it deletes their files."""
    value = {EXPIRED: expired_property({topic: ExpiredTopic({0: (0, end)})})}
    table = DeltaTable(layout(folder).table_path("bronze.t"))
    table.alter.set_table_properties(value, raise_if_not_exists=False)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (READ + "uv" + "." * 58 + "x", {}),  # the erased ones are there still
        (READ + ".v" + "." * 58 + "x", {}),
        (READ + "." * 60 + "x", {}),
        (READ + "uv", {0: SetBack(22, 0)}),
        (READ + ".v", {0: SetBack(22, 0)}),
        (READ + ".v.X", {0: SetBack(22, 0)}),
        (READ + "uvX" * 30, {0: SetBack(22, 0)}),
        (READ + "uv" + "." * 9 + "X" * 30, {0: SetBack(22, 0)}),
        (READ + "." * 9 + "X" * 60, {0: SetBack(20, 0)}),
        (READ[:15] + "X" * 90, {0: SetBack(15, 5)}),
    ],
)
def test_what_was_erased_excuses_no_other_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: str, expected: Mapping[int, SetBack]
) -> None:
    """20 and 21 were erased, the last ones that bronze had; behind them 58 offsets had no record."""
    write(layout(tmp_path).table_path("bronze.t"), "t", {0: log(0, READ)})
    erase(tmp_path, 3, 20, 21)
    found = looked(tmp_path, monkeypatch, Broker({0: log(0, now)}), [80])
    assert (found.set_back, found.not_compared) == (expected, ())


def test_erased_records_that_no_table_names_leave_open_what_is_behind_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(layout(tmp_path).table_path("bronze.t"), "t", {0: log(0, READ)})
    erase(tmp_path, is_noted=False)
    broker = Broker({0: log(0, READ + "X" * 70)})
    assert looked(tmp_path, monkeypatch, broker, [80]).not_compared == (0,)
    changed = Broker({0: log(0, READ[:7] + "X" * 90)})
    assert looked(tmp_path, monkeypatch, changed, [80]).set_back == {0: SetBack(7, 13)}
    erase(tmp_path, 3)
    assert looked(tmp_path, monkeypatch, broker, [80]).set_back == {0: SetBack(20, 0)}
    (tmp_path / "tables" / "ops" / "erased" / "_delta_log" / f"{0:020}.json").write_text("{")
    assert looked(tmp_path, monkeypatch, broker, [80]).not_compared == (0,)


def test_what_has_expired_excuses_no_later_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records up to 30 have expired in bronze, which has those up to 40; then it read offsets without any."""
    write(layout(tmp_path).table_path("bronze.t"), "t", {0: log(30, READ[:10])})
    expire(tmp_path, "t", 30)
    before = log(0, "e" * 30) | log(30, READ[:10])
    assert looked(tmp_path, monkeypatch, Broker({0: before | log(80, "x")}), [80]).set_back == {}
    assert looked(tmp_path, monkeypatch, Broker({0: before | log(50, "X" * 40)}), [80]).set_back == {
        0: SetBack(40, 0)
    }
    expire(tmp_path, "t", 33)  # by the time of their records, which need not follow the offsets
    # The expired ones are passed over where the first record that differs is looked for.
    changed = before | log(36, "X" * 50)
    assert looked(tmp_path, monkeypatch, Broker({0: changed}), [80]).set_back == {0: SetBack(36, 4)}
    # An offset of an expired record may have become another one: none is left out.
    expire(tmp_path, "t", 60)
    assert looked(tmp_path, monkeypatch, Broker({0: changed}), [80]).set_back == {0: SetBack(36, 4)}
    there = before | log(50, "x" * 10) | log(80, "x")
    assert looked(tmp_path, monkeypatch, Broker({0: there}), [80]).set_back == {}
    assert looked(tmp_path, monkeypatch, Broker({0: before | log(50, "x" * 40)}), [80]).set_back == {
        0: SetBack(40, 0)
    }


def test_what_a_former_generation_has_lost_leaves_open_what_is_behind_the_last_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets may be those of the topic that is read now."""
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ)})
    write(path, "t#2", {0: log(0, READ)})
    second = {TOPICS: {"t": {"id": "A", "generation": 2}}}
    broker = Broker({0: log(0, READ) | log(50, "X" * 40)})
    assert looked(tmp_path, monkeypatch, broker, [80], **second).set_back == {0: SetBack(20, 0)}
    for end, open_ones in ((50, ()), (51, (0,))):
        expire(tmp_path, "t", end)
        found = looked(tmp_path, monkeypatch, broker, [80], **second)
        assert (bool(found.set_back), found.not_compared) == (not open_ones, open_ones)


@pytest.mark.parametrize(
    ("now", "facts", "words", "begin"),
    [
        # Of partition 1, read up to 30, bronze has no row.
        ({0: log(0, READ), 1: log(0, "x" * 12)}, {}, "lacks offsets that bronze has read", {0: 20, 1: 12}),
        ({0: log(0, READ[:7]), 1: log(0, "x" * 12)}, {}, "lacks 13 of the records", {0: 7, 1: 12}),
        ({0: log(0, READ), 1: {}}, {}, "from offset 0 in partition 1", {0: 20, 1: 0}),
        # A copy of the topic, whose records are not compared, that lacks some.
        (
            {0: log(0, READ[:9]), 1: log(0, "x" * 30)},
            {RECOVERED: {"t": "same topic"}},
            "lacks 11 of the records",
            {0: 9, 1: 30},
        ),
    ],
)
def test_a_partition_that_is_cut_off_is_refused_with_a_command_that_ends_right(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    now: Mapping[int, Log],
    facts: Mapping[str, Any],
    words: str,
    begin: Mapping[int, int],
) -> None:
    path, broker = layout(tmp_path).table_path("bronze.t"), Broker(now)
    write(path, "t", {0: log(0, READ)})
    monkeypatch.setattr(topic_checks, "broker_topics", lambda *_: topics(broker))
    monkeypatch.setattr(topic_checks.time, "sleep", lambda _: None)
    found, last = looked(tmp_path, monkeypatch, broker, [20, 30], **facts), last_of([20, 30], **facts)
    with pytest.raises(TopicChangedError, match=words) as refusal:
        judged_topics(layout(tmp_path), Topic("t"), last, "b:1", {})
    assert str(refusal.value).endswith("medallion recover bronze.t --new-topic t")
    faults = compare_with_broker(Topic("t"), last, lambda *_: {"t": found}).faults
    assert len(faults) == len(found.set_back)
    assert not any("the 0 records" in fault.text for fault in faults)

    beginning = _Beginning({"t": {0: 20, 1: 30}}, {"t": TopicState("A")})
    beginning.begin("t", found, is_new=True)
    assert beginning.ends == {"t": begin}
    second = {RECOVERED: beginning.ways, TOPICS: {"t": beginning.states["t"].entry()}}
    assert looked(tmp_path, monkeypatch, broker, list(begin.values()), **second).set_back == {}


def test_a_topic_without_an_id_that_ends_before_is_read_from_its_first_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been created again: nothing says that bronze has anything of it."""
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ)})
    broker = Broker({0: log(0, READ), 1: log(0, "x" * 12)})
    found = looked(tmp_path, monkeypatch, broker, [20, 30], **{TOPICS: {}})
    assert found.set_back == {}
    beginning = _Beginning({"t": {0: 20, 1: 30}}, {})
    beginning.begin("t", found, is_new=True)
    assert beginning.ends == {"t": {0: 0, 1: 0}}


def test_a_watch_compares_the_last_record_of_what_is_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ), 1: log(0, READ)})
    watch = RecordWatch(path, "b:1", {})
    start, end = {"t": {"0": 20, "1": 20}}, {"t": {"0": 25, "1": 20}}

    def is_same(partition: Log) -> bool:
        monkeypatch.setattr(watch, "_client", Broker({0: partition}))
        return watch.is_same(start, end)

    assert not is_same(log(0, READ + "uvwxy"))  # nothing is known of partition 0 yet
    watch.learn(None)
    assert is_same(log(0, READ + "uvwxy"))
    assert not is_same(log(0, READ[:19] + "X" * 20))
    assert not is_same(log(0, READ[:19]))
    start["t"]["0"] = 23
    assert not is_same(log(0, READ + "uvwxy")), "20 to 22 had no record when they were read"
    assert is_same({**log(0, READ), **log(23, "xy")})


def test_a_watch_takes_the_records_that_were_compared_also_of_partitions_that_no_batch_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bronze has no row of partition 2: it is compared again by each micro-batch that reads it on."""
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ)})
    write(path, "t", {1: log(0, READ)})
    watch = RecordWatch(path, "b:1", {})
    ends = {"0": 20, "1": 20, "2": 20}
    last = {"positions": [{"t": ends}], TOPICS: {"t": {"id": "A"}}}
    broker = {0: log(0, READ + "u"), 1: log(0, READ + "u"), 2: log(0, READ + "u")}

    def is_same(number: str) -> bool:
        monkeypatch.setattr(watch, "_client", Broker(broker))
        return watch.is_same({"t": ends}, {"t": {**ends, number: 21}})

    assert not any(map(is_same, ends))
    watch.compared(last)
    watch.learn(SCHEMA.empty_table())  # a micro-batch without rows
    assert list(map(is_same, ends)) == [True, True, False]
    broker[1] = log(0, READ[:19] + "X" * 20)
    assert list(map(is_same, ends)) == [True, False, False]
    with monkeypatch.context() as patch:
        patch.setattr(set_back, "_newest_files", lambda path: None)  # as on an object store
        watch.learn(None)
    assert not any(map(is_same, ends))
    watch.compared(last | {RECOVERED: {"t": "same topic"}})
    assert all(map(is_same, ends)), "a copy of the topic may have other timestamps"


def test_a_micro_batch_waits_for_a_broker_that_does_not_give_what_is_to_be_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its watch, and where all is compared: its rows would take the place of the last record."""

    class Silent(Broker):
        def first(self, places: Collection[Place], seconds: float) -> dict[Place, Record]:
            raise BrokerError("no answer")

    pipeline = Pipeline("p", bronze=[Topic("t")])
    silent = Silent({0: log(0, READ + "x")})
    monkeypatch.setattr(set_back, "SingleRecords", silent)
    monkeypatch.setattr(topic_checks, "broker_topics", lambda *_: topics(silent))
    last: dict[str, Any] | None = None
    monkeypatch.setattr(topic_checks, "last_commit_metadata", lambda *_: last)
    identity = topic_identity(pipeline, make_settings(tmp_path, "b:1"), layout(tmp_path), Topic("t"), "b:1")
    write(layout(tmp_path).table_path("bronze.t"), "t", {0: log(0, READ)})
    last = last_of([20])
    batch: Any = SimpleNamespace(kafka_offsets=lambda: ({"t": {"0": 20}}, {"t": {"0": 21}}))
    for _ in range(2):
        with pytest.raises(BrokerAwayError, match="no answer"):
            identity.compare(batch)
        identity.learn(None)


def test_the_last_records_of_a_large_commit_are_read_without_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has written 40 MB; no more than some row groups of 2 MB are in memory."""
    path, value = layout(tmp_path).table_path("bronze.t"), os.urandom(20_000)
    places = [(number, offset) for offset in range(1000) for number in (0, 1)]
    rows = pa.table(
        {
            "topic": ["t"] * len(places),
            "partition": pa.array([number for number, _ in places], pa.int32()),
            "offset": [offset for _, offset in places],
            "kafka_timestamp": pa.array([offset * 1000 for _, offset in places], pa.timestamp("us", "UTC")),
            "key": pa.nulls(len(places), pa.binary()),
            "value": [b"%d" % offset + value for _, offset in places],
            "headers": pa.nulls(len(places), HEADER),
        }
    )
    write_deltalake(path, rows, writer_properties=WriterProperties(max_row_group_size=100))
    watch, broker = (
        RecordWatch(path, "b:1", {}),
        Broker({n: {999: rows["value"][-1].as_py()} for n in (0, 1)}),
    )
    monkeypatch.setattr(watch, "_client", broker)
    before, counted = pa.default_memory_pool(), COUNTED
    pa.set_memory_pool(counted)
    try:
        watch.learn(None)
        watch.compared(last_of([1000, 1000]))
    finally:
        pa.set_memory_pool(before)
    assert watch.is_same({"t": {"0": 1000, "1": 1000}}, {"t": {"0": 1001, "1": 1001}})
    assert 0 < (counted.max_memory() or 0) < 16 * 2**20


def test_a_generation_that_began_later_has_the_records_before_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layout(tmp_path).table_path("bronze.t")
    write(path, "t", {0: log(0, READ)})
    write(path, "t#2", {0: log(7, "XYZ")})
    second = {TOPICS: {"t": {"id": "A", "generation": 2}}}
    same = Broker({0: log(0, READ[:7] + "XYZ")})
    assert looked(tmp_path, monkeypatch, same, [10], **second).set_back == {}
    assert looked(tmp_path, monkeypatch, same, [7], **second).set_back == {}
    again = Broker({0: log(0, READ[:7] + "U" * 40)})
    assert looked(tmp_path, monkeypatch, again, [10], **second).set_back == {0: SetBack(7, 3)}
