"""Reads ``common/java/jars.lock``: the jars that the engine uses, by set, each with its sha256."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal

from common.errors import JarError, UsageError, nearest

LOCK = Path(__file__).with_name("jars.lock")
_HEADER = "set\tgroup\tartifact\tversion\tsha256\tbytes"

State = Literal["ok", "missing", "altered"]


@dataclass(frozen=True, slots=True)
class Jar:
    """One locked jar."""

    set: str  # the set that the jar belongs to: ``spark``, ``kafka-server``, ``avro`` or ``s3``
    group: str  # Maven group
    artifact: str  # Maven artifact
    version: str  # Maven version
    sha256: str  # digest of the file, in hexadecimal
    size_bytes: int  # size of the file

    @property
    def coordinate(self) -> str:
        """``group:artifact:version``."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """``<artifact>-<version>.jar``; unique within its set."""
        return f"{self.artifact}-{self.version}.jar"

    def state_of(self, path: Path) -> State:
        """Whether a file is this jar; reads every byte.

        Raises:
            JarError: The file exists and cannot be read.
        """
        try:
            with path.open("rb") as file:
                return "ok" if hashlib.file_digest(file, "sha256").hexdigest() == self.sha256 else "altered"
        except (FileNotFoundError, NotADirectoryError):
            return "missing"
        except OSError as error:
            advice = "Make it readable, or remove it to have it fetched."
            raise JarError(f"{path} cannot be read ({error.strerror}). {advice}") from error


def jar_sets() -> tuple[str, ...]:
    """Names of the sets, in the order of the lock."""
    return tuple(dict.fromkeys(jar.set for jar in _lock()))


def locked(*sets: str) -> tuple[Jar, ...]:
    """The jars of these sets in the order of the lock; without a name those of all sets.

    Raises:
        UsageError: There is no set of that name.
    """
    for name in sets:
        if name not in jar_sets():
            raise UsageError(f"There is no set of jars named {name!r}; {nearest(name, jar_sets())}")
    return tuple(jar for jar in _lock() if not sets or jar.set in sets)


def lock_text(jars: Iterable[Jar]) -> str:
    """The text of a lock file with these jars."""
    return "\n".join([_HEADER, *("\t".join(map(str, astuple(jar))) for jar in jars), ""])


@functools.cache
def _lock() -> tuple[Jar, ...]:
    return read_lock(LOCK)


def read_lock(file: Path) -> tuple[Jar, ...]:
    """The jars of a lock, in its order."""
    rows = (line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:])
    return tuple(
        Jar(name, group, artifact, version, sha256, int(size))
        for name, group, artifact, version, sha256, size in rows
    )
