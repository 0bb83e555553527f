"""``medallion new`` writes a pipeline without a mistake; its tests run in ``test_cases.py``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.cases.problems import case_problems
from orchestration.author.cases.read.load import find_files, load_files
from orchestration.author.check.pipeline import check
from tests.support import in_process

EXAMPLES = ("events", "changes", "files")
OF_ALL = {".gitignore", "README.md", "medallion.yaml", "pipeline.cases.yaml", "pipeline.py"}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_files_of_each_example_have_no_mistake(example: str) -> None:
    ended = in_process.run("new", "my_orders", "--example", example, "--json")
    assert (ended.code, ended.stderr) == (0, "")
    written = {file.as_posix() for file in Path().rglob("*") if file.is_file()}
    assert set(json.loads(ended.stdout)["files"]) == written
    assert written > OF_ALL
    checked = in_process.run("check")
    assert checked.code == 0, checked.stdout
    assert "my_orders" in checked.stdout
    pipeline = load_pipeline(Path("pipeline.py"))
    assert (pipeline.name, check(pipeline)) == ("my_orders", ())
    cases = load_files(find_files(Path("pipeline.py")))
    assert cases.problems == ()
    assert len(cases.cases) >= 2
    assert case_problems(cases.cases, pipeline) == ()
    assert Path("README.md").read_text().startswith("# my_orders\n")


def test_no_file_is_overwritten() -> None:
    Path("pipeline.py").write_text("mine")
    ended = in_process.run("new", "shop")
    assert ended.code == 2
    assert "pipeline.py already" in ended.error
    assert [file.name for file in Path().iterdir()] == ["pipeline.py"]
    assert Path("pipeline.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "proposed"), [("My Shop", "try my_shop"), ("2shops", "try shops"), ("!", "underscores")]
)
def test_a_name_that_no_pipeline_can_have_is_refused_and_one_proposed(name: str, proposed: str) -> None:
    ended = in_process.run("new", name)
    assert ended.code == 2
    assert ended.error.endswith(proposed)
    assert list(Path().iterdir()) == []
