"""Messages between a command and the job that it asks: one JSON object per line, over a local socket.

The command sends one ``Request``. The job answers with any number of progress lines and one last message: a
result, an error of the engine, or a refusal after which the command does the work itself. Every message has
the version of the protocol; a job of another version refuses. A command that closes the connection cancels.

The socket is ``channel/<pid>`` in the pipeline's folder. Folder and socket are the user's alone (0700, 0600),
and the job looks at the user of each connection as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = 2
_MOST_BYTES = 64 * 2**20
"""The longest message that is read."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a command asks for."""

    # ``audit``, ``replay``, ``maintain``, ``rebuild``, ``erase``, ``quality``, ``stop`` or ``start``.
    operation: str
    arguments: Mapping[str, Any]  # its arguments, as JSON
    pipeline: str  # fingerprint of the pipeline file that the command has loaded
    version: int = VERSION  # version of the protocol


class Line:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._reader = connection.makefile("rb")

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message.

        Raises:
            OSError: The other end has closed the connection.
        """
        self.connection.sendall(json.dumps({"version": VERSION, **message}).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end of the connection, and for what is no message."""
        try:
            found = json.loads(self._reader.readline(_MOST_BYTES))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def is_closed(self) -> bool:
        """Whether the other end has closed the connection, and has nothing left to be received."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self._reader.close()
        self.connection.close()


@contextmanager
def address(folder: Path, pid: int) -> Iterator[str]:
    """The address of a job's socket, valid inside the block.

    An address has some hundred bytes at most. So the folder is named by a descriptor where the system has
    such names, and by its path elsewhere.
    """
    if not Path("/proc/self/fd").is_dir():
        yield str(folder / str(pid))
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{pid}"
    finally:
        os.close(descriptor)


def user_of(connection: socket.socket) -> int | None:
    """The user id of the process at the other end; None where the system does not tell it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(struct.unpack("3i", credentials)[1])
