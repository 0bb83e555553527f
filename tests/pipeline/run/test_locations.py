"""Tables and checkpoints at places of their own: written, audited, traced, moved by a copy."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.config.paths import Layout
from common.declare import Aggregate, Pipeline, Silver, Storage, Topic
from common.delta.lease.job_leases import TableLeases
from common.errors import CheckpointMismatchError, LeaseHeldError, PipelineError, SettingsError
from orchestration.access.query.record_place import Place
from orchestration.change.plan.plan import plan
from orchestration.records.trace.trace import Trace
from tests.conftest import make_settings
from tests.pipeline.silver.test_verbs import ORDERS, event, records
from tests.support.engine import Engine

SILVER = replace(ORDERS, rules=[])


def shop(folder: str | Path, silver: Silver = SILVER) -> Pipeline:
    """A pipeline whose tables are all below one folder, each at a place of its own."""
    return Pipeline(
        "shop",
        [Topic("orders", storage=Storage(location=f"{folder}/raw/orders"))],
        [replace(silver, storage=Storage(location=f"{folder}/clean/orders"))],
        [
            Aggregate(
                "sums",
                "silver.orders",
                by={"country": "country"},
                measures={"amount": "sum(amount)"},
                storage=Storage(location=f"{folder}/sums"),
            )
        ],
    )


def test_a_job_writes_where_it_is_told_and_goes_on_after_a_copy(spark: Any, tmp_path: Path) -> None:
    """Sums are those of plain Python, before the tables are moved and after."""
    own = [f"{layer}.checkpoints={tmp_path / 'state' / layer}" for layer in ("silver", "gold")]
    (tmp_path / "data").mkdir()
    settings = make_settings(tmp_path / "data", "none:1", *own)
    first, second = tmp_path / "first", tmp_path / "second"
    engine = Engine(spark, shop(first), settings)
    sent = [("a", 5.0, "NO"), ("b", 7.0, "SE"), ("c", 2.5, "NO"), (None, 1.0, "NO")]

    def check(engine: Engine, folder: Path) -> None:
        sums: Counter[str] = Counter()
        for key, amount, country in sent:
            sums[country] += amount if key is not None else 0  # type: ignore[assignment]  # sums of floats
        assert {row["country"]: row["amount"] for row in engine.rows("gold.sums")} == sums
        assert len(engine.rows("silver.orders__quarantine")) == sum(key is None for key, _, _ in sent)
        names = ("raw/orders", "clean/orders", "clean/orders__quarantine", "clean/orders__late", "sums")
        assert all((folder / name / "_delta_log").is_dir() for name in names)
        assert engine.faults() == ()
        places = Trace(engine.pipeline, engine.layout).by_condition("silver.orders", "order_id = 'b'", 2)
        assert places == [Place("t", 0, 1)]

    engine.append_bronze("bronze.orders", records([event(*one) for one in sent]))
    engine.run("silver", "gold")
    check(engine, first)
    assert not list((tmp_path / "data").rglob("_delta_log"))
    made = {one.name for one in (tmp_path / "state").glob("*/shop/*")}
    assert {"silver.orders", "gold.sums"} <= made

    moved = Engine(spark, shop(second), settings)
    found = {one.query: one for one in plan(moved.pipeline, settings, moved.layout)}
    assert found["silver.orders"].effect == "refused"
    with pytest.raises(CheckpointMismatchError, match=f"the table at {second}/clean/orders holds none"):
        moved.run("silver")
    assert not second.exists()
    shutil.copytree(first, second)
    found = {one.query: one for one in plan(moved.pipeline, settings, moved.layout)}
    (change,) = (one for one in found["gold.sums"].changes if one.name == "location")
    assert (change.old, change.new, change.effect) == (f"{first}/sums", f"{second}/sums", "next start")
    assert change.why.startswith("the table is expected there. Copy its folder")
    sent.append(("d", 4.0, "SE"))
    moved.append_bronze("bronze.orders", records([event("d", 4.0, "SE")], 4))
    moved.run("silver", "gold")
    check(moved, second)
    assert engine.version("gold.sums") < moved.version("gold.sums")


def test_two_pipelines_do_not_write_one_folder(tmp_path: Path) -> None:
    """Each has a data folder of its own; the lock is beside the table."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    layouts = [
        Layout.of(shop(tmp_path / "lake"), make_settings(tmp_path / name, "none:1"))
        for name in ("one", "two")
    ]
    with TableLeases(layouts[0], ["silver.orders"], "one"):
        with pytest.raises(LeaseHeldError), TableLeases(layouts[1], ["silver.orders"], "two"):
            pass
        with TableLeases(layouts[1], ["gold.sums"], "two"):
            pass
    with TableLeases(layouts[1], ["silver.orders"], "two"):
        pass


def test_places_follow_the_environment_and_the_store(tmp_path: Path) -> None:
    stored = shop("s3a://lake/shop")
    at = make_settings(tmp_path, "none:1", "warehouse=s3a://lake", "prefix=dev_")
    layout = Layout.of(stored, at)
    assert layout.table_path("silver.orders__late") == "s3a://lake/shop/clean/dev_orders__late"
    assert layout.lease_of("silver.orders") == ("s3a://lake/shop", "clean.dev_orders")
    assert layout.lease_of("bronze.other") == (layout.warehouse, "bronze.other")
    assert layout.locks(["silver.orders"]) == {}
    with pytest.raises(SettingsError, match="are not in one kind of store"):
        Layout.of(stored, make_settings(tmp_path, "none:1"))


@pytest.mark.parametrize("location", ["", "/", "s3a://lake/orders", "/lake/*/orders"])
def test_a_place_that_is_none_is_a_mistake(location: str) -> None:
    with pytest.raises(PipelineError, match="location"):
        Storage(location=location)


def test_one_folder_for_two_tables_is_a_mistake() -> None:
    inside = replace(SILVER, storage=Storage(location="/lake/orders/in"))
    with pytest.raises(PipelineError, match="locations of which one is in the other"):
        Pipeline("p", [Topic("orders", storage=Storage(location="/lake/orders"))], [inside])
