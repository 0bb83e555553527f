"""What the documents say is true: verbs, settings, files and the README's own pipeline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from common.settings import setting_names
from common.settings_page import reference
from orchestration.check import check
from orchestration.cli import app
from orchestration.load import load_pipeline

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The README's code blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_page_of_settings_is_in_step() -> None:
    """Written by `python -m common.settings_page > docs/settings.md`."""
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page == reference()
    assert all(line.rsplit("|", 2)[1].strip() for line in page.splitlines() if line.startswith("| `"))


def test_every_setting_the_readme_names_exists() -> None:
    """In `--set key=value`."""
    named = set(re.findall(r"--set ([a-z_.]+)=", README))
    assert named
    assert named <= set(setting_names())


def test_the_readme_lists_exactly_the_verbs_there_are() -> None:
    """No verb without a line, no line without a verb."""
    command = typer.main.get_command(app)
    verbs = set(command.list_commands(None))  # type: ignore[attr-defined, arg-type]  # typer hands out a click group
    table = set(re.findall(r"^\| `medallion ([a-z]+)", README, flags=re.MULTILINE))
    assert table == verbs


@pytest.mark.parametrize("text", [README, ARCHITECTURE], ids=["README", "architecture"])
def test_files_that_the_documents_name_exist(text: str) -> None:
    """Links, and paths in backquotes."""
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    paths = re.findall(r"`((?:common|bronze|silver|gold|orchestration|tests|docs|examples)/[\w./-]*)`", text)
    base = ROOT / "docs" if text is ARCHITECTURE else ROOT
    assert [link for link in links if not (base / link).exists()] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_readmes_pipeline_has_no_problem(tmp_path: Path) -> None:
    """It is what people copy first."""
    (source,) = blocks("python")
    file = tmp_path / "shop.py"
    file.write_text(source, encoding="utf-8")
    pipeline = load_pipeline(file)
    assert check(pipeline) == ()
    assert [table.table for table in pipeline.tables] == [
        "bronze.orders",
        "silver.orders",
        "gold.revenue_by_currency",
        "gold.latest_order_by_customer",
    ]
