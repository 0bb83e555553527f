"""The archive of Spark's classes: used where it is, missed by nobody where it is not."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from common.config.settings import Settings
from common.java.find_java import Java
from common.java.sealed_file import seal
from common.machine import processes
from common.spark import class_archive

JARS = (Path("/jars/a.jar"), Path("/jars/b.jar"))


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """A Java that is a shell script: whatever it is told, it fails."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin" / "java").chmod(0o755)
    return Java(home, 17, "setting java_home")


def test_without_an_archive_the_jvm_is_told_nothing(java: Java) -> None:
    assert class_archive.jvm_options(java, JARS) == []


def test_an_archive_is_of_one_java_and_one_class_path(java: Java) -> None:
    file = class_archive.archive_file(java, JARS)
    file.parent.mkdir(parents=True)
    file.touch()
    seal(file)
    assert f"-XX:SharedArchiveFile={file}" in class_archive.jvm_options(java, JARS)
    assert class_archive.jvm_options(java, JARS[:1]) == []
    assert class_archive.jvm_options(java, tuple(reversed(JARS))) == []
    (java.home / "bin" / "java").write_text("#!/bin/sh\nexit 2\n")
    assert class_archive.jvm_options(java, JARS) == []


def test_an_archive_is_of_one_environment_and_of_unchanged_jars(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM refuses, without a message, an archive of jars at another place or of another time."""
    found = []
    for environment in ("one", "two"):
        jars = tmp_path / environment / "pyspark" / "jars"
        jars.mkdir(parents=True)
        (jars / "spark-core.jar").write_bytes(b"core")
        (jars.parent / "__init__.py").touch()
        monkeypatch.syspath_prepend(str(tmp_path / environment))
        monkeypatch.delitem(sys.modules, "pyspark", raising=False)
        importlib.invalidate_caches()
        found.append(class_archive.archive_file(java, JARS))
    upgraded = jars / "spark-core.jar"
    os.utime(upgraded, (1, 1))
    found.append(class_archive.archive_file(java, JARS))
    assert len(set(found)) == 3
    places = [file.name.partition("-")[0] for file in found]
    assert places[0] != places[1] == places[2]  # an archive of the jars before the upgrade is removed


def test_an_archive_that_is_there_is_not_made_again(java: Java) -> None:
    file = class_archive.archive_file(java, JARS)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"classes")
    seal(file)
    assert class_archive.create_archive(Settings(), java, JARS) == file
    assert file.read_bytes() == b"classes"


def test_an_archive_that_is_cut_or_changed_is_not_used_and_made_anew(java: Java) -> None:
    file = class_archive.archive_file(java, JARS)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"classes")
    seal(file)
    file.write_bytes(b"classe")
    assert class_archive.jvm_options(java, JARS) == []
    assert class_archive.create_archive(Settings(java_home=java.home), java, JARS) is None
    assert file.with_suffix(".log").is_file()  # of the Java that was started for it, and makes none


def test_a_java_that_makes_none_leaves_only_what_it_said(java: Java) -> None:
    settings = Settings(java_home=java.home)
    assert class_archive.create_archive(settings, java, JARS) is None
    assert [file.suffix for file in class_archive.archive_file(java, JARS).parent.iterdir()] == [".log"]
    assert class_archive.jvm_options(java, JARS) == []


def test_a_recording_that_takes_too_long_leaves_why_and_no_process(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "_RECORD_SECONDS", 0.5)
    run = tmp_path / "run"
    run.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {tmp_path / 'pid'}\nwait\n")
    run.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(run))
    assert class_archive.create_archive(Settings(java_home=java.home), java, JARS) is None
    (log,) = class_archive.archive_file(java, JARS).parent.iterdir()
    assert "timed out after 0.5 seconds" in log.read_text()
    started = processes.command_line(int((tmp_path / "pid").read_text()))
    assert "sleep" not in started
