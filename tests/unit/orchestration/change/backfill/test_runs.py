"""Records of backfills: written at the begin, after each layer and at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestration.change.backfill.runs import COMPLETE, FAILED, KILLED, RUNNING, RunRecord, read_runs
from orchestration.cli.main import app
from tests.unit.test_docs import README


def test_a_run_is_listed_while_it_runs_and_after_its_end(tmp_path: Path) -> None:
    first = RunRecord(tmp_path, "--layer silver")
    assert [one.state for one in read_runs(tmp_path)] == [RUNNING]
    first.read("silver", 10, 1.5)
    first.end(FAILED, "the broker is away\nmore")
    second = RunRecord(tmp_path, "")
    second.read("bronze", 5, 1)
    second.read("silver", 4, 2)
    second.end(COMPLETE)
    newest, oldest = read_runs(tmp_path)
    assert (newest.state, newest.rows, newest.options) == (COMPLETE, 9, "")
    assert (oldest.state, oldest.rows, oldest.error) == (FAILED, 10, "the broker is away")
    assert newest.ended_at is not None
    assert newest.seconds == (newest.ended_at - newest.started_at).total_seconds()
    assert read_runs(tmp_path, 1) == [newest]


def test_a_run_whose_process_is_gone_was_killed(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, "")
    record.read("bronze", 5, 1.0)
    (file,) = tmp_path.glob("*.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"mark": "another process"}))
    (found,) = read_runs(tmp_path)
    assert (found.state, found.rows, found.seconds) == (KILLED, 5, 1.0)
    file.write_text("{")
    assert read_runs(tmp_path) == []


def test_a_listed_run_is_one_line_in_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is wrapped at 80 columns cannot be searched."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "shop.py"
    file.write_text(README.split("```python\n")[1].split("```")[0], encoding="utf-8")
    record = RunRecord(
        tmp_path / "data" / "shop" / "backfills", "--table silver.orders --from 2026-01-01T00:00:00Z"
    )
    record.end(FAILED, "the broker is away, " * 20)
    result = CliRunner().invoke(app, ["backfill", "list", "-p", str(file)])
    (tmp_path / "of_jobs.yaml").write_text("pipeline: shop.py\n", encoding="utf-8")
    before = ["--settings", "of_jobs.yaml", "--set", f"data_dir={tmp_path / 'data'}"]
    assert CliRunner().invoke(app, ["backfill", *before, "list"]).stdout == result.stdout
    listed, error = result.stdout.splitlines()
    assert listed.endswith("--table silver.orders --from 2026-01-01T00:00:00Z")
    assert error == f"  {'the broker is away, ' * 20}".rstrip()
