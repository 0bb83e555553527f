"""``medallion hand-over``: ends the running job, and looks at whether the queries of a standby run then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated

import typer

from common.config.paths import all_tables
from common.delta.lease.lease_holder import Holder, Standby, find_holder, find_standbys
from common.errors import MedallionError, QueryFailedError, UsageError
from common.machine.console import say
from orchestration.access.channel.client import fingerprint
from orchestration.access.declaration.context import Context
from orchestration.access.history.job_state import JobQuery, JobState, read_states
from orchestration.access.history.stopped_queries import stopped_since
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, command_named
from orchestration.cli.warm_job import holders

_LOOK_SECONDS = 0.1

_IDLE_SECONDS, _BUSY_SECONDS = 3.0, 15.0
"""A query that has waited for data for so long without a failure runs, and so does one that has been inside
its first micro-batch for so long."""

_BETWEEN_SECONDS = 1.0
"""Spark needs a moment to end a query whose micro-batch has failed."""

_FAILED_SECONDS = 2.0
"""A job needs a moment to decide whether a query that has failed is restarted."""


@dataclass
class _Trial:
    """What has been seen of the queries of the job that goes on."""

    job: Holder  # the process
    queries: Sequence[str] = ()  # what it is to run
    seen: dict[str, list[JobQuery]] = field(default_factory=dict)  # the states of each query, in order
    ran_at: float | None = None  # when no query was left that had not been started; by the monotonic clock

    def look(self, state: JobState) -> bool:
        """Look at the job's newest state; whether all is known about all queries."""
        for name in self.queries:
            if (now := state.queries.get(name)) is not None:
                states = self.seen.setdefault(name, [])
                if not states or (states[-1].state, states[-1].since) != (now.state, now.since):
                    states.append(now)
        if len(self.seen) < len(self.queries):
            return False
        self.ran_at = self.ran_at or time.monotonic()
        return all(_is_decided(states, state.at) for states in self.seen.values())

    @property
    def failed(self) -> dict[str, str]:
        """The queries that have failed, with the causes."""
        last = {name: states[-1] for name, states in self.seen.items()}
        return {name: one.error for name, one in last.items() if one.state in {"failed", "restarting"}}


def _is_decided(states: Sequence[JobQuery], at: datetime) -> bool:
    """Whether it is known that a query runs, that it has failed, or that it waits for its first row.

    One that is restarted after a failure is undecided: the cause may pass.
    """
    now = states[-1]
    if now.state in {"starting", "ended"}:
        return True
    has_worked = any(one.state == "working" for one in states[:-1])
    needed = {
        "waiting": _BETWEEN_SECONDS if has_worked else _IDLE_SECONDS,
        "working": 0.0 if has_worked else _BUSY_SECONDS,
        "failed": _FAILED_SECONDS,
    }
    return now.state in needed and at - now.since >= timedelta(seconds=needed[now.state])


@command_named("hand-over")
def hand_over(
    ready: Context,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="How long to wait, for a standby and then for it."),
    ] = 180.0,
    as_json: JsonOption = False,
) -> None:
    """End the running job at a micro-batch boundary, and have a standby of this machine go on in its place.

    Without a standby that is ready nothing is ended. Exit code 1 if a query of the new job has failed.
    """
    deadline = time.monotonic() + timeout
    jobs = [_handed_over(ready, holder, deadline) for holder in _with_standby(ready, deadline)]
    if as_json:
        print_document({"jobs": [one.document() for one in jobs]})
    else:
        for one in jobs:
            say(f"{one.job}: pid {one.before} has ended, pid {one.after} goes on, after {one.seconds} s")
    if failed := {name: error for one in jobs for name, error in one.failed.items()}:
        raise _failure(failed)


@dataclass(frozen=True)
class _HandedOver:
    """A job that another process goes on with."""

    job: str
    before: int  # the process that has ended; ``after`` the one that goes on
    after: int
    seconds: float  # until its queries ran
    failed: Mapping[str, str]  # the queries that have failed there, with the causes

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "job": self.job,
            "from": self.before,
            "to": self.after,
            "seconds": self.seconds,
            "failed": [{"query": name, "error": error} for name, error in self.failed.items()],
        }


def _failure(failed: Mapping[str, str]) -> QueryFailedError:
    # A cause is a sentence, which may begin with its query.
    told = {one: why.removeprefix(f"{one} failed: ").rstrip(".") for one, why in failed.items()}
    causes = list(told.values()) if len(told) == 1 else [f"{one}: {why}" for one, why in told.items()]
    advice = (
        "The job that goes on runs the other queries. Look with: medallion status; to go back, start a "
        "standby with the former version or file, and hand over again"
    )
    return QueryFailedError(", ".join(failed), f"{'; '.join(causes)}. {advice}")


def _with_standby(ready: Context, deadline: float) -> list[Holder]:
    """The jobs of this host for which a standby is ready; waits for standbys that start."""
    running = holders(ready, all_tables(ready.pipeline))
    if not running:
        raise UsageError(
            f"no job of this machine writes tables of {ready.pipeline.name}: nothing is to be handed over. "
            "Start one: medallion up"
        )
    jobs = sorted({one.job for one in running})
    while True:
        standbys = [one for one in find_standbys(ready.layout.leases) if one.job in jobs]
        _require_same_file(ready, standbys)
        chosen = [one for one in running if any(s.is_ready and s.job == one.job for s in standbys)]
        if chosen:
            for one in running:
                if one not in chosen:
                    say(f"{one.job}, pid {one.pid}, has no standby that is ready, and goes on itself")
            return chosen
        if not standbys or time.monotonic() >= deadline:
            raise UsageError(
                f"{', '.join(jobs)} has no standby that is ready on this machine, so nothing was ended. "
                "Start one with the same command and --standby, such as: medallion up --standby"
            )
        time.sleep(_LOOK_SECONDS)


def _require_same_file(ready: Context, standbys: Sequence[Standby]) -> None:
    """Refuse a hand-over after which a standby could go on with the pipeline file as it was."""
    now = fingerprint(ready.settings.pipeline)
    for one in standbys:
        if one.reads != now:
            raise UsageError(
                f"{one.place} has read another content of {ready.settings.pipeline} and could be the one "
                f"that goes on, so nothing was ended. End it, and start it again: kill {one.pid}"
            )


def _handed_over(ready: Context, holder: Holder, deadline: float) -> _HandedOver:
    """End a job, and wait until it is known of each query of a standby whether it runs."""
    began = time.monotonic()
    written = holders(ready, all_tables(ready.pipeline)).get(holder)
    if not written:
        raise _ended_by_itself(holder)
    _end(holder)
    say(f"{holder.job}, pid {holder.pid}, ends at a micro-batch boundary")
    trial: _Trial | None = None
    for _ in _looks(deadline):
        now = find_holder(ready.layout.leases, written[0])
        if now is None and not any(one.job == holder.job for one in find_standbys(ready.layout.leases)):
            now = find_holder(ready.layout.leases, written[0])  # the last standby has the leases by now
            if now is None:
                raise _not_gone_on(ready, holder.job, trial)
        if now is None or now.pid == holder.pid:
            continue
        if trial is None or trial.job != now:
            trial = _Trial(now)
        if (state := _state(ready, now.pid)) is None:
            continue
        trial.queries = trial.queries or _queries(ready, now)
        if trial.look(state):
            break
    if trial is None or trial.ran_at is None:
        raise _not_gone_on(ready, holder.job, trial)
    seconds = round(trial.ran_at - began, 1)
    return _HandedOver(holder.job, holder.pid, trial.job.pid, seconds, trial.failed)


def _end(holder: Holder) -> None:
    """Have a job end at a micro-batch boundary."""
    try:
        os.kill(holder.pid, signal.SIGTERM)
    except ProcessLookupError as error:
        raise _ended_by_itself(holder) from error
    except PermissionError as error:
        raise UsageError(
            f"{holder.job}, pid {holder.pid}, belongs to another user, so nothing was ended. Run hand-over "
            "as that user"
        ) from error


def _ended_by_itself(holder: Holder) -> UsageError:
    text = f"{holder.job}, pid {holder.pid}, has ended by itself, so nothing was ended. Look with: "
    return UsageError(text + "medallion status")


def _not_gone_on(ready: Context, job: str, trial: _Trial | None) -> MedallionError:
    """The error where no process goes on, or one that has not started its queries."""
    advice = "Look with: medallion status; to start the job again: medallion up"
    if trial is None:
        text = "no standby has gone on in time. The messages of the standby say why"
        return MedallionError(f"{job}: {text}. {advice}")
    state = _state(ready, trial.job.pid)
    if state is not None and state.ended:
        why = f"has ended: {state.error or 'it was stopped'}"
    else:
        why = "has not started its queries in time. Its messages say why"
    return MedallionError(f"{job}: pid {trial.job.pid} has gone on and {why}. {advice}")


def _queries(ready: Context, job: Holder) -> list[str]:
    """The queries that a job is to run, without those that an operator has stopped."""
    pipeline = ready.pipeline
    known = [one.table for one in (*pipeline.tables, *pipeline.publish)]
    own = holders(ready, known).get(job, [])
    return [name for name in own if stopped_since(ready.layout, name) is None]


def _state(ready: Context, pid: int) -> JobState | None:
    """What the job of a process has written of itself."""
    return next((one for one in read_states(ready.layout.jobs) if one.pid == pid), None)


def _looks(deadline: float) -> Iterator[None]:
    """Look, and again after a pause, until the deadline."""
    while time.monotonic() < deadline:
        yield
        time.sleep(_LOOK_SECONDS)
