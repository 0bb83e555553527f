"""Rows as files, each micro-batch once: a folder per micro-batch, and a manifest that says that it is whole.

``<path>/batch=<number>`` has the files of a micro-batch. ``<path>/_manifest/<number>.json`` has their names
and is written last, with the positions of the micro-batch and the last commit of the source that they cover.
A replay of a micro-batch that has a manifest writes nothing; of one that was cut off it writes the folder
anew. ``<path>/_manifest/query.json`` names the query, because another one, or a checkpoint that begins anew,
would number its micro-batches from 0 again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from common.declare import FileSink
from common.delta.micro_batch import MicroBatch
from common.machine.storage_folder import StorageFolder
from common.rows.spark_rows import SparkRows
from gold.publish.published import PublishedFiles

_FORMATS = {"parquet": "parquet", "jsonl": "json", "csv": "csv"}


def write_files(rows: SparkRows, batch: MicroBatch, sink: FileSink, checkpoint: str) -> None:
    """Write one micro-batch, unless its manifest is there.

    Args:
        checkpoint: The query's checkpoint, which notes the folder.

    Raises:
        CheckpointMismatchError: The folder holds the micro-batches of another query or checkpoint, or other
            rows under this micro-batch's number, or lacks those that were written there.
    """
    published = PublishedFiles(sink.folder)
    since = published.own(batch, checkpoint)
    if published.has(batch, checkpoint, since):
        return
    collected = rows.collected()
    is_empty = collected.arrow is not None and not collected.arrow.num_rows
    files = [] if is_empty else _written(collected.packed(), batch, sink)
    published.finish(batch, files, _sizes(sink, files), since)


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


def _sizes(sink: FileSink, files: list[str]) -> dict[str, int]:
    """The bytes of each file, for an audit."""
    folder = StorageFolder(sink.folder)
    sizes = {name: folder.size(name) for name in files}
    return {name: size for name, size in sizes.items() if size is not None}
