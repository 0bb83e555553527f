"""Which cases ``--watch`` runs again: those whose result may differ, and no others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.config.settings import Settings
from common.declare import Pipeline
from orchestration.author.cases.read.case import Case
from orchestration.author.cases.run_case import Outcome
from orchestration.author.cases.suite import forget_modules, load_suite
from orchestration.author.cases.unchanged import PassedCases
from tests.conftest import make_settings

PIPELINE = """
from medallion import Aggregate, Json, Pipeline, Rule, Silver, Topic
from helper import LIMIT

def samples(*_):
    return []

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders", sample=samples)],
    silver=[Silver("orders", reads="bronze.orders", value=Json("id string, amount double, at timestamp"),
                   columns=["id", "amount", "at"], key=["id"], event_time="at", watermark="1 day",
                   rules=[Rule("known", f"amount < {LIMIT}")])],
    gold=[Aggregate("sums", reads="silver.orders", by=["id"], measures={"total": "sum(amount)"})],
)
"""
CASES = """
cases:
- name: of silver
  messages: [{id: a, amount: 1, at: "2026-03-01T12:00:00Z"}]
  expect: {silver.orders: "id\\na"}
- name: of gold
  messages: [{id: a, amount: 1, at: "2026-03-01T12:00:00Z"}]
  expect: {gold.sums: "id | total\\na | 1"}
"""


class Watched:
    """Files of a pipeline, and what a session of ``--watch`` knows of its cases."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.passed = folder, PassedCases()
        for name, text in (("shop.py", PIPELINE), ("shop.cases.yaml", CASES), ("helper.py", "LIMIT = 100\n")):
            (folder / name).write_text(text)
        self.settings: Settings = make_settings(folder, "none:1", f"pipeline={folder / 'shop.py'}")

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.folder / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def changed(self) -> dict[str, tuple[Case, Pipeline]]:
        """The cases to run now, by name."""
        forget_modules([self.folder / "shop.py"])
        suite = load_suite([], self.settings)
        assert suite.problems == ()
        return {pair[0].name: pair for pair in self.passed.changed(suite.cases, self.settings, self.times())}

    def times(self) -> dict[Path, float]:
        return {file: file.stat().st_mtime for file in self.folder.iterdir() if file.is_file()}

    def all_pass(self) -> None:
        pairs = list(self.changed().values())
        outcomes = [Outcome(case) for case, _ in pairs]
        self.passed.learn(pairs, outcomes, self.settings, self.times())
        assert self.changed() == {}


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """Two cases that have passed."""
    found = Watched(tmp_path)
    assert list(found.changed()) == ["of silver", "of gold"]
    found.all_pass()
    yield found
    forget_modules([tmp_path / "shop.py"])


def test_a_comment_or_a_line_above_changes_no_case(watched: Watched) -> None:
    watched.edit("shop.py", "pipeline =", "# the shop\npipeline =")
    watched.edit("shop.cases.yaml", "cases:", "# first\n\ncases:")
    assert watched.changed() == {}


def test_a_declaration_changes_the_cases_whose_tables_need_it(watched: Watched) -> None:
    watched.edit("shop.py", "sum(amount)", "max(amount)")
    assert list(watched.changed()) == ["of gold"]
    watched.all_pass()
    watched.edit("helper.py", "100", "50")
    assert list(watched.changed()) == ["of silver", "of gold"]


def test_messages_and_expected_rows_change_their_case(watched: Watched) -> None:
    watched.edit("shop.cases.yaml", '"id\\na"', '"id\\nb"')
    assert list(watched.changed()) == ["of silver"]
    watched.all_pass()
    watched.edit("shop.cases.yaml", "id: a, amount: 1", "id: a, amount: 2")
    assert list(watched.changed()) == ["of silver", "of gold"]


def test_a_file_beside_the_pipeline_changes_all_cases(watched: Watched) -> None:
    """A declaration may name it, such as a schema."""
    (watched.folder / "order.schema.json").write_text("{}")
    assert len(watched.changed()) == 2
    watched.all_pass()
    os.utime(watched.folder / "order.schema.json", (1, 1))
    assert len(watched.changed()) == 2


def test_a_case_that_failed_runs_again(watched: Watched) -> None:
    watched.edit("shop.cases.yaml", "amount: 1", "amount: 2")
    (pair, _) = watched.changed().values()
    failed = Outcome(pair[0], error=RuntimeError("no"))  # type: ignore[arg-type]  # any error
    watched.passed.learn([pair], [failed], watched.settings, watched.times())
    assert list(watched.changed()) == ["of silver", "of gold"]
