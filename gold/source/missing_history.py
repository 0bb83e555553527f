"""What a gold table needs of its source may be cleaned away before it was read: told with the way out."""

from __future__ import annotations

from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from common.declare import Custom, Gold
from common.delta.micro_batch import MicroBatch
from common.errors import HistoryGoneError
from common.streaming.query import Stream

_GONE = ("FILE_NOT_EXIST", "DELTA_FILE_NOT_FOUND", "VERSION_NOT_FOUND", "DELTA_TRUNCATED_TRANSACTION_LOG")
"""What Delta and Spark say of a version that cannot be read any more."""


def telling(stream: Stream, gold: Gold, path: str) -> Stream:
    """The stream; where a micro-batch cannot read its source as it was, that is told.

    Args:
        stream: The query of ``gold``.
        gold: A table that is read back whole or in part; a function of the user's own tells for itself.
        path: Where its source is.
    """
    if isinstance(gold, Custom):
        return stream

    def write(rows: DataFrame, batch: MicroBatch) -> None:
        try:
            stream.write(rows, batch)
        except (PySparkException, Py4JJavaError) as error:
            if any(text in str(error) for text in _GONE):
                raise _gone(stream.name, gold.reads, path, str(error).splitlines()[0]) from error
            raise

    return replace(stream, write=write)


def _gone(table: str, reads: str, path: str, cause: str) -> HistoryGoneError:
    return HistoryGoneError(
        f"{table}: {reads} at {path} cannot be read any more as it was when the rows came that this "
        f"micro-batch is about: its old files or commits were cleaned away ({cause}). Fill {table} anew from "
        f"what is there now: medallion rebuild {table}."
    )
