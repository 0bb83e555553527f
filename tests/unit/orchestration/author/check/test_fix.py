"""A mistake shows its line with a mark below the word, and what has exactly one answer is mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.config.settings import load_settings
from common.errors import Problem, SettingsError
from orchestration.access.declaration.load_file import load_draft
from orchestration.author.check.fix import fixes
from orchestration.author.check.locate import locate
from orchestration.author.check.pipeline import draft_problems
from tests.support import in_process

RIGHT = """\
from medallion import Json, Pipeline, Rule, Silver, Topic, Upsert

pipeline = Pipeline(
    "shop",
    bronze=[Topic("orders", starting_offsets="earliest")],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id string, amount double, at timestamp"),
            columns={"order_id": "id", "amount": "coalesce(amount, 0)", "ordered_at": "at"},
            key=["order_id"],
            event_time="ordered_at",
            watermark="1 day",
            rules=[Rule("positive", "amount > 0", on_fail="quarantine")],
        ),
    ],
    gold=[Upsert("latest", reads="silver.orders", key=["order_id"], newest_by=["ordered_at"])],
)
"""

MISTAKES = [
    ("starting_offsets=", "startng_offsets=", "MED-1101", "startng_offsets"),
    ('reads="bronze.orders"', 'reads="bronze.order"', "MED-1301", "bronze.order"),
    ('"order_id": "id"', '"order_id": "idd"', "MED-1202", "idd"),
    ("coalesce(amount, 0)", "coalesse(amount, 0)", "MED-1203", "coalesse"),
    ('event_time="ordered_at"', 'event_time="ordred_at"', "MED-1202", "ordred_at"),
    ('watermark="1 day"', 'watermark="1 dya"', "MED-1103", "1 dya"),
    ('on_fail="quarantine"', 'on_fail="quarntine"', "MED-1103", "quarntine"),
    ('"amount > 0"', '"amuont > 0"', "MED-1202", "amuont"),
    ("gold=[Upsert(", "gold=[Upsrt(", "MED-1004", "Upsrt"),
    ("Topic, Upsert", "Topic, Upsret", "MED-1004", "Upsret"),
    ("from medallion", "from medalion", "MED-1004", "medalion"),
    ('key=["order_id"], newest_by', 'key="order_id", newest_by', "MED-1103", "order_id"),
    ('newest_by=["ordered_at"]', 'newest_by=["ordered"]', "MED-1202", "ordered"),
    ('newest_by=["ordered_at"]', "", "MED-1102", "Upsert"),
    ("silver=[", "slver=[", "MED-1101", "slver"),
]
HAVE_NO_ANSWER = {""}


def problems_of(file: Path) -> tuple[Problem, ...]:
    return draft_problems(load_draft(file), load_settings(overrides=[]))


@pytest.mark.parametrize(("right", "wrong", "code", "word"), MISTAKES)
def test_a_mistake_is_marked_at_its_word_and_mended_where_it_has_one_answer(
    right: str, wrong: str, code: str, word: str, tmp_path: Path
) -> None:
    assert RIGHT.count(right) == 1
    file = tmp_path / "shop.py"
    file.write_text(RIGHT.replace(right, wrong))
    (problem,) = problems_of(file)
    spot = locate(problem)
    assert spot is not None
    assert (problem.code, spot.word) == (code, word)
    assert spot.text == file.read_text().splitlines()[spot.line - 1]
    assert word in wrong or word == "Upsert"
    ended = in_process.run("check", str(file), "--fix")
    if wrong in HAVE_NO_ANSWER:
        assert ended.code == 2
        assert file.read_text() == RIGHT.replace(right, wrong)
    else:
        assert ended.code == 0, ended.stdout
        assert file.read_text() == RIGHT
        assert [line[1:].strip() for line in ended.stdout.splitlines() if line.startswith("+ ")] in (
            [line.strip() for line in RIGHT.splitlines() if right in line],
            [],  # of the first line, which is not indented
        )


def test_without_fix_nothing_is_written_and_the_command_is_named(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    text = RIGHT.replace("Upsert(", "Upsrt(")
    file.write_text(text)
    ended = in_process.run("check", str(file))
    assert (ended.code, file.read_text()) == (2, text)
    assert "medallion check --fix" in ended.stdout
    shown = [line for line in ended.stdout.splitlines() if "Upsrt(" in line or "^^^^^" in line]
    assert shown[0].index("Upsrt") == shown[1].index("^")
    document = json.loads(in_process.run("check", str(file), "--json").stdout)
    (problem,) = document["problems"]
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "Upsrt(" in each)
    assert (problem["code"], problem["line"], problem["column"]) == ("MED-1004", line, 11)


def test_mistakes_that_hide_each_other_are_mended_and_shown_as_one_difference(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(RIGHT.replace("Upsert(", "Upsrt(").replace('"amount > 0"', '"amont > 0"'))
    ended = in_process.run("check", str(file), "--fix")
    assert (ended.code, file.read_text()) == (0, RIGHT)
    assert ended.stdout.count("+++ ") == 1


def test_the_next_command_has_the_options_that_were_typed_and_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("shop.py", "my shop.py"):
        Path(name).write_text(RIGHT.replace("Upsert(", "Upsrt("))
    Path("medallion.yaml").write_text("pipeline: shop.py\n")

    def told(*options: str) -> str:
        said = " ".join(in_process.run("check", *options).stdout.split())
        return said.rpartition("to write it: ")[2]

    assert told() == told("-p", "shop.py") == told("shop.py") == "medallion check --fix"
    assert told("-p", "my shop.py") == "medallion check --fix -p 'my shop.py'"
    given = ("--settings", "medallion.yaml", "--set", "spark.fsync=false")
    assert told("-p", "shop.py", *given) == f"medallion check --fix {' '.join(given)}"


def test_a_word_that_is_as_near_to_two_others_is_not_mended(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    text = RIGHT.replace("amount double", "amount1 double, amount2 double").replace(
        "coalesce(amount,", "coalesce(amount3,"
    )
    file.write_text(text.replace('"amount > 0"', '"true"'))
    (problem,) = problems_of(file)
    assert "did you mean 'amount1' or 'amount2'?" in problem.message
    assert fixes([problem]) == ()


def test_settings_are_mended_in_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(RIGHT)
    wrong = "pipeline: shop.py\nspark:\n  masterr: local[2]\nkafka:\n  options: {security.protcol: SSL}\n"
    Path("medallion.yaml").write_text(wrong)
    with pytest.raises(SettingsError, match=r"^medallion\.yaml:3:3: spark\.masterr is not a setting"):
        load_settings()
    assert in_process.run("check", "--fix").code == 0
    right = wrong.replace("masterr", "master").replace("protcol", "protocol")
    assert Path("medallion.yaml").read_text() == right
