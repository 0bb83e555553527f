"""Prepares and starts the JVM of the embedded Kafka: class path, properties, formatted data folder.

Sharing a running broker and stopping it belong in ``orchestration.access.embedded_broker.lifecycle``.
"""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common.config.settings import Settings
from common.errors import BrokerError
from common.java.find_java import find_java
from common.java.jar_cache import require
from common.machine.files.state_file import replace_file
from orchestration.access.embedded_broker.state_folder import (
    Identity,
    data_dir,
    jvm_log,
    log_file,
    properties_file,
    write_identity,
)

MAIN_CLASS = "kafka.Kafka"
LOG_LAYOUT = Path(__file__).with_name("kafka-log4j2.properties")

_FORMAT_SECONDS = 60
_TAIL_LINES = 12

# Measured on two cores: with the first compiler tier and the serial collector the broker is ready after 3.3 s
# and uses 350 MB; with both compiler tiers after 4.9 s. A broker mostly copies bytes.
_JVM = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)

_PROPERTIES = Path(__file__).with_name("server.properties").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Server:
    """A Kafka server on a folder."""

    folder: Path  # the broker's folder
    java: Path  # the ``java`` executable
    # The class path, separate from Spark's, which has other versions of the same libraries.
    jars: Sequence[Path]
    heap_mb: int  # heap in MiB

    @classmethod
    def of(cls, folder: Path, settings: Settings) -> Server:
        """The server with the locked jars and this machine's Java; missing jars are fetched.

        Raises:
            JavaError: There is no usable Java.
            JarError: A jar is missing and cannot be fetched.
        """
        jars = require(settings, "kafka-server")
        return cls(folder, find_java(settings).executable, jars, settings.kafka.heap_mb)

    @property
    def version(self) -> str:
        """The version of Kafka in the jars, such as ``4.3.1``.

        Raises:
            BrokerError: None of the jars names Kafka's version.
        """
        for jar in self.jars:
            if jar.name.startswith("kafka-clients"):
                with zipfile.ZipFile(jar) as content:
                    text = content.read("kafka/kafka-version.properties").decode()
                found = re.search(r"^version=(\S+)", text, re.MULTILINE)
                if found:
                    return found[1]
        raise BrokerError("The jar set kafka-server has no kafka-clients jar that contains Kafka's version.")

    def prepare(self, identity: Identity) -> None:
        """Create folders and properties and format the data folder; ``launch`` needs them. May be repeated.

        Raises:
            BrokerError: The folder cannot be used, or Kafka cannot format it.
        """
        if "," in str(self.folder):
            raise BrokerError(
                f"Kafka cannot keep data in {self.folder}: it splits paths at commas. "
                "Name another folder with the setting data_dir."
            )
        for folder in (data_dir(self.folder), log_file(self.folder).parent):
            folder.mkdir(parents=True, exist_ok=True)
        text = _PROPERTIES.format(
            port=identity.port,
            controller_port=identity.controller_port,
            data=_escaped(str(data_dir(self.folder))),
        )
        replace_file(properties_file(self.folder), text.encode())
        # Kafka writes this file last, so it exists only after a complete format.
        if not (data_dir(self.folder) / "meta.properties").exists():
            self.format(identity.cluster_id)
        write_identity(self.folder, replace(identity, kafka_version=self.version))

    def format(self, cluster_id: str) -> None:
        """Format the data folder; a formatted folder is not changed.

        Raises:
            BrokerError: Kafka's format tool fails.
        """
        words = ["format", "--standalone", "--ignore-formatted", "-t", cluster_id]
        words += ["-c", str(properties_file(self.folder))]
        try:
            done = subprocess.run(
                [*self._java(128), "kafka.tools.StorageTool", *words],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_FORMAT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BrokerError(f"Kafka could not format {data_dir(self.folder)}: {error}.") from error
        if done.returncode:
            output = "\n".join((done.stderr + done.stdout).strip().splitlines()[-_TAIL_LINES:])
            raise BrokerError(
                f"Kafka could not format {data_dir(self.folder)} (exit code {done.returncode}). "
                f"Its output ends:\n{output}"
            )

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the JVM in a session of its own, so that Ctrl-C in the terminal does not reach it.

        Raises:
            BrokerError: The JVM cannot be started.
        """
        words = [*self._java(self.heap_mb), MAIN_CLASS, str(properties_file(self.folder))]
        try:
            with jvm_log(self.folder).open("wb") as output:
                return subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    start_new_session=True,
                )
        except OSError as error:
            raise BrokerError(
                f"The broker's JVM could not be started: {self.java}: {error.strerror}."
            ) from error

    def _java(self, heap_mb: int) -> list[str]:
        logging = [
            f"-Dlog4j2.configurationFile={LOG_LAYOUT.as_uri()}",
            f"-Dmedallion.log={log_file(self.folder)}",
        ]
        # The libraries of compression are unpacked and loaded there; /tmp may be mounted with noexec.
        temporary = self.folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        logging.append(f"-Djava.io.tmpdir={temporary}")
        path = os.pathsep.join(map(str, self.jars))
        return [str(self.java), f"-Xmx{heap_mb}m", *_JVM, *logging, "-cp", path]


def _escaped(path: str) -> str:
    # A properties file is Latin-1, with backslash as its escape.
    escaped = path.replace("\\", "\\\\").encode("utf-16-be")
    units = [int.from_bytes(escaped[at : at + 2], "big") for at in range(0, len(escaped), 2)]
    return "".join(chr(unit) if 31 < unit < 127 else f"\\u{unit:04x}" for unit in units)  # noqa: PLR2004  # ASCII
