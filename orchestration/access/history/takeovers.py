"""Which process of a job goes on after which, and whether a standby is left for the next time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from orchestration.access.history.job_state import JobState

TOLD_FOR = timedelta(days=1)
"""So long people are shown that a process of a job was killed."""


def takeover_text(job: JobState) -> str:
    """After which process a job goes on, in words; empty where it goes on after none."""
    who = f"pid {job.pid}, {'its standby' if job.is_standby else 'started again'},"
    when = f"{job.started_at:%Y-%m-%d %H:%M:%S} UTC"
    if (killed := job.killed) is not None:
        last = f"{killed.at:%Y-%m-%d %H:%M:%S} UTC"
        return (
            f"job {job.job} was killed: pid {killed.pid} on {killed.host} released no lease, and was seen "
            f"last at {last}; {who} took over at {when}"
        )
    return f"{who} went on with job {job.job} at {when}" if job.is_standby else ""


def kills(jobs: Sequence[JobState], at: datetime, told_for: timedelta = TOLD_FOR) -> Iterator[JobState]:
    """The jobs that run, and whose process before was killed not long ago."""
    yield from (
        job for job in jobs if job.killed is not None and not job.ended and at - job.started_at < told_for
    )


def without_standby(jobs: Sequence[JobState], waiting: Collection[str]) -> Iterator[str]:
    """A sentence for each job that had a standby, which has taken over, and has none any more."""
    for job in jobs:
        if job.is_standby and not job.ended and job.is_alive and job.job not in waiting:
            words = "up" if job.job == "up" else job.job.replace("-", " ", 1)
            yield (
                f"no standby is left: the one of job {job.job} has taken over; start the next one with "
                f"medallion {words} --standby"
            )
