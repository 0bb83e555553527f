"""The pytest plugin collects files of cases without Spark, and names their mistakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[5]

CONFTEST = """
import sys

def pytest_collection_finish(session):
    print("spark loaded:", "pyspark" in sys.modules)
"""

CASES = """cases:
- name: one
  messages: [{id: a}]
  expect: {silver.orders: none}
- name: two
  messages: []
  expect: {silver.orders: none}
"""


def collect(folder: Path) -> str:
    """What ``pytest --collect-only`` prints in a project whose pytest has the plugin."""
    (folder / "conftest.py").write_text(CONFTEST)
    words = (
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-p",
        "orchestration.author.cases.pytest_plugin",
        str(folder),
    )
    environment = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout


def test_each_case_of_a_file_is_a_test_and_collecting_loads_no_spark(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "shop.cases.yaml").write_text(CASES)
    (tmp_path / "other.yaml").write_text("x: 1\n")
    lines = collect(tmp_path).splitlines()
    assert lines[:2] == ["shop.cases.yaml::one", "shop.cases.yaml::two"]
    assert "spark loaded: False" in lines
    (tmp_path / "shop.cases.yaml").write_text(CASES.replace("expect", "expekt", 1))
    text = collect(tmp_path)
    assert "shop.cases.yaml:4: case 'one': 'expekt' is no part of it; did you mean 'expect'?" in text
