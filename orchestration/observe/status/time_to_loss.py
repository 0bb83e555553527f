"""When unread data will be deleted at the present rates: by Kafka's retention, Delta's log or a vacuum.

The unread part of a source has a length (rows) and an age (that of its oldest row). Its length over its age
is the rate at which it was written, ``w``. A reader at rate ``r`` moves through it, so the age of the oldest
unread row grows by ``1 - r / w`` seconds per second. Data is deleted at an age of ``R`` seconds: the reader
loses data after ``(R - age) / (1 - r / w)`` seconds, and never if ``r >= w``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from common.delta.maintenance.retention import FILES, LOG, retention
from orchestration.observe.status.model import TimeToLoss

NEVER = TimeToLoss(math.inf)
UNKNOWN = TimeToLoss(None)


@dataclass(frozen=True, slots=True)
class Unread:
    """The unread part of a source and the rate of its reader."""

    rows: int  # unread rows or records
    seconds: float  # age of the oldest of them
    rows_per_second: float  # the reader's rate

    @property
    def written_per_second(self) -> float:
        """The rate at which the unread part was written."""
        return self.rows / max(1.0, self.seconds)

    def until_age(self, limit_seconds: float, *, age: float | None = None) -> float:
        """Seconds until the oldest unread row is as old as a limit; infinite if the reader gains.

        Args:
            limit_seconds: The age at which data is deleted.
            age: The age now; unset: that of the oldest unread row.
        """
        slope = 1.0 - self.rows_per_second / max(self.written_per_second, 1e-9)
        left = limit_seconds - (self.seconds if age is None else age)
        if left <= 0:
            return 0.0
        return math.inf if slope <= 0 else left / slope


def in_kafka(unread: Unread, retention: Mapping[str, int], kept: int | None, topic: str) -> TimeToLoss:
    """When Kafka deletes records that bronze has not read.

    Args:
        retention: ``retention.ms`` and ``retention.bytes`` of the topic, -1 for no limit, and
            ``cleanup.policy.delete`` (1 or 0: a compacted topic deletes nothing by age).
        kept: The fewest records that a partition still has before bronze's position; None if the partition
            has not deleted a record yet. Negative if Kafka has deleted unread records already.
    """
    if not unread.rows:
        return NEVER
    if kept is not None and kept < 0:
        return TimeToLoss(0.0, f"retention of topic {topic}: records are lost already")
    if not retention:
        return UNKNOWN
    if not retention.get("cleanup.policy.delete", 1):
        return NEVER
    found = []
    if (limit_ms := retention.get("retention.ms", -1)) >= 0:
        found.append(TimeToLoss(unread.until_age(limit_ms / 1000), f"retention.ms of topic {topic}"))
    if retention.get("retention.bytes", -1) >= 0 and kept is not None:
        # A full partition deletes as fast as it is written to.
        gap = unread.written_per_second - unread.rows_per_second
        seconds = math.inf if gap <= 0 else kept / gap
        found.append(TimeToLoss(seconds, f"retention.bytes of topic {topic}"))
    return soonest(found)


def in_delta(
    unread: Unread, removed_at: datetime | None, properties: Mapping[str, str], table: str, at: datetime
) -> TimeToLoss:
    """When Delta's log clean-up or a vacuum deletes what a query has not read of a table.

    A vacuum deletes files that a commit has removed, such as a compaction, once they are older than
    ``delta.deletedFileRetentionDuration``.

    Args:
        removed_at: Time of the oldest unread commit that removed files; None if none did.
    """
    if not unread.rows:
        return NEVER
    log = retention(properties, LOG).total_seconds()
    found = [TimeToLoss(unread.until_age(log), f"{LOG} of {table}")]
    if removed_at is not None:
        limit = retention(properties, FILES).total_seconds()
        age = (at - removed_at).total_seconds()
        found.append(TimeToLoss(unread.until_age(limit, age=age), f"{FILES} of {table}"))
    return soonest(found)


def soonest(found: Iterable[TimeToLoss]) -> TimeToLoss:
    """The loss that comes first; never if there is none."""
    ordered = sorted((each for each in found if each.seconds is not None), key=lambda each: each.seconds or 0)
    return ordered[0] if ordered and not ordered[0].is_never else NEVER
