"""Turns 'file or version not found' errors into HistoryGoneError, with the command that fixes it."""

from __future__ import annotations

from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from common.declare import Custom, Gold
from common.delta.micro_batch import MicroBatch
from common.errors import HistoryGoneError, first_line
from common.streaming.query import Stream
from common.streaming.spark_errors import is_version_gone


def explain_missing_history(stream: Stream, gold: Gold, path: str) -> Stream:
    """The stream, whose micro-batches raise HistoryGoneError where they cannot read the source as it was.

    Args:
        gold: The declaration; errors of a user's own function are left as they are.
    """
    if isinstance(gold, Custom):
        return stream

    def write(rows: DataFrame, batch: MicroBatch) -> None:
        try:
            stream.write(rows, batch)
        except (PySparkException, Py4JJavaError) as error:
            if is_version_gone(str(error)):
                raise HistoryGoneError(
                    f"{stream.name}: {gold.reads} at {path} cannot be read any more at the version that this "
                    f"micro-batch needs: its old files or commits were cleaned away ({first_line(error)}). "
                    f"Rebuild {stream.name} from the current rows: medallion rebuild {stream.name}."
                ) from error
            raise

    return replace(stream, write=write)
