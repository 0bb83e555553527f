"""The running job's end of the channel: does the work of commands in its session, under its leases.

Work that writes tables takes the turns of their queries, so it is done between micro-batches; work that only
reads runs beside them. One command is served at a time, and the next one waits. A command that closes its
connection (Ctrl-C) cancels its Spark jobs, and leaves what an interrupted command leaves.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
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


class Channel:
    """Serves commands until it is closed."""

    def __init__(self, spark: SparkSession, operations: Mapping[str, Operation], pipeline: str) -> None:
        """Create a channel.

        Args:
            spark: The job's session.
            operations: What commands may ask for, by name.
            pipeline: Fingerprint of the pipeline file at the job's start.
        """
        self._spark, self._operations, self._pipeline = spark, operations, pipeline
        self._busy = threading.Lock()
        self._groups: set[str] = set()

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
            InheritableThread(target=self._answer, args=(Line(connection),), name="channel").start()

    def cancel_all(self) -> None:
        """Cancel the work that is being done."""
        for group in tuple(self._groups):
            self._spark.sparkContext.cancelJobGroup(group)

    def _answer(self, line: Line) -> None:
        """Serve one command."""
        try:
            request = line.receive()
            if request is None:
                return
            if refusal := self._refusal(request):
                line.send({"refused": refusal})
                return
            if self._busy.locked():
                line.send({"say": "waiting for another command that the job is doing"})
            with self._busy:
                self._work(line, request)
        except OSError:
            return  # the command has ended
        finally:
            line.close()

    def _refusal(self, request: Mapping[str, Any]) -> str:
        """Why the command has to do the work itself; empty where the job does it."""
        if request.get("version") != VERSION:
            return f"it speaks version {VERSION} of the channel, this command {request.get('version')}"
        if request.get("operation") not in self._operations:
            return f"it does not know {request.get('operation')}"
        if request.get("pipeline") != self._pipeline:
            return "it was started with another content of the pipeline file; restart it to use the new one"
        return ""

    def _work(self, line: Line, request: Mapping[str, Any]) -> None:
        group = uuid.uuid4().hex
        ended = threading.Event()
        self._groups.add(group)
        session = self._spark.newSession()
        session.sparkContext.setJobGroup(group, f"command {request['operation']}")
        watcher = threading.Thread(target=self._cancel_at_end, args=(line, group, ended))
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

    def _cancel_at_end(self, line: Line, group: str, ended: threading.Event) -> None:
        """Cancel the work of a command that closes its connection before the work has ended."""
        line.receive()
        if not ended.is_set():
            self._spark.sparkContext.cancelJobGroup(group)


@contextmanager
def serving(channel: Channel, folder: Path) -> Iterator[None]:
    """Serve commands inside the block, by a socket of this process in a folder of this user's own."""
    with ExitStack() as stack:
        server = stack.enter_context(_listening(folder))
        if server is None:
            yield
            return
        thread = threading.Thread(target=channel.serve, args=(server,), name="channel", daemon=True)
        thread.start()
        stack.callback(channel.cancel_all)
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
