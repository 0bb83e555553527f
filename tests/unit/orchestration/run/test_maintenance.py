"""Old files of a table are kept for a query until that query has read past them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.config.paths import Layout
from common.declare import Pipeline, Topic, Upsert
from orchestration.run.maintenance import plan_maintenance
from tests.support.shops import plain_silver

SILVER = plain_silver("orders", "id string, at timestamp")
LATEST = Upsert("latest", reads="silver.orders", key=["id"], newest_by=["at"])
PIPELINE = Pipeline(name="shop", bronze=[Topic("orders")], silver=[SILVER], gold=[LATEST])


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A silver table with a change data feed: two rows, and a commit that deletes one of them."""
    layout = Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)
    path = layout.table_path("silver.orders")
    rows = pa.table({"id": ["a", "b"]})
    write_deltalake(path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(path).delete("id = 'a'")
    return layout


def why_kept(layout: Layout, version: int, index: int, *, in_snapshot: bool = False) -> str:
    """The reason to keep silver's files while gold.latest stands at a position."""
    table_id = DeltaTable(layout.table_path("silver.orders")).metadata().id
    position = {
        "reservoirId": str(table_id),
        "reservoirVersion": version,
        "index": index,
        "isStartingVersion": in_snapshot,
    }
    for name, content in (
        ("offsets/0", f"v1\n{{}}\n{json.dumps(position)}"),
        ("commits/0", "v1\n{}"),
    ):
        file = Path(layout.checkpoint_path("gold.latest")) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return plan_maintenance(PIPELINE, layout, "silver.orders", at_once=True).kept_because


def test_a_query_behind_the_last_file_of_a_commit_has_read_that_commit(layout: Layout) -> None:
    """A stream of the change data feed stops there, and not before the next commit."""
    assert why_kept(layout, 2, -1) == ""
    assert why_kept(layout, 1, 0) == ""


@pytest.mark.parametrize(("index", "in_snapshot"), [(-1, False), (0, True)])
def test_a_query_that_has_files_to_read_keeps_them(layout: Layout, index: int, in_snapshot: bool) -> None:  # noqa: FBT001
    assert "gold.latest has yet to read its version 1" in why_kept(layout, 1, index, in_snapshot=in_snapshot)


def test_a_commit_of_several_files_is_read_after_the_last_one(layout: Layout) -> None:
    """Change files count where a commit has some, else the files that it adds and removes."""
    log = Path(layout.table_path("silver.orders")) / "_delta_log" / f"{1:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    (changes,) = (action for action in actions if "cdc" in action)
    log.write_text("\n".join(json.dumps(action) for action in [*actions, changes]))
    assert why_kept(layout, 1, 0) != ""
    assert why_kept(layout, 1, 1) == ""
    log.write_text("\n".join(json.dumps(action) for action in actions if action is not changes))
    assert why_kept(layout, 1, 0) != ""
    assert why_kept(layout, 1, 1) == ""
