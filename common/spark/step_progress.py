"""Says how far a step of a command is while Spark works on it, so that a long one is not silent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import InheritableThread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_SECONDS = 10.0


@contextmanager
def steps_reported(
    spark: SparkSession, say: Callable[[str], None], *, every: float = EVERY_SECONDS
) -> Iterator[Callable[[str], None]]:
    """A function that names a step; the step is named again, with what is done of it, until the next one.

    What is done are the tasks of the newest Spark job of the calling thread's job group.

    Args:
        every: Seconds between two reports of a step.
    """
    group = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    tracker, ended = spark.sparkContext.statusTracker(), threading.Event()
    current, saying = ("", time.monotonic()), threading.Lock()

    def begin(text: str) -> None:
        nonlocal current
        with saying:
            current = (text, time.monotonic())
            say(text)

    def report() -> None:
        while not ended.wait(every):
            step, began = reported = current
            seconds = time.monotonic() - began
            if not step or seconds < every:
                continue
            # The command may have ended, or Spark.
            with suppress(OSError, Py4JError):
                jobs = tracker.getJobIdsForGroup(group)
                job = tracker.getJobInfo(max(jobs)) if jobs else None
                stages = [tracker.getStageInfo(stage) for stage in (job.stageIds if job is not None else ())]
                done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
                total = sum(stage.numTasks for stage in stages if stage is not None)
                with saying:
                    if reported is current:  # the next step may have begun meanwhile
                        say(f"{step}: {seconds:.0f} s, {done} of {total} tasks")

    thread = InheritableThread(target=report, name="step progress", daemon=True)
    thread.start()
    try:
        yield begin
    finally:
        ended.set()
        thread.join()
