"""``--standby`` of ``up`` and ``run``: wait, warm, beside a running job; and ``hand-over``, which ends it."""

from __future__ import annotations

import errno
import functools
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from common.config.paths import all_tables
from common.errors import AddressError, MedallionError, Problem, UsageError
from common.machine.console import say
from orchestration.access.channel.client import fingerprint
from orchestration.access.declaration.context import Context, context
from orchestration.access.history.job_state import read_states
from orchestration.cli.json_output import print_document
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.observe.page.serve import page_of
from orchestration.observe.status.lease_holder import Holder, Standby, find_holder, find_standbys

if TYPE_CHECKING:  # imports Spark, which other commands do not need
    from pyspark.sql import SparkSession

    from orchestration.run.job import Job
    from orchestration.run.wiring import Layer


_LOOK_SECONDS = 0.1

_PAGE_SECONDS = 10.0
"""So long a job may have its page after it has released its leases."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("hand-over")(hand_over)


def run_as_standby(
    ready: Context, layers: Sequence[Layer], name: str, http: str | None, run: Callable[[Job], None]
) -> None:
    """Run a job once no other process writes its tables.

    Args:
        ready: The pipeline and its settings.
        layers: The layers to run.
        name: The job's name.
        http: The address of the page; where the running job has it, it is opened with the leases.
        run: Runs the job.

    Raises:
        PipelineError: The next start of this pipeline would be refused.
    """
    from orchestration.run.job import written_queries
    from orchestration.run.standby.wait import open_standby

    own = written_queries(ready.pipeline, layers)
    page = functools.partial(page_of, ready.pipeline, ready.settings, http, own if name != "up" else ())
    refusals = functools.partial(_refusals, ready, own)
    with (
        _page_if_free(page) as has_page,
        open_standby(
            ready.pipeline,
            ready.settings,
            layers,
            name=name,
            refusals=refusals,
            beside=nullcontext if has_page else functools.partial(_page_if_free, page, _PAGE_SECONDS),
        ) as job,
    ):
        if job is not None:
            run(job)


@contextmanager
def _page_if_free(page: Callable[[], AbstractContextManager[object]], seconds: float = 0.0) -> Iterator[bool]:
    """Open the page, unless another process listens at its address for so long; yields whether it is open.

    Raises:
        AddressError: The address is wrong.
    """
    deadline = time.monotonic() + seconds
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(page())
            except AddressError as error:
                if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EADDRINUSE:
                    raise
                if time.monotonic() < deadline:
                    time.sleep(_LOOK_SECONDS)
                    continue
                say(f"no page now: {error}")
                yield False
                return
            break
        yield True


def _refusals(ready: Context, queries: Sequence[str], spark: SparkSession) -> list[Problem]:
    """Why the next start of these queries would be refused, by the plan of the pipeline."""
    from orchestration.change.plan.plan import plan

    plans = plan(ready.pipeline, ready.settings, ready.layout, lambda: spark)
    return [
        Problem(
            f"{one.query}, {change.name}",
            f"{change.why or 'the table has to be filled again'}. A standby with this pipeline could not "
            "take over, so it ends; the running job is not touched. What to do says: medallion plan",
        )
        for one in plans
        if one.query in queries
        for change in one.changes
        if change.effect in {"rebuild", "refused"}
    ]


def hand_over(
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="How long to wait, for a standby and then for it."),
    ] = 180.0,
    as_json: JsonOption = False,
) -> None:
    """End the running job at a micro-batch boundary, and have a standby of this machine go on in its place.

    Without a standby that is ready nothing is ended.
    """
    ready = context(pipeline, settings, set_)
    deadline = time.monotonic() + timeout
    jobs = [_handed_over(ready, holder, deadline) for holder in _with_standby(ready, deadline)]
    if as_json:
        print_document({"jobs": jobs})
        return
    for one in jobs:
        say(f"{one['job']}: pid {one['from']} has ended, pid {one['to']} goes on, after {one['seconds']} s")


def _with_standby(ready: Context, deadline: float) -> list[Holder]:
    """The jobs of this host for which a standby is ready; waits for standbys that start.

    Raises:
        UsageError: No job runs, none has a standby, or one that has read another pipeline file could go on.
    """
    leases = ready.layout.leases
    found = (find_holder(leases, table) for table in all_tables(ready.pipeline))
    running = {one.pid: one for one in found if one is not None and one.host == socket.gethostname()}
    if not running:
        raise UsageError(
            f"no job of this machine writes tables of {ready.pipeline.name}: nothing is to be handed over. "
            "Start one: medallion up"
        )
    jobs = sorted({one.job for one in running.values()})
    while True:
        standbys = [one for one in find_standbys(leases) if one.job in jobs]
        _require_same_file(ready, standbys)
        chosen = [one for one in running.values() if any(s.is_ready and s.job == one.job for s in standbys)]
        if chosen:
            for one in running.values():
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
    """Refuse a hand-over after which a standby could go on with the pipeline file as it was.

    Raises:
        UsageError: There is such a standby.
    """
    now = fingerprint(ready.settings.pipeline)
    for one in standbys:
        if one.reads != now:
            raise UsageError(
                f"{one.place} has read another content of {ready.settings.pipeline} and could be the one "
                f"that goes on, so nothing was ended. End it, and start it again: kill {one.pid}"
            )


def _handed_over(ready: Context, holder: Holder, deadline: float) -> dict[str, object]:
    """End a job, and wait until the queries of a standby run.

    Raises:
        MedallionError: No standby has gone on.
        UsageError: The job has ended by itself, or belongs to another user.
    """
    began, leases = time.monotonic(), ready.layout.leases
    written = [one for one in all_tables(ready.pipeline) if find_holder(leases, one) == holder]
    if not written:
        raise _ended_by_itself(holder)
    _end(holder)
    say(f"{holder.job}, pid {holder.pid}, ends at a micro-batch boundary")
    for _ in _looks(deadline):
        now = find_holder(leases, written[0])
        if now is not None and now.pid != holder.pid and _runs(ready, now):
            seconds = round(time.monotonic() - began, 1)
            return {"job": holder.job, "from": holder.pid, "to": now.pid, "seconds": seconds}
    raise MedallionError(
        f"{holder.job}: no standby has gone on in time. The messages of the standby say why. Look with: "
        "medallion status; to start the job again: medallion up"
    )


def _end(holder: Holder) -> None:
    """Have a job end at a micro-batch boundary.

    Raises:
        UsageError: It has ended by itself, or belongs to another user.
    """
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


def _runs(ready: Context, holder: Holder) -> bool:
    """Whether a query of a job runs."""
    return any(
        state.pid == holder.pid
        and not state.ended
        and any(query.state != "starting" for query in state.queries.values())
        for state in read_states(ready.layout.jobs)
    )


def _looks(deadline: float) -> Iterator[None]:
    """Look, and again after a pause, until the deadline."""
    while time.monotonic() < deadline:
        yield
        time.sleep(_LOOK_SECONDS)
