"""The wheel has the data that code reads beside itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[3]
NOT_READ = {"py.typed", "pom.xml"}
"""setuptools adds the first by itself; the second is only read where the jars are locked."""


@pytest.mark.parametrize("package", ["common", "bronze", "silver", "gold", "orchestration"])
def test_every_data_file_beside_the_code_is_in_the_wheel(package: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"].get(package, ())
    packed = {path for pattern in patterns for path in (ROOT / package).glob(pattern)}
    files = (path for path in (ROOT / package).rglob("*") if path.is_file() and path.name not in NOT_READ)
    data = {path for path in files if path.suffix not in {".py", ".pyc"}}
    assert data - packed == set()
