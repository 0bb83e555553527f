"""``medallion up --separate``: the three layers as processes of their own, watched by this one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common.errors import QueryFailedError
from common.machine import processes
from common.machine.console import say
from orchestration.cli.options import Context
from orchestration.jobs.job import broker_for, require_topics
from orchestration.jobs.supervisor import StopSignal, term_interrupts
from orchestration.jobs.wiring import LAYERS

_POLL_SECONDS = 0.2


def run(
    ready: Context, *, pipeline_file: Path | None, settings_file: Path | None, overrides: Sequence[str]
) -> None:
    """Run all layers until stopped; when one ends badly the others are ended too.

    Raises:
        QueryFailedError: Names the job that ended, with its exit code.
    """
    arguments = ["-p", str(pipeline_file)] if pipeline_file else []
    arguments += ["--settings", str(settings_file)] if settings_file else []
    arguments += [part for text in overrides for part in ("--set", text)]
    with (
        term_interrupts(),
        broker_for(ready.pipeline, ready.settings) as address,
        StopSignal().installed() as stop,
    ):
        require_topics(ready.pipeline, ready.settings, address)
        jobs = {layer: _start(layer, arguments) for layer in LAYERS}
        try:
            while not stop.is_said() and all(job.poll() is None for job in jobs.values()):
                stop.wait(_POLL_SECONDS)
            died = next((layer for layer, job in jobs.items() if job.poll() is not None), None)
        finally:
            _end(list(jobs.values()), ready.settings.stop_timeout_seconds)
        if died is not None and not stop.is_said():
            raise _failure(died, jobs[died].returncode)
    say("stopped at a micro-batch boundary")


def _failure(layer: str, code: int) -> QueryFailedError:
    why = "its own lines above say why" if code > 0 else "nobody had asked this run to stop"
    failure = QueryFailedError(
        f"the {layer} job", f"it {processes.describe_exit(code)}; {why}. The other jobs were stopped"
    )
    # A script that starts jobs learns the same from three processes as from one: 4 is a held lease.
    failure.exit_code = code if code > 0 else failure.exit_code
    return failure


def _start(layer: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches this process alone, which passes it on once.
    return subprocess.Popen(
        [sys.executable, "-m", "orchestration", "run", layer, *arguments], start_new_session=True
    )


def _end(jobs: Sequence[subprocess.Popen[bytes]], timeout_seconds: float) -> None:
    for job in jobs:
        if job.poll() is None:
            job.terminate()
    # A stop takes as long as a micro-batch, then Spark's own end; only then is a job killed.
    deadline = time.monotonic() + timeout_seconds + 30
    for job in jobs:
        try:
            job.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            say(f"process {job.pid} did not stop in time and is killed; its last micro-batch is replayed")
            job.kill()
            job.wait()
