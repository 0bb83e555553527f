"""A Delta table of many files as a source: each row once, oldest file first, in micro-batches of some files.

``DELTA_FILES`` says how many; unset: 10,000. Files are links to a few real ones, told apart by the column of
their partition, which is in the log alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as Reader

from common.declare import Columns, DeltaTable, Pipeline, Silver
from orchestration.observe.status.collect import Collector
from orchestration.observe.status.topic_offsets import BrokerOffsets
from tests.conftest import make_settings
from tests.support.engine import Engine

FILES = int(os.environ.get("DELTA_FILES", "10000"))
ROWS = 2
"""Rows of each file."""

MOST_LINKS = 30_000
BATCHES = 5
COMMITS = 10

FIELDS = [
    {"name": name, "type": "long", "nullable": True, "metadata": dict[str, str]()} for name in ("n", "id")
]


def actions(folder: Path, numbers: range) -> Iterator[dict[str, Any]]:
    """Files of one commit; the names are in another order than the times."""
    for number in numbers:
        name = f"part-{(number * 7919) % FILES:08}.parquet"
        real = folder / f"real-{number // MOST_LINKS}.parquet"
        if not real.exists():
            pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), real)
        os.link(real, folder / name)
        yield {
            "add": {
                "path": name,
                "partitionValues": {"n": str(number)},
                "size": real.stat().st_size,
                "modificationTime": 1_700_000_000_000 + number * 1000,
                "dataChange": True,
                "stats": json.dumps({"numRecords": ROWS}),
            }
        }


def write_source(folder: Path) -> None:
    """The table, as another program would write it."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    begin = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "many",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": FIELDS}),
                "partitionColumns": ["n"],
                "configuration": {},
            }
        },
    ]
    each = FILES // COMMITS
    for version in range(COMMITS):
        numbers = range(version * each, version * each + each)
        lines = [*(begin if version == 0 else []), *actions(folder, numbers)]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (log / f"{version:020}.json").write_text(text, encoding="utf-8")


def peak(spark: Any) -> int:
    """MiB of the JVM's heap at its fullest since the last call."""
    pools = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    used = 0
    for pool in pools:
        if str(pool.getType()) == "Heap memory":
            used += pool.getPeakUsage().getUsed()
        pool.resetPeakUsage()
    return used // 2**20


@pytest.mark.long
def test_a_table_of_many_files_is_read_in_order(spark: Any, tmp_path: Path) -> None:
    """With a watermark of minutes no row is late, because the oldest files come first."""
    write_source(tmp_path / "source")
    table = Silver(
        "events",
        reads="bronze.many",
        value=Columns("n bigint, id bigint"),
        columns={"n": "n", "id": "id", "at": "timestamp_seconds(n * 60 + id)"},
        key=["n", "id"],
        event_time="at",
        watermark="10 minutes",
    )
    source = DeltaTable("many", str(tmp_path / "source"), max_files_per_trigger=FILES // BATCHES)
    pipeline = Pipeline("shop", bronze=[source], silver=[table])
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1", "spark.shuffle_partitions=1"))
    peak(spark)
    begin = time.monotonic()
    engine.run("bronze")
    seconds, heap = time.monotonic() - begin, peak(spark)
    begin = time.monotonic()
    status = Collector(pipeline, engine.layout, BrokerOffsets(pipeline, engine.settings)).collect()
    look = time.monotonic() - begin
    sys.stdout.write(f"{FILES} files: {seconds:.1f} s, heap {heap} MiB, status {look:.1f} s\n")
    assert status.tables[0].lag.count == 0
    check_bronze(engine)
    engine.run("silver")
    assert Reader(engine.path("silver.events")).to_pyarrow_table().num_rows == FILES * ROWS
    assert engine.rows("silver.events__late") == []
    assert engine.faults() == ()


def check_bronze(engine: Engine) -> None:
    """Each row once; the files of a micro-batch are all younger than those of the one before."""
    rows = Reader(engine.path("bronze.many")).to_pyarrow_table(columns=["offset", "value", "headers"])
    rows = rows.sort_by("offset")
    assert rows["offset"].to_pylist() == list(range(FILES * ROWS))
    value = rows["value"].combine_chunks()
    n, ids = pc.struct_field(value, "n"), pc.struct_field(value, "id")
    assert len(set(zip(n.to_pylist(), ids.to_pylist(), strict=True))) == FILES * ROWS
    batches = [int(headers[0]["value"]) for headers in rows["headers"].to_pylist()]
    assert set(batches) == set(range(BATCHES))
    each = FILES // BATCHES
    assert all(number // each == batch for number, batch in zip(n.to_pylist(), batches, strict=True))
