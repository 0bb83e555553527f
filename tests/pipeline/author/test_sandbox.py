"""A sandbox: a changed pipeline over another environment's bronze, whose files stay as they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.config.settings import load_settings
from common.declare import Pipeline, Rule, Topic
from common.errors import UsageError
from orchestration.run.job import open_job
from tests.support.engine import Engine
from tests.support.shops import plain_silver

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[plain_silver("orders", "id string, amount double, at timestamp")],
)


def row(offset: int, amount: float) -> tuple[Any, ...]:
    value = f'{{"id": "{offset}", "amount": {amount}, "at": "2026-03-01T12:00:00Z"}}'.encode()
    return ("prod_orders", 0, offset, NOON, 0, NOON, None, value, None)


def files(folder: Path) -> dict[Path, int]:
    """Every file with its time of change."""
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def test_a_sandbox_reads_the_other_bronze_and_changes_nothing_there(spark: Any, tmp_path: Path) -> None:
    base = tmp_path / "medallion.yaml"
    base.write_text(f"data_dir: {tmp_path / 'data'}\nspark: {{fsync: false}}\n")
    for env in ("prod", "dev"):
        (tmp_path / f"medallion.{env}.yaml").touch()
    prod = Engine(spark, PIPELINE, load_settings(file=base, flags={"env": "prod"}))
    prod.append_bronze("bronze.orders", [row(0, 5.0), row(1, -1.0)])
    prod.run("silver")
    before = files(tmp_path / "data" / "prod_shop")
    assert len(before) > 10

    rules = [Rule("positive", "amount > 0")]
    changed = replace(PIPELINE, silver=[replace(PIPELINE.silver[0], rules=rules)])
    settings = load_settings(file=base, flags={"env": "dev", "sandbox": "prod"})
    sandbox = Engine(spark, changed, settings)
    sandbox.run("silver")
    assert [one["id"] for one in sandbox.rows("silver.orders")] == ["0"]
    assert [one["reasons"] for one in sandbox.rows("silver.orders__quarantine")] == [["positive"]]
    assert sorted(one["id"] for one in prod.rows("silver.orders")) == ["0", "1"]
    assert files(tmp_path / "data" / "prod_shop") == before
    assert (tmp_path / "data" / "dev_sandbox_prod_shop").is_dir()
    with (
        pytest.raises(UsageError, match=r"bronze\.orders belongs to another environment"),
        open_job(changed, settings, ["bronze"], name="run-bronze"),
    ):
        pass
