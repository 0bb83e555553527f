"""Jars that only tests use, locked in ``jars.lock`` beside this file, in the cache of Spark's jars."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from common.config.settings import Settings
from common.errors import JarError
from common.java.find_java import find_java
from common.java.ivy import Ivy, failure_lines
from common.java.jar_cache import cache_dir
from common.java.jar_lock import Jar, read_lock

LOCK = Path(__file__).with_name("jars.lock")


def locked_jars(settings: Settings, name: str) -> list[Path]:
    """The locked jars of a set, every one verified; what is missing or altered is fetched first.

    Raises:
        JarError: A jar cannot be fetched, or is not the locked one.
    """
    folder = cache_dir(settings) / name
    jars = [jar for jar in read_lock(LOCK) if jar.set == name]
    wanted = [jar for jar in jars if jar.state_of(folder / jar.file_name) != "ok"]
    if wanted:
        folder.mkdir(parents=True, exist_ok=True)
        _fetch(settings, wanted, folder)
    return [folder / jar.file_name for jar in jars]


def _fetch(settings: Settings, wanted: Sequence[Jar], folder: Path) -> None:
    log = folder / "fetch.log"
    log.write_text("")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        ivy = Ivy(find_java(settings), settings.jars.ivy_settings, log)
        list(ivy.retrieve([jar.coordinate for jar in wanted], Path(scratch)))
        for jar in wanted:
            files = Path(scratch).rglob(jar.file_name)
            found = next((file for file in files if jar.state_of(file) == "ok"), None)
            if found is None:
                words = "".join(f"\n  {line}" for line in [f"From {log}:", *failure_lines(log)])
                raise JarError(f"{jar.coordinate} cannot be fetched, or is not the locked one.{words}")
            found.replace(folder / jar.file_name)
