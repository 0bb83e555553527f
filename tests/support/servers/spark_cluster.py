"""A standalone cluster of Spark's own classes: one master and some workers, each a process."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from common.config.settings import load_settings
from common.java.find_java import find_java
from common.machine.processes import command_line

WORKERS = 2
_HOST = "127.0.0.1"
_START_SECONDS = 90
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        master: Address of the master.
        workers: The workers' processes; each starts executors as its children.
    """

    master: str
    workers: tuple[int, ...]

    @property
    def overrides(self) -> tuple[str, ...]:
        """Settings of a job on this cluster: an executor of one core per worker."""
        return (
            f"spark.master={self.master}",
            f"spark.conf.spark.driver.host={_HOST}",
            f"spark.conf.spark.driver.bindAddress={_HOST}",
            "spark.conf.spark.executor.cores=1",
            "spark.conf.spark.executor.memory=512m",
            "spark.conf.spark.executor.defaultJavaOptions=-XX:TieredStopAtLevel=1",
        )

    def executors(self) -> list[int]:
        """Ids of the executors' processes, those of the first worker first."""
        return [
            child.pid
            for worker in self.workers
            for child in psutil.Process(worker).children(recursive=True)
            if _EXECUTOR in command_line(child.pid)
        ]


@contextmanager
def spark_cluster(folder: Path, workers: int = WORKERS, cores: Sequence[int] = ()) -> Iterator[Cluster]:
    """A cluster on loopback; all of its processes end with the block.

    Args:
        folder: For logs and work.
        workers: Number of workers, each with one core.
        cores: The processor that each worker and its executor may use; those without one may use all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        ports = ("--host", _HOST, "--port", "0", "--webui-port", "0")
        master_log = folder / "master.log"
        stack.enter_context(_started("master.Master", master_log, *ports))
        master = _awaited(_MASTER, master_log)
        started = []
        for number in range(workers):
            own = folder / f"worker-{number}"
            words = (*ports, "--cores", "1", "--memory", "1g", "--work-dir", str(own), master)
            log = folder / f"{own.name}.log"
            started.append(stack.enter_context(_started("worker.Worker", log, *words, on=cores[number:][:1])))
        for number in range(workers):
            _awaited(re.compile("(Successfully registered with master)"), folder / f"worker-{number}.log")
        yield Cluster(master, tuple(started))


@contextmanager
def _started(name: str, log: Path, *words: str, on: Sequence[int] = ()) -> Iterator[int]:
    java = find_java(load_settings(file=_touched(log.parent / "medallion.yaml")))
    jars = Path(pyspark.__file__).parent / "jars"
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    pinned = ["taskset", "--cpu-list", ",".join(map(str, on))] if on else []
    command = [
        *pinned,
        str(java.executable),
        *options,
        "-cp",
        f"{jars}/*",
        f"org.apache.spark.deploy.{name}",
        *words,
    ]
    env = os.environ | {
        "SPARK_HOME": str(jars.parent),
        "SPARK_SCALA_VERSION": "2.13",  # as bin/load-spark-env.sh sets it; without it no executor starts
        "SPARK_LOCAL_IP": _HOST,
        "JAVA_HOME": str(java.home),
    }
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env)
    try:
        yield process.pid
    finally:
        running: Sequence[psutil.Process] = []
        if process.poll() is None:
            running = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait()
        for child in running:
            if child.is_running():
                child.kill()


def _awaited(pattern: re.Pattern[str], log: Path) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if found := pattern.search(log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.2)
    raise AssertionError(f"waited in vain for {pattern.pattern}:\n{log.read_text(errors='replace')[-2000:]}")


def _touched(file: Path) -> Path:
    file.touch()
    return file
