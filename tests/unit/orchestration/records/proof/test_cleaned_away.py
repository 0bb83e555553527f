"""A version whose files maintenance has deleted is read by another one of its rows, or not compared."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from common.declare import Json, Pipeline, Silver, Topic, View
from tests.support.oracles.proof import checks, different
from tests.unit.orchestration.records.small_lake import SmallLake

AT = datetime(2026, 2, 1, tzinfo=UTC)
PIPELINE = Pipeline(
    "shop",
    bronze=[Topic("orders", topics=["t"])],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id string, at timestamp"),
            columns={"id": "id", "at": "at"},
            key=["id"],
            event_time="at",
            watermark="1 day",
            dedupe="exact",
        )
    ],
    gold=[View("ids", sql="select id from silver.orders")],
)


def clean(lake: SmallLake, table: str) -> None:
    """Write the rows into other files, as they are, and delete the former ones."""
    delta = DeltaTable(lake.layout.table_path(table))
    delta.optimize.z_order(["id"])
    assert delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def test_a_version_is_compared_as_long_as_its_rows_are_there(tmp_path: Path) -> None:
    lake = SmallLake(PIPELINE, tmp_path)
    lake.bronze([f'{{"id": "{name}", "at": "2026-02-01T00:00:00Z"}}'.encode() for name in "abc"])
    lake.silver({at: {"id": name, "at": AT} for at, name in enumerate("abc")}, KINDS)
    lake.gold("ids", pa.table({"id": list("abc")}), is_view=True)
    clean(lake, "silver.orders")
    said = {one.about: one for one in checks(PIPELINE, lake.layout)}["gold.ids"]
    assert (said.verdict, said.found) == ("equal", "3 rows at version 0 of 0, 0 differ")

    lake.overwrite("gold.ids", [{"id": name} for name in "abd"])
    assert set(different(checks(PIPELINE, lake.layout))) == {"gold.ids: equals its definition"}

    lake.overwrite("silver.orders", lake.rows("silver.orders")[:2])
    said = {one.about: one for one in checks(PIPELINE, lake.layout)}["gold.ids"]
    assert said.verdict.startswith("not compared: silver.orders cannot be read at version 0: its files are")


KINDS = {"id": pa.string(), "at": pa.timestamp("us", "UTC")}
