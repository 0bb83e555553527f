"""Wheel and source distribution of a commit, built twice: both builds must give the same bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from distribution.release.git import Repository
from distribution.release.provenance import sha256

_BUILD = """
import sys
from distribution import one_package
into, address = sys.argv[1:]  # setuptools changes them
for hook in ("build_wheel", "build_sdist"):
    getattr(one_package, hook)(into, {"repository": address})
"""


class ReleaseError(Exception):
    """A release that cannot be made; the message says why, and what to do."""


@dataclass(frozen=True)
class _Surroundings:
    """What must not matter to a build: seed of hashes, time zone, permissions of new files."""

    seed: int
    zone: str
    umask: int


def build_twice(repository: Repository, address: str, into: Path) -> list[Path]:
    """Build a commit's wheel and source distribution in two folders, and keep one of each.

    The two builds have other folders and other surroundings.

    Args:
        repository: The repository; what is built is its commit, not its files.
        address: Address of the repository on a code host, for the long description; empty: none.
        into: Folder of the files.

    Raises:
        ReleaseError: A build fails, or the two differ.
    """
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        one = _built(repository, address, Path(first), _Surroundings(1, "UTC", 0o022))
        other = _built(repository, address, Path(second), _Surroundings(2, "Asia/Tokyo", 0o077))
        for name, file in one.items():
            if sha256(file) != sha256(other[name]):
                raise ReleaseError(
                    f"{name} is not the same in two builds of commit {repository.commit[:12]}: a time, an "
                    "order of files or a path is in it."
                )
        into.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.move(file, into / name)) for name, file in one.items()]


def _built(repository: Repository, address: str, folder: Path, around: _Surroundings) -> dict[str, Path]:
    """The files of one build, by name."""
    source, target = folder / "source", folder / "built"
    target.mkdir()
    with tarfile.open(fileobj=BytesIO(repository.archive())) as archive:
        archive.extractall(source, filter="data")
    epoch = str(int(repository.committed_at.timestamp()))
    done = subprocess.run(
        [sys.executable, "-P", "-c", _BUILD, str(target), address],
        cwd=source,
        env={
            **os.environ,
            "PYTHONHASHSEED": str(around.seed),
            "TZ": around.zone,
            "SOURCE_DATE_EPOCH": epoch,
            "PYTHONPATH": str(source),
        },
        capture_output=True,
        text=True,
        check=False,
        umask=around.umask,
    )
    if done.returncode:
        raise ReleaseError(f"the build of commit {repository.commit[:12]} failed:\n{done.stderr[-2000:]}")
    return {file.name: file for file in sorted(target.iterdir())}
