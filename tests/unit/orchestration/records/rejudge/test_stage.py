"""The record of a change that replaces stored rows: one written before is read, finished or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from common.config.paths import Layout
from common.errors import CheckpointMismatchError
from orchestration.records.rejudge.stage import (
    Restatement,
    Switch,
    keep_record,
    last_record,
    refuse_unfinished,
)

TABLE = "silver.orders"
SWITCH = Switch("q", {TABLE: 4}, "/kept", "/coming", {TABLE: 2}, bronze_version=9)
RESTATEMENT = Restatement("r", "--from orders/0=3", {TABLE: 7})
WRITTEN = {
    "switch": {
        "query_id": "q",
        "versions": {TABLE: 4},
        "kept": "/kept",
        "coming": "/coming",
        "restores": {TABLE: 2},
        "is_done": False,
        "bronze_version": 9,
    },
    "restate": {"run_id": "r", "options": "--from orders/0=3", "versions": {TABLE: 7}, "is_done": False},
}
"""The content of the files, which later versions read."""


def beside(record: Switch | Restatement, layout: Layout) -> Switch | Restatement:
    """The record with its checkpoints beside it, wherever they were when it was written."""
    if isinstance(record, Restatement):
        return record
    return replace(record, kept=f"{layout.checkpoints}/kept", coming=f"{layout.checkpoints}/coming")


@pytest.mark.parametrize(
    ("kind", "record", "command"),
    [
        ("switch", SWITCH, "medallion rebuild silver.orders"),
        ("restate", RESTATEMENT, "medallion restate silver.orders --from orders/0=3"),
    ],
)
def test_a_record_is_read_as_it_was_written_and_refused_until_it_is_done(
    tmp_path: Path, kind: str, record: Switch | Restatement, command: str
) -> None:
    layout = Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)
    path = Path(f"{layout.checkpoint_path(TABLE)}__{kind}.json")
    path.parent.mkdir(parents=True)
    refuse_unfinished(layout, TABLE)
    path.write_text(json.dumps(WRITTEN[kind]))
    assert last_record(layout, TABLE, type(record)) == beside(record, layout)
    with pytest.raises(CheckpointMismatchError) as refused:
        refuse_unfinished(layout, TABLE)
    assert str(refused.value).endswith(f"Nothing was written. Finish it: {command}")
    keep_record(layout, TABLE, replace(record, is_done=True))
    assert json.loads(path.read_text()) == WRITTEN[kind] | {"is_done": True}
    refuse_unfinished(layout, TABLE)


def test_a_switch_of_a_former_version_has_no_version_of_bronze(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)
    path = Path(f"{layout.checkpoint_path(TABLE)}__switch.json")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({k: v for k, v in WRITTEN["switch"].items() if k != "bronze_version"}))
    assert last_record(layout, TABLE, Switch) == beside(replace(SWITCH, bronze_version=None), layout)
