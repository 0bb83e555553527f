"""The Java sources checked by a JDK: ``python -m tests.java check``, and ``format`` writes their format.

``check`` is google-java-format, ``javac -Xlint:all -Werror --release 17``, and the JUnit tests of this
folder, which run against the jar that set-up builds. The jars of both tools are locked in ``jars.lock`` and
kept in the cache of Spark's jars. Without a JDK nothing is checked, and a line says so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from common.config.settings import Settings, load_settings
from common.errors import JarError, JavaError, MedallionError
from common.java.compile_sources import reader_jar
from common.java.find_java import USUAL_FOLDERS, find_java
from common.java.jar_cache import require
from tests.java.locked_jars import locked_jars

TESTS = Path(__file__).parent
SOURCES = TESTS.parents[1] / "common" / "java" / "sources"
RELEASE = 17

LINT = (
    # Manifests of Spark's jars name jars that Spark does not ship.
    "-Xlint:all,-path",
    "-Werror",
    "-proc:none",
)
_STEADY = ("--skip-reflowing-long-strings",)  # a second run would reflow them again
_COMPILER_PACKAGES = ("api", "code", "file", "parser", "tree", "util")


def main() -> None:
    """Run the verb; exit 1 where something is to be mended."""
    verb = sys.argv[1] if sys.argv[1:] else ""
    if verb not in {"check", "format"}:
        sys.exit("usage: python -m tests.java check|format")
    settings = load_settings()
    jdk = next(_jdks(settings), None)
    if jdk is None:
        sys.stdout.write(f"Java is not checked: no JDK of {RELEASE} or newer (javac) on this machine.\n")
        return
    try:
        _formatted(settings, jdk, write=verb == "format")
        if verb == "check":
            _compiled_and_tested(settings, jdk)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    except MedallionError as error:
        sys.exit(str(error))


def _jdks(settings: Settings) -> Iterator[Path]:
    """Homes with a javac of the release or newer: the engine's Java, PATH, the usual folders."""
    homes: list[Path] = []
    with contextlib.suppress(JavaError):
        homes.append(find_java(settings).home)
    if on_path := shutil.which("javac"):
        homes.append(Path(on_path).resolve().parents[1])
    for pattern in USUAL_FOLDERS:
        root, _, rest = str(Path(pattern).expanduser()).partition("*")
        homes += sorted(Path(root).parent.glob(f"{Path(root).name}*{rest}") if root else ())
    for home in dict.fromkeys(homes):
        javac = home / "bin" / "javac"
        if not os.access(javac, os.X_OK):
            continue
        said = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
        found = re.search(r"javac (\d+)", said.stdout + said.stderr)
        if found and int(found[1]) >= RELEASE:
            yield home


def _formatted(settings: Settings, jdk: Path, *, write: bool) -> None:
    tools = locked_jars(settings, "java-formatter")
    opened = [f"jdk.compiler/com.sun.tools.javac.{name}" for name in _COMPILER_PACKAGES]
    exports = [f"--add-exports={package}=ALL-UNNAMED" for package in opened]
    way = ["--replace"] if write else ["--dry-run", "--set-exit-if-changed"]
    done = _run(
        [jdk / "bin" / "java", *exports, "-cp", _path(tools)],
        [
            "com.google.googlejavaformat.java.Main",
            "--aosp",
            *_STEADY,
            *way,
            *_java(SOURCES),
            *_java(TESTS.parent),
        ],
        check=write,
    )
    if done.returncode != 0:
        sys.stdout.write("The Java files above are not formatted: make fmt\n")
        raise subprocess.CalledProcessError(done.returncode, done.args)


def _compiled_and_tested(settings: Settings, jdk: Path) -> None:
    beside = [*sorted(_spark_jars()), *require(settings, "spark")]
    junit = locked_jars(settings, "java-test")
    product = reader_jar(settings)
    javac: list[str | Path] = [jdk / "bin" / "javac", *LINT, "--release", str(RELEASE)]
    with tempfile.TemporaryDirectory() as scratch:
        linted, tests = Path(scratch) / "sources", Path(scratch) / "tests"
        _run([*javac, "-cp", _path(beside), "-d", linted], _java(SOURCES))
        _run([*javac, "-cp", _path([product, *junit, *beside]), "-d", tests], _java(TESTS))
        # Spark's access to memory, as it starts its own JVM.
        opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("nio", "lang", "util")]
        _run(
            [jdk / "bin" / "java", *opened, "-cp", _path([tests, product, *junit, *beside])],
            ["org.junit.platform.console.ConsoleLauncher", "execute"],
            [f"--scan-class-path={tests}", "--fail-if-no-tests"],
            ["--disable-banner", "--details=summary", "--exclude-engine=junit-vintage"],
        )


def _run(*command: Iterable[str | Path], check: bool = True) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(word) for part in command for word in part], check=check)


def _java(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.java"))


def _path(jars: Iterable[Path]) -> str:
    return os.pathsep.join(map(str, jars))


def _spark_jars() -> Iterator[Path]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("pyspark is not installed: make setup")
    return (Path(spec.origin).parent / "jars").glob("*.jar")


if __name__ == "__main__":
    main()
