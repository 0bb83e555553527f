"""An S3 server (moto's) as a process of its own.

It keeps objects in memory, and refuses a put whose condition does not hold, as S3 does.
"""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from common.machine import object_store
from common.machine.object_store import S3Access
from tests.support.servers.own_environment import installed

BUCKET = "lake"
_KEY, _SECRET, _REGION = "reader", "writer-of-tests", "us-east-1"
_START_SECONDS = 60
_SERVER = """
import sys, threading
from moto.s3.responses import S3Response
from moto.server import main
put, lock = S3Response.put_object, threading.Lock()
def put_object(self):
    with lock:
        return put(self)
S3Response.put_object = put_object
main(sys.argv[1:])
"""
"""moto looks at a condition and stores the object after it; S3 does both at once, and so does this server."""


@dataclass(frozen=True)
class S3Server:
    """A running server with one bucket.

    Attributes:
        address: Its URL.
        log: A line per request.
    """

    address: str
    log: Path

    @property
    def access(self) -> S3Access:
        """The access of this process."""
        return S3Access(self.address, _REGION, True, _KEY, _SECRET)

    @property
    def variables(self) -> Mapping[str, str]:
        """The access of other processes."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_REGION": _REGION,
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
        }

    def requests(self) -> list[str]:
        """The lines of the requests so far."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if "HTTP/1.1" in line]


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A server; this process reaches S3 stores through it inside the block."""
    environment = installed("s3_server", Path(__file__).with_name("s3_server.lock"))
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "s3-server.log"
    # The server chooses the port, and prints it.
    command = [str(environment / "bin" / "python"), "-c", _SERVER, "-H", "127.0.0.1", "-p", "0"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        server = S3Server(_address(process, log), log)
        _create_bucket(server)
        object_store.use(server.access)
        yield server
    finally:
        object_store.use(S3Access())
        process.terminate()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        for line in log.read_text(errors="replace").splitlines():
            if "Running on http://" in line:
                return line.partition("Running on ")[2].split("\x1b")[0].strip()
        time.sleep(0.1)
    raise AssertionError(f"the S3 server does not start:\n{log.read_text(errors='replace')}")


def _create_bucket(server: S3Server) -> None:
    made = urllib.request.Request(f"{server.address}/{BUCKET}", method="PUT")  # noqa: S310  # our own server
    with urllib.request.urlopen(made, timeout=_START_SECONDS) as answer:  # noqa: S310
        assert answer.status == 200
