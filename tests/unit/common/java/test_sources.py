"""The Java sources: what an editor and a JDK are told of them is what the engine runs."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from common.java import compile_sources
from common.java.jar_lock import locked, read_lock

ROOT = Path(__file__).parents[4]
SOURCES = ROOT / "common" / "java" / "sources"
TESTS = ROOT / "tests" / "java"
MAVEN = "{http://maven.apache.org/POM/4.0.0}"


def dependencies() -> Iterator[tuple[str, str, str]]:
    pom = ET.parse(ROOT / "common" / "java" / "pom.xml")  # noqa: S314  # our own file
    for each in pom.iter(f"{MAVEN}dependency"):
        group, artifact, named = (
            each.findtext(f"{MAVEN}{name}") for name in ("groupId", "artifactId", "version")
        )
        yield str(group), str(artifact), str(named)


def test_the_pom_names_the_locked_versions() -> None:
    known = {
        (jar.group, jar.artifact): jar.version for jar in (*read_lock(TESTS / "jars.lock"), *locked("spark"))
    }
    known["org.apache.spark", "spark-sql_2.13"] = version("pyspark")
    found = {(group, artifact): named for group, artifact, named in dependencies()}
    assert len(found) == 3
    assert found == {name: known[name] for name in found}


def test_the_pom_names_the_folders_of_sources_and_tests() -> None:
    pom = ROOT / "common" / "java" / "pom.xml"
    build = ET.parse(pom).getroot().find(f"{MAVEN}build")  # noqa: S314  # our own file
    assert build is not None
    for name, folder in (("sourceDirectory", SOURCES), ("testSourceDirectory", TESTS)):
        assert (pom.parent / str(build.findtext(f"{MAVEN}{name}"))).resolve() == folder


def test_a_package_is_its_folder_and_no_folder_has_many_files() -> None:
    files = [*SOURCES.rglob("*.java"), *TESTS.rglob("*.java")]
    for file in files:
        root = SOURCES if file.is_relative_to(SOURCES) else TESTS
        (package,) = re.findall(r"^package ([\w.]+);$", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert package == ".".join(file.parent.relative_to(root).parts)
    for folder in {file.parent for file in files}:
        assert len(list(folder.iterdir())) <= 15


def test_the_jar_is_made_of_all_sources() -> None:
    assert set(compile_sources._sources()) == {
        file.relative_to(SOURCES).as_posix() for file in SOURCES.rglob("*.java")
    }


def test_without_a_jdk_a_line_says_that_java_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual folders are those of this machine, so that they are named anew in the child."""
    code = (
        "import sys; from common.java import find_java; from tests.java import __main__ as tool; "
        "find_java.USUAL_FOLDERS = tool.USUAL_FOLDERS = (); sys.argv = ['tests.java', 'check']; tool.main()"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "Java is not checked: no JDK of 17 or newer (javac) on this machine.\n"
