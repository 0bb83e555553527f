"""What bronze has read, compared with what the broker has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from common.declare import Topic
from common.errors import BrokerError
from common.streaming.topic_identity import TOPICS, BrokerTopic, SetBack
from orchestration.cli.records import audit_output
from orchestration.records.audit.result import Account, PartitionAccount
from orchestration.records.audit.topic_faults import NOT_ASKED, compare_with_broker

TOPIC = Topic("orders")
LAST: dict[str, Any] = {"positions": [{"orders": {"0": 100, "1": 50}}], TOPICS: {"orders": {"id": "A"}}}


def compared(now: BrokerTopic | None, last: dict[str, Any] | None = None) -> tuple[list[str], str]:
    """The texts of the faults, and why something was not compared."""

    def ask(topic: Topic, names: Collection[str]) -> Mapping[str, BrokerTopic]:
        assert (topic, tuple(names)) == (TOPIC, ("orders",))
        return {} if now is None else {"orders": now}

    faults, why, _ = compare_with_broker(TOPIC, LAST if last is None else last, ask)
    return [fault.text for fault in faults], why


def test_the_same_topic_has_no_fault() -> None:
    assert compared(BrokerTopic("A", {0: 0, 1: 50}, {0: 120, 1: 50})) == ([], "")


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (
            BrokerTopic("B", {0: 0, 1: 0}, {0: 150, 1: 0}),
            "none of the 150 offsets of the topic that is there",
        ),
        (None, "is gone from the broker"),
        (BrokerTopic("A", {0: 0, 1: 0}, {0: 99, 1: 50}), "partition 0, up to offset 100, and the topic ends"),
        (BrokerTopic("A", {0: 110, 1: 0}, {0: 200, 1: 50}), "retention has deleted offsets 100 to 109"),
        (
            BrokerTopic("A", {0: 0, 1: 0}, {0: 90, 1: 60}, {0: SetBack(70, 30)}),
            "from offset 70 on it lacks the 30 records that bronze.orders has read",
        ),
    ],
)
def test_another_topic_is_a_fault(now: BrokerTopic | None, words: str) -> None:
    (text,), why = compared(now)
    assert words in text
    assert not why


def test_a_last_record_that_is_gone_is_noted() -> None:
    now = {"orders": BrokerTopic("A", {0: 100, 1: 0}, {0: 100, 1: 50}, not_compared=(0,))}
    found = compare_with_broker(TOPIC, LAST, lambda *_: now)
    assert (found.faults, found.why) == ((), "")
    assert "topic orders, partition 0, is not in bronze or not on the broker any more" in found.notes[0]


def test_without_ids_the_audit_says_what_it_does_not_know() -> None:
    bare = {"positions": LAST["positions"]}
    same = BrokerTopic("A", {0: 0, 1: 0}, {0: 100, 1: 50})
    assert compared(same, bare) == ([], "no commit of bronze.orders names the id of topic orders yet")
    assert len(compared(BrokerTopic("B", {0: 0, 1: 0}, {0: 5, 1: 50}), bare)[0]) == 1


def test_a_topic_of_which_nothing_was_read_may_be_another() -> None:
    """No row has its coordinates."""
    assert compare_with_broker(TOPIC, {"positions": [{"orders": {"0": 0}}]}, None) == ((), "", ())
    assert compare_with_broker(TOPIC, None, None) == ((), "", ())


def test_an_account_that_was_not_compared_is_not_called_balanced() -> None:
    def silent(topic: Topic, names: Collection[str]) -> Mapping[str, BrokerTopic]:
        raise BrokerError("the broker at b:1 did not return its topics: timed out. Check that it runs.")

    assert compare_with_broker(TOPIC, LAST, None) == ((), NOT_ASKED, ())
    why = compare_with_broker(TOPIC, LAST, silent)[1]
    account = Account(
        table="silver.orders",
        reads="bronze.orders",
        versions={},
        batch_id=0,
        since="",
        looked_at=150,
        partitions=(PartitionAccount("orders", 0, 0, 150, {"silver": 150}),),
        faults=(),
        not_compared=why,
    )
    assert audit_output.verdict([account]) == (
        "the tables balance: 150 offsets, each in exactly one place; not compared with Kafka: the broker at "
        "b:1 did not return its topics: timed out"
    )
    found = audit_output.document([account])["tables"][0]
    assert (found["compared_with_kafka"], found["not_compared_because"]) == (False, why)
