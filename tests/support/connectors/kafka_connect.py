"""Kafka Connect with Debezium's connectors, as one process of its own: Connect's standalone mode.

Its jars are those of the embedded broker and the set ``connect`` of ``tests/java/jars.lock``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from common.config.settings import load_settings
from common.errors import JarError
from common.java.find_java import find_java
from common.java.jar_cache import require
from common.machine.processes import free_port
from orchestration.access.embedded_broker.server_process import LOG_LAYOUT
from tests.java.locked_jars import locked_jars

_START_SECONDS = 600
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "value.converter.replace.null.with.default": "false",
    "offset.flush.interval.ms": "1000",
    "plugin.discovery": "only_scan",
}


def _jars() -> list[Path]:
    """The worker's class path; skips the test where a jar is missing and cannot be fetched."""
    settings = load_settings()
    try:
        return [*require(settings, "kafka-server"), *locked_jars(settings, "connect")]
    except JarError as error:
        pytest.skip(f"the jars of Kafka Connect and Debezium cannot be had: {error}")


@dataclass
class Connect:
    """A worker on a folder, which keeps its connectors' offsets and their schema history.

    Attributes:
        folder: Its folder.
        broker: The address of Kafka.
        connectors: The properties of each connector, by its name.
    """

    folder: Path
    broker: str
    connectors: Mapping[str, Mapping[str, str]]
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        """What the worker and its connectors say."""
        return self.folder / "connect.log"

    @property
    def has_failed(self) -> bool:
        """Whether a connector's task has ended by an error."""
        return "Task is being killed" in self.log.read_text(errors="replace")

    def start(self) -> None:
        """Start the worker, and wait until each connector's task runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "tmp").mkdir(exist_ok=True)
        port = free_port()
        worker = {
            "bootstrap.servers": self.broker,
            "listeners": f"http://127.0.0.1:{port}",
            "offset.storage.file.filename": str(self.folder / "offsets"),
        }
        files = [self._file("worker", _WORKER | worker)]
        files += [self._file(name, {"name": name, **given}) for name, given in self.connectors.items()]
        words = [str(find_java(load_settings()).executable), *_JVM]
        words += [f"-Dlog4j2.configurationFile={LOG_LAYOUT.as_uri()}", f"-Dmedallion.log={self.log}"]
        words += [f"-Djava.io.tmpdir={self.folder / 'tmp'}", "-cp", os.pathsep.join(map(str, _jars()))]
        words += ["org.apache.kafka.connect.cli.ConnectStandalone", *map(str, files)]
        with (self.folder / "connect.out").open("ab") as out:
            self._process = subprocess.Popen(words, stdout=out, stderr=out, cwd=self.folder)
        for name in self.connectors:
            self._await_running(f"http://127.0.0.1:{port}/connectors/{name}/status", name)

    def kill(self) -> None:
        """End the worker without a word of warning: what it has sent since its last flush is sent again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Lose the offsets of a worker that does not run: the next start takes new snapshots."""
        for path in self.folder.glob("offsets*"):
            path.unlink()
        for path in self.folder.glob("history*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _file(self, name: str, properties: Mapping[str, str]) -> Path:
        file = self.folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        return file

    def _await_running(self, url: str, name: str) -> None:
        deadline, said = time.monotonic() + _START_SECONDS, ""
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  # our own worker
                    tasks = json.load(answer)["tasks"]
            except (OSError, urllib.error.URLError, ValueError):
                tasks = []
            said = json.dumps(tasks)
            if any(task["state"] == "FAILED" for task in tasks):
                break
            if tasks and all(task["state"] == "RUNNING" for task in tasks):
                return
            time.sleep(0.5)
        log = self.log if self.log.exists() else self.folder / "connect.out"
        last = "\n".join(log.read_text(errors="replace").splitlines()[-60:])
        raise AssertionError(f"the connector {name} does not run: {said}\n{last}")
