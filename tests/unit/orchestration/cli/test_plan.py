"""``medallion plan`` before any table exists: output, JSON and exit codes; no Spark is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from common.errors import PipelineError
from orchestration.change.plan.change import Change, QueryPlan
from orchestration.cli.change.plan import _lines
from orchestration.cli.main import app
from tests.unit.test_docs import README

SHOP = README.split("```python\n")[1].split("```")[0]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The README's pipeline in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "shop.py"
    file.write_text(SHOP, encoding="utf-8")
    return file


def test_everything_is_new_where_there_is_no_table(shop: Path) -> None:
    result = CliRunner().invoke(app, ["plan", "-p", str(shop), "--json"])
    assert result.exit_code == 6
    found = json.loads(result.stdout)
    assert {one["query"]: one["effect"] for one in found["queries"]} == {
        "bronze.orders": "new",
        "silver.orders": "new",
        "gold.revenue_by_currency": "new",
        "gold.latest_order_by_customer": "new",
    }
    assert list(shop.parent.glob("data/*/*")) == []  # a plan writes nothing


def test_the_list_of_read_files_is_no_query_without_a_declaration(shop: Path) -> None:
    """It is beside the checkpoint of each ``Files`` table, and outlives it."""
    checkpoints = shop.parent / "data" / "shop" / "checkpoints"
    for name in ("bronze.orders__files", "gold.gone"):
        (checkpoints / name).mkdir(parents=True)
    result = CliRunner().invoke(app, ["plan", "-p", str(shop), "--json"])
    found = {one["query"]: one["effect"] for one in json.loads(result.stdout)["queries"]}
    assert "bronze.orders__files" not in found
    assert found["gold.gone"] == "not declared"


def test_the_lines_say_what_is_done(shop: Path) -> None:
    result = CliRunner().invoke(app, ["plan", "-p", str(shop)])
    assert "silver.orders: is created and filled" in result.stdout
    assert result.stdout.splitlines()[-1] == "4 of 4 queries change"


def test_a_wrong_pipeline_is_no_plan(shop: Path) -> None:
    shop.write_text(SHOP.replace('key=["order_id"]', 'key=["no_column"]'), encoding="utf-8")
    result = CliRunner().invoke(app, ["plan", "-p", str(shop)])
    assert isinstance(result.exception, PipelineError)


@pytest.mark.parametrize("table", ["silver.orders", "gold.revenue_by_currency"])
def test_a_table_that_does_not_exist_has_nothing_to_rebuild(shop: Path, table: str) -> None:
    result = CliRunner().invoke(app, ["rebuild", "-p", str(shop), table, "--plan"])
    assert result.exit_code == 0


def test_a_new_column_names_the_commands_that_fill_it() -> None:
    change = Change("column is_large", "", "boolean", "new column")
    lines = list(_lines(QueryPlan("silver.orders", (change,))))
    assert lines[-1].strip().startswith("to fill it: medallion rebuild silver.orders")


def test_a_pipeline_that_was_renamed_is_told_where_its_tables_are(shop: Path) -> None:
    """Each of its tables was said to be new, and nothing of the former ones."""
    for name in ("silver.orders", "bronze.orders"):
        (shop.parent / "data" / "shop" / "checkpoints" / name).mkdir(parents=True)
    shop.write_text(SHOP.replace('name="shop"', 'name="store"'), encoding="utf-8")
    told = CliRunner().invoke(app, ["plan", "-p", str(shop)]).stdout.splitlines()[-1]
    assert "data/shop has 2 of these 4 queries, of a pipeline shop. If that one was renamed" in told
    assert told.endswith("name it 'shop' again")
    shop.write_text(SHOP, encoding="utf-8")
    assert "renamed" not in CliRunner().invoke(app, ["plan", "-p", str(shop)]).stdout


def test_of_a_long_text_the_parts_that_differ_are_shown() -> None:
    before = "Json(schema=id string, at timestamp, amount decimal(10, 2), city string, weight double)"
    now = before.replace("city string", "town string").replace("decimal(10, 2)", "decimal(12, 2)")
    (_, line, *_) = _lines(QueryPlan("silver.orders", (Change("value", before, now, "rebuild"),)))
    assert line == ("  value: - amount decimal(10, 2), - city string, + amount decimal(12, 2), + town string")
    (_, line, *_) = _lines(QueryPlan("silver.orders", (Change("key", "[id]", "[id, at]", "rebuild"),)))
    assert line == "  key: [id] -> [id, at]"
