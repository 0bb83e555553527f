"""Builds the wheel (PEP 517): setuptools' wheel, with all of it in the one package ``medallion``.

In an environment the folders of this repository would take the names ``common``, ``bronze``, ``silver``,
``gold`` and ``orchestration``, which a user's own project may have. The package ``medallion`` of the wheel
mirrors the repository's root: ``medallion.py`` is its ``__init__.py``, the folders are in it, and so are the
other files that code looks for at the root. Imports and entry points are prefixed (``prefixed_imports``).
The source distribution is setuptools', the editable install of a checkout too.

Both kinds have the same bytes for the same sources and ``SOURCE_DATE_EPOCH``. The setting ``repository`` (of
``pip wheel --config-settings``) is the address that links and pictures of the long description begin with.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)
from wheel.wheelfile import WheelFile

from distribution.description import described
from distribution.prefixed_imports import prefixed

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
]

PACKAGE = "medallion"
FOLDERS = ("common", "bronze", "silver", "gold", "orchestration")

_LOCKS = ("requirements.lock", "requirements-java.lock")
"""Files at the root that the doctor and the set-up of Java read."""

_REPOSITORY = "repository"
"""The setting of a build."""

_EXAMPLES = {".py", ".md", ".json", ".jsonl", ".yaml", ".csv"}


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel; returns its file name. The current folder is the root of the sources."""
    shutil.rmtree("build/lib", ignore_errors=True)  # setuptools adds what a former build has left there
    with tempfile.TemporaryDirectory() as folder:
        name: str = build_meta.build_wheel(folder)
        repository = _repository(config_settings)
        with ZipFile(Path(folder, name)) as plain, WheelFile(Path(wheel_directory, name), "w") as wheel:
            for path, content in _contents(plain, Path(), repository):
                wheel.writestr(path, content)
    return name


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """Build the source distribution; returns its file name. The current folder is the root of the sources."""
    with tempfile.TemporaryDirectory() as folder:
        name: str = build_meta.build_sdist(folder)
        repository = _repository(config_settings)
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
        with (
            tarfile.open(Path(folder, name)) as plain,
            Path(sdist_directory, name).open("wb") as file,
            gzip.GzipFile("", "wb", mtime=epoch, fileobj=file) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for member in sorted(plain.getmembers(), key=lambda each: each.name):
                if member.isfile():
                    content = plain.extractfile(member)
                    assert content is not None  # noqa: S101  # of a file
                    _add(archive, member, content.read(), epoch, repository)
    return name


def _add(
    archive: tarfile.TarFile, member: tarfile.TarInfo, content: bytes, epoch: int, repository: str
) -> None:
    """Add a file with nothing of the machine that it was on; its time stays where no epoch is given."""
    if member.name.count("/") == 1 and member.name.endswith("/PKG-INFO"):
        content = described(content.decode(), repository).encode()
    plain = tarfile.TarInfo(member.name)
    plain.size, plain.mtime = len(content), epoch or int(member.mtime)
    plain.mode = 0o755 if member.mode & 0o100 else 0o644
    archive.addfile(plain, io.BytesIO(content))


def _repository(config_settings: Mapping[str, Any] | None) -> str:
    return str((config_settings or {}).get(_REPOSITORY, ""))


def _contents(plain: ZipFile, root: Path, repository: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file of the wheel but its RECORD, which is written at its end."""
    for path in plain.namelist():
        if path.endswith(("/", ".dist-info/RECORD")):
            continue
        if path.endswith(".dist-info/METADATA"):
            yield path, described(plain.read(path).decode(), repository).encode()
        else:
            yield _installed(path), _rewritten(path, plain.read(path))
    yield f"{PACKAGE}/__main__.py", _rewritten("__main__.py", plain.read("orchestration/__main__.py"))
    yield f"{PACKAGE}/py.typed", b""
    for lock in _LOCKS:
        yield f"{PACKAGE}/{lock}", (root / lock).read_bytes()
    for file in sorted((root / "examples").rglob("*")):
        if file.suffix in _EXAMPLES:
            yield f"{PACKAGE}/{file.relative_to(root).as_posix()}", file.read_bytes()


def _installed(path: str) -> str:
    """The path in the wheel of a file of setuptools' wheel."""
    if path == f"{PACKAGE}.py":
        return f"{PACKAGE}/__init__.py"
    return f"{PACKAGE}/{path}" if path.partition("/")[0] in FOLDERS else path


def _rewritten(path: str, content: bytes) -> bytes:
    if path.endswith(".py"):
        return prefixed(content.decode(), FOLDERS, PACKAGE).encode()
    if path.endswith(".dist-info/entry_points.txt"):
        return re.sub(rf"(= *)(?=(?:{'|'.join(FOLDERS)})\.)", rf"\1{PACKAGE}.", content.decode()).encode()
    if path.endswith(".dist-info/top_level.txt"):
        return f"{PACKAGE}\n".encode()
    return content
