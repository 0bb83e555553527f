"""CPU of an application's tasks by executor and stage, from Spark's event log."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

SETTINGS = ("enabled=true", "compress=false", "rolling.enabled=false")
"""Of ``spark.eventLog``, beside its ``dir``: one file of JSON lines."""

_NANOSECONDS = 1e9

Stages = Mapping[tuple[int, int], Mapping[str, float]]
"""CPU seconds by stage and attempt, then by executor."""


@dataclass(frozen=True, slots=True)
class TaskCpu:
    """What the executors of an application did.

    Attributes:
        total: CPU seconds of all tasks, their deserialization included.
        critical: CPU seconds of the busiest executor of each stage, summed: the length of the run if each
            executor had a processor of its own, tasks did nothing but compute, and the driver took no time.
        by_executor: CPU seconds of each executor, the busiest first.
        tasks: Number of tasks.
        largest_result: Bytes of the largest result that a task sent to the driver.
    """

    total: float
    critical: float
    by_executor: tuple[float, ...]
    tasks: int
    largest_result: int


def read(folder: Path) -> TaskCpu:
    """The tasks of the one application whose log is in a folder."""
    (file,) = folder.iterdir()
    stages: dict[tuple[int, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    tasks = largest = 0
    with file.open(encoding="utf-8") as log:
        for line in log:
            event = json.loads(line)
            metrics = event.get("Task Metrics")
            if event["Event"] != "SparkListenerTaskEnd" or not metrics:
                continue
            cpu = metrics["Executor CPU Time"] + metrics["Executor Deserialize CPU Time"]
            place = event["Stage ID"], event["Stage Attempt ID"]
            stages[place][event["Task Info"]["Executor ID"]] += cpu / _NANOSECONDS
            tasks += 1
            largest = max(largest, metrics["Result Size"])
    return summed(stages, tasks, largest)


def summed(stages: Stages, tasks: int, largest_result: int) -> TaskCpu:
    """The sums of CPU seconds by stage and executor."""
    executors: dict[str, float] = defaultdict(float)
    for by_executor in stages.values():
        for executor, seconds in by_executor.items():
            executors[executor] += seconds
    return TaskCpu(
        total=sum(executors.values()),
        critical=sum(_longest(found.values()) for found in stages.values()),
        by_executor=tuple(sorted(executors.values(), reverse=True)),
        tasks=tasks,
        largest_result=largest_result,
    )


def _longest(seconds: Iterable[float]) -> float:
    return max(seconds, default=0.0)
