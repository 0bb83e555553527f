"""Deletes expired data files from a bronze table, by commits that no stream reads.

1. One commit writes which records expire into a property of the table
   (``common.delta.maintenance.retention``), and lifts ``delta.appendOnly``.
2. One commit removes the files. It changes no other file, and streams skip it.
3. One commit sets ``delta.appendOnly`` again.

A kill after the first commit leaves a table whose records are all there: an audit finds them in their places,
because it counts as expired only what no table holds. A kill after the second one leaves a table without
``delta.appendOnly``, marked by a second property; the next retention or the next ``medallion maintain`` sets
it again. The files themselves are deleted with the other files that no version needs, after the table's
``delta.deletedFileRetentionDuration``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from common.delta import table as delta_table
from common.delta.commit import DataFile, count_rows
from common.delta.log import LogReader
from common.delta.maintenance.retention import EXPIRED, expired_property, expired_topics
from common.spark import jvm
from orchestration.records.expiry.choose import Expiry, expired_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIFTED = "medallion.appendOnlyLifted"
"""Property of a bronze table: ``true`` while retention has lifted ``delta.appendOnly``."""


def is_cut_off(path: str) -> bool:
    """Whether a retention of a table was killed before it set ``delta.appendOnly`` again."""
    return LogReader(path).properties().get(LIFTED) == "true"


def carry_out(spark: SparkSession, pipeline: str, path: str, expiry: Expiry) -> tuple[DataFile, ...]:
    """Delete the planned files that the table still has; the deleted files, oldest first.

    The caller holds the table's lease, and the turn of the query that writes it.

    Args:
        spark: A session of the caller's own: the metadata of commits is set in it.
    """
    log = LogReader(path)
    live = {file.path for file in log.live_files()} if expiry.files else set()
    files = tuple(file for file in expiry.files if file.path in live)  # others were compacted meanwhile
    properties = log.properties()
    if not files:
        if properties.get(LIFTED) == "true":
            _restore(spark, pipeline, path, expiry.table)
        return ()
    names = {file.path.rpartition("/")[2] for file in files}
    expired = expired_topics(properties)
    for topic, more in expired_in(
        (one for one in expiry.offsets if one.file in names), expiry.firsts
    ).items():
        expired[topic] = expired[topic].with_more(more) if topic in expired else more
    values = {EXPIRED: expired_property(expired)}
    is_lifted = properties.get(delta_table.APPEND_ONLY) == "true" or properties.get(LIFTED) == "true"
    if is_lifted:
        values |= {delta_table.APPEND_ONLY: "false", LIFTED: "true"}
    _set(spark, pipeline, path, expiry.table, values)
    counts = {"files": len(files), "expired": count_rows(files)}
    metadata = delta_table.maintenance_metadata(pipeline, expiry.table, "retention", counts=counts)
    with delta_table.commit_metadata(spark, metadata):
        jvm.remove_files(spark, path, _removals(files))
    if is_lifted:
        _restore(spark, pipeline, path, expiry.table)
    return files


def _restore(spark: SparkSession, pipeline: str, path: str, table: str) -> None:
    """Set ``delta.appendOnly`` again after it was lifted."""
    _set(spark, pipeline, path, table, {delta_table.APPEND_ONLY: "true", LIFTED: "false"})


def _set(spark: SparkSession, pipeline: str, path: str, table: str, values: dict[str, str]) -> None:
    metadata = delta_table.maintenance_metadata(pipeline, table, "retention")
    delta_table.set_properties(spark, path, metadata, values)


def _removals(files: Sequence[DataFile]) -> list[str]:
    """Delta's ``remove`` actions, as JSON texts."""
    now = round(time.time() * 1000)
    return [
        json.dumps(
            {
                "remove": {
                    "path": quote(file.path, safe="/:=@"),
                    "deletionTimestamp": now,
                    "dataChange": True,
                    "extendedFileMetadata": True,
                    "partitionValues": {},
                    "size": file.bytes,
                    **({} if file.rows is None else {"stats": json.dumps({"numRecords": file.rows})}),
                }
            }
        )
        for file in files
    ]
