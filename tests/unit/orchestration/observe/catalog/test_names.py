"""Under which names tables are registered: a database per layer and environment; a sandbox has no bronze."""

from __future__ import annotations

import os
from pathlib import Path

from common.config.paths import Layout
from common.config.settings import Settings, load_settings
from common.declare import Aggregate, Json, Pipeline, Silver, Topic
from orchestration.observe.catalog.names import Name, names

PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders", topics=["a", "b"])],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id string, at timestamp"),
            columns={"order_id": "id", "ordered_at": "at"},
            key=["order_id"],
            event_time="ordered_at",
            watermark="1 day",
        )
    ],
    gold=[
        Aggregate("total", reads="silver.orders", by={"day": "date(ordered_at)"}, measures={"n": "count(*)"})
    ],
)


def named(
    folder: Path, *overrides: str, layers: tuple[str, ...] = ("bronze", "silver", "gold")
) -> list[Name]:
    file = folder / "medallion.yaml"
    file.touch()
    settings: Settings = load_settings(file=file, overrides=[f"data_dir={folder}", *overrides])
    return list(names(PIPELINE, settings, Layout.of(PIPELINE, settings), layers))


def test_a_database_per_layer_with_what_each_table_is(tmp_path: Path) -> None:
    found = {name.full: name for name in named(tmp_path)}
    assert list(found) == [
        "bronze.orders",
        "silver.orders",
        "silver.orders__quarantine",
        "silver.orders__late",
        "gold.total",
    ]
    assert found["silver.orders__late"].path == str(tmp_path / "shop/tables/silver/orders__late")
    assert [name.comment for name in found.values()] == [
        "Records of Kafka as they were sent (a, b). Written by the pipeline shop.",
        "Typed and judged rows from bronze.orders, one per event. Written by the pipeline shop.",
        "Side table of silver.orders: quarantine rows. Written by the pipeline shop.",
        "Side table of silver.orders: late rows. Written by the pipeline shop.",
        "Aggregate from silver.orders. Written by the pipeline shop.",
    ]


def test_a_job_registers_the_tables_of_its_layers(tmp_path: Path) -> None:
    assert [name.full for name in named(tmp_path, layers=("gold",))] == ["gold.total"]


def test_the_prefix_of_an_environment_is_the_databases(tmp_path: Path) -> None:
    (tmp_path / "medallion.eu-west.1.yaml").touch()
    found = named(tmp_path, "env=eu-west.1", layers=("silver",))
    assert {name.database for name in found} == {"eu_west_1_silver"}
    assert found[0].path == os.fspath(tmp_path / "eu-west.1_shop/tables/silver/orders")


def test_a_sandbox_registers_no_bronze_table_of_another_environment(tmp_path: Path) -> None:
    (tmp_path / "medallion.me.yaml").touch()
    found = named(tmp_path, "env=me", "sandbox=default")
    assert {name.database for name in found} == {"me_sandbox_default_silver", "me_sandbox_default_gold"}
