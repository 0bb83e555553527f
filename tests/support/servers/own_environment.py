"""Environments of programs that tests run beside the product, and whose packages do not fit the product's.

An environment is installed by uv, once, in the user's cache; without uv its tests are skipped, and an
installation that fails fails them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from common.config.paths import user_cache

_INSTALL_SECONDS = 600


def installed(name: str, lock: Path) -> Path:
    """The folder of an environment; installs it where it is not yet.

    Args:
        name: Name of the environment. The variable ``TESTS_<NAME>`` names the folder of another one.
        lock: The packages, one ``name==version`` a line.
    """
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    folder = Path(os.environ.get(f"TESTS_{name.upper()}", user_cache() / f"tests-{name}-{digest}"))
    if (folder / "bin" / "python").exists() and (folder / "installed").exists():
        return folder
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        pytest.skip(f"uv is not installed, which installs the environment of {name}: pip install uv")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for words in (
        ["venv", "-q", "--clear", "--python", version, str(folder)],
        ["pip", "install", "-q", "--python", str(folder / "bin" / "python"), "-r", str(lock)],
    ):
        done = subprocess.run(
            [uv, *words], check=False, capture_output=True, text=True, timeout=_INSTALL_SECONDS
        )
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            other = f"TESTS_{name.upper()} may name a folder that has it"
            pytest.fail(
                f"the environment of {name} cannot be installed ({other}): {done.stderr.strip()[-300:]}"
            )
    (folder / "installed").touch()
    return folder
