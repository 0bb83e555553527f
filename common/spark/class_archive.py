"""Spark's loaded classes in an archive file (class-data sharing): every start is about five seconds shorter.

The JVM writes the archive when a process ends that was started with an option for it, and maps the archive at
a later start with the same Java and class path. With another Java, another class path or a damaged archive
the JVM starts without it: only the duration of a start depends on the archive.
Its sha256 is in a file beside it and is compared at every start, which takes 0.15 seconds: an archive that
is cut short or changed is not used, and set-up creates it again.

    <user cache>/classes/<place>-<state>.jsa      <place>-<state>.jsa.sha256
        about 190 MB. ``place`` names Java, the folder of PySpark and the engine's jars; ``state`` names the
        size and the modification time of each jar. The JVM refuses an archive when any of them differs,
        without a message, so each virtual environment has its own archive, and an upgrade in place a new one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from common.config.paths import user_cache
from common.config.settings import Settings
from common.java.find_java import Java
from common.java.sealed_file import seal, state_of

_RECORD_SECONDS = 300.0
_BUILD = re.compile(r"-[0-9a-f]{16}(?=\.jar$)")
"""The part of a built jar's name that changes with each build."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""No messages about an archive that does not fit, nor about classes that a new archive leaves out."""


def archive_file(java: Java, class_path: Sequence[Path]) -> Path:
    """Path of the archive of a Java and a class path, whether the file exists or not."""
    executable = java.executable.resolve()
    spark = _spark_jars()
    names = [_BUILD.sub("", str(jar)) for jar in class_path]
    place = _key([str(executable), str(spark), *names])
    jars = [executable, *class_path, *sorted(spark.glob("*.jar"))]
    return user_cache() / "classes" / f"{place}-{_key(map(_state, jars))}.jsa"


def _spark_jars() -> Path:
    """Folder of the jars that PySpark starts its JVM with."""
    found = importlib.util.find_spec("pyspark")
    return Path(found.origin if found and found.origin else "").parent.resolve() / "jars"


def _state(jar: Path) -> str:
    """What the JVM compares of a jar."""
    try:
        found = jar.stat()
    except OSError:
        return f"{jar} missing"
    return f"{jar} {found.st_size} {found.st_mtime_ns}"


def _key(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def jvm_options(java: Java, class_path: Sequence[Path]) -> list[str]:
    """Options with which the JVM uses the archive; empty where there is no archive, or it is not whole."""
    file = archive_file(java, class_path)
    return [f"-XX:SharedArchiveFile={file}", *_QUIET.split()] if state_of(file) == "ok" else []


def create_archive(settings: Settings, java: Java, class_path: Sequence[Path]) -> Path | None:
    """Create the archive if there is no whole one, by a short run of Spark and Delta of about half a minute.

    Returns:
        The archive; ``None`` where this Java cannot create one, or not within five minutes. The ``.log`` file
        beside its path then has the reason. The archive is optional, so no error is raised.
    """
    file = archive_file(java, class_path)
    if state_of(file) == "ok":
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".record-", dir=file.parent) as scratch:
        draft = Path(scratch) / file.name
        conf = dict(settings.spark.conf)
        own = "spark.driver.extraJavaOptions"
        conf[own] = f"{conf.get(own, '')} -XX:ArchiveClassesAtExit={draft} {_QUIET}".strip()
        trained = settings.spark.model_copy(update={"conf": conf, "master": "local[2]"})
        recorded = settings.model_copy(update={"spark": trained, "data_dir": Path(scratch)})
        try:
            code, said = _record(scratch, recorded.model_dump_json().encode())
            if code != 0 or not draft.is_file():
                file.with_suffix(".log").write_bytes(said)
                return None
            _remove_replaced(file)
            draft.replace(file)
            seal(file)
        except (subprocess.SubprocessError, OSError) as error:
            with suppress(OSError):
                file.with_suffix(".log").write_text(f"{error}\n")
            return None
    return file


def _record(scratch: str, settings: bytes) -> tuple[int, bytes]:
    """Exit code and output of the recording; its whole process group ends with it, or at the time limit."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", f"{__package__}.class_recording", scratch],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    ) as child:
        try:
            said, _ = child.communicate(settings, _RECORD_SECONDS)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    return child.returncode, said


def _remove_replaced(file: Path) -> None:
    """Remove the archives that this Java, PySpark and set of jars used before they were upgraded."""
    for old in file.parent.glob(f"{file.name.partition('-')[0]}-*.jsa*"):
        old.unlink(missing_ok=True)
