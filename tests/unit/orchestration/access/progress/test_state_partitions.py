"""A state that is divided otherwise than the setting says is told, with what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.declare import Aggregate, Gold, Silver
from common.delta.checkpoint import Checkpoint
from orchestration.access.progress.state_partitions import other_partitions
from orchestration.change.plan.plan import _partition_changes
from tests.conftest import make_settings
from tests.support.shops import plain_silver

ORDERS = plain_silver("orders", "id string, at timestamp", watermark="1 hour")
TOTAL = Aggregate("total", reads="silver.orders", by=["id"], measures={"n": "count(*)"})


def begun(folder: Path, partitions: int, *, state: bool = True) -> Checkpoint:
    (folder / "offsets").mkdir()
    head = {"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": str(partitions)}}
    (folder / "offsets" / "0").write_text(f"v1\n{json.dumps(head)}\n-")
    if state:
        (folder / "state" / "0").mkdir(parents=True)
    return Checkpoint(str(folder))


@pytest.mark.parametrize(
    ("declared", "way"),
    [
        (ORDERS, "from bronze.orders: medallion rebuild silver.orders"),
        (TOTAL, "from silver.orders: medallion rebuild gold.total"),
    ],
    ids=["silver", "gold"],
)
def test_another_number_is_told_with_what_to_do(tmp_path: Path, declared: Silver | Gold, way: str) -> None:
    told = other_partitions(declared, begun(tmp_path, 2), 8)
    assert told is not None
    assert told.startswith(f"{declared.table}: its query has 2 state partitions ")
    assert "which is 8 now" in told
    assert "Set it to 2 again" in told
    assert way in told


def test_a_plan_tells_it_of_every_query_that_has_state(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, "none:1", "spark.shuffle_partitions=8")
    (found,) = _partition_changes(settings, begun(tmp_path, 2))
    assert (found.name, found.effect) == ("setting spark.shuffle_partitions", "no effect")
    assert (found.old, found.new) == ("2", "8")


def test_the_same_number_needs_no_word(tmp_path: Path) -> None:
    assert other_partitions(TOTAL, begun(tmp_path, 2), 2) is None


def test_a_query_without_state_has_nothing_to_keep(tmp_path: Path) -> None:
    assert other_partitions(TOTAL, begun(tmp_path, 2, state=False), 8) is None


def test_a_query_that_has_not_begun_takes_what_is_set(tmp_path: Path) -> None:
    assert other_partitions(TOTAL, Checkpoint(str(tmp_path / "none")), 8) is None
