"""The statements that Spark documents for its functions, read from its class files without a JVM."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark

from common.sql.functions import FUNCTIONS

_SQL = re.compile(r"^\s*> (SELECT.*?);\s*$", re.MULTILINE | re.DOTALL | re.IGNORECASE)
_SIZES = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
"""Bytes of each kind of constant in a class file, besides its kind; a text has its own length."""


def documented_statements() -> tuple[str, ...]:
    """Each documented statement once, in the order of their texts."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-catalyst_*.jar")
    found: set[str] = set()
    with zipfile.ZipFile(jar) as classes:
        for name in classes.namelist():
            if "/expressions/" in name and name.endswith(".class") and "$" not in name:
                content = classes.read(name)
                if b"> SELECT" in content:
                    function = _function(name)
                    texts = (text for constant in _texts(content) for text in _SQL.findall(constant))
                    found |= {text.replace("_FUNC_", function) for text in texts}
    return tuple(sorted(found))


def _function(name: str) -> str:
    """A function's name by that of its class, where it is told by it; else any function's."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", Path(name).stem.removesuffix("ExpressionBuilder")).lower()
    return next((each for each in (words, words.replace("_", "")) if each in FUNCTIONS), "coalesce")


def _texts(content: bytes) -> Iterator[str]:
    """The texts among the constants of a class file."""
    (count,) = struct.unpack_from(">H", content, 8)
    at, number = 10, 1
    while number < count:
        kind = content[at]
        if kind == 1:
            (length,) = struct.unpack_from(">H", content, at + 1)
            yield content[at + 3 : at + 3 + length].decode(errors="replace")
            at += 3 + length
        else:
            at += 1 + _SIZES[kind]
        number += 2 if kind in {5, 6} else 1
