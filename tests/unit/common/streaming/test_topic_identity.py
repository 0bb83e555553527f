"""The ids and generations of topics in the metadata of commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.streaming.topic_identity import (
    TOPICS,
    TopicIdentity,
    TopicState,
    coordinate_ends,
    read_ends,
    recorded_topics,
)

POSITIONS = [{"orders": {"0": 5, "1": 0}, "payments": {"0": 7}}]


def test_a_commit_names_the_ids_of_its_topics_and_new_topics_are_looked_up_once() -> None:
    asked: list[tuple[str, ...]] = []

    def lookup(names: Sequence[str]) -> Mapping[str, str]:
        asked.append(tuple(names))
        return {"payments": "B"}

    identity = TopicIdentity("bronze.orders", {"orders": TopicState("A", 2)}, lookup)
    entries = {"orders": {"id": "A", "generation": 2}, "payments": {"id": "B"}}
    for _ in range(2):
        assert identity.facts(POSITIONS) == {TOPICS: entries}
    assert asked == [("payments",)]
    assert recorded_topics({TOPICS: entries}) == {"orders": TopicState("A", 2), "payments": TopicState("B")}


def test_a_topic_without_an_id_is_left_out_and_looked_up_once() -> None:
    asked: list[tuple[str, ...]] = []

    def lookup(names: Sequence[str]) -> Mapping[str, str]:
        asked.append(tuple(names))
        return {}

    identity = TopicIdentity("bronze.orders", {}, lookup)
    assert identity.facts(POSITIONS) == identity.facts(POSITIONS) == {}
    assert asked == [("orders", "payments")]


def test_rows_of_a_later_generation_have_another_topic() -> None:
    metadata = {"positions": POSITIONS, TOPICS: {"orders": {"id": "A", "generation": 3}}}
    assert read_ends(metadata) == {"orders": {0: 5, 1: 0}, "payments": {0: 7}}
    assert coordinate_ends(metadata) == {("orders#3", 0): 5, ("orders#3", 1): 0, ("payments", 0): 7}


def test_commits_without_ids_or_positions_name_nothing() -> None:
    assert recorded_topics(None) == recorded_topics({}) == recorded_topics({TOPICS: "?"}) == {}
    assert read_ends(None) == read_ends({}) == read_ends({"positions": [None, {"reservoirVersion": 3}]}) == {}
