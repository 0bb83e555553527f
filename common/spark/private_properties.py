"""Passes Spark's settings to its JVM by a file that only this user may read.

PySpark would pass each setting as ``--conf name=value``: the command line of a process is readable by every
user of the machine, and a setting may be a password.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_PROPERTIES_FILE = "--properties-file"


@contextmanager
def submitted_by_file(conf: Mapping[str, str]) -> Iterator[None]:
    """Have PySpark launch its JVM with a properties file inside the block; the file is deleted at the end.

    Args:
        conf: The settings. Arguments of the user's own ``PYSPARK_SUBMIT_ARGS`` still count.
    """
    before = os.environ.get(_ARGUMENTS)
    arguments = shlex.split(before or "pyspark-shell")
    descriptor, name = tempfile.mkstemp(prefix="medallion-spark-", suffix=".conf")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_without_properties_file(arguments))
            file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in conf.items())
        given = [_PROPERTIES_FILE, name, "--load-spark-defaults", *arguments]
        os.environ[_ARGUMENTS] = shlex.join(given)
        yield
    finally:
        if before is None:
            os.environ.pop(_ARGUMENTS, None)
        else:
            os.environ[_ARGUMENTS] = before
        Path(name).unlink(missing_ok=True)


def _without_properties_file(arguments: list[str]) -> str:
    """Take the user's own properties file out of the arguments, and return its text: Spark reads one file."""
    if _PROPERTIES_FILE not in arguments:
        return ""
    place = arguments.index(_PROPERTIES_FILE)
    text = Path(arguments[place + 1]).read_text(encoding="utf-8")
    del arguments[place : place + 2]
    return f"{text}\n"


def _escaped(text: str) -> str:
    """A key or value as a Java properties file has it."""
    return "".join(
        letter
        if letter.isascii() and (letter.isalnum() or letter in "._-/,[]+<>(){}@")
        else "".join(f"\\u{unit:04x}" for unit in _utf16(letter))
        for letter in text
    )


def _utf16(letter: str) -> Iterator[int]:
    encoded = letter.encode("utf-16-be", errors="surrogatepass")
    yield from (int.from_bytes(encoded[at : at + 2], "big") for at in range(0, len(encoded), 2))
