"""PySpark's private handles on the JVM are used in one module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("common", "bronze", "silver", "gold", "orchestration")
HANDLES = re.compile(
    r"\._(jvm|jc|jdf|jsc|jsq|jsqm|jrdd|jreader|jwrite|jsparkSession|gateway|ensure_initialized)\b"
)
HOME = "common/spark/jvm.py"


def users() -> set[str]:
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return {str(file.relative_to(ROOT)) for file in files if HANDLES.search(file.read_text(encoding="utf-8"))}


def test_the_private_handles_are_used_in_one_module() -> None:
    assert users() == {HOME}


@pytest.mark.parametrize("line", ["spark._jvm.java", "frame._jdf.queryExecution()", "column._jc", "x._jsqm"])
def test_a_use_is_found(line: str) -> None:
    assert HANDLES.search(line)
