"""Runs a test's pipeline by the real wiring and supervisor, and reads its tables by delta-rs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame

from bronze.table import PROPERTIES, SCHEMA
from common.config.paths import Layout
from common.config.settings import Settings
from common.declare import Pipeline
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from common.streaming.query import RunningQuery, Stream
from orchestration.records.audit.audit import audit
from orchestration.run.supervisor import StopSignal, Supervisor
from orchestration.run.wiring import LAYERS, Layer, Wiring


class Engine:
    """One pipeline under its settings; every ``run`` is a restart."""

    def __init__(self, spark: Any, pipeline: Pipeline, settings: Settings, broker: str = "") -> None:
        self.spark, self.pipeline, self.settings, self.broker = spark, pipeline, settings, broker
        self.layout = Layout.of(pipeline, settings)

    def run(self, *layers: Layer, stop_after: int = 0) -> list[RunningQuery]:
        """Process all available data, layer after layer; raises the error of the first query that fails.

        With ``stop_after``, a layer is stopped as soon as it has written that many micro-batches.
        """
        wiring = Wiring(self.spark, self.pipeline, self.settings, self.layout, self.broker)
        ran: list[RunningQuery] = []
        for layer in layers or LAYERS:
            stop = StopSignal()
            supervisor = Supervisor(self.spark, stop, stop_timeout_seconds=60)
            streams = wiring.streams(layer)
            if stop_after:
                streams = (_stopping(stream, stop_after, supervisor, stop) for stream in streams)
            supervisor.start(streams, available_now=True)
            supervisor.run()
            ran += supervisor.queries
        return ran

    def publish(self) -> list[RunningQuery]:
        """Publish the rows that the tables have now."""
        wiring = Wiring(self.spark, self.pipeline, self.settings, self.layout, self.broker)
        supervisor = Supervisor(self.spark, StopSignal(), stop_timeout_seconds=60)
        supervisor.start(wiring.publications(), available_now=True)
        supervisor.run()
        return supervisor.queries

    def faults(self, number: int = 0) -> tuple[Any, ...]:
        """Faults that the audit finds in a silver table; none if every offset is in exactly one place."""
        silver = self.pipeline.silver[number]
        return audit(self.spark, self.pipeline, silver, self.layout, again_seconds=0).faults

    def path(self, table: str) -> str:
        """Path of a table."""
        return self.layout.table_path(table)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Rows as plain values."""
        found: list[dict[str, Any]] = DeltaTable(self.path(table)).to_pyarrow_table().to_pylist()
        return found

    def files(self, table: str, version: int | None = None) -> set[str]:
        """Live data files, now or at a version."""
        return set(DeltaTable(self.path(table), version=version).file_uris())

    def version(self, table: str) -> int:
        """The newest version."""
        return int(DeltaTable(self.path(table)).version())

    def commits(self, table: str) -> list[dict[str, Any]]:
        """Metadata of the engine's own commits, oldest first."""
        ours = [one for one in reversed(self.history(table)) if "userMetadata" in one]
        metadata = [json.loads(one["userMetadata"]) for one in ours]
        return sorted(metadata, key=lambda one: int(one.get("batch_id", -1)))

    def history(self, table: str) -> list[dict[str, Any]]:
        """Delta's history, newest first."""
        return DeltaTable(self.path(table)).history()

    def checkpoint(self, query: str) -> Path:
        """Folder of a query's checkpoint."""
        return Path(self.layout.checkpoint_path(query))

    def undo_last_commit(self, query: str) -> int:
        """Remove the checkpoint's commit of the last micro-batch; returns the micro-batch's id."""
        folder = self.checkpoint(query) / "commits"
        last = max(int(file.name) for file in folder.iterdir() if file.name.isdigit())
        (folder / str(last)).unlink()
        (folder / f".{last}.crc").unlink(missing_ok=True)
        return last

    def remove(self, path: str | Path) -> None:
        """Delete a folder."""
        shutil.rmtree(path)

    def append_bronze(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """One commit of one file in a bronze table; creates the table if there is none."""
        path = self.path(table)
        delta_table.ensure(self.spark, table, path, SCHEMA, PROPERTIES)
        self.append_frame(table, self.spark.createDataFrame(rows, SCHEMA))

    def append(self, table: str, rows: Sequence[tuple[Any, ...]], schema: str) -> None:
        """One commit of one file in a table."""
        self.append_frame(table, self.spark.createDataFrame(rows, schema))

    def append_frame(self, table: str, frame: DataFrame) -> None:
        """One file, by a commit of the engine's own."""
        metadata = delta_table.maintenance_metadata(self.pipeline.name, table, "repair")
        delta_table.append_with_metadata(frame.coalesce(1), self.path(table), metadata)


def _stopping(stream: Stream, batches: int, supervisor: Supervisor, stop: StopSignal) -> Stream:
    """The stream; it requests a stop once it has written that many micro-batches."""
    written = count(1)

    def write(frame: DataFrame, batch: MicroBatch) -> None:
        stream.write(frame, batch)
        if next(written) >= batches:
            supervisor.gate.close()
            stop.request()

    return replace(stream, write=write)


def batch(batch_id: int, *, query: str = "silver.orders", query_id: str = "q") -> MicroBatch:
    """A micro-batch's identity."""
    return MicroBatch("shop", query, query_id, batch_id, ({"reservoirVersion": batch_id},))
