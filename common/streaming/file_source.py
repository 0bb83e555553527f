"""The streaming source of files: its options, and what it finds of a single file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.declare import Files
from common.declare.intervals import length_of
from common.streaming.file_list import ITSELF, part_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = "medallion.files.FileSource"
LOOK_MS = 5_000
"""Time between two looks at the folder: a look lists every file in it."""


def source_options(files: Files, folder: str, listed: str, line_readers: Sequence[str]) -> dict[str, str]:
    """The options that each query of the source has.

    Args:
        folder: The folder, or the one file, that is read.
        listed: The folder of the list.
        line_readers: As for ``bronze.files``.
    """
    aged = {} if files.max_file_age is None else {"maxAge": files.max_file_age}
    if files.max_file_age is not None:
        aged["maxAgeMs"] = str(length_of(files.max_file_age).milliseconds)
    return {
        **aged,
        "latestFirst": str(files.latest_first).lower(),
        "nameOnly": str(files.file_name_only).lower(),
        "path": folder,
        "format": files.format,
        "header": str(files.header).lower(),
        "topic": files.coordinate,
        "list": listed,
        "lookMs": str(LOOK_MS),
        "lineReaders": json.dumps([*line_readers]),
    }


def listed_alone(spark: SparkSession, files: Files, path: str, folder: str) -> Mapping[str, Any]:
    """The entry that a list would have for one file, whose records are counted.

    Args:
        folder: An empty folder on the local disk.
    """
    file = files.folder if path.startswith(ITSELF) else f"{files.folder.rstrip('/')}/{path}"
    options = {**source_options(files, file, f"{folder}/list", ()), "maxRows": str(2**62)}
    read = spark.readStream.format(SOURCE).options(**options).load()
    sink = read.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
    sink.trigger(availableNow=True).start().awaitTermination()
    found: Mapping[str, Any] = json.loads(Path(folder, "list", part_name(0)).read_bytes())
    return found
