"""Receipts beside what bronze has read and what the broker has: which wait, are lost, or are missing."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from rich.console import Console

from common.config.paths import Layout
from common.declare import Pipeline, Topic
from common.errors import BrokerError, UsageError
from common.streaming.topic_identity import TOPICS, BrokerTopic, TopicState
from orchestration.access.history.receipts_state import keep_receipts_state
from orchestration.access.kafka.receipts import Receipt
from orchestration.access.kafka.receipts_topic import GivenReceipts, newest_time
from orchestration.cli.observe.status_output import render
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.document import document
from orchestration.observe.status.model import Status
from orchestration.observe.status.problems import problems
from orchestration.observe.status.topic_offsets import BrokerOffsets, TopicOffsets
from orchestration.records.receipts import account
from orchestration.records.receipts.account import ReceiptsAccount, compare_receipts
from orchestration.records.receipts.compare import Start, Uncovered, generations, sort_receipts
from orchestration.records.receipts.dismiss import Dismissal, dismiss, dismissals
from orchestration.records.receipts.numbers import uncounted
from tests.conftest import make_settings

TOPIC = Topic("orders", receipts="orders.receipts")
LAST: dict[str, Any] = {"positions": [{"orders": {"0": 80, "1": 50}}], TOPICS: {"orders": {"id": "A"}}}
ONE = Receipt("orders", 0, ((0, 99),), "ab" * 32, "p", "A")


def of(
    given: GivenReceipts,
    now: Mapping[str, BrokerTopic] | None,
    topic: Topic = TOPIC,
    last: Any = LAST,
    dismissed: Sequence[Dismissal] = (),
) -> ReceiptsAccount:
    """The account of receipts none of which bronze has read, beside what a broker has."""

    def ask(names: Collection[str]) -> Mapping[str, BrokerTopic]:
        assert set(names) <= {"orders"}
        if now is None:
            raise BrokerError("nobody answers. Start it.")
        return now

    return compare_receipts(
        None,  # type: ignore[arg-type]  # without a receipt that bronze has read, Spark is not asked
        topic,
        given,
        bronze=None,  # type: ignore[arg-type]
        last=last,
        commits=[last],
        gone=None,
        begins={},
        accepted={},
        ask=ask,
        dismissed=dismissed,
    )


def test_the_topics_that_bronze_has_read_are_those_of_all_commits() -> None:
    """Also of one that was deleted since; of one whose id was not known at first, by its id."""
    first = {"positions": [{"orders": {"0": 9}}]}
    both = {"positions": [{"orders": {"0": 1}, "other": {"0": 1}}]}
    again = both | {TOPICS: {"orders": {"id": "B", "generation": 2}}}
    found = generations([first, LAST, again, {}], lambda name: name == "orders")
    second = TopicState("B", 2).coordinate("orders")
    assert found == {("orders", "A", "orders"), ("orders", "B", second)}
    assert second != "orders"
    assert generations([first], lambda _: True) == {("orders", "", "orders")}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(account, "uncovered", lambda *_: ())  # Spark looks for them


@pytest.mark.parametrize(
    ("receipt", "now", "says", "records"),
    [
        (ONE, BrokerTopic("A", {0: 0}, {0: 80}), "ends at offset 80, before 20 of them", 20),
        (ONE, BrokerTopic("A", {0: 0}, {0: 99}), "ends at offset 99, before 1 of them", 1),
        (ONE, BrokerTopic("", {0: 0}, {0: 80}), "ends at offset 80, before 20 of them", 20),
        (replace(ONE, topic_id=""), BrokerTopic("A", {0: 0}, {0: 80}), "before 20 of them", 20),
        (
            replace(ONE, offsets=((0, 84), (90, 99))),
            BrokerTopic("A", {0: 0}, {0: 80}),
            "has a receipt for 95 records; the topic ends at offset 80, before 15 of them",
            15,
        ),
        (
            replace(ONE, partition=7),
            BrokerTopic("A", {0: 0}, {0: 80}),
            "the topic has no such partition",
            100,
        ),
        (ONE, None, "the broker shows no such topic", 100),
    ],
)
def test_what_was_acknowledged_and_is_not_there_is_a_fault(
    receipt: Receipt, now: BrokerTopic | None, says: str, records: int
) -> None:
    found = of(GivenReceipts((receipt,)), {} if now is None else {"orders": now})
    ((text, count),) = found.faults(20)
    assert says in text
    assert "acknowledged" in text
    assert count == records
    assert found.waiting == 0
    assert "1 are of records that the broker has lost" in found.note


@pytest.mark.parametrize(
    "now",
    [
        BrokerTopic("A", {0: 0}, {0: 100}),
        BrokerTopic("A", {0: 100}, {0: 100}),  # retention: the audit of topics says so
        BrokerTopic("A", {0: 200}, {0: 300}),
        BrokerTopic("B", {0: 0}, {0: 10}),  # created again: the audit of topics says so
    ],
)
def test_what_bronze_may_read_yet_or_retention_has_deleted_was_not_lost_at_the_end(now: BrokerTopic) -> None:
    found = of(GivenReceipts((ONE,)), {"orders": now})
    assert list(found.faults(20)) == []
    assert found.waiting == 1
    assert found.note.endswith("; 1 are of records not read yet")


def test_an_end_that_comes_back_is_no_loss() -> None:
    ends = iter([80, 100])
    found, why = account._lost([ONE], lambda _: {"orders": BrokerTopic("A", {0: 0}, {0: next(ends)})})
    assert (found, why, list(ends)) == ([], "", [])


def test_without_an_answer_nothing_is_lost_and_the_note_says_why() -> None:
    found = of(GivenReceipts((ONE,)), None)
    assert list(found.faults(20)) == []
    assert found.note.endswith("1 are of records not read yet, which were not looked for: nobody answers")


def test_receipts_of_other_topics_are_left_alone_and_those_of_unread_ones_are_not() -> None:
    others = [replace(ONE, topic=name) for name in ("payments", "order")]
    assert list(of(GivenReceipts((*others,)), {}).faults(20)) == []
    for topic in (TOPIC, Topic("all", pattern="ord.*s", receipts="orders.receipts")):
        found = of(GivenReceipts((ONE,)), {"orders": BrokerTopic("A", {0: 0}, {0: 80})}, topic, last=None)
        assert len(list(found.faults(20))) == 1


def test_receipts_of_an_earlier_topic_or_of_records_that_are_rightly_gone_are_left_out() -> None:
    read = {"positions": [{"orders": {"0": 200}}], TOPICS: {"orders": {"id": "B", "generation": 2}}}
    new = replace(ONE, topic_id="B")
    kept = [replace(new, offsets=((100, 150), (160, 170))), replace(new, offsets=((181, 199),))]
    lost = [replace(new, offsets=((100, 150), (160, 171))), replace(new, offsets=((180, 199),))]
    begins = {("orders#2", 0): 50, ("orders", 0): 500}
    accepted = {("orders#2", 0): [(151, 159), (171, 180)], ("orders", 0): [(0, 500)]}
    found = sort_receipts([ONE, new, *kept, *lost], read, begins, accepted)
    assert found.due == tuple((one, "orders#2") for one in kept)
    assert (found.waiting, found.left_out) == ((), 4)


def numbered(*numbers: int | None, producer: str = "p", partition: int = 0) -> list[Receipt]:
    """Receipts of a run with these numbers, of other offsets each."""
    return [
        replace(ONE, offsets=((200 + at, 200 + at),), number=number, producer=producer, partition=partition)
        for at, number in enumerate(numbers)
    ]


@pytest.mark.parametrize(
    ("receipts", "found"),
    [
        (numbered(1, 2, 3), []),
        (numbered(3, 1, 2), []),
        (numbered(None, None), []),
        (numbered(None, 1, 2, None), []),
        (numbered(1, 3), [(2, 2, False)]),
        (numbered(2, 3), [(1, 1, False)]),
        (numbered(7, 2), [(1, 1, False), (3, 6, False)]),
        (numbered(1, 2, 2, 2, 3), [(2, 2, True)]),
        (numbered(2**63 - 1), [(1, 2**63 - 2, False)]),
        ([*numbered(1, 2), *numbered(1, 2, producer="q"), *numbered(1, partition=1)], []),
        ([*numbered(1, 2), *numbered(2, producer="q")], [(1, 1, False)]),
    ],
)
def test_numbers_that_do_not_count_by_one(
    receipts: list[Receipt], found: list[tuple[int, int, bool]]
) -> None:
    assert [(one.first, one.last, one.is_twice) for one in uncounted(receipts)] == found


def test_a_receipt_of_a_time_that_has_not_come_is_not_the_newest() -> None:
    """Whoever writes a record may give it any time, also one that no calendar has."""
    assert newest_time([-1, 1_000, 90_000, 2**62], now=60) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert newest_time([-1, 2**62], now=60) is None


def test_a_missing_number_is_a_fault_of_the_receipts_topic() -> None:
    now = {"orders": BrokerTopic("A", {0: 0}, {0: 1_000})}
    given = GivenReceipts((*numbered(2, 4, 7, 7),), {"it is no JSON": ["a", "b", "c"]})
    place = "orders.receipts: orders/0: producer p has"
    assert [*of(given, now).faults(20)] == [
        (f"{place} later receipts, and its receipt with the number 1 is missing", 1),
        (f"{place} later receipts, and its receipt with the number 3 is missing", 1),
        (f"{place} later receipts, and its receipts with the numbers 5 to 6 are missing", 2),
        (f"{place} several receipts with the number 7: each run needs a name of its own", 1),
        ("orders.receipts: 3 of its records: it is no JSON (a, b, c)", 3),
    ]
    assert [count for _, count in of(given, now).faults(1)] == [1, 3, 3]


def test_what_retention_has_deleted_of_the_receipts_topic_is_a_note() -> None:
    now = {"orders": BrokerTopic("A", {0: 0}, {0: 1_000})}
    found = of(GivenReceipts((*numbered(3, 5),), is_cut=True), now)
    ((text, _),) = found.faults(20)
    assert "the number 4 is missing" in text
    assert found.note.endswith("; retention of orders.receipts has deleted 2")


def test_what_is_dismissed_counts_for_nothing_and_stays_in_the_account() -> None:
    """Also a record that is no receipt; its number is not missing, and none is missing for it."""
    now = {"orders": BrokerTopic("A", {0: 0}, {0: 1_000})}
    receipts = [replace(one, name=f"r{at}") for at, one in enumerate(numbered(1, 2, 2, 4, 9))]
    far = replace(ONE, offsets=((2_000, 2_000),), name="far")
    given = GivenReceipts((*receipts, far), {"it is no JSON": ["a", "b"]})

    def told(*names: str) -> tuple[list[str], str]:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        found = of(given, now, dismissed=[Dismissal("orders.receipts", one, "a test", at) for one in names])
        return [text.removeprefix("orders.receipts: ") for text, _ in found.faults(20)], [*found.notes][-1]

    producer = "orders/0: producer p has"
    twice = f"{producer} several receipts with the number 2 (r1, r2): each run needs a name of its own"
    missing = f"{producer} later receipts, and its receipt"
    three, hole = f"{missing} with the number 3 is missing", f"{missing}s with the numbers 5 to 8 are missing"
    none = "2 of its records: it is no JSON (a, b)"
    (lost, *others), _ = told()
    assert "producer p has a receipt far for 1 records; the topic ends at offset 1,000" in lost
    assert others == [twice, three, hole, none]
    assert told("r1", "a", "far")[0] == [three, hole, "1 of its records: it is no JSON (b)"]
    assert told("r3")[0] == [lost, twice, three, hole, none]  # 4 is not missing
    faults, note = told("r4", "r2", "a", "b", "far", "gone")
    assert faults == [three]  # 9 was the only one that showed the hole before it
    assert note == (
        "orders.receipts: 6 dismissed: …; r2 (2026-01-01 00:00:00Z: a test); "
        "a (2026-01-01 00:00:00Z: a test); b (2026-01-01 00:00:00Z: a test); "
        "far (2026-01-01 00:00:00Z: a test); gone (2026-01-01 00:00:00Z: a test)"
    )


def test_what_begins_before_the_audit_is_left_out_unless_it_was_wrong_before() -> None:
    read = {"positions": [{"orders": {"0": 200}}], TOPICS: {"orders": {"id": "A"}}}
    receipts = [replace(ONE, offsets=((first, first + 9),), name=f"r{first}") for first in (0, 95, 100, 195)]
    start = Start("last audit", {("orders", 0): 100}, ["r0"])
    found = sort_receipts(receipts, read, {}, {}, start)
    assert [one.name for one, _ in found.due] == ["r0", "r100"]
    assert [one.name for one in found.waiting] == ["r195"]
    assert found.left_out == 1
    assert sort_receipts(receipts, read, {("orders", 0): 50}, {}, start).left_out == 2


def test_records_are_dismissed_by_their_names_once(tmp_path: Path) -> None:
    pipeline = Pipeline(name="shop", bronze=[TOPIC, Topic("b", receipts="b.receipts"), Topic("c")])
    layout = Layout.of(pipeline, make_settings(tmp_path, "none:1"))
    given = {
        "orders": GivenReceipts((replace(ONE, name="1"), replace(ONE, partition=1, name="2")), {"no": ["3"]}),
        "b": GivenReceipts((), {"no": ["3", "4"]}),
    }

    def run(*names: str, why: str = "a test", **options: bool) -> list[tuple[str, str]]:
        done = dismiss(pipeline, layout, lambda topic: given[topic.topic_names[0]], names, why, **options)
        return [(one.topic, one.receipt) for one in done]

    for names, why, says in ((("1", "x"), "w", "has no record x; "), (("1",), " ", "--why is empty")):
        with pytest.raises(UsageError, match=says):
            run(*names, why=why)
    assert dismissals(layout, "orders.receipts") == ()
    assert run("2", "3") == [("orders.receipts", "2"), ("orders.receipts", "3"), ("b.receipts", "3")]
    given["orders"] = GivenReceipts()  # what is dismissed need not be there any more
    assert run("2", unreadable=True) == [("b.receipts", "4")]
    rows = DeltaTable(layout.table_path("ops.dismissed_receipts")).to_pyarrow_table().to_pylist()
    assert sorted((one["topic"], one["receipt"], one["why"]) for one in rows) == [
        ("b.receipts", "3", "a test"),
        ("b.receipts", "4", "a test"),
        ("orders.receipts", "2", "a test"),
        ("orders.receipts", "3", "a test"),
    ]
    assert [one.receipt for one in dismissals(layout, "b.receipts")] == ["3", "4"]
    with pytest.raises(UsageError, match="no topic of other has receipts"):
        dismiss(Pipeline(name="other", bronze=[Topic("c")]), layout, lambda _: GivenReceipts(), ["1"], "why")


def test_what_an_audit_has_found_of_receipts_is_kept_for_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(name="shop", bronze=[TOPIC])
    settings = make_settings(tmp_path, "none:1")
    layout, broker = Layout.of(pipeline, settings), BrokerOffsets(pipeline, settings)
    monkeypatch.setattr(broker, "read", lambda _: TopicOffsets(note="broker not running"))
    oldest = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    found = of(GivenReceipts((), {"it is no JSON": ["a"]}, newest=oldest), {}, last=None)
    found = replace(
        found,
        uncovered=[Uncovered("orders", 0, 7, 3, 9, oldest), Uncovered("orders", 1, 1, 0, 0, None)],
        start=Start("the audit of noon", {}),
    )
    text = (
        "orders.receipts: 8 records of bronze since the audit of noon have no receipt, the oldest of "
        "2026-01-02 03:04:05Z (orders/0: 7, offsets 3 to 9; orders/1: 1, offsets 0 to 0); the newest is of "
        "2026-01-02 03:04:05Z"
    )
    assert found.coverage == text

    def status() -> Status:
        return Collector(pipeline, layout, broker).collect()

    assert document(status())["tables"][0]["receipts"] is None
    keep_receipts_state(layout, "bronze.orders", found.state)
    now = status()
    shown = document(now)["tables"][0]["receipts"]
    at = f"{found.state.at:%Y-%m-%d}"
    assert shown.pop("at").startswith(at)
    moment = "2026-01-02T03:04:05.000Z"
    assert shown == {"since": moment, "text": text, "without": 8, "faults": 1}
    assert [one.text for one in problems(now) if "receipts" in one.text] == [
        "the newest audit found faults of receipts (1): medallion audit names them"
    ]
    lines = Console(width=400, record=True, file=io.StringIO())
    lines.print(render(now))
    assert f"{text} (audit of {at}" in lines.export_text()
