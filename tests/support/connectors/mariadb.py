"""A MariaDB server in a folder, with a binary log of rows, on a free port of loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.machine.processes import free_port
from tests.support.servers.postgres import PASSWORD

_START_SECONDS = 480


@dataclass(frozen=True)
class MariaDb:
    """A running server with the database ``shop``.

    Attributes:
        port: Its port.
        socket: Its socket, by which root needs no password.
    """

    port: int
    socket: Path

    def run(self, sql: str, database: str = "shop") -> str:
        """What SQL prints: a line a row, as it is."""
        words = ["mariadb", "--no-defaults", "-u", "root", "-S", str(self.socket), "-N", "-B", "-r"]
        words += ["--default-character-set=utf8mb4", database]
        done = subprocess.run(words, input=sql, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def mariadb() -> Iterator[MariaDb]:
    """A server whose user ``shop`` may read everything and follow the log; skips where there is none."""
    server, install = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    if not server or not install:
        pytest.skip("MariaDB is not installed: make connectors, or apt-get install mariadb-server")
    with tempfile.TemporaryDirectory(prefix="mariadb-") as name:
        folder = Path(name)
        user = "mysql" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        data = ["--no-defaults", f"--user={user}", f"--datadir={folder / 'data'}"]
        made = subprocess.run(
            [install, *data, "--auth-root-authentication-method=normal", "--skip-test-db"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr + made.stdout
        found = MariaDb(free_port(), folder / "socket")
        words = [server, *data, f"--port={found.port}", f"--socket={found.socket}", "--server-id=1"]
        words += ["--bind-address=127.0.0.1", f"--pid-file={folder / 'pid'}", "--log-bin=binlog"]
        words += ["--binlog-format=ROW", "--binlog-row-image=FULL", "--skip-name-resolve"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            _await_answer(found, process, folder / "log")
            found.run(
                f"CREATE DATABASE shop; CREATE USER shop@'%' IDENTIFIED BY '{PASSWORD}'; "
                "GRANT ALL ON *.* TO shop@'%';",
                "mysql",
            )
            yield found
        finally:
            process.kill()
            process.wait()


def _await_answer(server: MariaDb, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            server.run("SELECT 1", "mysql")
        except AssertionError:
            time.sleep(0.3)
        else:
            return
    raise AssertionError(f"MariaDB does not start:\n{log.read_text(errors='replace')}")
