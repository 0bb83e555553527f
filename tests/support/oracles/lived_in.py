"""A pipeline that has run: its tables, checkpoints and job state as real files, written without Spark."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Aggregate, Json, Pipeline, Silver, Topic
from common.machine.processes import start_mark
from orchestration.access.history.job_state import BatchFacts, JobQuery, JobState, write_state

PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id string, at timestamp"),
            columns={"order_id": "id", "ordered_at": "at"},
            key=["order_id"],
            event_time="ordered_at",
            watermark="7 days",
        )
    ],
    gold=[Aggregate("by_day", reads="silver.orders", by=["day"], measures={"orders": "count(*)"})],
)
TABLES = ("bronze.orders", "silver.orders", "gold.by_day")

HOSTILE = (
    '{"id": "<script>document.title=1</script>", "note": "<img src=x onerror=alert(1)> \u202egnp"}\x1b[31m'
)
"""A value with markup, script, a direction mark and a terminal's control sequence."""


class LivedIn:
    """The files of ``PIPELINE`` in a folder.

    Attributes:
        layout: Paths of the pipeline.
        settings: Settings of the folder.
    """

    def __init__(self, folder: Path, **settings: object) -> None:
        self.settings = Settings(data_dir=folder, **settings)  # type: ignore[arg-type]
        self.layout = Layout.of(PIPELINE, self.settings)

    def bronze(self, count: int, ago: float) -> None:
        """Commit records to bronze whose Kafka timestamps end this many seconds ago, one per second."""
        newest = datetime.now(UTC) - timedelta(seconds=ago)
        times = [newest - timedelta(seconds=count - 1 - number) for number in range(count)]
        rows = {"offset": list(range(count)), "kafka_timestamp": pa.array(times, pa.timestamp("us", "UTC"))}
        self._write("bronze.orders", pa.table(rows), {})

    def silver(self, count: int, read_to: int, batch_id: int) -> None:
        """Commit rows to silver, by a micro-batch that has read bronze up to this version, exclusively."""
        metadata = {
            "query": "silver.orders",
            "query_id": "s",
            "batch_id": batch_id,
            "step": "accepted",
            "positions": [self.position("bronze.orders", read_to)],
            "counts": {"accepted": count},
        }
        self._write("silver.orders", pa.table({"n": list(range(count))}), metadata)

    def gold(self, count: int) -> None:
        """Commit rows to gold."""
        self._write("gold.by_day", pa.table({"n": list(range(count))}), {"query": "gold.by_day"})

    def quarantine(self, values: Mapping[bytes, str]) -> None:
        """Commit values with one reason each to silver's quarantine."""
        now = datetime.now(UTC)
        rows = [
            {
                "topic": "orders",
                "partition": 0,
                "offset": offset,
                "kafka_timestamp": now,
                "kafka_timestamp_type": 0,
                "ingested_at": now,
                "key": b"k",
                "value": value,
                "headers": [{"key": "from", "value": b"<b>x</b>"}],
                "reasons": [reason],
                "verdict": "quarantine",
                "field": None,
                "rule_version": "1",
            }
            for offset, (value, reason) in enumerate(values.items())
        ]
        schema = pa.Table.from_pylist(rows).schema
        schema = schema.set(schema.get_field_index("field"), pa.field("field", pa.string()))
        self._write("silver.orders__quarantine", pa.Table.from_pylist(rows, schema), {})

    def batch(
        self, query: str, number: int, source: object, *, ago: float = 1, is_committed: bool = True
    ) -> None:
        """A micro-batch in a query's checkpoint, planned this many seconds ago."""
        root = Path(self.layout.checkpoint_path(query))
        planned = time.time() - ago
        head = {"batchWatermarkMs": 0, "batchTimestampMs": int(planned * 1000)}
        texts = {"offsets": f"v1\n{json.dumps(head)}\n{json.dumps(source)}"}
        texts |= {"commits": "v1\n{}"} if is_committed else {}
        for folder, text in texts.items():
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / str(number)).write_text(text)
            os.utime(root / folder / str(number), (planned, planned))

    def position(self, table: str, version: int) -> dict[str, object]:
        """The position of a stream that has read a table up to a version, exclusively."""
        table_id = str(DeltaTable(self.layout.table_path(table)).metadata().id)
        return {
            "sourceVersion": 1,
            "reservoirId": table_id,
            "reservoirVersion": version,
            "index": -1,
            "isStartingVersion": False,
        }

    def caught_up(self) -> None:
        """Ten records that have passed all layers."""
        self.bronze(10, ago=3)
        self.batch("bronze.orders", 0, {"orders": {"0": 10}})
        self.silver(8, read_to=1, batch_id=0)
        self.batch("silver.orders", 0, self.position("bronze.orders", 1))
        self.gold(2)
        self.batch("gold.by_day", 0, self.position("silver.orders", 1))

    def job(self, state: str = "waiting", *, error: str = "", silent: float = 0, pid: int = 0) -> JobState:
        """The state of a job whose query of gold is in a state, written this many seconds ago."""
        now = datetime.now(UTC) - timedelta(seconds=silent)
        last = BatchFacts(3, now, 900, {"addBatch": 700, "queryPlanning": 80}, 12, 4_096)
        queries = {
            name: JobQuery("waiting" if name != "gold.by_day" else state, now, last_batch=last)  # type: ignore[arg-type]
            for name in TABLES
        }
        queries["gold.by_day"] = JobQuery(state, now, error=error, restarts=2, last_batch=last)  # type: ignore[arg-type]
        pid = pid or os.getpid()
        found = JobState(
            "up", "r1", pid, os.uname().nodename, now, now, queries, mark=start_mark(pid) or "gone"
        )
        write_state(self.layout.jobs, found)
        return found

    def _write(self, table: str, rows: pa.Table, metadata: Mapping[str, object]) -> None:
        properties = CommitProperties(custom_metadata={"userMetadata": json.dumps(metadata)})
        write_deltalake(self.layout.table_path(table), rows, mode="append", commit_properties=properties)
