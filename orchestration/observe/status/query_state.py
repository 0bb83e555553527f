"""What each query does now, from the jobs' state files, the leases and the checkpoints.

A lease says which process writes a table, also for a job of another host, or of an earlier release, that
keeps no state file here. The
checkpoint says whether a micro-batch is planned and not committed: that one is being processed. A query that
has rows to read and begins no micro-batch is stalled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from common.config.durations import seconds_of
from common.declare.intervals import FOLLOW
from common.delta.checkpoint import PlannedBatch
from common.delta.commit import from_epoch_ms
from common.delta.lease.lease_holder import Holder
from orchestration.access.history.job_state import JobQuery, JobState
from orchestration.observe.status.model import Lag, QueryNow
from orchestration.observe.status.words.state import WAITS, doing, duration, unread_words

STALLED_SECONDS = 60.0
"""For so long, and two of its triggers, a query may leave rows unread between two micro-batches."""

_WAITS: frozenset[str] = frozenset({"waiting", "starting"})

_Place = tuple[int | None, int | None]
"""The newest planned micro-batch and the newest committed one."""

_START_SECONDS = 300.0
"""How long a job may hold its leases before it writes its state: it starts Spark meanwhile, or a broker.
A job of an earlier release, which writes no state, is shown as starting for so long."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The newest planned micro-batch of a query and the newest committed one."""

    newest: PlannedBatch | None = None
    committed: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether a planned micro-batch is not committed yet."""
        return self.newest is not None and self.newest.batch_id != self.committed


def query_now(  # noqa: PLR0913, PLR0917  # the sources of one answer
    table: str,
    jobs: Sequence[JobState],
    holder: Holder | None,
    planned: Planned,
    at: datetime,
    lapsed: tuple[Holder, float] | None = None,
) -> QueryNow:
    """What the query of a table does now.

    Args:
        jobs: The states of jobs, newest first.
        lapsed: A process, of this host or of another, whose lease on the store has ended without being
            released, and the seconds since its last renewal.
    """
    job = next((state for state in jobs if table in state.queries), None)
    query = None if job is None else job.queries[table]
    if holder is None and lapsed is not None and not _is_of(job, lapsed[0]):
        return _lapsed(*lapsed, at)
    is_of_another = holder is not None and not _is_of(job, holder)  # a job that keeps no state here
    if job is None or query is None or is_of_another:
        return _by_lease(holder, planned, at)
    if job.ended or query.state == "failed":
        return _ended(job, query)
    if not job.is_alive:
        text = f"the process {job.pid} of job {job.job} has ended and left no error"
        return QueryNow("dead", text, job.at, text, query.restarts, query.last_batch)
    if job.is_silent(at):
        text = f"job {job.job} (pid {job.pid}) has not answered for {_age(at, job.at)}"
        return QueryNow("dead", text, job.at, text, query.restarts, query.last_batch)
    return _running(query, planned, at)


def held(query: QueryNow, name: str, since: datetime | None) -> QueryNow:
    """A query that an operator has stopped, once it has finished its micro-batch; any other as it is."""
    if since is None or query.state == "working":
        return query
    phase = f"stopped by an operator; to go on: medallion start {name}"
    return replace(query, state="stopped", phase=phase, since=since, error="", is_held=True)


def _running(query: JobQuery, planned: Planned, at: datetime) -> QueryNow:
    rest = (query.error, query.restarts, query.last_batch, False, query.has_end)
    if query.waits_for and query.state in _WAITS:
        return replace(QueryNow("waiting", _waits(query), query.since, *rest), waits_for=query.waits_for)
    if query.state == "restarting":
        return QueryNow("restarting", f"failed {_age(at, query.since)} ago, is restarted", query.since, *rest)
    if query.state == "starting":
        text = "starts once its source is complete" if query.has_end else "starts once its source has rows"
        return QueryNow("starting", text, query.since, *rest)
    if query.state == "ended":
        text = "has processed what was available" if query.has_end else "was stopped"
        return QueryNow("stopped", text, query.since, *rest)
    if planned.is_open or query.state == "working":
        return _working(planned, at, *rest)
    return QueryNow("waiting", WAITS, query.since, *rest)


def _working(planned: Planned, at: datetime, *rest: object) -> QueryNow:
    newest = planned.newest
    if newest is None or not planned.is_open:
        return QueryNow("working", "commits a micro-batch", None, *rest)  # type: ignore[arg-type]
    since = from_epoch_ms(newest.timestamp_ms) if newest.timestamp_ms else None
    took = "" if since is None else f" for {_age(at, since)}"
    return QueryNow("working", f"micro-batch {newest.batch_id}{took}", since, *rest)  # type: ignore[arg-type]


def _ended(job: JobState, query: JobQuery) -> QueryNow:
    if query.state == "failed":
        text = query.error or job.error or "failed"
        return QueryNow("failed", text, query.since, text, query.restarts, query.last_batch)
    if query.waits_for:
        return QueryNow("stopped", _waits(query), job.at, waits_for=query.waits_for)
    if job.ended == "failed" and not job.is_of_tables:
        text = f"job {job.job} ended: {job.error}"
        return QueryNow("failed", text, job.at, job.error, query.restarts, query.last_batch)
    how = "has ended" if job.ended == "failed" else "was stopped"
    return QueryNow("stopped", f"job {job.job} {how}", job.at, "", query.restarts, query.last_batch)


def _waits(query: JobQuery) -> str:
    return f"waits for {query.waits_for}, which has failed"


def _is_of(job: JobState | None, holder: Holder) -> bool:
    """Whether a lease is that of a job; processes of two hosts, and of two containers, may have one id."""
    return job is not None and (job.pid, job.host) == (holder.pid, holder.host)


def _lapsed(holder: Holder, seconds: float, at: datetime) -> QueryNow:
    text = (
        f"job {holder.job} (pid {holder.pid} on {holder.host}) has not renewed its lease for {seconds:,.0f} s"
    )
    return QueryNow("dead", text, at - timedelta(seconds=seconds), text)


def _by_lease(holder: Holder | None, planned: Planned, at: datetime) -> QueryNow:
    if holder is None:
        return QueryNow("stopped", "no job runs")
    if holder.started_at is not None and (at - holder.started_at).total_seconds() < _START_SECONDS:
        return QueryNow("starting", f"job {holder.job} starts", holder.started_at, is_opening=True)
    return _working(planned, at) if planned.is_open else QueryNow("waiting", WAITS)


def _age(at: datetime, then: datetime) -> str:
    return f"{max(0, round((at - then).total_seconds())):,} s"


class StallWatch:
    """Sees again and again whether each query moves.

    Args:
        trigger: The trigger of a query, by its name.
    """

    def __init__(self, trigger: Callable[[str], str]) -> None:
        self._trigger = trigger
        self._unmoved: dict[str, tuple[_Place, datetime]] = {}

    def judged(  # noqa: PLR0913, PLR0917  # the sources of one answer
        self, name: str, query: QueryNow, lag: Lag, planned: Planned, at: datetime, reads: str = ""
    ) -> QueryNow:
        """What a query does, in words; ``stalled`` if it should have begun a micro-batch long ago.

        The age of a Kafka record says nothing of when it came: unread records count from the first look that
        found them. Unread rows of a table count from the commit that brought them.

        Args:
            reads: The table whose first rows it waits for before it starts; empty where it waits for none.
        """
        query = replace(query, phase=doing(query, lag))
        is_early = query.state == "starting" and planned.newest is None and not query.is_opening
        if is_early and reads and lag.count == 0 and not query.has_end:
            query = replace(query, state="waiting", phase=f"waits for the first rows of {reads}")
        is_bound = query.is_opening or query.has_end or bool(query.waits_for)
        if query.state not in _WAITS or is_bound or not lag.count:
            self._unmoved.pop(name, None)
            return query
        place = (planned.newest.batch_id if planned.newest else None, planned.committed)
        before = self._unmoved.get(name)
        since = before[1] if before is not None and before[0] == place else at
        if lag.unit == "rows" and lag.seconds is not None and query.since is not None:
            since = min(since, max(query.since, at - timedelta(seconds=lag.seconds), _begun(planned)))
        self._unmoved[name] = (place, since)
        seconds = (at - since).total_seconds()
        if seconds <= STALLED_SECONDS + 2 * self._trigger_seconds(name):
            return query
        what = "has not started" if query.state == "starting" else "begins no micro-batch"
        text = f"{what}, and {unread_words(lag.count, lag.unit)}: no progress for {duration(seconds)}"
        return replace(query, state="stalled", phase=text, since=since, error=text)

    def _trigger_seconds(self, name: str) -> float:
        trigger = self._trigger(name)
        return 0.0 if trigger in {"", FOLLOW} else seconds_of(trigger)


def _begun(planned: Planned) -> datetime:
    """When the newest micro-batch was planned; long ago if none was."""
    newest = planned.newest
    return datetime.min.replace(tzinfo=UTC) if newest is None else from_epoch_ms(newest.timestamp_ms)
