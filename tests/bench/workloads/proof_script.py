"""``python -m tests.bench.workloads.proof_script 10000000``: how long the script of a proof takes DuckDB.

Makes the tables of a shop with so many records, without Spark: as the engine writes them, with duplicates,
rotten records and tombstones. The script must find them equal; prints wall-clock and CPU seconds.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, write_deltalake

from common.config.paths import Layout
from common.declare import Aggregate, Json, Pipeline, Silver, Topic, Upsert, View, Window
from orchestration.access.query.duckdb_views import Database
from orchestration.records.proof.script import write
from tests.conftest import make_settings
from tests.support.oracles.proof import answer, different

READS, BATCH = "silver.orders", 250_000
SCHEMA = "id string, customer string, country string, amount decimal(12,2), at timestamp"
COLUMNS = {
    "order_id": "id",
    "customer": "customer",
    "country": "country",
    "amount": "amount",
    "ordered_at": "at",
}
DAYS = "select country, date_trunc('day', ordered_at) as day, count(*) as orders, count(distinct customer) as customers from silver.orders group by country, date_trunc('day', ordered_at)"  # noqa: E501
PIPELINE = Pipeline(
    "shop",
    bronze=[Topic("orders")],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json(SCHEMA),
            columns=COLUMNS,
            key=["order_id"],
            event_time="ordered_at",
            watermark="1 hour",
        )
    ],
    gold=[
        Upsert("customers", READS, key=["customer"], newest_by=["ordered_at"]),
        Aggregate(
            "revenue",
            READS,
            by=["country"],
            window=Window("ordered_at", "1 hour"),
            mode="recompute",
            measures={"orders": "count(*)", "total": "sum(amount)", "largest": "max(amount)"},
        ),
        View("days", sql=DAYS),
    ],
)

_RECORDS = """
CREATE MACRO event(n) AS CASE WHEN n % 20 = 7 THEN n - 4 ELSE n END;
CREATE MACRO kind(n) AS CASE WHEN n % 100 = 3 THEN 'quarantined' WHEN n % 200 = 11 THEN 'tombstones'
  WHEN n % 20 = 7 AND (n - 4) % 100 <> 3 AND (n - 4) % 200 <> 11 THEN 'duplicates' ELSE 'accepted' END;
CREATE MACRO moment(n) AS timestamptz '2026-01-01 00:00:00Z' + INTERVAL (n // 10) SECOND;
CREATE MACRO customer(n) AS 'c' || (n * 7919 % 2000000);
CREATE MACRO country(n) AS (['de', 'fr', 'it', 'es', 'pl'])[1 + n % 5];
CREATE MACRO amount(n) AS (1 + n % 9999) || '.25';
CREATE MACRO sent(n) AS '{"id":"o' || n || '","customer":"' || customer(n) || '","country":"' || country(n)
  || '","amount":' || amount(n) || ',"at":"' || strftime(moment(n), '%Y-%m-%dT%H:%M:%SZ') || '"}';
CREATE MACRO bytes(n) AS CASE kind(n) WHEN 'tombstones' THEN NULL WHEN 'quarantined' THEN encode('rot')
  ELSE encode(sent(event(n))) END;
"""
_PLACE = (
    "'orders' AS topic, (n % 4)::INTEGER AS partition, n // 4 AS \"offset\", moment(n) AS kafka_timestamp"
)
_BRONZE = f"SELECT {_PLACE}, 0::INTEGER AS kafka_timestamp_type, moment(0) AS ingested_at, encode('k' || n) AS key, bytes(n) AS value"  # noqa: E501
_SILVER = """SELECT 'o' || event(n) AS order_id, customer(event(n)) AS customer, country(event(n)) AS country,
  amount(event(n))::DECIMAL(12, 2) AS amount, moment(event(n)) AS ordered_at, 'orders' AS _kafka_topic,
  (n % 4)::INTEGER AS _kafka_partition, n // 4 AS _kafka_offset, moment(n) AS _kafka_timestamp,
  moment(0) AS _ingested_at"""
_ASIDE = f"SELECT {_PLACE}, encode('k' || n) AS key, bytes(n) AS value, 'quarantine' AS verdict, ['malformed_json'] AS reasons"  # noqa: E501
_NEWEST = (
    "ordered_at DESC, _kafka_timestamp DESC, _kafka_topic DESC, _kafka_partition DESC, _kafka_offset DESC"
)
GOLD = {
    "gold.customers": f"SELECT * FROM orders QUALIFY row_number() OVER (PARTITION BY customer ORDER BY {_NEWEST}) = 1",  # noqa: E501
    "gold.revenue": """SELECT country, date_trunc('hour', ordered_at) AS window_start,
        date_trunc('hour', ordered_at) + INTERVAL 1 HOUR AS window_end, count(*) AS orders,
        sum(amount)::DECIMAL(22, 2) AS total, max(amount) AS largest FROM orders GROUP BY ALL""",
    "gold.days": """SELECT country, date_trunc('day', ordered_at) AS day, count(*) AS orders,
        count(DISTINCT customer) AS customers FROM orders GROUP BY ALL""",
}


def main(records: int) -> None:
    """Make the tables, write the script and run it."""
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout.of(PIPELINE, make_settings(Path(folder), "none:1"))
        _fill(layout, records)
        script = write(PIPELINE, PIPELINE.silver, layout)
        began, cpu = time.monotonic(), time.process_time()
        found = answer(script)
        wall, used = time.monotonic() - began, time.process_time() - cpu
    assert different(found) == {}
    print(f"{records:,} records, {found[-1].check}: {found[-1].found}; {wall:.1f} s, {used:.1f} s of CPU")  # noqa: T201


def _fill(layout: Layout, records: int) -> None:
    database = Database()
    made = database.connection
    for macro in _RECORDS.strip().split(";\n"):
        made.execute(macro)

    def append(table: str, sql: str, told: dict[str, Any]) -> None:
        properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(told)})
        rows = made.execute(sql).to_arrow_table()
        write_deltalake(layout.table_path(table), rows, mode="append", commit_properties=properties)

    for number, first in enumerate(range(0, records, BATCH)):
        end = min(records, first + BATCH)
        of_batch = f"FROM range({first}, {end}) AS t(n)"
        counts = dict(made.execute(f"SELECT kind(n), count(*) {of_batch} GROUP BY 1").fetchall())
        ends = {str(partition): (end - partition + 3) // 4 for partition in range(4)}
        append(
            "bronze.orders",
            f"{_BRONZE} {of_batch}",
            _told("bronze.orders", number, "append", {"orders": ends}),
        )
        read = _position(number)
        told = _told(READS, number, "accepted", read, counts)
        append(READS, f"{_SILVER} {of_batch} WHERE kind(n) = 'accepted'", told)
        aside = f"{_ASIDE} {of_batch} WHERE kind(n) = 'quarantined'"
        append(f"{READS}__quarantine", aside, _told(READS, number, "quarantine", read))
    DeltaTable(layout.table_path(READS)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    made.execute(f"CREATE VIEW orders AS FROM {database.source(layout.table_path(READS))}")
    for table, sql in GOLD.items():
        append(table, sql, _told(table, 0, "merge", _position(number)))


def _told(query: str, batch: int, step: str, position: Any, counts: Any = None) -> dict[str, Any]:
    named = {"pipeline": "shop", "query": query, "query_id": query, "batch_id": batch, "step": step}
    return named | {"positions": [position], "counts": counts or {}}


def _position(batch: int) -> dict[str, Any]:
    return {"reservoirId": "t", "reservoirVersion": batch + 1, "index": -1, "isStartingVersion": False}


if __name__ == "__main__":
    main(int(sys.argv[1]))
