"""The running job's end of the channel: does the work of commands in its session, under its leases.

Work that writes tables takes the turns of their queries, so it is done between micro-batches; work that only
reads runs beside them. One command is served at a time, and the next one waits, as all do until the job has
started its queries. A command that closes its connection (Ctrl-C) cancels its Spark jobs, and leaves what an
interrupted command leaves.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException

from common.errors import MedallionError
from common.machine.processes import start_mark
from common.streaming.query import failure_of
from orchestration.access.channel.protocol import VERSION, Line, address, user_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[str], None]
Operation = Callable[["SparkSession", Mapping[str, Any], Say], Any]
"""Does the work of one request; returns the result as JSON. Its session is its own."""

_log = logging.getLogger("medallion.channel")

_START_SECONDS, _LOOK_SECONDS = 120.0, 0.2
"""How long a command waits for the job's start, and how often it is looked after."""


class Channel:
    """Answers commands until it is closed; those that come before ``begin`` wait for it."""

    def __init__(self, pipeline: str) -> None:
        """Create a channel.

        Args:
            pipeline: Fingerprint of the pipeline file at the job's start.
        """
        self._pipeline = pipeline
        self._spark: SparkSession | None = None
        self._operations: Mapping[str, Operation] = {}
        self._busy = threading.Lock()
        self._groups: set[str] = set()
        self._may_work, self._ended = threading.Event(), threading.Event()

    def begin(self, spark: SparkSession, operations: Mapping[str, Operation]) -> None:
        """Begin to do the work of commands."""
        self._spark, self._operations = spark, operations
        self._may_work.set()

    def end(self) -> None:
        """Cancel the work that is being done, and begin none any more."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._spark is not None:
            for group in tuple(self._groups):
                self._spark.sparkContext.cancelJobGroup(group)

    @property
    def is_working(self) -> bool:
        """Whether the work of a command is under way; after ``end`` none begins."""
        return self._busy.locked()

    def serve(self, server: socket.socket) -> None:
        """Accept connections until the socket is closed."""
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            if user_of(connection) not in {None, os.getuid()}:
                connection.close()
                continue
            threading.Thread(
                target=self._receive, args=(Line(connection),), name="channel", daemon=True
            ).start()

    def _receive(self, line: Line) -> None:
        """Take one command, and have it served once the job can, or refused at once."""
        request = line.receive()
        refusal = "" if request is None else self._refusal(request)
        if refusal:
            with contextlib.suppress(OSError):
                line.send({"refused": refusal})
        elif request is not None and self._await_start(line):
            # A thread of Spark's can be created only now.
            InheritableThread(target=self._answer, args=(line, request), name="channel").start()
            return
        line.close()

    def _await_start(self, line: Line) -> bool:
        """Wait until the job can work; returns whether it can, and the command is still there."""
        if self._may_work.is_set():
            return True
        deadline = time.monotonic() + _START_SECONDS
        with contextlib.suppress(OSError):
            line.send({"say": "the job is starting; it does this once its queries run"})
            while not self._may_work.wait(_LOOK_SECONDS):
                if self._ended.is_set() or line.is_closed():
                    return False
                if time.monotonic() > deadline:
                    line.send({"refused": f"it has not started its queries for {_START_SECONDS:.0f} s"})
                    return False
            return not self._ended.is_set()
        return False

    def _answer(self, line: Line, request: Mapping[str, Any]) -> None:
        """Serve one command."""
        try:
            if request.get("operation") not in self._operations:
                line.send({"refused": f"it does not know {request.get('operation')}"})
                return
            if self._busy.locked():
                line.send({"say": "waiting for another command that the job is doing"})
            with self._busy:
                if not self._ended.is_set():
                    self._work(line, request)
        except OSError:
            return  # the command has ended
        finally:
            line.close()

    def _refusal(self, request: Mapping[str, Any]) -> str:
        """Why the command has to do the work itself; empty where the job does it."""
        if request.get("version") != VERSION:
            return f"it speaks version {VERSION} of the channel, this command {request.get('version')}"
        if self._ended.is_set():
            return "it is stopping"
        if request.get("pipeline") != self._pipeline:
            return "it was started with another content of the pipeline file; restart it to use the new one"
        return ""

    def _work(self, line: Line, request: Mapping[str, Any]) -> None:
        assert self._spark is not None  # noqa: S101  # the job has begun
        spark, group = self._spark, uuid.uuid4().hex
        ended = threading.Event()
        self._groups.add(group)
        session = spark.newSession()
        session.sparkContext.setJobGroup(group, f"command {request['operation']}")
        watcher = threading.Thread(target=self._cancel_at_end, args=(spark, line, group, ended))
        watcher.start()
        try:
            operation = self._operations[request["operation"]]
            result = operation(session, request["arguments"], lambda text: line.send({"say": text}))
            ended.set()  # before the result: the command closes its connection as soon as it has it
            line.send({"result": result})
        except (MedallionError, PySparkException, Py4JError, ValueError, LookupError) as error:
            # The condition of an erasure may name a person, and an error may repeat it.
            text = "" if request["operation"] == "erase" else f": {str(error).partition(chr(10))[0]}"
            _log.warning("%s: %s%s", request["operation"], type(error).__name__, text)
            found = failure_of(f"the command {request['operation']}", error)
            message = {"type": type(found).__name__, "message": str(found), "exit_code": found.exit_code}
            line.send({"error": message})
        finally:
            self._groups.discard(group)
            ended.set()
            line.close()
            watcher.join()

    @staticmethod
    def _cancel_at_end(spark: SparkSession, line: Line, group: str, ended: threading.Event) -> None:
        """Cancel the work of a command that closes its connection before the work has ended."""
        line.receive()
        if not ended.is_set():
            spark.sparkContext.cancelJobGroup(group)


@contextmanager
def serving(channel: Channel, folder: Path) -> Iterator[None]:
    """Take commands inside the block, by a socket of this process in a folder of this user's own."""
    with ExitStack() as stack:
        server = stack.enter_context(_listening(folder))
        if server is None:
            yield
            return
        thread = threading.Thread(target=channel.serve, args=(server,), name="channel", daemon=True)
        thread.start()
        stack.callback(channel.end)
        # Closing alone does not wake a thread that waits in accept().
        stack.callback(server.shutdown, socket.SHUT_RDWR)
        yield


@contextmanager
def _listening(folder: Path) -> Iterator[socket.socket | None]:
    """A listening socket; None where the system allows none there."""
    own = folder / str(os.getpid())
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        for left in folder.iterdir():  # of processes that were killed
            if not left.name.isdigit() or start_mark(int(left.name)) is None or left == own:
                left.unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX)
        with address(folder, os.getpid()) as place:
            server.bind(place)
        own.chmod(0o600)
        server.listen()
    except OSError as error:
        _log.warning("no channel for commands: %s", error)
        yield None
        return
    try:
        yield server
    finally:
        server.close()
        with contextlib.suppress(OSError):
            own.unlink()
