"""Pauses that grow, a budget per hour, and an end: by a clock that the test moves."""

from __future__ import annotations

import pytest

from common.config.settings import SupervisionSettings
from orchestration.run.failures.restart_schedule import RestartPolicy, Restarts


class Clock:
    """The time of a test."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def of(clock: Clock, *, is_bounded: bool = False, draw: float = 1.0, **policy: float) -> Restarts:
    return Restarts(RestartPolicy(**policy), is_bounded, clock, lambda: draw)  # type: ignore[arg-type]


def test_each_failure_in_a_row_doubles_the_pause_up_to_the_longest() -> None:
    clock = Clock()
    restarts = of(clock, first_pause=1, longest_pause=10)
    pauses: list[float] = []
    for _ in range(6):
        pauses.append(restarts.failed())
        clock.now += pauses[-1]
        assert restarts.is_due()
        restarts.restarted()
    assert pauses == [1, 2, 4, 8, 10, 10]
    restarts.failed()
    clock.now += 5
    assert restarts.works() == sum(pauses) + 5
    assert restarts.failed() == 1


@pytest.mark.parametrize(("draw", "pause"), [(0.0, 5.0), (0.5, 7.5), (1.0, 10.0)])
def test_up_to_half_of_a_pause_is_drawn(draw: float, pause: float) -> None:
    assert of(Clock(), draw=draw, first_pause=10).failed() == pause


def test_a_restart_beyond_the_budget_waits_until_the_hour_has_room() -> None:
    clock = Clock()
    restarts = of(clock, first_pause=1, longest_pause=1, per_hour=3)
    for _ in range(3):
        clock.now += restarts.failed()
        restarts.restarted()
        restarts.works()
    assert clock.now == 1_003
    assert restarts.failed() == 1_001 + 3_600 - 1_003
    clock.now = 1_001 + 3_600
    assert restarts.is_due()
    restarts.restarted()
    assert restarts.failed() == 1  # the hour of the second restart has room again a second later


def test_an_outage_does_not_spend_the_budget() -> None:
    """Three hours at a pause of a minute: the query is back within a minute of the end, not of an hour."""
    clock = Clock()
    restarts = of(clock, first_pause=1, longest_pause=60, per_hour=60)
    while clock.now < 1_000 + 3 * 3_600:
        pause = restarts.failed()
        assert pause <= 60
        clock.now += pause
        restarts.restarted()
    restarts.works()
    assert restarts.failed() == 1


@pytest.mark.parametrize(("is_bounded", "seconds"), [(False, 600), (True, 120)])
def test_failures_in_a_row_have_an_end(*, is_bounded: bool, seconds: float) -> None:
    clock = Clock()
    restarts = of(clock, is_bounded=is_bounded, give_up_seconds=600)
    restarts.failed()
    clock.now += seconds
    assert not restarts.is_given_up()
    clock.now += 1
    assert restarts.is_given_up()
    restarts.works()
    assert not restarts.is_given_up()


def test_many_failures_in_a_row_are_numbers_that_a_clock_can_have() -> None:
    restarts = of(Clock(), longest_pause=60, per_hour=10**9)
    assert [restarts.failed() for _ in range(5_000)][-1] == 60


def test_the_policy_is_that_of_the_settings() -> None:
    assert RestartPolicy.of(SupervisionSettings()) == RestartPolicy()
    given = SupervisionSettings(first_pause="500ms", give_up_after="2 hours", fail_fast=True)
    policy = RestartPolicy.of(given)
    assert (policy.first_pause, policy.give_up_seconds, policy.fail_fast) == (0.5, 7_200, True)
