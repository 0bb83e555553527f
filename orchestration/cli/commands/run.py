"""``medallion up``, ``run`` and ``backfill``: the jobs."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from common.machine.console import out, say
from common.spark.session import Compiled
from common.streaming.query import RunningQuery
from orchestration.check.pipeline import check, setting_problems
from orchestration.cli.options import JsonOption, PipelineOption, SetOption, SettingsOption
from orchestration.jobs import backfill as catch_up
from orchestration.jobs import separate_processes
from orchestration.jobs.job import Job, opened
from orchestration.jobs.wiring import LAYERS, Layer
from orchestration.pipeline.context import Context, context

_REPORT_SECONDS = 10.0


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(up)
    app.command()(run)
    app.command()(backfill)


def up(
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    separate_: Annotated[
        bool, typer.Option("--separate", help="One process per layer instead of one for all.")
    ] = False,
) -> None:
    """Run broker (if embedded) and all three layers until stopped. Ctrl-C ends at a micro-batch boundary."""
    ready = _checked(context(pipeline, settings, set_))
    if separate_:
        separate_processes.run(
            ready, pipeline_file=ready.settings.pipeline, settings_file=settings, overrides=set_ or []
        )
        return
    with opened(ready.pipeline, ready.settings, name="up") as job:
        _run(job)


def run(
    layer: Annotated[Layer, typer.Argument(help="bronze, silver or gold.")],
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is there now and end.")
    ] = False,
) -> None:
    """Run one layer as a process of its own, over the same tables and checkpoints."""
    ready = _checked(context(pipeline, settings, set_))
    compiled: Compiled = "rows" if available_now else "all"
    with opened(ready.pipeline, ready.settings, [layer], name=f"run-{layer}", compiled=compiled) as job:
        _run(job, available_now=available_now)


def backfill(
    pipeline: PipelineOption = None,
    settings: SettingsOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Catch up and end: bronze, then silver, then gold, each with what is there now.

    Ctrl-C stops at a micro-batch boundary; the same command goes on from there.
    """
    ready = _checked(context(pipeline, settings, set_))
    with opened(ready.pipeline, ready.settings, LAYERS, name="backfill", compiled="rows") as job:
        results = catch_up.run(job)
        job.publish()
    whole = len(results) == len(LAYERS) and all(done.is_whole for done in results)
    if as_json:
        layers = [{"layer": d.layer, "rows": d.rows, "seconds": round(d.seconds, 3)} for d in results]
        out.print_json(data={"complete": whole, "layers": layers})
    for done in results:
        rate = done.rows / done.seconds if done.seconds else 0
        say(f"{done.layer}: {done.rows:,} rows in {done.seconds:.1f} s ({rate:,.0f} rows/s)")
    if not whole:
        say("stopped at a micro-batch boundary; nothing is lost: medallion backfill goes on from here")
        raise typer.Exit(130)


def _checked(ready: Context) -> Context:
    from common.errors import PipelineError

    if problems := (*check(ready.pipeline), *setting_problems(ready.pipeline, ready.settings)):
        raise PipelineError(problems)
    return ready


def _run(job: Job, *, available_now: bool = False) -> None:
    job.start(available_now=available_now)
    if not job.supervisor.names:
        say("stopped before anything ran")
        return
    say(f"running {', '.join(job.supervisor.names)}; Ctrl-C stops at a micro-batch boundary")
    reporter = _Reporter(job.supervisor.queries)
    job.supervisor.run(reporter.tick, keep_open=available_now)
    if available_now:
        job.publish()
    reporter.report()
    say("stopped at a micro-batch boundary" if job.stop.is_said() else "done")


class _Reporter:
    """A line per query every ten seconds in which it did something."""

    def __init__(self, queries: list[RunningQuery]) -> None:
        self._queries = queries
        self._last = time.monotonic()
        self._told: dict[str, int] = {}

    def tick(self) -> None:
        """Report when it is time."""
        if time.monotonic() - self._last >= _REPORT_SECONDS:
            self.report()

    def report(self) -> None:
        """Say what each query has done since the last report."""
        self._last = time.monotonic()
        for query in self._queries:
            news = [p for p in query.progress() if int(p["batchId"]) > self._told.get(query.name, -1)]
            rows = sum(int(p["numInputRows"]) for p in news)
            if not news:
                continue
            self._told[query.name] = int(news[-1]["batchId"])
            if rows:
                took = max(int(p["batchDuration"]) for p in news) / 1000
                say(f"{query.name}: {rows:,} rows in {len(news)} micro-batches, the slowest {took:.1f} s")
