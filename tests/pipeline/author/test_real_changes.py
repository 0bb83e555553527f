"""What a real Debezium has sent of a PostgreSQL database gives the tables of the database, phase by phase.

Inserts, updates, deletes, keys that move, a transaction that was sent twice, a truncation, a lost slot with a
new snapshot, an incremental snapshot; micro-batches end where phases do.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.declare import ChangeFeed, Debezium, History, Pipeline, Silver, Topic
from tests.conftest import make_settings
from tests.support.engine import Engine

DATA = Path(os.environ.get("TEST_DATA", Path(__file__).parents[3].parent / "shared" / "data")) / "cdc_real"
LATER = datetime(2026, 12, 1, tzinfo=UTC)
ENDS = ("p3b_toast_pk", "p5_truncate", "lost_offsets_resnapshot", "p6_rename")
TRUNCATES = "op = 't' or op = 'r' and snapshot in ('last', 'last_in_data_collection')"
TABLES = {
    "customers": ("id", "id bigint, name string, email string"),
    "orders": ("id", "id bigint, customer_id bigint, status string, qty bigint, note string"),
    "items": ("order_id, line_no", "order_id bigint, line_no int, sku string, qty int"),
    "events": ("id", "id int"),
}

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not DATA.is_dir(), reason="the captured data are not on this machine"),
]


def lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def names(table: str) -> list[str]:
    return [field.split()[0] for field in TABLES[table][1].split(", ")]


def silver(table: str) -> Silver:
    key = TABLES[table][0].split(", ")
    columns = {name: f"if(op = 'd', before.{name}, after.{name})" for name in names(table)}
    changed = ", ".join(f"cast(coalesce(after.{name}, before.{name}) as string)" for name in key)
    return Silver(
        table,
        reads=f"bronze.{table}",
        value=Debezium(TABLES[table][1]),
        columns=columns
        | {
            "changed": f"concat_ws('/', {changed})",
            "op": "op",
            "snapshot": "source.snapshot",
            "lsn": "coalesce(source.lsn, try_cast(get_json_object(source.sequence, '$[1]') as bigint))",
            "at": "timestamp_millis(source.ts_ms)",
        },
        key=["changed", "lsn"],
        event_time="at",
        watermark="1 day",
    )


def gold(table: str) -> Iterator[ChangeFeed | History]:
    key = TABLES[table][0].split(", ")
    columns = [*names(table), "lsn"]
    reads, values = f"silver.{table}", [name for name in names(table) if name not in key] or ["changed"]
    yield ChangeFeed(table, reads=reads, key=key, sequence_by=["lsn"], columns=columns, truncates=TRUNCATES)
    yield History(
        f"{table}_in_time",
        reads=reads,
        key=key,
        valid_by="at",
        sequence_by=["lsn"],
        columns=values,
        # A row of an incremental snapshot has the time at which it was read: an update may have come before.
        where="not (snapshot <=> 'incremental')",
        delete_when="op = 'd'",
        truncates=TRUNCATES,
    )


def test_tables_are_the_databases_after_each_phase(spark: Any, tmp_path: Path) -> None:
    topics = [Topic(table, topics=[f"pga.shop.{table}"]) for table in TABLES]
    made = Pipeline(
        name="shop",
        bronze=topics,
        silver=[silver(table) for table in TABLES],
        gold=[each for table in TABLES for each in gold(table)],
    )
    engine = Engine(spark, made, make_settings(tmp_path, "none:1"))
    states: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for one in lines("states"):
        states[one["phase"], one["table"]].append(one["row"])
    ends = {one["phase"]: one["ends"] for one in json.loads((DATA / "phases.json").read_text())}
    sent = {table: list(lines(f"pga.shop.{table}")) for table in TABLES}
    begin = dict.fromkeys(TABLES, 0)
    for phase in ENDS:
        for table, records in sent.items():
            end = ends[phase][f"pga.shop.{table}/0"]
            rows = [
                (
                    one["t"],
                    0,
                    one["o"],
                    LATER,
                    0,
                    LATER,
                    *(x and x.encode() for x in (one["k"], one["v"])),
                    None,
                )
                for one in records
                if begin[table] <= one["o"] < end
            ]
            engine.append_bronze(f"bronze.{table}", rows)
            begin[table] = end
        engine.run("silver", "gold")
        for table in TABLES:
            assert engine.rows(f"silver.{table}__quarantine") == []
            shown = names(table)
            wanted = sorted((tuple(row[name] for name in shown) for row in states[phase, table]), key=str)
            have = engine.rows(f"gold.{table}")
            assert sorted((tuple(row[name] for name in shown) for row in have), key=str) == wanted, (
                phase,
                table,
            )
            current = [row for row in engine.rows(f"gold.{table}_in_time") if row["is_current"]]
            assert sorted((tuple(row[name] for name in shown) for row in current), key=str) == wanted, (
                phase,
                table,
            )
