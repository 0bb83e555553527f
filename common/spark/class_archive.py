"""Spark's classes as the JVM keeps them in memory, in a file: every start is some five seconds shorter.

The JVM writes such a file (class-data sharing) when a process ends that was told to, and maps it at a
later start with the same Java and class path. With another Java or another class path it starts as it would
without: nothing depends on the archive but time. Its sha256 lies beside it and is compared at every start,
which takes 0.15 seconds: an archive that is cut short or changed is not used, and set-up makes it anew.

    <user cache>/classes/<key>.jsa      <key>.jsa.sha256
                                        about 190 MB; the key names Java, class path and Spark's version
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from common.config.paths import user_cache
from common.config.settings import Settings
from common.java.find_java import Java
from common.java.sealed_file import seal, state_of

_RECORD_SECONDS = 300.0
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""An archive that does not fit is no one's trouble; one that is made tells at length what it leaves out."""


def archive_file(java: Java, class_path: Sequence[Path]) -> Path:
    """Where the archive of a Java and a class path lies, or would."""
    executable = java.executable.resolve()
    told = [str(executable), str(executable.stat().st_mtime_ns), metadata.version("pyspark")]
    key = hashlib.sha256("\n".join([*told, *map(str, class_path)]).encode()).hexdigest()[:16]
    return user_cache() / "classes" / f"{key}.jsa"


def jvm_options(java: Java, class_path: Sequence[Path]) -> list[str]:
    """What the JVM must be told to use the archive; nothing where there is none, or it is not whole."""
    file = archive_file(java, class_path)
    return [f"-XX:SharedArchiveFile={file}", *_QUIET.split()] if state_of(file) == "ok" else []


def create_archive(settings: Settings, java: Java, class_path: Sequence[Path]) -> Path | None:
    """Make the archive where there is no whole one, by a short run of Spark and Delta: about half a minute.

    Returns:
        The archive; ``None`` where this Java cannot make one: why is in the ``.log`` beside where it would
        lie. Nothing needs it, so nothing is raised.
    """
    file = archive_file(java, class_path)
    if state_of(file) == "ok":
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".record-", dir=file.parent) as scratch:
        made = Path(scratch) / file.name
        conf = dict(settings.spark.conf)
        own = "spark.driver.extraJavaOptions"
        conf[own] = f"{conf.get(own, '')} -XX:ArchiveClassesAtExit={made} {_QUIET}".strip()
        trained = settings.spark.model_copy(update={"conf": conf, "master": "local[2]"})
        told = settings.model_copy(update={"spark": trained, "data_dir": Path(scratch)})
        try:
            done = subprocess.run(
                [sys.executable, "-m", "common.spark.class_recording", scratch],
                input=told.model_dump_json().encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=_RECORD_SECONDS,
            )
            if done.returncode != 0 or not made.is_file():
                file.with_suffix(".log").write_bytes(done.stdout)
                return None
            made.replace(file)
            seal(file)
        except (subprocess.SubprocessError, OSError):
            return None
    return file
