"""What queries in the process that measures have used, and the settings that they run under."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from common.config.settings import Settings, load_settings
from distribution.bench.contenders.contender import CORES, DRIVER_MEMORY


class Spent(NamedTuple):
    """Seconds on the clock, and of CPU in Spark's JVM and this process, to the nanosecond."""

    seconds: float
    cpu: float

    def since(self, before: Spent) -> Spent:
        """Between two of them."""
        return Spent(self.seconds - before.seconds, self.cpu - before.cpu)


def spent(spark: Any) -> Spent:
    """What the JVM and this process have used so far."""
    # The clock of another process, as clock_getcpuclockid(3) names it.
    jvm = time.clock_gettime(~int(spark.sparkContext._gateway.proc.pid) << 3 | 2)
    return Spent(time.perf_counter(), jvm + time.process_time())


def settings_in(folder: Path, servers: str, more: Sequence[str] = ()) -> Settings:
    """The product's defaults, but for triggers: micro-batches follow each other without a pause.

    Args:
        folder: For all data.
        servers: Addresses of the broker.
        more: Further settings, as ``--set`` takes them.
    """
    empty = folder / "medallion.yaml"
    empty.touch()
    layers = ("bronze", "silver", "gold")
    overrides = [
        f"data_dir={folder / 'data'}",
        f"kafka.bootstrap_servers={servers}",
        f"spark.master=local[{CORES}]",
        f"spark.driver_memory={DRIVER_MEMORY}",
        *(f"{layer}.trigger=asap" for layer in layers),
        *more,
    ]
    return load_settings(file=empty, overrides=overrides)
