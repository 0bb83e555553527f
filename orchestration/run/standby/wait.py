"""A standby: a job whose Spark has started and whose pipeline is read, and that waits for its leases.

It holds no lease and writes nothing. When no process writes the job's tables any more, whether that process
has died, was stopped or handed over, the standby acquires the leases and goes the way of every start: the
same checks, and the next micro-batch from the checkpoint. Of several standbys one gets the leases; the others
go on waiting.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.config.settings import Settings
from common.declare import Pipeline
from common.delta.lease.job_leases import TableLeases
from common.delta.lease.standby_place import StandbyPlace
from common.errors import LeaseHeldError, PipelineError, Problem
from common.machine import object_store
from common.machine.console import say
from common.machine.file_modes import umask
from common.machine.service_manager import ServiceManager
from common.spark import jvm
from orchestration.access.channel.client import fingerprint
from orchestration.observe.status.lease_holder import Holder, Holders, find_holder
from orchestration.run.job import Job, Start, announced_session, needs_broker, open_broker, require_jvm
from orchestration.run.supervisor import StopSignal, term_interrupts
from orchestration.run.wiring import Layer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Refusals = Callable[["SparkSession"], Sequence[Problem]]
"""Why a start of this pipeline would be refused now; none where it would not."""

_LOOK_SECONDS, _STORE_SECONDS = 0.1, 1.0
"""How often the leases are looked at: on this disk, and on an object store."""

_SETTLED_SECONDS = 30.0
"""After this time another holder has started, and what it has changed of the tables is there to be judged."""

_AGAIN_SECONDS = 2.0


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
        pipeline: The pipeline to run.
        settings: The settings.
        layers: The layers to run.
        name: The job's name.
        refusals: Judges the pipeline beside the running job, without a change.
        beside: What is opened with the leases and closed before they are released, such as a page whose
            address the running job has until then.

    Raises:
        MedallionError: As ``open_job``.
        PipelineError: A start of this pipeline would be refused.
    """
    start = Start(pipeline, settings, tuple(layers), name, asked_about=fingerprint(settings.pipeline))
    start.layout.require_own(start.tables)
    with ExitStack() as stack:
        stack.enter_context(term_interrupts())
        stack.enter_context(umask(settings.umask))
        place = stack.enter_context(StandbyPlace(start.layout.leases, name))
        # What opens with the leases closes after Spark, as in every job.
        taken = stack.enter_context(ExitStack())
        if needs_broker(pipeline, layers):
            # An embedded broker has this user too, and does not end with the job that holds the leases.
            stack.enter_context(open_broker(pipeline, settings))
        log = f"{name}-{place.name}"
        spark = stack.enter_context(announced_session(settings, start.layout, log, "all"))
        if (child := jvm.process(spark)) is not None:
            place.record_jvm(child.pid)
        waiting = _Wait(start, place, spark, refusals)
        leases = waiting.acquire(taken)
        if leases is None:
            yield None
            return
        place.note("took over")
        taken.enter_context(beside())
        yield start.job(stack, leases, nullcontext(spark))


@dataclass
class _Wait:
    """The wait of one standby.

    Attributes:
        start: The job that it is to go on with.
        place: Where others see it.
        spark: Its session.
        refusals: As ``open_standby`` has it.
    """

    start: Start
    place: StandbyPlace
    spark: SparkSession
    refusals: Refusals

    def __post_init__(self) -> None:
        layout = self.start.layout
        self._holders = Holders(layout, _STORE_SECONDS)
        self._pause = _STORE_SECONDS if object_store.is_s3(layout.warehouse) else _LOOK_SECONDS
        self._holder: Holder | None = None
        self._judge_at: float | None = None

    def acquire(self, taken: ExitStack) -> TableLeases | None:
        """Wait until the leases are free, and acquire them; None if a stop was requested.

        Args:
            taken: Releases the leases at its end.

        Raises:
            PipelineError: A start of this pipeline would be refused.
        """
        self._judge()
        self.place.note("ready")
        service = ServiceManager()
        with StopSignal().installed() as stop:
            while not stop.is_requested():
                service.alive()
                if (holder := self._writer()) is None:
                    try:
                        leases = taken.enter_context(self.start.leases())
                    except LeaseHeldError:  # another standby was faster, or a JVM still ends
                        pass
                    else:
                        say("no other process writes the tables: this one takes over")
                        return leases
                elif holder != self._holder:
                    self._note(holder)
                if self._judge_at is not None and time.monotonic() >= self._judge_at:
                    self._judge_at = None
                    self._judge()
                require_jvm(
                    self.spark, self.start.layout.log / f"{self.start.name}-{self.place.name}.jvm.log"
                )
                stop.wait(self._pause)
        service.stopping()
        say("the standby has ended; it held no lease and wrote nothing")
        return None

    def _note(self, holder: Holder) -> None:
        """Say who writes; the tables of another holder than before may fit this pipeline no longer."""
        if self._holder is not None:
            self._judge_at = time.monotonic() + _SETTLED_SECONDS
        self._holder = holder
        where = f"{holder.job}, pid {holder.pid} on {holder.host}"
        say(f"{self.place.name} is ready: it goes on when {where}, writes the tables no longer")

    def _writer(self) -> Holder | None:
        """The process that writes one of the tables; None if this one may try to acquire the leases."""
        layout, tables = self.start.layout, self.start.tables
        here = next(filter(None, (find_holder(layout.leases, table) for table in tables)), None)
        if here is not None or not object_store.is_s3(layout.warehouse):
            return here
        there = next(filter(None, map(self._holders.find, tables)), None)
        # A process of this host that died has not released its lease on the store.
        return None if there is None or there.host == socket.gethostname() else there

    def _judge(self) -> None:
        """Refuse to wait with a pipeline whose start would be refused.

        A look beside a running job may see a table and its checkpoint at different micro-batches, so only
        what a second look sees as well counts.
        """
        if not self.refusals(self.spark):
            return
        time.sleep(_AGAIN_SECONDS)
        if problems := self.refusals(self.spark):
            raise PipelineError(problems)
