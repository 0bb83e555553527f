"""``medallion init`` from a file: the pipeline file, and the settings file by which it is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import in_process

LINES = "".join(
    json.dumps({"id": f"o{number}", "amount": number, "at": f"2026-03-0{number % 9 + 1}T10:00:00Z"}) + "\n"
    for number in range(40)
)


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.jsonl").write_text(LINES)


def test_an_empty_folder_gets_a_settings_file_by_which_the_next_commands_need_no_option() -> None:
    ended = in_process.run("init", "--from-file", "mine.jsonl")
    assert ended.code == 0, ended.stderr
    said = ended.stdout + ended.stderr
    assert "written: pipeline.py, medallion.yaml." in said
    assert [line for line in said.splitlines() if line.startswith("  medallion ")] == [
        "  medallion check",
        "  medallion up",
        "  medallion produce --from-file mine.jsonl",
    ]
    checked = in_process.run("check")
    assert (checked.code, "silver.mine" in checked.stdout) == (0, True)


@pytest.mark.parametrize(
    ("settings", "words"), [("pipeline: pipeline.py\n", ""), ("# nothing\n", " -p pipeline.py")]
)
def test_a_settings_file_that_is_there_stays_as_it_is(settings: str, words: str) -> None:
    Path("medallion.yaml").write_text(settings)
    ended = in_process.run("init", "--from-file", "mine.jsonl", "--json")
    assert json.loads(ended.stdout)["files"] == ["pipeline.py"]
    assert Path("medallion.yaml").read_text() == settings
    again = in_process.run("init", "--from-file", "mine.jsonl", "--force")
    assert f"  medallion check{words}\n" in again.stdout + again.stderr


def test_the_tests_of_a_former_file_are_named() -> None:
    assert in_process.run("new", "shop").code == 0
    ended = in_process.run("init", "--from-file", "mine.jsonl", "--force")
    assert "pipeline.cases.yaml has tests of the file that was there before" in ended.stdout + ended.stderr
