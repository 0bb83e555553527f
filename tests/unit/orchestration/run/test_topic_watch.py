"""The look at topics while a job runs."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping, Sequence

import pytest

from common.errors import BrokerError, TopicChangedError
from common.streaming.topic_identity import TopicIdentity, TopicState
from orchestration.run.topic_checks import TopicWatch

IDENTITIES = {
    "bronze.orders": TopicIdentity("bronze.orders", {"orders": TopicState("A"), "old": TopicState()})
}


@pytest.mark.parametrize(
    ("after", "words"),
    [({"orders": "B"}, r"created again \(id B, before A\)"), ({}, "topic orders was deleted")],
)
def test_a_topic_that_changes_ends_the_job(
    after: Mapping[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not answer does not, and a topic without an id is not compared."""
    answers: list[Mapping[str, str] | None] = [{"orders": "A"}, None, after]
    looked = threading.Event()

    def lookup(table: str, names: Sequence[str]) -> Mapping[str, str]:
        assert (table, list(names)) == ("bronze.orders", ["orders"])
        answer = answers.pop(0)
        if answer is None:
            raise BrokerError("no answer")
        if not answers:
            looked.set()
        return answer

    clock = itertools.count()
    monkeypatch.setattr(time, "strftime", lambda _: f"look {next(clock)}")
    watch = TopicWatch(IDENTITIES, lookup, seconds=0.01)
    assert watch.failure() is None
    with watch.running():
        assert looked.wait(10)
        deadline = time.monotonic() + 10
        while watch.failure() is None and time.monotonic() < deadline:
            time.sleep(0.01)
    failure = watch.failure()
    assert isinstance(failure, TopicChangedError)
    with pytest.raises(TopicChangedError, match=words):
        raise failure
    assert "after look 1." in str(failure), "look 2 had no answer"
