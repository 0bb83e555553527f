"""When a query that failed for a transient cause is restarted: growing pauses, a budget per hour, an end."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from common.config.settings import SupervisionSettings
from common.declare.intervals import parse_duration

_HOUR = 3600.0
BOUNDED_GIVE_UP_SECONDS = 120.0
"""How long a query with an end, as those of ``backfill`` are, may fail: a person or a script waits for it."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How queries are restarted."""

    # Seconds before the first restart; each further failure in a row doubles the pause.
    first_pause: float = 1.0
    longest_pause: float = 60.0  # the longest pause, in seconds
    # Restarts of one query within any hour, those of failures in a row counted once; a further restart waits
    # until the hour has room.
    per_hour: int = 60
    # Seconds of failures in a row after which the query is not restarted any more.
    give_up_seconds: float = 24 * _HOUR
    bounded_give_up_seconds: float = BOUNDED_GIVE_UP_SECONDS  # the same for a query with an end
    # Whether the first failure ends the run; only an unavailable schema registry is retried.
    fail_fast: bool = False

    @classmethod
    def of(cls, settings: SupervisionSettings) -> RestartPolicy:
        """The policy of these settings."""
        return cls(
            first_pause=_seconds(settings.first_pause),
            longest_pause=_seconds(settings.longest_pause),
            per_hour=settings.restarts_per_hour,
            give_up_seconds=_seconds(settings.give_up_after),
            fail_fast=settings.fail_fast,
        )


@dataclass
class Restarts:
    """The failures of one query, and the time of its next restart. Times are those of ``clock``.

    A query may fail, be restarted and fail again before it finishes a micro-batch: these are failures in a
    row. The first finished micro-batch, or the first look for data that succeeds, ends the row.
    """

    policy: RestartPolicy
    is_bounded: bool = False
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random
    began: float | None = None
    """Time of the first failure in a row; None while the query works."""
    in_a_row: int = 0
    due: float | None = None
    """Time of the next restart; None while the query runs."""
    total: int = 0
    recent: deque[float] = field(default_factory=deque)
    """Times of the first restarts of the rows of the last hour."""

    def failed(self) -> float:
        """Record a failure and schedule the next restart; returns the seconds until then."""
        now = self.clock()
        self.began = now if self.began is None else self.began
        # The exponent is limited: the row may have thousands of failures.
        pause = min(self.policy.first_pause * 2.0 ** min(self.in_a_row, 30), self.policy.longest_pause)
        self.in_a_row += 1
        # Half of the pause is drawn: the queries that one outage ended do not return all at once.
        self.due = max(now + pause / 2 + self.draw() * pause / 2, self._budget_free_at(now))
        return self.due - now

    def is_due(self) -> bool:
        """Whether the query is to be restarted now."""
        return self.due is not None and self.clock() >= self.due

    def restarted(self) -> None:
        """Record a restart. Those of one row count once for the budget: they have pauses, and an end."""
        self.due = None
        self.total += 1
        if self.in_a_row <= 1:
            self.recent.append(self.clock())

    def works(self) -> float:
        """Record that the query works again; returns the seconds since the first failure."""
        now = self.clock()
        began, self.began, self.in_a_row, self.due = self.began, None, 0, None
        return 0.0 if began is None else now - began

    def is_given_up(self) -> bool:
        """Whether the query has failed for too long to be restarted once more."""
        limit = self.policy.bounded_give_up_seconds if self.is_bounded else self.policy.give_up_seconds
        return self.began is not None and self.clock() - self.began > limit

    def _budget_free_at(self, now: float) -> float:
        while self.recent and now - self.recent[0] >= _HOUR:
            self.recent.popleft()
        return now if len(self.recent) < self.policy.per_hour else self.recent[0] + _HOUR


def _seconds(duration: str) -> float:
    length = parse_duration(duration)
    if length is None:
        raise AssertionError(f"{duration!r} is no duration, and was accepted as one")
    return length.seconds
