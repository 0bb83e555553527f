"""A pipeline's tables in a Hive metastore: read by name in another session; without it, a warning only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.declare import Message
from tests.support.processes import DEADLINE_SECONDS, ROOT, Medallion, medallion
from tests.support.servers.hive_metastore import hive_metastore

pytestmark = pytest.mark.long

_SHOP = """
from medallion import Aggregate, Json, Pipeline, Silver, Topic

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders", topics=["{topic}"])],
    silver=[Silver(
        "orders", reads="bronze.orders", value=Json("id string, amount long, at timestamp, note string"),
        columns={{"order_id": "id", "amount": "amount", "ordered_at": "at"{more}}},
        key=["order_id"], event_time="ordered_at", watermark="1 day",
    )],
    gold=[Aggregate(
        "total", reads="silver.orders", by={{"day": "date(ordered_at)"}},
        measures={{"amount": "sum(amount)"}},
    )],
)
"""

_COPY = """
from medallion import Columns, DeltaTable, Pipeline, Silver

pipeline = Pipeline(
    name="copy",
    bronze=[DeltaTable("orders", table="dev_silver.orders")],
    silver=[Silver(
        "copied", reads="bronze.orders",
        value=Columns("order_id string, amount bigint, ordered_at timestamp"),
        columns=["order_id", "amount", "ordered_at"], key=["order_id"], event_time="ordered_at",
        watermark="1 day",
    )],
)
"""

_READ = """
import json, sys
from pathlib import Path
from common.config.settings import load_settings
from common.spark.session import build_session

folder = Path(sys.argv[1])
settings = load_settings(file=folder / "medallion.yaml", overrides=sys.argv[2:])
spark = build_session(settings, "read", folder / "log")
rows = [row.asDict() for row in spark.table("dev_silver.orders").select("order_id", "amount").collect()]
tables = sorted(
    f"{row.namespace}.{row.tableName}"
    for database in spark.catalog.listDatabases() if database.name != "default"
    for row in spark.sql(f"SHOW TABLES IN {database.name}").collect()
)
catalog = spark._jsparkSession.sharedState().externalCatalog()
entry = catalog.getTable("dev_silver", "orders")
print(json.dumps({"rows": rows, "tables": tables, "columns": list(entry.schema().fieldNames()),
                  "comment": entry.comment().get()}))
spark.stop()
"""


def messages(start: int, end: int) -> list[Message]:
    return [
        Message(b"%d" % n, json.dumps({"id": f"o{n}", "amount": n, "at": "2026-01-05T10:00:00Z"}).encode())
        for n in range(start, end)
    ]


def read_in_another_session(folder: Path, metastore: str) -> dict[str, Any]:
    """What a session that knows only the metastore finds there."""
    folder.mkdir(exist_ok=True)
    (folder / "medallion.yaml").touch()
    conf = {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": metastore}
    given = ["spark.master=local[1]", *(f"spark.conf.{name}={value}" for name, value in conf.items())]
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(folder), *given],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def shop(folder: Path, topic: str, more: str = "") -> Path:
    file = folder / "shop.py"
    file.write_text(_SHOP.format(topic=topic, more=more))
    return file


def read_by_name(folder: Path, metastore: str) -> Counter[tuple[str, int]]:
    """The rows that a pipeline has whose source is a name of the metastore."""
    folder.mkdir()
    (folder / "copy.py").write_text(_COPY)
    overrides = ("catalog=hive", f"spark.conf.spark.hadoop.hive.metastore.uris={metastore}")
    with medallion(folder, folder / "copy.py", *overrides) as commands:
        backfill(commands)
        done = commands.run("query", "select order_id, amount from silver.copied", "--json")
        assert done.code() == 0, done.stderr[-3000:]
        return Counter((row["order_id"], row["amount"]) for row in json.loads(done.stdout))


def backfill(commands: Medallion) -> str:
    done = commands.run("backfill")
    assert done.code() == 0, done.stderr[-3000:]
    return done.stderr


def test_tables_are_read_by_name_and_a_metastore_that_is_away_stops_nothing(
    broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    with hive_metastore(tmp_path / "metastore") as (metastore, process):
        overrides = (
            f"kafka.bootstrap_servers={broker}",
            "prefix=dev_",
            "kafka.topic_prefix=",
            "catalog=hive",
            f"spark.conf.spark.hadoop.hive.metastore.uris={metastore}",
        )
        with medallion(tmp_path, shop(tmp_path, topic), *overrides) as commands:
            send(topic, messages(0, 10))
            assert "catalog" not in backfill(commands)
            found = read_in_another_session(tmp_path / "other", metastore)
            assert Counter((row["order_id"], row["amount"]) for row in found["rows"]) == Counter(
                (f"o{n}", n) for n in range(10)
            )
            assert found["tables"] == [
                "dev_bronze.orders",
                "dev_gold.total",
                "dev_silver.orders",
                "dev_silver.orders__late",
                "dev_silver.orders__quarantine",
            ]
            assert found["columns"][:3] == ["order_id", "amount", "ordered_at"]
            assert found["comment"].startswith("Typed and judged rows from bronze.orders")
            # Another pipeline reads a table by its name there.
            copied = read_by_name(tmp_path / "copy", metastore)
            assert copied == Counter((f"o{n}", n) for n in range(10))
            # A column that is declared later reaches the metastore.
            shop(tmp_path, topic, ', "note": "note"')
            send(topic, messages(10, 12))
            backfill(commands)
            found = read_in_another_session(tmp_path / "other", metastore)
            assert "note" in found["columns"]
            assert len(found["rows"]) == 12
            process.kill()
            process.wait()
            shop(tmp_path, topic, ', "note": "note", "again": "note"')
            send(topic, messages(12, 15))
            said = [line for line in backfill(commands).splitlines() if line.startswith("catalog: ")]
            away = "the Hive metastore does not answer (Connection refused)"
            assert said == [f"catalog: dev_bronze.orders is not registered, and is tried again: {away}"]
            status = json.loads(commands.run("status", "--json").stdout)
            tables = {table["table"]: table for table in status["tables"]}
            assert tables["silver.orders"]["rows"] == 15
            assert tables["silver.orders"]["catalog"]["error"]
            assert "not registered as dev_silver.orders" in commands.run("status").stdout.replace("\n", " ")
