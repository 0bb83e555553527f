"""The command line's edge: exit codes that scripts can rely on, and no traceback for a user's mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["chekc"], "check"),
        (["status", "--no-such-option"], "--no-such-option"),
        (["run"], "layer"),
        (["run", "brass"], "brass"),
        (["check", "--set", "kafka.prt=1"], "kafka.port"),
        (["check", "-p", "nowhere.py"], "nowhere.py"),
    ],
)
def test_a_usage_mistake_is_exit_code_2_and_no_traceback(words: list[str], told: str) -> None:
    """Named, with what is right where that is known."""
    done = subprocess.run(
        [sys.executable, "-m", "orchestration", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_data_dir_that_cannot_be_made_is_told_in_words(tmp_path: Path) -> None:
    """It names the folder and the setting."""
    (tmp_path / "file").touch()
    done = subprocess.run(
        [sys.executable, "-m", "orchestration", "backfill", "--set", f"data_dir={tmp_path / 'file'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "data_dir" in done.stderr
    assert "Traceback" not in done.stderr
