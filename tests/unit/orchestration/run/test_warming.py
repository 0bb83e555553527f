"""When a standby rehearses, and when it counts as warm."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, cast

import pytest

from orchestration.run.standby import warming
from orchestration.run.standby.warming import Warming
from tests.support.processes import await_that

if TYPE_CHECKING:
    from orchestration.run.standby.rehearsal import Rehearsal


class Runs:
    """Rehearsals of this test, each of which lasts until it is told to go on."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.number = error, 0
        self.may_end, self.ended = threading.Semaphore(0), threading.Event()

    def run(self) -> None:
        self.number += 1
        while not self.may_end.acquire(timeout=0.01) and not self.ended.is_set():
            pass
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        self.ended.set()

    def warming(self) -> Warming:
        """Keeps them going."""
        return Warming(cast("Rehearsal", self))


@pytest.mark.parametrize("error", [None, OSError("no space left on device")])
def test_a_standby_is_warm_after_some_rehearsals_also_where_they_fail(error: Exception | None) -> None:
    runs = Runs(error)
    one = runs.warming()
    one.begin()
    one.begin()
    for _ in range(warming._AT_FIRST):
        assert not one.is_warm
        runs.may_end.release()
    await_that(lambda: one.is_warm, "it is warm")
    assert runs.number == warming._AT_FIRST
    one.end()


def test_the_next_rehearsal_comes_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(warming, "_PAUSE_PER_SECOND", 0.1)
    runs = Runs()
    one = runs.warming()
    one.begin()
    for _ in range(warming._AT_FIRST + 1):
        runs.may_end.release()
    await_that(lambda: runs.number == warming._AT_FIRST + 2, "it goes on")
    one.end()


def test_a_rehearsal_that_lasts_for_long_keeps_no_standby_from_being_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warming, "_MOST_SECONDS", 0.05)
    runs = Runs()
    one = runs.warming()
    one.begin()
    time.sleep(0.1)
    assert one.is_warm
    one.end()
    assert runs.ended.is_set()


def test_one_that_has_not_begun_ends_at_once() -> None:
    Runs().warming().end()
