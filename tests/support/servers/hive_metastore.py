"""A real Hive metastore of pyspark's own jars: one process, with its database (Derby) in memory."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from common.config.settings import load_settings
from common.java.find_java import find_java
from common.machine import processes

_START_SECONDS = 240
_PACKAGES = ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "util", "util.concurrent")


@contextmanager
def hive_metastore(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a metastore, ``thrift://host:port``, and its process, which ends with the block."""
    folder.mkdir(parents=True)
    (folder / "medallion.yaml").touch()
    java = find_java(load_settings(file=folder / "medallion.yaml"))
    port, log = processes.free_port(), folder / "metastore.log"
    settings = {
        "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
    }
    command = [
        str(java.executable),
        *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _PACKAGES),
        *("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *("-Dhive.async.log.enabled=false", f"-Djava.io.tmpdir={folder}"),
        *("-cp", f"{Path(pyspark.__file__).parent / 'jars'}/*"),
        *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)),
        *(word for name, value in settings.items() for word in ("--hiveconf", f"{name}={value}")),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
    try:
        _await_port(port, process, log)
        yield f"thrift://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.3)
        else:
            return
