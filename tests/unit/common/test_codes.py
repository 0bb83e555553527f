"""Every mistake and every error has a code, and every code an entry."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from common import errors
from common.codes import CODES, code_of
from common.errors import UNNAMED, Fault, PipelineError, Problem, SettingsError, TableMissingError
from distribution.pages import errors_reference

ROOT = Path(__file__).parents[3]
PARTS = ("common", "orchestration")
SENTENCES = [
    *(ROOT / "orchestration" / "author" / "check").glob("*.py"),
    *(ROOT / "common" / "declare").glob("*.py"),
]
NO_SENTENCES = {"notes.py", "explain.py", "locate.py", "fix.py", "visible_columns.py", "declared.py"}


def test_the_page_of_errors_is_in_step() -> None:
    """Written by `python -m distribution.pages.errors_reference > docs/reference/errors.md`."""
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert page == errors_reference.reference()
    assert re.findall(r"^- (MED-\d{4}): \S.* \*\S", page, flags=re.MULTILINE) == sorted(CODES)


def test_each_class_of_errors_has_one_code() -> None:
    kinds = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.MedallionError)
    }
    assert sorted(each.error for each in CODES.values() if each.error) == sorted(kinds - {"MedallionError"})


def test_each_code_in_the_source_is_registered_and_each_of_a_mistake_is_used() -> None:
    source = "".join(
        file.read_text(encoding="utf-8")
        for part in PARTS
        for file in (ROOT / part).rglob("*.py")
        if file.name != "codes.py"
    )
    used = set(re.findall(r"\"(MED-\d{4})\"", source))
    assert used <= set(CODES)
    assert {code for code, each in CODES.items() if not each.error} <= used


@pytest.mark.parametrize("file", sorted(SENTENCES), ids=lambda file: file.name)
def test_each_sentence_of_a_mistake_has_a_code(file: Path) -> None:
    """What a check yields as a sentence is a `Fault`."""
    if file.name in NO_SENTENCES:
        return
    bare = [
        (node.lineno, ast.unparse(node.value))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Yield) and isinstance(node.value, ast.Constant | ast.JoinedStr | ast.BinOp)
        if " " in ast.unparse(node.value)
    ]
    assert bare == []


def test_the_code_of_an_error_is_that_of_its_mistake_or_of_its_class() -> None:
    one = Problem("silver.s", Fault("MED-1202", "key 'a' is no column of silver.s"))
    assert code_of(PipelineError([one])) == "MED-1202"
    assert code_of(PipelineError([one, one])) == "MED-1100"
    assert code_of(SettingsError("environment dev: there is no such file")) == "MED-1500"
    assert code_of(TableMissingError("gold.g", "/x", "Start it.")) == "MED-3003"
    assert Problem("silver.s", "a sentence without a code").code == UNNAMED
