"""Runs ``medallion`` commands as real processes, and ends every process at the end of a test.

Deadlines are generous on purpose: they end a test that hangs and measure nothing.
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
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.embedded_broker import lifecycle as embedded
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.topic_offsets import BrokerOffsets
from tests.support.documents import printed_documents as documents

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "earthquakes" / "pipeline.py"
DEADLINE_SECONDS = float(os.environ.get("TESTS_DEADLINE_SECONDS", "300"))

SMALL = (
    "spark.driver_memory=1g",
    "spark.state_store=memory",
    "spark.conf.spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.25",
    "spark.conf.spark.sql.codegen.wholeStage=false",
    "spark.conf.spark.sql.codegen.factoryMode=NO_CODEGEN",
    "spark.conf.spark.sql.streaming.pollingDelay=5ms",
    "bronze.trigger=asap",
    "silver.trigger=asap",
    "gold.trigger=asap",
)
"""Settings of a JVM that starts fast, stays small and generates no code for the few rows of a test.

Micro-batches follow each other without a pause. The bench runs the commands without these settings.
"""

PAUSING = (
    "bronze.trigger=1 second",
    "silver.trigger=follow",
    "gold.trigger=follow",
    "spark.conf.spark.sql.streaming.pollingDelay=10ms",
)
"""The triggers of a user's job: queries that have nothing to do use no CPU while others work."""

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
    """Return once ``fact`` is true; fail at the deadline, or if a command that must run has ended."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        began = time.monotonic()
        if fact():
            return
        # A check takes CPU from the command: pause for four times as long as the check took.
        pause = max(0.2, 4 * (time.monotonic() - began))
        for command in running:
            assert command.is_running, f"waiting until {what}, but {command} ended:\n{command.stderr}"
        output = "\n".join(f"{command}:\n{command.stderr}" for command in running)
        assert time.monotonic() < deadline, f"waited in vain until {what}\n{output}"
        time.sleep(pause)


class Command:
    """A started ``medallion`` command whose output goes to files."""

    def __init__(
        self, words: Sequence[str], output: Path, env: Mapping[str, str], within: Sequence[str]
    ) -> None:
        self.words = tuple(words)
        self._out, self._err = output.with_suffix(".out"), output.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            # A new session, as under a service manager; the process group can be killed by its id.
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
        """Id of the command's Python process."""
        return self._process.pid

    @property
    def stdout(self) -> str:
        """What the command has printed to stdout so far."""
        return self._out.read_text(encoding="utf-8")

    @property
    def stderr(self) -> str:
        """What the command has printed to stderr so far."""
        return self._err.read_text(encoding="utf-8")

    @property
    def is_running(self) -> bool:
        """Whether the command's Python process runs."""
        return self._process.poll() is None

    @property
    def jvm(self) -> int | None:
        """Id of the command's Spark JVM; None before the JVM has started."""
        return next((pid for pid in children(self.pid) if "java" in processes.command_line(pid)), None)

    def await_stderr(self, text: str) -> None:
        """Wait until stderr contains a text."""
        await_that(lambda: text in self.stderr, f"stderr contains {text!r}", self)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the Python process alone."""
        self._process.send_signal(number)

    def code(self) -> int:
        """Wait for the command's end; returns its exit code. What it prints with ``--json`` is looked at."""
        try:
            code = self._process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} does not end:\n{self.stderr}") from None
        if code >= 0 and "--json" in self.words and (text := self.stdout):
            documents.printed(self.words, text)
        return code

    def kill_group(self) -> None:
        """Send SIGKILL to Python and the JVM at once."""
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Kill the processes that the command started, then the command."""
        # The pid of a command that has ended may belong to another process by now.
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
        """Paths of the pipeline."""
        return Layout.of(load_pipeline(self.pipeline), self.settings)

    @property
    def options(self) -> list[str]:
        """The options of every command that has a pipeline."""
        return [*self._options, "-p", str(self.pipeline)]

    def start(
        self,
        *words: str,
        more: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
    ) -> Command:
        """Start a command.

        Args:
            words: The command's verb and arguments.
            more: Further ``--set`` texts.
            env: Further variables.
            within: A program and its arguments that run the command by `exec`.
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
        """Start a command as ``start`` does, and wait until it has ended."""
        command = self.start(*words, more=more, env=env, within=within)
        command.code()
        return command

    def end(self) -> None:
        """End all commands and the embedded broker."""
        for command in self._started:
            command.end()
        facts = embedded.describe(self.settings)
        if facts and facts["alive"]:
            processes.terminate(int(facts["pid"]), None, timeout_seconds=20)


@contextmanager
def medallion(folder: Path, pipeline: Path = EXAMPLE, *overrides: str) -> Iterator[Medallion]:
    """Commands that share one folder; at the end all their processes are ended."""
    folder.mkdir(parents=True, exist_ok=True)
    commands = Medallion(folder, pipeline, overrides)
    try:
        yield commands
    finally:
        commands.end()


def example_on(folder: Path, topic: str) -> Path:
    """A file with the example's pipeline on this topic, with three gold tables: one is overwritten, one is
    merged by key, one is recomputed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "feed.py"
    file.write_text(_EXAMPLE_ON_TOPIC.format(folder=str(EXAMPLE.parent), topic=topic))
    return file


def is_caught_up(commands: Medallion) -> bool:
    """Whether no table's query has anything left to process."""
    pipeline = load_pipeline(commands.pipeline)
    status = Collector(pipeline, commands.layout, BrokerOffsets(pipeline, commands.settings)).collect()
    return all(table.lag.count == 0 and table.last_batch_id is not None for table in status.tables)


def children(pid: int) -> list[int]:
    """Ids of a process's children, without zombies."""
    return _running(pid, recursive=False)


def descendants(pid: int) -> list[int]:
    """Ids of all descendants, parents first."""
    return _running(pid, recursive=True)


def public_files(folder: Path) -> dict[str, str]:
    """Files and folders that others than this user may read or write, with their permissions."""
    return {
        str(path.relative_to(folder)): oct(path.stat().st_mode & 0o777)
        for path in (folder, *folder.rglob("*"))
        if path.stat().st_mode & 0o077
    }


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
