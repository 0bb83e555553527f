"""The embedded broker: one real Kafka per data folder, shared by every process that needs it.

Each process that uses the broker holds a shared ``flock`` on ``users.lock``; the kernel releases it however
the process ends. The last user stops the broker. ``start.lock`` serializes starting, joining and stopping.
A broker whose users were all killed is an orphan: the next start reuses it, or ends it if it does not answer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from common.config.paths import broker_dir
from common.config.settings import Settings
from common.errors import BrokerError
from common.machine import processes
from common.machine.console import say
from common.machine.file_modes import umask
from orchestration.access.embedded_broker import state_folder as files
from orchestration.access.embedded_broker.server_process import MAIN_CLASS, Server
from orchestration.access.embedded_broker.state_folder import Identity, State
from orchestration.access.kafka.client import is_ready

_ANSWER_SECONDS = 5.0
_REPORT_SECONDS = 10.0


class Broker:
    """A running broker that this process uses; as a context manager it releases the broker at the end."""

    def __init__(
        self, settings: Settings, state: State, users: int, child: subprocess.Popen[bytes] | None
    ) -> None:
        self.bootstrap_servers = state.address
        self.pid = state.pid
        self._settings, self._state, self._child = settings, state, child
        self._users: int | None = users

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def is_running(self) -> bool:
        """Whether the broker's process is alive; it may end by itself, for example on a full disk."""
        return processes.is_running(self.pid, self._state.process_start)

    def stop(self) -> None:
        """Release the broker, which ends unless another process uses it. A second call does nothing."""
        if self._users is None:
            return
        users, self._users = self._users, None
        try:
            with _start_lock(self._settings):
                if _locked(users, fcntl.LOCK_EX):
                    # Another process may have started the broker anew meanwhile.
                    now = files.read_state(broker_dir(self._settings)) or self._state
                    _end(self._settings, now.pid, now.process_start)
                    files.state_file(broker_dir(self._settings)).unlink(missing_ok=True)
        finally:
            os.close(users)
            if self._child is not None:
                self._child.poll()  # a child that has ended stays a zombie until its exit code is read


def start(settings: Settings) -> Broker:
    """The broker of the data folder, started or joined, and ready to create topics.

    Raises:
        BrokerError: The broker cannot start, or is not ready in time; with the last lines of its log.
        JavaError: There is no usable Java.
        JarError: Kafka's jars are missing and cannot be fetched.
    """
    with umask(settings.umask):
        return _start(settings)


def _start(settings: Settings) -> Broker:
    folder = broker_dir(settings)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BrokerError(
            f"The broker's folder {folder} cannot be created: {error.strerror}. "
            "Name another with the setting data_dir."
        ) from error
    with _start_lock(settings):
        users = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT, 0o666)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(os.close, users)
            is_only_user = _locked(users, fcntl.LOCK_EX)
            state, child = _find_running(settings, orphaned=is_only_user), None
            if state is None:
                state, child = _launch(settings)
            _locked(users, fcntl.LOCK_SH)
            on_failure.pop_all()
    return Broker(settings, state, users, child)


def describe(settings: Settings) -> dict[str, Any] | None:
    """The state of the data folder's broker; None if no broker runs and none was left behind.

    Keys: pid, port, controller_port, bootstrap_servers, kafka_version, cluster_id, started_at, log,
    alive (the broker's process exists), answering (the broker could create a topic).
    """
    folder = broker_dir(settings)
    state = files.read_state(folder)
    if state is None:
        return None
    alive = _is_ours(folder, state)
    facts = asdict(state)
    del facts["process_start"]
    return facts | {
        "bootstrap_servers": state.address,
        "log": str(files.log_file(folder)),
        "alive": alive,
        "answering": alive and is_ready(state.address, _ANSWER_SECONDS),
    }


def death(settings: Settings) -> BrokerError | None:
    """The error for a broker whose process has ended while this process uses it; None while it runs."""
    folder = broker_dir(settings)
    state = files.read_state(folder)
    if state is None or processes.is_running(state.pid, state.process_start):
        return None
    log = files.log_file(folder)
    return BrokerError(
        f"The embedded broker at {state.address} (pid {state.pid}) has ended. Nothing is lost: the same "
        "command "
        f"starts it again and continues. The broker's log, {log}, ends:\n{files.last_words(folder, 0)}"
    )


def running_address(settings: Settings) -> str | None:
    """The address of the data folder's broker if it runs and answers; starts nothing."""
    facts = describe(settings)
    return str(facts["bootstrap_servers"]) if facts and facts["answering"] else None


def _find_running(settings: Settings, *, orphaned: bool) -> State | None:
    """The broker that already runs on this folder and answers; a broker that does not answer is ended."""
    folder = broker_dir(settings)
    state = files.read_state(folder)
    if state is not None and _is_ours(folder, state):
        if is_ready(state.address, _ANSWER_SECONDS):
            how, whose = ("reusing", ", left by a process that is gone,") if orphaned else ("sharing", "")
            note = _note_of_other_port(settings, state)
            say(f"{how} the broker of pid {state.pid}{whose} at {state.address}{note}")
            return state
        say(
            f"the broker of pid {state.pid} does not answer at {state.address}: ending it and starting "
            "another one",
        )
        _end(settings, state.pid, state.process_start)
    # A start that is killed before it writes the state file leaves a broker that no file names.
    for pid in processes.find_by_command_line(_command_line_end(folder)):
        say(f"a broker of this folder, pid {pid}, was left by a start that was killed: ending it")
        _end(settings, pid, processes.start_mark(pid))
    files.state_file(folder).unlink(missing_ok=True)
    return None


def _note_of_other_port(settings: Settings, state: State) -> str:
    if settings.kafka.port in {0, state.port}:
        return ""
    return f" (kafka.port={settings.kafka.port} takes effect at the broker's next start)"


def _launch(settings: Settings) -> tuple[State, subprocess.Popen[bytes]]:
    folder = broker_dir(settings)
    kafka = Server.of(folder, settings)
    version = kafka.version
    identity = files.identity_of(folder, version)
    port, controller_port = _ports(settings, identity)
    identity = replace(identity, port=port, controller_port=controller_port)
    kafka.prepare(identity)
    log_start = files.log_size(folder)
    say(f"starting Kafka {version} at 127.0.0.1:{port} (log: {files.log_file(folder)})")
    child = kafka.launch()
    state = State(
        pid=child.pid,
        process_start=processes.start_mark(child.pid),
        port=port,
        controller_port=controller_port,
        kafka_version=version,
        cluster_id=identity.cluster_id,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(_abandon, settings, state, child)
        files.write_state(folder, state)
        _await_ready(settings, state, child, log_start)
        on_failure.pop_all()
    return state, child


def _abandon(settings: Settings, state: State, child: subprocess.Popen[bytes]) -> None:
    """End a broker whose start failed."""
    processes.terminate(child.pid, state.process_start, timeout_seconds=settings.kafka.stop_timeout_seconds)
    child.wait()
    files.state_file(broker_dir(settings)).unlink(missing_ok=True)


def _await_ready(settings: Settings, state: State, child: subprocess.Popen[bytes], log_start: int) -> None:
    folder, began = broker_dir(settings), time.monotonic()
    report_at = _REPORT_SECONDS
    while not is_ready(state.address, 1.0):
        waited = time.monotonic() - began
        code = child.poll()
        if code is not None or waited > settings.kafka.start_timeout_seconds:
            ended = f"ended with exit code {code}" if code is not None else "was not ready"
            advice = "" if code is not None else "\nOn a slow machine, raise kafka.start_timeout_seconds."
            raise BrokerError(
                f"The embedded broker {ended} after {waited:.0f} s. "
                f"Its log, {files.log_file(folder)}, ends:\n{files.last_words(folder, log_start)}{advice}"
            )
        if waited > report_at:
            say(f"waiting for the broker, {waited:.0f} s so far")
            report_at += _REPORT_SECONDS
    say(f"broker ready after {time.monotonic() - began:.1f} s")


def _ports(settings: Settings, identity: Identity) -> tuple[int, int]:
    kafka = settings.kafka
    port = _port("kafka.port", kafka.port, identity.port, kafka.controller_port)
    return port, _port("kafka.controller_port", kafka.controller_port, identity.controller_port, port)


def _port(setting: str, wanted: int, last: int, besides: int) -> int:
    if not wanted:
        keep = last and last != besides and processes.is_port_free(last)
        return last if keep else processes.free_port(besides=besides)
    if wanted == besides:
        raise BrokerError(
            f"kafka.port and kafka.controller_port are both {wanted}. Set one of them to another port."
        )
    if not processes.is_port_free(wanted):
        holder = processes.listening_pid(wanted)
        by = f" by pid {holder} ({processes.command_line(holder)[:80]})" if holder else ""
        raise BrokerError(
            f"Port {wanted} (setting {setting}) is taken{by}. End that process, "
            f"or set {setting} to another port, or to 0 for a free one."
        )
    return wanted


def _end(settings: Settings, pid: int, process_start: str | None) -> None:
    limit = settings.kafka.stop_timeout_seconds
    if not processes.terminate(pid, process_start, timeout_seconds=limit):
        say(f"the broker of pid {pid} did not end within {limit:g} s of SIGTERM and was killed")


@contextlib.contextmanager
def _start_lock(settings: Settings) -> Iterator[None]:
    """Hold ``start.lock``, so that no other process starts, joins or stops the broker meanwhile."""
    path = broker_dir(settings) / "start.lock"
    limit = settings.kafka.start_timeout_seconds + 2 * settings.kafka.stop_timeout_seconds
    deadline, is_announced = time.monotonic() + limit, False
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        while not _locked(descriptor, fcntl.LOCK_EX):
            if not is_announced:
                say("waiting for another process that starts or stops the broker")
                is_announced = True
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"Another process has been starting or stopping the broker for {limit:.0f} s "
                    f"({path} is locked). End that process, then try again."
                )
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _command_line_end(folder: Path) -> str:
    return f" {MAIN_CLASS} {files.properties_file(folder)}"


def _is_ours(folder: Path, state: State) -> bool:
    running = processes.is_running(state.pid, state.process_start)
    return running and processes.command_line(state.pid).endswith(_command_line_end(folder))
