"""Receipts beside what bronze has read and what the broker has: which wait, are lost, or are missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from common.declare import Topic
from common.errors import BrokerError
from common.streaming.topic_identity import TOPICS, BrokerTopic, TopicState
from orchestration.access.kafka.receipts import Receipt
from orchestration.access.kafka.receipts_topic import GivenReceipts, newest_time
from orchestration.records.receipts import account
from orchestration.records.receipts.account import ReceiptsAccount, compare_receipts
from orchestration.records.receipts.compare import generations, sort_receipts
from orchestration.records.receipts.numbers import uncounted

TOPIC = Topic("orders", receipts="orders.receipts")
LAST: dict[str, Any] = {"positions": [{"orders": {"0": 80, "1": 50}}], TOPICS: {"orders": {"id": "A"}}}
ONE = Receipt("orders", 0, ((0, 99),), "ab" * 32, "p", "A")


def of(
    given: GivenReceipts, now: Mapping[str, BrokerTopic] | None, topic: Topic = TOPIC, last: Any = LAST
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
    given = GivenReceipts((*numbered(2, 4, 7, 7),), {"it is no JSON": 3})
    place = "orders.receipts: orders/0: producer p has"
    assert [*of(given, now).faults(20)] == [
        (f"{place} later receipts, and its receipt with the number 1 is missing", 1),
        (f"{place} later receipts, and its receipt with the number 3 is missing", 1),
        (f"{place} later receipts, and its receipts with the numbers 5 to 6 are missing", 2),
        (f"{place} several receipts with the number 7: each run needs a name of its own", 1),
        ("orders.receipts: 3 of its records: it is no JSON", 3),
    ]
    assert [count for _, count in of(given, now).faults(1)] == [1, 3, 3]


def test_what_retention_has_deleted_of_the_receipts_topic_is_a_note() -> None:
    now = {"orders": BrokerTopic("A", {0: 0}, {0: 1_000})}
    found = of(GivenReceipts((*numbered(3, 5),), is_cut=True), now)
    ((text, _),) = found.faults(20)
    assert "the number 4 is missing" in text
    assert found.note.endswith("; retention of orders.receipts has deleted 2")
