"""The ``medallion`` command as real processes: started, watched, signalled, and ended whatever happens.

Deadlines are generous on purpose: they end a test that hangs, they measure nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.machine import processes
from orchestration.embedded_broker import lifecycle as embedded
from orchestration.pipeline.load_file import load_pipeline
from orchestration.status.collect import Collector
from orchestration.status.topic_offsets import BrokerOffsets

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "earthquakes" / "pipeline.py"
DEADLINE_SECONDS = float(os.environ.get("TESTS_DEADLINE_SECONDS", "300"))

SMALL = (
    "spark.driver_memory=1g",
    "spark.state_store=memory",
    "spark.conf.spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1",
    "spark.conf.spark.sql.streaming.pollingDelay=5ms",
    "bronze.trigger=asap",
    "silver.trigger=asap",
    "gold.trigger=asap",
)
"""Settings of a JVM that starts fast and stays small; micro-batches follow each other without a pause."""

_WITHOUT_PIPELINE = {"setup", "jars"}

_EXAMPLE_ON_TOPIC = """
import sys
from dataclasses import replace
sys.path.insert(0, {folder!r})
from pipeline import pipeline as example
topics = [replace(example.bronze[0], topics=[{topic!r}])]
pipeline = replace(example, bronze=topics, gold=example.gold[:3], publish=())
"""


def await_that(fact: Callable[[], bool], what: str, *running: Command) -> None:
    """Return once a fact holds; fail in words at the deadline, or when a process that must run has ended."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        began = time.monotonic()
        if fact():
            return
        # A look that takes long takes CPU from what it waits for: twice as long without one.
        pause = max(0.1, 2 * (time.monotonic() - began))
        for command in running:
            assert command.is_running, f"waiting until {what}, but {command} ended:\n{command.said}"
        said = "\n".join(f"{command}:\n{command.said}" for command in running)
        assert time.monotonic() < deadline, f"waited in vain until {what}\n{said}"
        time.sleep(pause)


class Command:
    """One started ``medallion`` command, its output in files."""

    def __init__(
        self, words: Sequence[str], output: Path, env: Mapping[str, str], within: Sequence[str]
    ) -> None:
        self.words = tuple(words)
        self._out, self._err = output.with_suffix(".out"), output.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            # A session of its own, as under a service manager; it also makes the group killable by its id.
            self._process = subprocess.Popen(
                [*within, sys.executable, "-m", "orchestration", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=dict(env),
                cwd=ROOT,
                start_new_session=True,
            )

    def __str__(self) -> str:
        return f"medallion {' '.join(self.words[:2])} (pid {self.pid})"

    @property
    def pid(self) -> int:
        """Of its Python."""
        return self._process.pid

    @property
    def stdout(self) -> str:
        """Results so far."""
        return self._out.read_text(encoding="utf-8")

    @property
    def said(self) -> str:
        """Messages so far."""
        return self._err.read_text(encoding="utf-8")

    @property
    def is_running(self) -> bool:
        """Whether its Python lives."""
        return self._process.poll() is None

    @property
    def jvm(self) -> int | None:
        """Pid of its Spark, once that has started."""
        return next((pid for pid in children(self.pid) if "java" in processes.command_line(pid)), None)

    def await_said(self, text: str) -> None:
        """Wait until its messages hold this."""
        await_that(lambda: text in self.said, f"it says {text!r}", self)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its Python alone."""
        self._process.send_signal(number)

    def code(self) -> int:
        """Its exit code, once it has ended."""
        try:
            return self._process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} does not end:\n{self.said}") from None

    def kill_group(self) -> None:
        """SIGKILL for its Python and its JVM at once."""
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Leave nothing of it: whatever it started goes first, by pid, then itself."""
        # Of one that has ended nothing may be looked up: its pid may be another process's by now.
        if self.is_running:
            for pid in reversed(descendants(self.pid)):
                _kill(pid)
            _kill(self.pid)
            self._process.wait()


class Medallion:
    """Starts commands that share a folder and settings."""

    def __init__(self, folder: Path, pipeline: Path, overrides: Sequence[str]) -> None:
        self.folder, self.pipeline = folder, pipeline
        given = (f"data_dir={folder / 'data'}", *overrides)
        self.settings: Settings = load_settings(file=_touched(folder / "medallion.yaml"), overrides=given)
        self._options = _set(*SMALL, *given)
        self._started: list[Command] = []

    @property
    def layout(self) -> Layout:
        """Where its tables lie."""
        return Layout.of(load_pipeline(self.pipeline), self.settings)

    def start(
        self,
        *words: str,
        more: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> Command:
        """Start a command.

        Args:
            words: Its verb and arguments.
            more: Further ``--set`` texts.
            env: Further variables.
            within: What runs it; it becomes the command by `exec`.
        """
        options = [*self._options, *_set(*more)]
        if words[0] not in _WITHOUT_PIPELINE:
            options += ["-p", str(self.pipeline)]
        output = self.folder / f"{len(self._started)}-{words[0]}"
        command = Command([*words, *options], output, {**os.environ, **(env or {})}, within)
        self._started.append(command)
        return command

    def run(
        self,
        *words: str,
        more: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> Command:
        """Start a command, as ``start`` does, and wait for its end."""
        command = self.start(*words, more=more, env=env, within=within)
        command.code()
        return command

    def end(self) -> None:
        """End everything that was started here, the embedded broker too."""
        for command in self._started:
            command.end()
        facts = embedded.describe(self.settings)
        if facts and facts["alive"]:
            processes.terminate(int(facts["pid"]), None, timeout_seconds=20)


@contextmanager
def medallion(folder: Path, pipeline: Path = EXAMPLE, *overrides: str) -> Iterator[Medallion]:
    """Commands over one folder; whatever they started is ended at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    commands = Medallion(folder, pipeline, overrides)
    try:
        yield commands
    finally:
        commands.end()


def example_on(folder: Path, topic: str) -> Path:
    """The example's pipeline, as a file that reads this topic, with a gold table each that is written anew,
    merged by its newest rows, and computed anew.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "feed.py"
    file.write_text(_EXAMPLE_ON_TOPIC.format(folder=str(EXAMPLE.parent), topic=topic))
    return file


def is_caught_up(commands: Medallion) -> bool:
    """Whether every table's query has done all there is to do."""
    pipeline = load_pipeline(commands.pipeline)
    status = Collector(pipeline, commands.layout, BrokerOffsets(pipeline, commands.settings)).collect()
    return all(table.lag.count == 0 and table.last_batch_id is not None for table in status.tables)


def children(pid: int) -> list[int]:
    """Pids of a process's children, zombies left out."""
    return _running(pid, recursive=False)


def descendants(pid: int) -> list[int]:
    """Children, their children and so on; parents first."""
    return _running(pid, recursive=True)


def _running(pid: int, *, recursive: bool) -> list[int]:
    try:
        below = psutil.Process(pid).children(recursive=recursive)
    except psutil.NoSuchProcess:
        return []
    return [child.pid for child in below if processes.start_mark(child.pid)]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _set(*texts: str) -> list[str]:
    return [part for text in texts for part in ("--set", text)]


def _touched(file: Path) -> Path:
    file.touch()
    return file
