"""Rows as files, each micro-batch once: a folder per micro-batch, and a manifest that says that it is whole.

``<path>/batch=<number>`` has the files of a micro-batch. ``<path>/_manifest/<number>.json`` has their names
and is written last. A replay of a micro-batch that has a manifest writes nothing; of one that was cut off it
writes the folder anew. ``<path>/_manifest/query.json`` names the query, because another one, or a checkpoint
that begins anew, would number its micro-batches from 0 again.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame

from common.declare import FileSink
from common.delta.micro_batch import MicroBatch
from common.errors import CheckpointMismatchError
from common.machine.storage_folder import StorageFolder
from common.rows.spark_rows import SparkRows

MANIFEST = "_manifest"
OWNER = "query.json"

_FORMATS = {"parquet": "parquet", "jsonl": "json", "csv": "csv"}


def write_files(rows: SparkRows, batch: MicroBatch, sink: FileSink) -> None:
    """Write one micro-batch, unless its manifest is there.

    Raises:
        CheckpointMismatchError: The folder holds the micro-batches of another query or checkpoint.
    """
    manifests = StorageFolder(sink.folder) / MANIFEST
    _require_owner(manifests, batch, sink)
    name = f"{batch.batch_id:020}.json"
    if manifests.has_file(name):
        return
    collected = rows.collected()
    is_empty = collected.arrow is not None and not collected.arrow.num_rows
    files = [] if is_empty else _written(collected.packed(), batch, sink)
    content = {"query": batch.query, "query_id": batch.query_id, "batch": batch.batch_id, "files": files}
    manifests.write(name, json.dumps(content).encode())


def _written(frame: DataFrame, batch: MicroBatch, sink: FileSink) -> list[str]:
    """Write the files of a micro-batch, in the place of those of an attempt that was cut off; their names."""
    folder = f"batch={batch.batch_id}"
    options = {"header": str(sink.header).lower()} if sink.format == "csv" else {}
    if sink.format == "jsonl":
        options["ignoreNullFields"] = "false"
    writer = frame.write.format(_FORMATS[sink.format]).options(**options)
    writer.mode("overwrite").save(f"{sink.folder}/{folder}")
    names = (StorageFolder(sink.folder) / folder).names()
    return sorted(f"{folder}/{name}" for name in names if not name.startswith(("_", ".")))


def _require_owner(manifests: StorageFolder, batch: MicroBatch, sink: FileSink) -> None:
    content = manifests.read(OWNER)
    if content is None:
        owner = {"query": batch.query, "query_id": batch.query_id}
        manifests.write(OWNER, json.dumps(owner).encode())
        return
    owner = json.loads(content)
    if owner["query_id"] != batch.query_id:
        raise CheckpointMismatchError(
            f"{batch.query}: {sink.folder} holds micro-batches of {owner['query']} by another checkpoint. To "
            "write there again would double or mix rows. Nothing was written. Give the publication a new "
            "path, or move that folder away to have all rows written again."
        )
