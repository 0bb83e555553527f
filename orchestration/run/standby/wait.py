"""A standby: a job whose Spark has started and whose pipeline is read, and that waits for its leases.

It holds no lease and writes nothing. When no process writes the job's tables any more, whether that process
has died, was stopped or handed over, the standby acquires the leases and goes the way of every start: the
same checks, and the next micro-batch from the checkpoint. Of several standbys one gets the leases; the others
go on waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.settings import Settings, is_cluster
from common.declare import Pipeline
from common.delta.lease.job_leases import TableLeases
from common.delta.lease.lease_holder import Holder, Holders, find_holder
from common.delta.lease.release import can_follow, own_release
from common.delta.lease.standby_place import StandbyPlace
from common.errors import LeaseHeldError, MedallionError, PipelineError, Problem, SetupError
from common.machine import object_store
from common.machine.console import say
from common.machine.file_modes import umask
from common.machine.service_manager import ServiceManager
from common.spark import jvm, session_conf, temporary_files
from orchestration.access.channel.client import fingerprint
from orchestration.access.history.job_state import Killed
from orchestration.run.job import Job, Start, announced_session, needs_broker, open_broker, require_jvm
from orchestration.run.standby.rehearsal import Rehearsal
from orchestration.run.standby.warming import Warming
from orchestration.run.supervisor import StopSignal, term_interrupts
from orchestration.run.wiring import Layer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Refusals = Callable[["SparkSession"], Sequence[Problem]]
"""Why a start of this pipeline would be refused now; none where it would not."""

_LOOK_SECONDS, _STORE_SECONDS = 0.1, 1.0
"""How often the leases are looked at: on this disk, and on an object store."""

_SETTLED_SECONDS = 30.0
"""After this time a holder has started, and what it has changed of the tables is there to be judged."""

_AGAIN_SECONDS = 2.0


_LISTENERS = (
    "spark.extraListeners",
    "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.streamingQueryListeners",
)
"""Settings of Spark whose classes are told of all queries of a JVM."""


@contextmanager
def open_standby(  # noqa: PLR0913  # what a job is, and what it has as a standby
    pipeline: Pipeline,
    settings: Settings,
    layers: Sequence[Layer],
    *,
    name: str,
    refusals: Refusals,
    beside: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Iterator[Job | None]:
    """The job that this process goes on with, once it has the leases; None if it was stopped before.

    Args:
        refusals: Judges the pipeline beside the running job, without a change.
        beside: What is opened with the leases and closed before they are released, such as a page whose
            address the running job has until then.

    Raises:
        MedallionError: As ``open_job``.
        PipelineError: A start of this pipeline would be refused.
    """
    start = Start(
        pipeline, settings, tuple(layers), name, asked_about=fingerprint(settings.pipeline), is_standby=True
    )
    start.layout.require_own(start.tables)
    with ExitStack() as stack:
        stack.enter_context(term_interrupts())
        stack.enter_context(umask(settings.umask))
        place = stack.enter_context(StandbyPlace(start.layout.leases, name, start.asked_about or ""))
        # What opens with the leases closes after Spark, as in every job.
        taken = stack.enter_context(ExitStack())
        address = ""
        if needs_broker(pipeline, layers):
            # An embedded broker has this user too, and does not end with the job that holds the leases.
            address = stack.enter_context(open_broker(pipeline, settings))
        log = f"{name}-{place.name}"
        spark = stack.enter_context(announced_session(settings, start.layout, log, "all"))
        if (child := jvm.process(spark)) is not None:
            place.record_jvm(child.pid)
        warming = _warming(start, spark, address, log)
        wait = _Wait(start, place, spark, refusals, warming)
        leases = wait.acquire(taken)
        if leases is None:
            yield None
            return
        place.note("took over")
        taken.enter_context(beside())
        yield start.job(stack, leases, nullcontext(spark), wait.killed)


def _warming(start: Start, spark: SparkSession, address: str, log: str) -> Warming | None:
    """Keeps the standby warm; None where it does not rehearse, which is said.

    On a cluster the executors do not see this host's temporary files.
    """
    master = str(spark.sparkContext.master)
    if is_cluster(master):
        return None
    layout, settings = start.layout, start.settings.with_master(master)
    mark = layout.log.parent / f"{log}.rehearsing"
    if why := _not_rehearsed(spark, settings, mark):
        say(f"this standby does not rehearse its queries: {why}")
        return None
    scratch = temporary_files.folder_of(layout.log.parent / temporary_files.FOLDER, log) / "rehearsal"
    session = spark.newSession()
    session.conf.unset(session_conf.CHECKPOINT_FILES)  # that of an object store writes to no local disk
    one = Rehearsal(session, start.pipeline, settings, layout, start.layers, address, scratch, mark)
    return Warming(one)


def _not_rehearsed(spark: SparkSession, settings: Settings, mark: Path) -> str:
    """Why a standby runs no query while it waits; empty: it does."""
    if mark.exists():
        mark.unlink()
        return "the last standby ended in a rehearsal; the next one rehearses again"
    if settings.http.spark_metrics:
        return "http.spark_metrics would have them among the metrics of the job"
    heard = [name for name in _LISTENERS if spark.sparkContext.getConf().get(name)]
    return f"{heard[0]} would report them as runs of the job" if heard else ""


@dataclass
class _Wait:
    """The wait of one standby."""

    start: Start  # the job that it is to go on with
    place: StandbyPlace  # where others see it
    spark: SparkSession  # its session
    refusals: Refusals  # as ``open_standby`` has it
    warming: Warming | None = None  # keeps the session warm; None: nothing does

    def __post_init__(self) -> None:
        layout = self.start.layout
        self._service = ServiceManager()
        self._holders = Holders(layout, _STORE_SECONDS)
        self._pause = _STORE_SECONDS if object_store.is_s3(layout.warehouse) else _LOOK_SECONDS
        self._said = ""
        self._holder: Holder | None = None
        self._settled_at = 0.0
        self._judge_at: float | None = None
        self._is_refused = self._is_outdated = False
        self.killed: Killed | None = None
        """The process of another host that had the leases last, if its lease has ended without a release."""

    def acquire(self, taken: ExitStack) -> TableLeases | None:
        """Wait until the leases are free, and acquire them; None if a stop was requested, or if the pipeline
        file was changed and another process writes the tables by now.

        Raises:
            PipelineError: A start of this pipeline would be refused.
        """
        layout = self.start.layout
        with StopSignal().installed() as stop, self._warm_until_end():
            while not stop.is_requested() and not self._is_outdated:
                self._service.alive()
                leases = self._attempt(taken)
                if leases is not None and not stop.is_requested():
                    self._service.starting()
                    say("no other process writes the tables: this one takes over")
                    if self._has_changed_file():
                        text = "the pipeline file has changed since this standby read it: it runs as it was"
                        say(text, level="warning")
                    return leases
                require_jvm(self.spark, jvm.output_file(layout.log, f"{self.start.name}-{self.place.name}"))
                stop.wait(self._pause)
        self._service.stopping()
        taken.close()  # a stop may come while the leases are acquired
        say("the standby has ended; it held no lease and wrote nothing")
        return None

    @contextmanager
    def _warm_until_end(self) -> Iterator[None]:
        """No rehearsal goes on after the block."""
        try:
            yield
        finally:
            if self.warming is not None:
                self.warming.end()

    def _attempt(self, taken: ExitStack) -> TableLeases | None:
        """The leases, where no process holds them; None where one does, or where that cannot be found out."""
        try:
            if (holder := self._writer()) is None:
                self.killed = self._lapsed()
                # Not judged before: a start repairs what a power cut has left, and its own checks decide.
                return taken.enter_context(self.start.leases())
            self._wait_for(holder)
        except LeaseHeldError as held:  # another standby was faster, or a JVM still ends
            self._ready(
                f"the lease of {held.table} is held by {held.holder.partition('; its lease ends')[0]}"
            )
        except SetupError as error:
            self._say(f"{self.place.name} waits: {error}")
        return None

    def _wait_for(self, holder: Holder) -> None:
        """Be ready beside a process that writes, as far as a start of this pipeline would not be refused."""
        now = time.monotonic()
        if holder != self._holder:
            is_first, self._holder = self._holder is None, holder
            self._compare_releases(holder)
            began = holder.started_at or datetime.now(UTC)
            age = max(0.0, (datetime.now(UTC) - began).total_seconds())
            self._settled_at = now + max(0.0, _SETTLED_SECONDS - age)
            # The tables of another holder than before may fit this pipeline no longer.
            self._judge_at = now if is_first else self._settled_at
            if not is_first and self._has_changed_file():
                self._is_outdated = True
                say(
                    f"{holder.job}, pid {holder.pid}, writes the tables now, and the pipeline file has "
                    "changed since this standby read it: start the standby again"
                )
                return
        if self._judge_at is not None and now >= self._judge_at:
            problems = self._problems()
            is_settled = now >= self._settled_at
            if problems and is_settled:
                raise PipelineError(problems)
            self._is_refused, self._judge_at = bool(problems), self._settled_at if problems else None
        if not self._is_refused and self._is_warm():
            where = f"{holder.job}, pid {holder.pid} on {holder.host}"
            self._ready(f"it goes on when {where}, writes the tables no longer")

    def _is_warm(self) -> bool:
        if self.warming is None:
            return True
        self.warming.begin()
        return self.warming.is_warm

    def _compare_releases(self, holder: Holder) -> None:
        """Say that the process runs another release than this standby."""
        own = own_release()
        if not own or not holder.release or own == holder.release:
            return
        text = f"{holder.job}, pid {holder.pid}, runs release {holder.release}, and this standby {own}"
        if can_follow(own, holder.release):
            say(f"{text}: the release changes when the standby goes on")
            return
        why = (
            f"{text}. An older release is not promised to go on with the tables of a newer one, so the "
            "standby ends; the running job is not touched. Start the standby with the job's release"
        )
        raise PipelineError([Problem(self.place.name, why)])

    def _has_changed_file(self) -> bool:
        return fingerprint(self.start.settings.pipeline) != self.start.asked_about

    def _ready(self, text: str) -> None:
        """Show others that this process waits, and say once what for."""
        self.place.note("ready")
        self._say(f"{self.place.name} is ready: {text}")

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            say(text)

    def _writer(self) -> Holder | None:
        """The process that writes one of the tables; None if this one may try to acquire the leases.

        Raises:
            SetupError: The store of the tables does not answer.
        """
        layout, tables = self.start.layout, self.start.tables
        here = next(filter(None, (find_holder(layout.leases, table) for table in tables)), None)
        if here is not None or not object_store.is_s3(layout.warehouse):
            return here
        for table in tables:
            there = self._holders.find(table)
            self._service.alive()  # a store that does not answer is asked for long
            if not self._holders.is_known(table):
                raise SetupError(
                    f"{layout.warehouse} does not answer, so that it is not known who writes {table}"
                )
            if there is not None:
                # A process of this host that died has not released its lease on the store.
                return None if self._holders.has_ended(table) else there
        return None

    def _lapsed(self) -> Killed | None:
        """The process whose lease on the store has ended without a release."""
        for table in self.start.tables:
            if (lapsed := self._holders.lapsed(table)) is not None:
                holder, seconds = lapsed
                return Killed(holder.pid, holder.host, datetime.now(UTC) - timedelta(seconds=seconds))
        return None

    def _problems(self) -> list[Problem]:
        """Why a start would be refused, as far as two looks see the same.

        One look beside a running job may see a table and its checkpoint at different micro-batches.
        """
        if not (before := self._look()):
            return []
        time.sleep(_AGAIN_SECONDS)
        return [one for one in self._look() if one in before]

    def _look(self) -> Sequence[Problem]:
        try:
            return self.refusals(self.spark)
        except SetupError:  # nothing of the pipeline, such as a store that does not answer
            raise
        except MedallionError as error:
            return [Problem(self.start.pipeline.name, str(error))]
