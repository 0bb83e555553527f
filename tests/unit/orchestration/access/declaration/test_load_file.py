"""A pipeline file is read into its one value; whatever is wrong with the file is told with file and line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from common.errors import PipelineError, UsageError
from orchestration.access.declaration.load_file import load_draft, load_pipeline

GOOD = 'from common.declare import Pipeline, Topic\n\npipeline = Pipeline("p", bronze=[Topic("a")])\n'


def written(folder: Path, text: str, name: str = "pipeline.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def problem(path: Path) -> tuple[str, str]:
    """Where, and what."""
    with pytest.raises(PipelineError) as caught:
        load_pipeline(path)
    (only,) = caught.value.problems
    return only.source, only.message


def test_the_value_named_pipeline_is_the_pipeline(tmp_path: Path) -> None:
    assert load_pipeline(written(tmp_path, GOOD)).name == "p"


def test_modules_beside_the_file_can_be_imported_and_the_path_is_as_before(tmp_path: Path) -> None:
    written(tmp_path, "NAME = 'beside'\n", "load_test_neighbour.py")
    before = list(sys.path)
    text = GOOD.replace('"p"', "load_test_neighbour.NAME")
    assert load_pipeline(written(tmp_path, f"import load_test_neighbour\n{text}")).name == "beside"
    assert sys.path == before


def test_two_files_of_one_name_are_two_pipelines(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = load_pipeline(written(tmp_path / "a", GOOD.replace('"p"', '"first"')))
    second = load_pipeline(written(tmp_path / "b", GOOD.replace('"p"', '"second"')))
    assert (first.name, second.name) == ("first", "second")


def test_a_pipeline_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is in the folder is named to the user, and not taken unasked."""
    monkeypatch.chdir(tmp_path)
    ways = (
        "Type -p {0}; or write the line pipeline: {0} into medallion.yaml, or set MEDALLION_PIPELINE={0}, "
        "for every command."
    )
    with pytest.raises(UsageError) as caught:
        load_pipeline(None)
    assert str(caught.value) == f"No pipeline file is given. {ways.format('path/to/pipeline.py')}"
    (tmp_path / "pipeline.py").write_text(GOOD, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_pipeline(None)
    assert str(caught.value) == (
        f"No pipeline file is given, and this folder has a pipeline.py. {ways.format('pipeline.py')}"
    )


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    near = written(tmp_path, GOOD)
    with pytest.raises(UsageError) as caught:
        load_pipeline(tmp_path / "pipelin.py")
    assert str(caught.value) == f"{tmp_path}/pipelin.py: no such pipeline file; did you mean {str(near)!r}?"


def test_a_file_that_is_no_python_is_refused_in_words(tmp_path: Path) -> None:
    path = written(tmp_path, "name: p\n", "pipeline.yaml")
    with pytest.raises(UsageError, match="not a Python file"):
        load_pipeline(path)


def test_a_syntax_error_is_told_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "x = 1\ny = (\n")
    assert problem(path) == (f"{path}:2:5", "is not valid Python: '(' was never closed")


def test_an_error_of_the_users_code_is_told_with_the_line_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "import json\n\njson.loads('{')\n")
    source, message = problem(path)
    assert source == f"{path}:3"
    assert message.startswith("raised JSONDecodeError: ")


def test_a_file_that_ends_the_process_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, "import sys\nsys.exit(3)\n")
    assert problem(path) == (f"{path}:2", "raised SystemExit: 3")


def test_a_wrong_declaration_keeps_its_own_problem(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace('Topic("a")', 'Topic("a", topics=[])'))
    source, message = problem(path)
    assert source == f"{path}:3"
    assert message == "topics: is empty; name at least one (got [])"


def test_a_file_without_a_pipeline_says_what_to_write(tmp_path: Path) -> None:
    path = written(tmp_path, "x = 1\n")
    assert problem(path) == (
        str(path),
        "holds no value named 'pipeline'; end the file with pipeline = Pipeline(…)",
    )


def test_a_pipeline_of_another_name_is_pointed_at(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("pipeline =", "orders ="))
    assert problem(path)[1] == "holds no value named 'pipeline'; 'orders' is one: name it 'pipeline'"


def test_reading_a_pipeline_that_removes_its_own_folder_from_the_path_does_no_harm(tmp_path: Path) -> None:
    text = f"import sys\nsys.path.remove({str(tmp_path)!r})\n{GOOD}"
    assert load_pipeline(written(tmp_path, text)).name == "p"


def test_a_pipeline_file_may_have_dataclasses_of_its_own(tmp_path: Path) -> None:
    own = "@dataclass\nclass Station:\n    code: str\n\n"
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    path = written(tmp_path, head + GOOD.replace("pipeline =", own + "pipeline ="))
    assert load_pipeline(path).name == "p"


def test_a_file_with_a_null_byte_is_named(tmp_path: Path) -> None:
    """Python says neither file nor line of it."""
    file = tmp_path / "shop.py"
    file.write_bytes(b"pipeline = '\0'")
    (problem,) = load_draft(file).problems
    assert problem.source.startswith(str(file))
