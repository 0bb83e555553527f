"""Builds the wheel from a copy of the sources, and installs it where nothing else of the repository is."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.processes import DEADLINE_SECONDS, ROOT

_FOLDERS = ("bronze", "common", "gold", "orchestration", "silver", "distribution", "examples")
_FILES = ("medallion.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
_LOCKS = ("requirements.lock", "requirements-java.lock")

_BUILD = """
import sys
from distribution import one_package
print(getattr(one_package, sys.argv[1])(sys.argv[2]))
"""


def copy_of_the_sources(folder: Path) -> Path:
    """A copy of what the distribution is built from, without what git ignores."""
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*_FILES, *_LOCKS):
        shutil.copy(ROOT / name, folder / name)
    return folder


def build(hook: str, source: Path, into: Path) -> Path:
    """Call a hook of the build backend as a frontend does: in a process, in the folder of the sources."""
    into.mkdir(parents=True, exist_ok=True)
    done = run([sys.executable, "-c", _BUILD, hook, str(into)], source, os.environ)
    return into / done.stdout.splitlines()[-1]


def unpacked(sdist: Path, folder: Path) -> Path:
    """The sources in a source distribution."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel.

    Attributes:
        folder: The environment.
    """

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """Variables under which its commands come first and nothing of the repository is found."""
        ours = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        ours.pop("PYTHONPATH", None)
        return ours

    def command(self, *words: str) -> list[str]:
        """A command of the environment, by its path."""
        return [str(self.folder / "bin" / words[0]), *words[1:]]

    def run(self, *words: str, at: Path) -> str:
        """What a command of the environment prints; it must end well."""
        return run(self.command(*words), at, self.env).stdout

    def refused(self, *words: str, at: Path) -> str:
        """The error of a command of the environment, which must end with exit code 1."""
        return run(self.command(*words), at, self.env, code=1).stderr


def installed(wheel: Path, folder: Path, extras: Iterable[str] = (), more: Iterable[str] = ()) -> Environment:
    """An environment with the wheel and what an installer adds to it, all of it linked from this environment.

    Args:
        wheel: The wheel.
        folder: For the environment.
        extras: Extras of the wheel.
        more: Other distributions.
    """
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder.parent, os.environ)
    others, (own,) = folder / "others", folder.glob("lib/python*/site-packages")
    others.mkdir()
    for name in {part for each in _with_needs([*_needs_of(wheel, extras), *more]) for part in _parts(each)}:
        (others / name).symlink_to(Path(sysconfig.get_paths()["purelib"]) / name)
    (own / "others.pth").write_text(f"{others}\n")
    python = str(folder / "bin" / "python")
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    pip = [uv, "pip"] if uv else [sys.executable, "-m", "pip", "--python", python]
    where = ["-p", python] if uv else []
    run([*pip, "install", *where, "--quiet", "--no-deps", "--no-index", str(wheel)], folder, os.environ)
    return Environment(folder)


def _needs_of(wheel: Path, extras: Iterable[str]) -> list[str]:
    """The requirements in a wheel's metadata that hold in this environment with these extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = re.findall(r"^Requires-Dist: (.*)$", archive.read(name).decode(), re.MULTILINE)
    return [line for line in lines if _holds(Requirement(line), extras)]


def _holds(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _with_needs(requirements: Iterable[str]) -> set[str]:
    """The distributions of requirements, with all that they need."""
    found: set[str] = set()
    todo = [Requirement(text) for text in requirements]
    while todo:
        one = todo.pop()
        key = re.sub(r"[-_.]+", "-", one.name).lower()
        if key not in found:
            found.add(key)
            needs = map(Requirement, importlib.metadata.requires(one.name) or ())
            todo += [need for need in needs if _holds(need, one.extras)]
    return found


def _parts(distribution: str) -> set[str]:
    """The files and folders of a distribution in the folder of packages."""
    files = importlib.metadata.files(distribution) or ()
    return {file.parts[0] for file in files if file.parts[0] not in {"..", "__pycache__"}}


def run(
    command: list[str], at: Path, env: Mapping[str, str], code: int = 0
) -> subprocess.CompletedProcess[str]:
    """What a command prints; it must end with this exit code."""
    done = subprocess.run(
        command, cwd=at, env=dict(env), capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert done.returncode == code, f"{command}:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done
