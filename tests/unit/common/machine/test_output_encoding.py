"""Output where the encoding lacks a character: no error, and JSON keeps its values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

_PRINTS = """
import sys
from common.machine.output_encoding import substitute_unknown_characters
substitute_unknown_characters(is_data=sys.argv[1] == "data")
sys.stdout.write(sys.argv[2])
"""


def printed(kind: str, text: str, encoding: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", _PRINTS, kind, text],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": encoding, "PYTHONPATH": str(ROOT)},
    )
    return done.stdout


def test_data_is_the_same_json_in_every_encoding() -> None:
    values = ["é…→", "\N{GRINNING FACE}", "plain"]
    text = json.dumps(values, ensure_ascii=False)
    assert json.loads(printed("data", text, "ascii")) == values
    assert json.loads(printed("data", text, "latin-1").decode("latin-1")) == values
    assert printed("data", text, "utf-8") == text.encode()


def test_signs_of_tables_keep_their_width() -> None:
    assert printed("page", "● silver ── 3 é", "ascii") == b"* silver -- 3 \\u00e9"
    assert printed("page", "● silver ── 3 é", "utf-8") == "● silver ── 3 é".encode()


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "encoding"),
    [
        (["status"], "ascii"),
        (["query"], "latin-1"),
        pytest.param(["check"], "ascii", marks=pytest.mark.long),
        pytest.param(["--help"], "ascii", marks=pytest.mark.long),
        pytest.param(["status"], "latin-1", marks=pytest.mark.long),
        pytest.param(["query"], "ascii", marks=pytest.mark.long),
        pytest.param(["check"], "latin-1", marks=pytest.mark.long),
        pytest.param(["--help"], "latin-1", marks=pytest.mark.long),
    ],
)
def test_commands_print_in_any_encoding(tmp_path: Path, words: list[str], encoding: str) -> None:
    place = [] if words == ["--help"] else ["-p", str(ROOT / "examples/earthquakes/pipeline.py")]
    place += [] if words == ["--help"] else ["--set", f"data_dir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "orchestration", *words, *place],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": encoding, "LC_ALL": "C"},
    )
    assert b"Traceback" not in done.stderr, done.stderr
    assert (done.returncode, bool(done.stdout)) == (0, True)


def test_a_full_disk_behind_the_output_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "orchestration", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert "Traceback" not in done.stderr
    assert "(No space left on device)" in done.stderr
    assert done.returncode == 1
