"""``medallion stop`` and ``start`` without a job that can be asked."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from common.config.paths import Layout
from common.config.settings import load_settings
from common.delta.lease.job_leases import TableLeases
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.cli.main import app
from tests.unit.orchestration.cli.test_plan import shop

__all__ = ["shop"]

QUERY = "gold.revenue_by_currency"


def lines(word: str, shop: Path) -> list[str]:
    result = CliRunner().invoke(app, [word, QUERY, "-p", str(shop)])
    assert result.exit_code == 0, result.exception
    return result.output.splitlines()


def test_a_query_without_a_job_stays_stopped_at_the_next_start(shop: Path) -> None:
    assert lines("stop", shop) == [
        f"{QUERY} stays stopped when its job starts",
        f"to go on: medallion start {QUERY}",
    ]
    assert lines("start", shop) == [f"{QUERY} goes on when its job starts"]
    assert lines("start", shop) == [f"{QUERY} was not stopped, and no running job could be asked to start it"]


def test_a_query_whose_job_cannot_be_asked_is_not_called_stopped(shop: Path) -> None:
    """As a job that was started with another content of the pipeline file, or on another host."""
    layout = Layout.of(load_pipeline(shop), load_settings())
    with TableLeases(layout, (QUERY,), "up"):
        assert lines("stop", shop) == [
            f"{QUERY} still runs: its job could not be asked. It stops when that job ends, and stays stopped",
            f"to go on: medallion start {QUERY}",
        ]
