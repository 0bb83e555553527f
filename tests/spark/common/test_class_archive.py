"""The class archive that set-up creates is the one that Spark's JVM uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest

from common.config.settings import Settings
from common.java.compile_sources import reader_jar
from common.java.find_java import find_java
from common.java.jar_cache import require
from common.java.sealed_file import state_of
from common.spark import class_archive


def test_the_jvm_maps_the_archive(spark: Any) -> None:
    """A JVM that refuses an archive says nothing, unmaps the file, and starts five seconds later."""
    settings = Settings()
    class_path = (*require(settings, "spark"), reader_jar(settings))
    file = class_archive.archive_file(find_java(settings), class_path)
    if state_of(file) != "ok":
        pytest.skip("no class archive on this machine: `medallion setup` creates it")
    [jvm] = [child for child in psutil.Process().children(recursive=True) if _maps(child, file)]
    assert jvm.name() == "java"
    assert spark.range(1).count() == 1


def _maps(process: psutil.Process, file: Path) -> bool:
    try:
        return any(Path(mapped.path) == file for mapped in process.memory_maps())
    except psutil.Error:
        return False
