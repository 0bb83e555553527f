"""``medallion up`` and ``run`` run the layers."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from common.errors import MedallionError, QualityFailedError, TablesFailedError, UsageError
from common.machine.console import say
from common.spark.session import Compiled
from orchestration.access.declaration.context import Context, context
from orchestration.access.progress.rows_read import RowsRead
from orchestration.author.check.pipeline import draft_problems
from orchestration.cli.options import (
    HttpOption,
    PipelineOption,
    SetOption,
    SettingsOption,
    command_named,
    options_as_typed,
)
from orchestration.cli.run.standby import run_as_standby
from orchestration.cli.run.tried_remedies import tried_remedies
from orchestration.observe.page.serve import page_of
from orchestration.records.quarantine.added import QuarantinedMeanwhile

if TYPE_CHECKING:  # imports Spark, which other commands do not need
    from orchestration.run.job import Job

Layer = Literal["bronze", "silver", "gold"]

_REPORT_SECONDS = 10.0

FailFastOption = Annotated[
    bool, typer.Option("--fail-fast", help="End the run when a query fails, whatever the cause.")
]


StandbyOption = Annotated[
    bool,
    typer.Option(
        "--standby", help="Start beside a running job, and go on in its place when it ends or dies."
    ),
]


@command_named("up")
def up(
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    separate_: Annotated[
        bool, typer.Option("--separate", help="One process per layer instead of one for all layers.")
    ] = False,
    standby: StandbyOption = False,
    http: HttpOption = None,
    fail_fast: FailFastOption = False,
) -> None:
    """Run the broker (if embedded) and all three layers; Ctrl-C stops them at a micro-batch boundary."""
    from orchestration.run import separate_processes
    from orchestration.run.job import layers_to_run, open_job

    set_ = _with_fail_fast(set_, fail_fast)
    ready = checked(context(pipeline, settings, set_))
    layers = layers_to_run(ready.settings)
    if standby:
        if separate_:
            raise UsageError(
                "--separate has no --standby: start one per layer, medallion run LAYER --standby"
            )
        run_as_standby(ready, layers, "up", http, _run)
        return
    with page_of(ready.pipeline, ready.settings, http):
        if separate_:
            separate_processes.run_separately(
                ready, pipeline_file=ready.settings.pipeline, settings_file=settings, overrides=set_
            )
            return
        with (
            tried_remedies(ready),
            open_job(ready.pipeline, ready.settings, layers, name="up", is_asked=True) as job,
        ):
            _run(job)


@command_named("run")
def run(
    layer: Annotated[Layer, typer.Argument(help="bronze, silver or gold.")],
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is available now, then end.")
    ] = False,
    standby: StandbyOption = False,
    http: HttpOption = None,
    fail_fast: FailFastOption = False,
) -> None:
    """Run one layer as a process of its own, over the same tables and checkpoints."""
    from orchestration.run.job import open_job, written_queries

    ready = checked(context(pipeline, settings, _with_fail_fast(set_, fail_fast)))
    if standby:
        if available_now:
            raise UsageError("--available-now ends by itself and has no --standby: leave one of them out")
        run_as_standby(ready, [layer], f"run-{layer}", http, _run)
        return
    compiled: Compiled = "rows" if available_now else "all"
    with (
        tried_remedies(ready),
        page_of(ready.pipeline, ready.settings, http, written_queries(ready.pipeline, [layer])),
        open_job(
            ready.pipeline,
            ready.settings,
            [layer],
            name=f"run-{layer}",
            compiled=compiled,
            is_asked=not available_now,
        ) as job,
    ):
        _run(job, available_now=available_now)


def say_quarantined(aside: QuarantinedMeanwhile) -> None:
    """Say how many rows went to quarantine, with the command that shows them."""
    for table, rows in aside.counts():
        command = f"medallion quarantine show -t {table}{options_as_typed()}"
        say(f"{table}: {rows:,} {'row' if rows == 1 else 'rows'} in quarantine; to see: {command}", rows=rows)


def end_of(job: Job, *, publishes: bool) -> MedallionError | None:
    """How a run with an end has ended, to be raised after its results are printed; None: well.

    A gate that failed beside tables that have failed is said.
    """
    failure = job.outcome(publishes=publishes)
    try:
        job.judge()
    except QualityFailedError as gate:
        if failure is None:
            return gate
        say(str(gate), level="error")
    if isinstance(failure, TablesFailedError):
        say("these tables have failed, or wait for one that has; the others are up to date", level="error")
    return failure


def _with_fail_fast(overrides: list[str] | None, is_given: bool) -> list[str]:  # noqa: FBT001  # a flag
    return [*(overrides or []), *(["supervision.fail_fast=true"] if is_given else [])]


def checked(ready: Context) -> Context:
    """The context of a job, whose pipeline has no problem.

    Raises:
        PipelineError: It has.
    """
    from common.errors import PipelineError

    if problems := draft_problems(ready.draft, ready.settings):
        raise PipelineError(problems)
    ready.use_log_format()
    return ready


def _run(job: Job, *, available_now: bool = False) -> None:
    reporter = _Reporter(job)
    aside = QuarantinedMeanwhile(job.wiring.pipeline, job.wiring.layout)
    job.start(available_now=available_now)
    if not job.supervisor.names and not job.supervisor.failures.errors:
        say("stopped before a query started")
        return
    if job.supervisor.names:
        say(f"running {', '.join(job.supervisor.names)}; Ctrl-C stops at a micro-batch boundary")
    with contextlib.ExitStack() as beside:
        if not available_now:
            beside.enter_context(job.maintenance())
            beside.enter_context(job.channel())
        job.supervisor.run(reporter.tick, keep_open=available_now)
    failure = end_of(job, publishes=available_now)
    reporter.report()
    say_quarantined(aside)
    say("stopped at a micro-batch boundary" if job.stop.is_requested() else "done")
    if failure is not None:
        raise failure


class _Reporter:
    """Prints a line per query every ten seconds in which the query read rows."""

    def __init__(self, job: Job) -> None:
        from orchestration.run.field_notices import FieldNotices

        self._queries = job.supervisor.queries
        self._last = time.monotonic()
        self._reported: dict[str, int] = {}
        pipeline, layout = job.wiring.pipeline, job.wiring.layout
        self._fields = FieldNotices(pipeline, layout) if "silver" in job.layers else None
        self._read = {one.table: RowsRead(one, layout) for one in (*pipeline.tables, *pipeline.publish)}

    def tick(self) -> None:
        """Report if ten seconds have passed."""
        if time.monotonic() - self._last >= _REPORT_SECONDS:
            self.report()

    def report(self) -> None:
        """Print the progress of each query since the last report."""
        self._last = time.monotonic()
        if self._fields is not None:
            self._fields.check()
        for query in self._queries:
            batches = [p for p in query.progress() if int(p["batchId"]) > self._reported.get(query.name, -1)]
            if not batches:
                continue
            # Spark counts a row once for each time that the micro-batch's function reads it.
            # Its number stands where the positions count nothing, as for rows that the source has updated.
            read = self._read[query.name].advance()
            rows = read or sum(int(p["numInputRows"]) for p in batches)
            self._reported[query.name] = int(batches[-1]["batchId"])
            if rows:
                # Not "batchDuration", which is 0 of every micro-batch that has ended.
                took = max(int((p["durationMs"] or {}).get("triggerExecution", 0)) for p in batches) / 1000
                several = f"{len(batches)} micro-batches, the slowest"
                say(
                    f"{query.name}: {rows:,} rows in {several if len(batches) > 1 else 'a micro-batch of'} "
                    f"{took:.1f} s",
                    query=query.name,
                    batch_id=self._reported[query.name],
                    rows=rows,
                )
