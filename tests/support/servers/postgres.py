"""A PostgreSQL server in a folder, on a free port of loopback, with a password for each connection."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from common.machine.processes import free_port

PASSWORD = "s3cret word"  # noqa: S105  # of a server that lives as long as a test
_START_SECONDS = 240


def programs() -> Path:
    """The folder of PostgreSQL's programs; skips the test where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    if on_path := shutil.which("initdb"):
        return Path(on_path).parent
    pytest.skip("PostgreSQL is not installed: apt-get install postgresql")


@dataclass(frozen=True)
class Postgres:
    """A running server.

    Attributes:
        port: Its port.
        home: Where its programs are.
    """

    port: int
    home: Path

    def url(self, table: str) -> str:
        """A table as ``medallion reconcile --against`` takes it, without the password."""
        return f"postgresql://shop@127.0.0.1:{self.port}/shop?table={table}"

    @property
    def command(self) -> list[str]:
        """The command that runs SQL, up to its text; the variable ``PGPASSWORD`` has the password."""
        words = [self.home / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "shop", "-d", "shop"]
        return [*map(str, words), "-qAt", "-v", "ON_ERROR_STOP=1", "-c"]

    def run(self, sql: str) -> str:
        """What SQL prints, unaligned."""
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        given = [*self.command, sql]
        done = subprocess.run(given, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def postgres(*parameters: str) -> Iterator[Postgres]:
    """A server with the empty database ``shop``, whose owner is the user ``shop``.

    Parameters of the server are given as ``wal_level=logical``. Its folder is none of pytest's, which each
    run that starts closes to other users.
    """
    with (
        tempfile.TemporaryDirectory(prefix="postgres-") as folder,
        _server(Path(folder), *parameters) as server,
    ):
        yield server


@contextmanager
def _server(folder: Path, *parameters: str) -> Iterator[Postgres]:
    home, data, port = programs(), folder / "data", free_port()
    data.mkdir()
    password = folder / "password"
    password.write_text(PASSWORD)
    user = _user(data, password)
    auth = ("-A", "scram-sha-256", "-U", "shop", "--pwfile", str(password), "-E", "UTF8", "--locale", "C")
    _run(user, [str(home / "initdb"), "-D", str(data), *auth])
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='' -c fsync=off"
    options += "".join(f" -c {each}" for each in parameters)
    control = [str(home / "pg_ctl"), "-D", str(data), "-w", "-t", str(_START_SECONDS)]
    _run(user, [*control, "-l", str(data / "log"), "-o", options, "start"])
    try:
        server = Postgres(port, home)
        words = [str(home / "createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", "shop", "shop"]
        subprocess.run(words, env={**os.environ, "PGPASSWORD": PASSWORD}, check=True)
        yield server
    finally:
        _run(user, [*control, "-m", "immediate", "stop"])


def _user(*paths: Path) -> str | None:
    """A user that PostgreSQL accepts; it refuses to run as root, who gives the paths away then."""
    if os.getuid():
        return None
    name = "postgres" if any(one.pw_name == "postgres" for one in pwd.getpwall()) else "nobody"
    found = pwd.getpwnam(name)
    for path in paths:
        os.chown(path, found.pw_uid, found.pw_gid)
    for parent in paths[0].parents:
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return name


def _run(user: str | None, words: Sequence[str]) -> None:
    done = subprocess.run(
        words,
        user=user,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=_START_SECONDS * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr
