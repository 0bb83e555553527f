"""``medallion up --separate``: one child process per layer, supervised by this process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common.errors import QueryFailedError
from common.machine import processes
from common.machine.console import say
from orchestration.access.declaration.context import Context
from orchestration.run.job import layers_to_run, open_broker, require_topics
from orchestration.run.supervisor import StopSignal, term_interrupts

_PROGRAM = __name__.removesuffix(".run.separate_processes")
"""``orchestration``, in a wheel ``medallion.orchestration``."""

_POLL_SECONDS = 0.2


def run_separately(
    ready: Context, *, pipeline_file: Path | None, settings_file: Path | None, overrides: Sequence[str]
) -> None:
    """Run all layers until a stop is requested; when one job ends, the others are stopped too.

    Raises:
        QueryFailedError: A job ended by itself; names the job and its exit code.
    """
    arguments = ["-p", str(pipeline_file)] if pipeline_file else []
    arguments += ["--settings", str(settings_file)] if settings_file else []
    # The page of this process shows all layers; a job's own would take the same address. So do its alerts.
    own = ("http.address=null", "alerts.enabled=false")
    arguments += [part for text in (*overrides, *own) for part in ("--set", text)]
    with (
        term_interrupts(),
        open_broker(ready.pipeline, ready.settings) as address,
        StopSignal().installed() as stop,
    ):
        require_topics(ready.pipeline, ready.settings, address)
        jobs = {layer: _start(layer, arguments) for layer in layers_to_run(ready.settings)}
        try:
            while not stop.is_requested() and all(job.poll() is None for job in jobs.values()):
                stop.wait(_POLL_SECONDS)
            died = next((layer for layer, job in jobs.items() if job.poll() is not None), None)
        finally:
            _end(list(jobs.values()), ready.settings.stop_timeout_seconds)
        if died is not None and not stop.is_requested():
            raise _failure(died, jobs[died].returncode)
    say("stopped at a micro-batch boundary")


def _failure(layer: str, code: int) -> QueryFailedError:
    why = "its messages above say why" if code > 0 else "no stop was requested"
    failure = QueryFailedError(
        f"the {layer} job", f"it {processes.describe_exit(code)}; {why}. The other jobs were stopped"
    )
    # The exit code is the same as that of a run in one process: 4 means a held lease.
    failure.exit_code = code if code > 0 else failure.exit_code
    return failure


def _start(layer: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    # -P: a package or file of the current folder cannot stand for one of the engine.
    command = [sys.executable, "-P", "-m", _PROGRAM, "run", layer, *arguments]
    # In a session of its own, the child does not receive Ctrl-C; this process forwards it once.
    return subprocess.Popen(command, start_new_session=True)


def _end(jobs: Sequence[subprocess.Popen[bytes]], timeout_seconds: float) -> None:
    for job in jobs:
        if job.poll() is None:
            job.terminate()
    # A clean stop takes up to a micro-batch plus Spark's own shutdown; a job is killed only after that.
    deadline = time.monotonic() + timeout_seconds + 30
    for job in jobs:
        try:
            job.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            say(
                f"process {job.pid} did not stop in time and is killed; the next start replays its last "
                "micro-batch",
                level="warning",
            )
            job.kill()
            job.wait()
