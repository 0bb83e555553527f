"""A shop that is filled under one declaration, and read again under another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common.config.settings import Settings
from common.declare import Aggregate, Pipeline, Rule, Silver, Topic, Upsert
from tests.conftest import make_settings
from tests.support.engine import Engine
from tests.support.oracles.plan_shop import COLUMNS, FIRST, THEN

READS = "silver.orders"
SILVER = (READS, f"{READS}__quarantine", f"{READS}__late")
GOLD = ("gold.latest", "gold.counts", "gold.again")
LARGE: dict[str, Any] = {
    "rules": [Rule("amount_large", "amount > 10")],
    "columns": COLUMNS | {"amount": "amount * 2"},
}
"""What the other declaration of the silver table changes."""


def shop(silver: Silver) -> Pipeline:
    """A pipeline with gold tables that follow, and one that reads appends."""
    columns = ["id", "country", "amount", "at"]
    return Pipeline(
        name="shop",
        bronze=[Topic("orders")],
        silver=[silver],
        gold=[
            Upsert("latest", READS, key=["id"], newest_by=["at"], columns=columns),
            Aggregate("counts", READS, by=["country"], measures={"n": "count(*)", "total": "sum(amount)"}),
            Aggregate("again", READS, by=["country"], measures={"n": "count(*)"}, mode="recompute"),
        ],
    )


def settings_of(folder: Path) -> Settings:
    """Settings under which every commit of bronze is a micro-batch of silver."""
    return make_settings(folder, "none:1", "spark.shuffle_partitions=1", "silver.max_files_per_trigger=1")


def ran(spark: Any, folder: Path, pipeline: Pipeline, *more: list[Any]) -> Engine:
    """A shop after two micro-batches and more."""
    folder.mkdir(exist_ok=True)
    engine = Engine(spark, pipeline, settings_of(folder))
    for rows in (FIRST, THEN, *more):
        engine.append_bronze("bronze.orders", rows)
        engine.run("silver", *(["gold"] if pipeline.gold else []))
    return engine


def changed(engine: Engine, pipeline: Pipeline) -> Engine:
    """The same tables under another declaration."""
    return Engine(engine.spark, pipeline, engine.settings)
