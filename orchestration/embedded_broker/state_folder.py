"""The embedded broker's folder: what lies where, and the small files it remembers things in.

kafka/                  ``common.config.paths.broker_dir``
├── identity.json       cluster id, the Kafka that last wrote the data, the ports of the last run
├── broker.json         pid, its start, ports: of the broker that runs, or of one that was killed
├── start.lock          held while a process starts, joins or stops the broker
├── users.lock          held, shared, by every process that uses it
├── server.properties   written anew by every start
├── data/               topics
└── log/                kafka.log (rotating), jvm.log (what the last JVM printed)
"""

from __future__ import annotations

import base64
import json
import os
import re
import uuid
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from common.errors import BrokerError

_TAIL_LINES = 12


@dataclass(frozen=True, slots=True)
class Identity:
    """What a broker's folder remembers between runs.

    Attributes:
        cluster_id: Kafka's cluster id, in its 22 characters.
        kafka_version: The Kafka that last wrote the data.
        port: Clients' port of the last run; 0 before the first.
        controller_port: The controller's.
    """

    cluster_id: str
    kafka_version: str
    port: int = 0
    controller_port: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """A broker's process, as the one who started it wrote it down.

    Attributes:
        pid: The JVM.
        process_start: Its ``common.machine.processes.start_mark``, because the system reuses pids.
        started_at: UTC, ISO 8601.
    """

    pid: int
    process_start: str | None
    port: int
    controller_port: int
    kafka_version: str
    cluster_id: str
    started_at: str

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"127.0.0.1:{self.port}"


def data_dir(folder: Path) -> Path:
    """Where topics lie."""
    return folder / "data"


def log_file(folder: Path) -> Path:
    """Kafka's own log."""
    return folder / "log" / "kafka.log"


def jvm_log(folder: Path) -> Path:
    """What the last JVM printed: nothing, unless it could not start or broke."""
    return folder / "log" / "jvm.log"


def properties_file(folder: Path) -> Path:
    """The server's properties; its path tells this folder's broker from all others."""
    return folder / "server.properties"


def identity_of(folder: Path, version: str) -> Identity:
    """What the folder remembers, or a new identity for a new folder.

    Raises:
        BrokerError: A Kafka newer than ``version`` has written the data.
    """
    try:
        identity = Identity(**_known(Identity, folder / "identity.json"))
    except (OSError, ValueError, TypeError):
        # Lost or unreadable: the data itself still knows its cluster.
        return Identity(_formatted_cluster(folder) or _new_cluster_id(), version)
    if _numbers(identity.kafka_version) > _numbers(version):
        raise BrokerError(
            f"The topics in {data_dir(folder)} were written by Kafka {identity.kafka_version}; "
            f"this engine runs {version}, and an older Kafka cannot read a newer one's data. Use the engine "
            f"that wrote them, or begin anew by moving {folder} away (tables are elsewhere and stay)."
        )
    return identity


def write_identity(folder: Path, identity: Identity) -> None:
    """Remember it."""
    replace_file(folder / "identity.json", json.dumps(asdict(identity), indent=1))


def log_size(folder: Path) -> int:
    """Bytes in Kafka's log now; what a start adds lies beyond."""
    try:
        return log_file(folder).stat().st_size
    except OSError:
        return 0


def last_words(folder: Path, since_bytes: int) -> str:
    """What explains a broker that is not well: new errors in its log, else its end; what the JVM printed.

    Args:
        folder: The broker's folder.
        since_bytes: Size of the log before the start in question.
    """
    content = _bytes(log_file(folder))
    fresh = content[since_bytes:] if len(content) >= since_bytes else content
    lines = fresh.decode(errors="replace").splitlines()
    printed = _bytes(jvm_log(folder)).decode(errors="replace").splitlines()
    chosen = [*(_errors(lines) or lines)[-_TAIL_LINES:], *printed[-_TAIL_LINES:]]
    return "\n".join(line[:300] for line in chosen) or "(nothing)"


def state_file(folder: Path) -> Path:
    """Who runs here, or ran when it was killed."""
    return folder / "broker.json"


def read_state(folder: Path) -> State | None:
    """What the last starter wrote down; None where there is nothing, or nothing that can be read."""
    try:
        return State(**_known(State, state_file(folder)))
    except (OSError, ValueError, TypeError):
        return None


def write_state(folder: Path, state: State) -> None:
    """Write it down."""
    replace_file(state_file(folder), json.dumps(asdict(state), indent=1))


def replace_file(path: Path, text: str) -> None:
    """Write a file whole: a reader sees the old text or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _errors(lines: list[str]) -> list[str]:
    """Errors with the exceptions under them, without their stacks."""
    chosen, in_error = [], False
    for line in lines:
        entry = re.match(r"\d{4}-\S+ (\w+) ", line)
        if entry:
            in_error = entry[1] in {"ERROR", "FATAL"}
        if in_error and not line.startswith("\t"):
            chosen.append(line)
    return chosen


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _known(kind: type[Identity | State], path: Path) -> dict[str, Any]:
    # A later engine may write more; what it adds must not hide the version that it wrote.
    found = json.loads(path.read_text(encoding="utf-8"))
    return {field.name: found[field.name] for field in fields(kind) if field.name in found}


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
        if not text.startswith("-"):  # it is an argument of the format tool
            return text


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
