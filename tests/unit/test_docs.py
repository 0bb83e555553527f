"""What the documents say is true: verbs, settings, files and the README's own pipeline."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import pytest
import typer.main

import common.declare
from common.config.settings import setting_names
from common.declare import Aggregate, Upsert
from common.declare.gold_statement import statement_of
from distribution.pages import commands_reference, declarations_reference
from distribution.pages.settings_reference import reference
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.cases.problems import case_problems
from orchestration.author.cases.read.load import find_files, load_files
from orchestration.author.check.pipeline import check
from orchestration.cli.main import app
from tests.support.oracles.protobuf import REFUND, descriptors

pytestmark = pytest.mark.check

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
GOLD = (ROOT / "docs" / "author" / "gold.md").read_text(encoding="utf-8")
MOST_WORDS = 90_000
"""Of README.md and docs/, tables and code included."""


def blocks(language: str) -> list[str]:
    """The README's code blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_page_of_settings_is_in_step() -> None:
    """Written by `python -m distribution.pages.settings_reference > docs/install/settings.md`."""
    page = (ROOT / "docs" / "install" / "settings.md").read_text(encoding="utf-8")
    assert page == reference()
    items = re.findall(r"^- `([\w.]+)`(?: = `[^`]*`)?: \S", page, flags=re.MULTILINE)
    groups = {name.rpartition(".")[0] for name in setting_names()}
    assert set(items) >= set(setting_names()) - groups


def test_the_page_of_commands_and_options_is_in_step() -> None:
    """Written by `python -m distribution.pages.commands_reference > docs/reference/commands.md`."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert page == commands_reference.reference()
    command = typer.main.get_command(app)
    assert set(re.findall(r"^### ([\w-]+)", page, flags=re.MULTILINE)) == set(command.list_commands(None))  # type: ignore[attr-defined, arg-type]


def test_the_page_of_declarations_is_in_step() -> None:
    """Written by `python -m distribution.pages.declarations_reference > docs/author/declarations.md`."""
    page = (ROOT / "docs" / "author" / "declarations.md").read_text(encoding="utf-8")
    assert page == declarations_reference.reference()
    assert re.findall(r"\((?:number|bool) = `\{\}`\)", page) == []
    assert declarations_reference.documented() == declarations_reference.classes()


def test_the_page_of_declarations_has_each_attribute_with_type_and_meaning() -> None:
    """By the classes, which the page is not read from: it is made of the source and its docstrings."""
    page = (ROOT / "docs" / "author" / "declarations.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^###? |\Z)", page, flags=re.DOTALL | re.MULTILINE))
    for name in declarations_reference.classes():
        items = re.findall(r"^- `(\w+)` \((.+?)\): (.+)$", sections[name], flags=re.MULTILINE)
        lists = re.findall(r"^- As for \[(\w+)\]\(#\w+\): (.+)\.$", sections[name], flags=re.MULTILINE)
        again = [(each, first) for first, texts in lists for each in re.findall(r"`(\w+)`", texts)]
        cls = getattr(common.declare, name)
        parameters = inspect.signature(cls).parameters
        shared = {one.name for one in getattr(cls, "__dataclass_fields__", {}).values() if one.metadata}
        order = sorted(parameters, key=shared.__contains__)
        required = [each for each, given in parameters.items() if given.default is inspect.Parameter.empty]
        assert sorted([item[0] for item in items] + [each for each, _ in again]) == sorted(order)
        assert [item[0] for item in items] == [each for each in order if each not in dict(again)]
        assert [item[0] for item in items if item[1].endswith("required")] == required
        assert [each for each, first in again if f"\n- `{each}` (" not in sections[first]] == []


@pytest.mark.parametrize("name", sorted(declarations_reference.classes()))
def test_each_attribute_of_a_declaration_has_a_text_that_editors_show(name: str) -> None:
    """A docstring below the attribute, of the class or of one that it is derived from."""
    kind = getattr(common.declare, name)
    attributes = set(inspect.signature(kind).parameters)
    meanings = declarations_reference.meanings_of(kind)
    assert attributes <= set(meanings)
    assert all(meanings[each].endswith(".") for each in attributes)


def test_the_example_of_the_page_of_declarations_uses_each_class_and_has_no_problem(tmp_path: Path) -> None:
    source = (ROOT / "docs" / "reference" / "each_class.py").read_text(encoding="utf-8")
    unused = [name for name in declarations_reference.classes() if not re.search(rf"\b{name}\(", source)]
    assert unused == []
    file = tmp_path / "shop.py"
    file.write_text(source, encoding="utf-8")
    (tmp_path / "refund.desc").write_bytes(descriptors(REFUND))
    assert check(load_pipeline(file)) == ()


def test_the_readme_is_read_in_a_few_minutes() -> None:
    """Everything else is a page that it links to."""
    assert len(README.split()) <= 900


def test_each_page_is_two_clicks_from_the_readme() -> None:
    """The README, or the list of pages that it links to, names it."""
    near = {ROOT / "README.md", ROOT / "docs" / "README.md"}
    links = [
        (page.parent / link).resolve()
        for page in near
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
        if "://" not in link
    ]
    assert ROOT / "docs" / "README.md" in links
    assert [page.name for page in (ROOT / "docs").rglob("*.md") if page not in {*near, *links}] == []


def test_the_documentation_has_its_budget_of_words() -> None:
    """What is told twice is told once: a commit that tells more takes something away first."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= MOST_WORDS


def test_every_setting_the_readme_names_exists() -> None:
    """In `--set key=value`."""
    named = set(re.findall(r"--set ([a-z_.]+)=", README))
    assert named
    assert named <= set(setting_names())


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made for a link."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = (re.sub(r"[^\w\- ]", "", one.lower()) for one in re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    return {heading.strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_headings_that_the_documents_link_to_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    ours = [(page.parent / file if file else page, at) for file, at in links if "://" not in file]
    assert [(file.name, at) for file, at in ours if file.suffix == ".md" and at not in anchors(file)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_the_documents_name_exist(page: Path) -> None:
    """Links, and paths in backquotes."""
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    paths = re.findall(r"`((?:common|bronze|silver|gold|orchestration|tests|docs|examples)/[\w./-]*)`", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []


def paragraphs(page: Path) -> list[str]:
    """A page's paragraphs and items of lists, without code, tables and headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    lines = (line for line in text.splitlines() if not line.startswith(("    ", "|", "#")))
    return re.split(r"\n\s*\n|\n(?=[-*] |\d+\. )", "\n".join(lines))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_paragraph_is_too_long(page: Path) -> None:
    """The changelog's items stand for a change each."""
    assert [each[:60] for each in paragraphs(page) if len(each.split()) > 120] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_page_has_text_that_is_read_as_html(page: Path) -> None:
    """A place such as <name> outside of code is not shown: it is `<name>`, or &lt;name>."""
    text = re.sub(r"`[^`]*`", "", "\n\n".join(paragraphs(page)))
    tables = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    text += re.sub(r"`[^`]*`", "", "\n".join(tables))
    assert re.findall(r"<[A-Za-z/][^>\n]*>", text) == []


def test_the_newest_dated_section_of_the_changelog_is_the_version() -> None:
    """Below the unreleased changes; every section has a date."""
    sections = re.findall(r"^## (.+)$", CHANGELOG, flags=re.MULTILINE)
    assert sections[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", section) for section in sections[1:])
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert sections[1].startswith(f"{version} - ")


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


def test_the_example_of_each_kind_of_gold_table_has_no_problem(tmp_path: Path) -> None:
    """Over silver tables with the columns that the page says."""
    (source,) = re.findall(r"```python\n(.*?)```", GOLD, flags=re.DOTALL)
    declared = re.sub(
        r"^(Aggregate|Upsert|ChangeFeed|History|Join)\(", r"tables += \1(", source, flags=re.MULTILINE
    )
    silver = """
from medallion import Json, Pipeline, Silver, Topic

class Tables(list):
    def __iadd__(self, table):
        self.append(table)
        return self

def silver(name, columns, event_time):
    key = columns.split()[0]
    return Silver(name, reads="bronze.events", value=Json(columns), key=[key], event_time=event_time,
                  watermark="1 day", columns=[column.split()[0] for column in columns.split(", ")])

tables = Tables()
"""
    end = """
pipeline = Pipeline(name="page", bronze=[Topic("events")], gold=tables, silver=[
    silver("orders", "order_id string, customer string, country string, amount double, status string, "
           "ordered_at timestamp, updated_at timestamp", "ordered_at"),
    silver("payments", "order_id string, amount double, paid_at timestamp", "paid_at"),
    silver("customer_changes",
           "customer string, name string, op string, log_position bigint, at timestamp", "at"),
])
"""
    file = tmp_path / "page.py"
    file.write_text(silver + declared + end, encoding="utf-8")
    pipeline = load_pipeline(file)
    assert check(pipeline) == ()
    assert len(pipeline.gold) == 10
    part = GOLD.partition("## As statements")[2].partition("```\n\n")[0]
    shown = {
        table: " ".join(sql.split())
        for table, sql in re.findall(r"-- (\S+)\n(.*?)(?=\n\n|\Z)", part, re.DOTALL)
    }
    known, golds = (
        {"gold.customers": ("customer", "name", "city")},
        {each.table: each for each in pipeline.gold},
    )
    assert shown == {table: " ".join(str(statement_of(golds[table], known)).split()) for table in shown}
    assert {type(golds[table]) for table in shown} == {Aggregate, Upsert}


def test_the_pipeline_of_the_page_on_files_has_no_problem(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "author" / "files.md").read_text(encoding="utf-8")
    blocks_of_page = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (source,) = [block for block in blocks_of_page if "pipeline = Pipeline(" in block]
    file = tmp_path / "pipeline.py"
    file.write_text(source, encoding="utf-8")
    assert check(load_pipeline(file)) == ()


def test_the_readmes_pipeline_takes_the_suites_and_the_cases_of_the_pages(tmp_path: Path) -> None:
    """Pasted into the file, and into files beside it: each page says where its text goes."""
    (pipeline,) = [block for block in blocks("python") if "pipeline = Pipeline(" in block]
    quality = (ROOT / "docs" / "quality" / "quality.md").read_text(encoding="utf-8")
    testing = (ROOT / "docs" / "author" / "testing.md").read_text(encoding="utf-8")
    suites = re.findall(r"```python\n(.*?)```", quality, flags=re.DOTALL)[0]
    imports, argument = suites.split("\n", 1)[0], suites[suites.index("    quality=[") :]
    file = tmp_path / "shop.py"
    file.write_text(f"{imports}\n{pipeline.rstrip().removesuffix(')')}{argument}")
    cases = re.findall(r"```yaml\n(cases:.*?)```", testing, re.DOTALL)[0]
    file.with_name("shop.cases.yaml").write_text(cases)
    file.with_name("shop.cases.py").write_text(re.findall(r"```python\n(.*?)```", testing, re.DOTALL)[0])
    checked = load_pipeline(file)
    assert check(checked) == ()
    assert len(checked.quality) == 2
    loaded = load_files(find_files(file))
    assert loaded.problems == ()
    assert case_problems(loaded.cases, checked) == ()
    assert len(loaded.cases) == 5


def test_each_case_of_the_list_of_failures_names_a_test() -> None:
    """The second column of the list names a function of a file of tests."""
    _, *rows = (ROOT / "tests" / "runs" / "failures.tsv").read_text(encoding="utf-8").splitlines()
    page = (ROOT / "docs" / "run" / "failures.md").read_text(encoding="utf-8")
    assert f"a test for each of {len(rows)} cases" in page
    for row in rows:
        file, _, name = row.partition("\t")[2].partition("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {name}(" in text, row


def test_the_words_of_a_change_data_feed_make_a_change_feed_without_a_problem(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "author" / "delta-source.md").read_text(encoding="utf-8")
    (block,) = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "operation=" in one]
    file = tmp_path / "feed.py"
    source = 'DeltaTable("orders", path="/lake/orders", changes="feed")'
    file.write_text(f"from medallion import *\npipeline = Pipeline(name='p', bronze=[{source}],\n{block})\n")
    assert check(load_pipeline(file)) == ()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_command_names_a_file_with_a_version(page: Path) -> None:
    """It would be that of another release: the reader has the newest."""
    assert re.findall(r"medallion_lakehouse-\d[\w.]*", page.read_text(encoding="utf-8")) == []
