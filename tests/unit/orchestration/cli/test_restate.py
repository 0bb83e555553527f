"""``medallion restate`` and ``backfill`` before a table exists: refusals and output; no Spark is started."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from orchestration.change.backfill.runs import COMPLETE, RunRecord
from orchestration.cli.main import app
from tests.unit.orchestration.cli.test_plan import shop

__all__ = ["shop"]


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_a_table_that_does_not_exist_has_nothing_to_restate(shop: Path) -> None:
    result = run("restate", "silver.orders", "--to", "orders/0=1", "--plan", "-p", str(shop))
    assert result.exit_code == 0
    assert list(shop.parent.glob("data/*/*")) == []


def test_former_runs_are_listed(shop: Path) -> None:
    assert json.loads(run("backfill", "list", "--json", "-p", str(shop)).stdout)["runs"] == []
    folder = shop.parent
    record = RunRecord(folder / "data" / "shop" / "backfills", "--layer silver")
    record.read("silver", 1234, 2.0)
    record.end(COMPLETE)
    line = run("backfill", "list", "-p", str(shop)).stdout.splitlines()[-1]
    assert "complete" in line
    assert "1,234 rows" in line
    assert line.endswith("--layer silver")
    (found,) = json.loads(run("backfill", "list", "--json", "-p", str(shop)).stdout)["runs"]
    assert json.loads(run("backfill", "-p", str(shop), "--json", "list").stdout)["runs"] == [found]
    assert (found["rows"], found["state"], found["options"]) == (1234, "complete", "--layer silver")
