"""The embedded broker's folder: its layout, and the small files that hold the broker's state.

kafka/                  ``common.config.paths.broker_dir``
├── identity.json       cluster id, version of the Kafka that last wrote the data, ports of the last run
├── broker.json         pid, process start and ports of the running broker, or of one that was killed
├── start.lock          locked while a process starts, joins or stops the broker
├── users.lock          locked, shared, by every process that uses the broker
├── server.properties   rewritten by every start
├── data/               topics
└── log/                kafka.log (rotating), jvm.log (what the last JVM printed)
"""

from __future__ import annotations

import base64
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from common.errors import BrokerError
from common.machine.files.state_file import StateFile

_TAIL_LINES = 12


@dataclass(frozen=True, slots=True)
class Identity:
    """The properties of a broker's folder that stay the same between runs."""

    cluster_id: str  # Kafka's cluster id of 22 characters
    kafka_version: str  # version of the Kafka that last wrote the data
    port: int = 0  # clients' port of the last run; 0 before the first run
    controller_port: int = 0  # the controller's port of the last run


@dataclass(frozen=True, slots=True)
class State:
    """A broker's process, saved by the process that started it."""

    pid: int  # process id of the JVM
    # The process's ``common.machine.processes.start_mark``, because the system reuses pids.
    process_start: str | None
    port: int
    controller_port: int
    kafka_version: str
    cluster_id: str
    started_at: str  # the start for people to read: UTC, ISO 8601

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"127.0.0.1:{self.port}"


_IDENTITY, _STATE = StateFile(Identity, indent=1), StateFile(State, indent=1)


def data_dir(folder: Path) -> Path:
    """The folder of the topics."""
    return folder / "data"


def log_file(folder: Path) -> Path:
    """Kafka's own log."""
    return folder / "log" / "kafka.log"


def jvm_log(folder: Path) -> Path:
    """The output of the last JVM; empty unless it failed."""
    return folder / "log" / "jvm.log"


def properties_file(folder: Path) -> Path:
    """The server's properties; this path in a command line identifies the folder's broker."""
    return folder / "server.properties"


def identity_of(folder: Path, version: str) -> Identity:
    """The saved identity of the folder, or a new identity for a new folder.

    Raises:
        BrokerError: A Kafka newer than ``version`` has written the data.
    """
    identity = _IDENTITY.read_or_none(folder, "identity.json")
    if identity is None:
        # The file is lost or unreadable; the data folder still holds the cluster id.
        return Identity(_formatted_cluster(folder) or _new_cluster_id(), version)
    if _numbers(identity.kafka_version) > _numbers(version):
        raise BrokerError(
            f"The topics in {data_dir(folder)} were written by Kafka {identity.kafka_version}; "
            f"this engine runs {version}, and an older Kafka cannot read a newer one's data. Use the engine "
            f"that wrote them, or start empty by moving {folder} away (tables are elsewhere and stay)."
        )
    return identity


def write_identity(folder: Path, identity: Identity) -> None:
    """Save the identity."""
    _IDENTITY.write(folder, "identity.json", identity)


def log_size(folder: Path) -> int:
    """Current size of Kafka's log in bytes; a start appends to the log."""
    try:
        return log_file(folder).stat().st_size
    except OSError:
        return 0


def last_words(folder: Path, since_bytes: int) -> str:
    """The lines that explain a failed start: new errors in the log, or its last lines, and the JVM's output.

    Args:
        since_bytes: Size of the log before the failed start.
    """
    content = _bytes(log_file(folder))
    fresh = content[since_bytes:] if len(content) >= since_bytes else content
    lines = fresh.decode(errors="replace").splitlines()
    printed = _bytes(jvm_log(folder)).decode(errors="replace").splitlines()
    last = [*(_errors(lines) or lines)[-_TAIL_LINES:], *printed[-_TAIL_LINES:]]
    return "\n".join(line[:300] for line in last) or "(nothing)"


def state_file(folder: Path) -> Path:
    """The file with the state of the running broker, or of one that was killed."""
    return folder / "broker.json"


def read_state(folder: Path) -> State | None:
    """The saved state; None if there is none or it cannot be read."""
    return _STATE.read_or_none(folder, state_file(folder).name)


def write_state(folder: Path, state: State) -> None:
    """Save the state."""
    _STATE.write(folder, state_file(folder).name, state)


def _errors(lines: list[str]) -> list[str]:
    """Log lines of errors and of their exceptions, without stack frames."""
    errors, in_error = [], False
    for line in lines:
        entry = re.match(r"\d{4}-\S+ (\w+) ", line)
        if entry:
            in_error = entry[1] in {"ERROR", "FATAL"}
        if in_error and not line.startswith("\t"):
            errors.append(line)
    return errors


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _formatted_cluster(folder: Path) -> str | None:
    try:
        text = (data_dir(folder) / "meta.properties").read_text(encoding="latin-1")
    except OSError:
        return None
    found = re.search(r"^cluster\.id=(\S+)", text, re.MULTILINE)
    return found[1] if found else None


def _new_cluster_id() -> str:
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # the format tool would read a leading "-" as an option
            return text


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
