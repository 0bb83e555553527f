"""docs/performance.md, of which each bench writes its own sections, and what they are measured with."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"


class Cost(NamedTuple):
    """Seconds on the clock, and of CPU in the JVM and in this process, as Linux counts them."""

    seconds: float
    cpu: float


def timed(spark: Any, run: Callable[[], object]) -> Cost:
    """What a call costs."""
    counters = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/stat")
    cpu, start = _cpu_seconds(counters), time.perf_counter()
    run()
    return Cost(time.perf_counter() - start, _cpu_seconds(counters) - cpu)


def _cpu_seconds(counters: Path) -> float:
    ticks = sum(map(int, counters.read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


def write(title: str, lines: Sequence[str], spark: Any) -> str:
    """Put a section in the place of the one of that title, or at the page's end; hands the section back."""
    java = spark._jvm.System.getProperty("java.version")
    machine = (
        f"{platform.machine()}, {_cpu()}; Java {java}, Spark {spark.version}, "
        f"Python {platform.python_version()}; {datetime.now(UTC):%Y-%m-%d}."
    )
    section = "\n".join([f"## {title}", "", *lines, "", machine, ""])
    old = PAGE.read_text(encoding="utf-8")
    place = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    new, found = place.subn(lambda _: f"{section}\n", old)
    PAGE.write_text((new if found else f"{old.rstrip()}\n\n{section}").rstrip() + "\n", encoding="utf-8")
    return section


def _cpu() -> str:
    file = Path("/proc/cpuinfo")
    text = file.read_text() if file.is_file() else ""
    names = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("model name")]
    return f"{len(names)} CPUs: {names[0]}" if names else platform.processor()
