"""A healthy publication to Kafka is no fault of the audit, whatever its source and its clocks have seen."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from common.declare import KafkaSink, Publish
from common.delta.log import LogReader
from common.delta.match.source_match import Source, SourceNote, last_commits
from common.machine.storage_folder import StorageFolder
from orchestration.records.audit.gold import sent
from orchestration.records.audit.gold.sent import Sent, compare_sent

KEYS = {b"a", b"b"}
PUBLISH = Publish("alerts", reads="gold.latest", to=KafkaSink("alerts", key="k"), deletes=True)


class Rows:
    """Changes of a version, whose conditions are noted."""

    def __init__(self) -> None:
        self.conditions: list[str] = []

    def where(self, condition: str) -> Rows:
        self.conditions.append(condition)
        return self


class Sending:
    """A publication of a table of four versions, each of one file, and what the topic has of it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.checkpoint = str(folder / "latest"), str(folder / "publish.alerts")
        for number in range(4):
            write_deltalake(self.path, pa.table({"k": [f"{number}"]}), mode="append")
        self.since: set[bytes] | None = KEYS
        self.newest: set[bytes] | None = KEYS
        self.rows = Rows()
        self.context: Any = SimpleNamespace(
            settings=None, pipeline=None, checkpoint=lambda one: self.checkpoint, path=lambda name: self.path
        )
        monkeypatch.setattr(sent, "sink_options", lambda *_: {"bootstrap.servers": "broker"})
        monkeypatch.setattr(sent, "named_broker", lambda *_: "broker")
        monkeypatch.setattr(sent, "_changes", lambda *_: self.rows)
        monkeypatch.setattr(sent, "_keys_of", lambda *_: KEYS)
        monkeypatch.setattr(sent, "keys_since", self._keys)

    def _keys(self, address: str, options: object, topic: str, since_ms: int | None, *_: object) -> Any:
        return self.newest if since_ms is None else self.since

    def read(self, version: int, index: int, *, in_snapshot: bool, number: int = 0) -> None:
        """A micro-batch ends here."""
        end = {"reservoirVersion": version, "index": index, "isStartingVersion": in_snapshot}
        StorageFolder(self.checkpoint).write(f"offsets/{number}", f"v1\n{{}}\n{json.dumps(end)}".encode())
        SourceNote(self.checkpoint).write((end,), last_commits((end,), [Source("gold.latest", self.path)]))

    def compared(self) -> Sent:
        return compare_sent(self.context, PUBLISH, None)


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    return Sending(tmp_path, monkeypatch)


def test_a_first_state_that_is_read_in_part_is_not_compared(sending: Sending) -> None:
    """The files of the newest version come last in it."""
    sending.since, sending.newest = set(), set()
    for index in range(3):
        sending.read(3, index, in_snapshot=True, number=index)
        assert "cannot be told" in sending.compared().why
    sending.read(3, 3, in_snapshot=True, number=3)
    assert "has no message since then of 2 of the 2 keys that version 3" in sending.compared().fault


@pytest.mark.parametrize(
    ("ends", "is_first"),
    [
        ([(3, 3, True)], True),
        ([(3, 1, True), (4, -1, False)], True),
        ([(2, 2, True), (3, 0, False)], False),
        ([(2, 2, True), (4, -1, False)], False),
        ([(3, 3, True), (4, -1, False), (4, 0, False)], False),
    ],
)
def test_what_was_gone_before_the_first_state_was_never_sent(
    sending: Sending, ends: list[tuple[int, int, bool]], *, is_first: bool
) -> None:
    write_deltalake(sending.path, pa.table({"k": ["4"]}), mode="append")
    assert LogReader(sending.path).latest_version() == 4
    for number, (version, index, in_snapshot) in enumerate(ends):
        sending.read(version, index, in_snapshot=in_snapshot, number=number)
    assert sending.compared() == Sent()
    assert sending.rows.conditions == (
        ["_change_type NOT IN ('delete', 'update_preimage')"] if is_first else []
    )


@pytest.mark.parametrize(
    ("since", "newest", "fault", "why"),
    [
        (KEYS, None, "", ""),
        (set(), KEYS, "", "older than version 3 of gold.latest: a clock was set back"),
        ({b"z"}, KEYS, "", "older than version 3 of gold.latest: a clock was set back"),
        (set(), {b"a"}, "of 2 of the 2 keys", ""),
        (set(), set(), "of 2 of the 2 keys", ""),
        (set(), None, "of 2 of the 2 keys", ""),
        ({b"a"}, KEYS, "of 1 of the 2 keys", ""),
        (None, KEYS, "", "more came to topic alerts"),
    ],
)
def test_messages_before_their_commit_are_a_clock_that_was_set_back(
    sending: Sending, since: set[bytes] | None, newest: set[bytes] | None, fault: str, why: str
) -> None:
    sending.read(3, 3, in_snapshot=True)
    sending.since, sending.newest = since, newest
    found = sending.compared()
    assert bool(found.fault) == bool(fault)
    assert fault in found.fault
    assert bool(found.why) == bool(why)
    assert why in found.why
