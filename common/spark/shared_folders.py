"""Whether all executors of a cluster read and write the folders of tables and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.errors import PySparkException

from common.config.settings import is_cluster
from common.errors import SetupError, first_line
from common.machine.console import say
from common.machine.storage_folder import StorageFolder
from common.spark import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SILENT_SECONDS = 15.0
_POLL_SECONDS = 0.25


def require_shared_folders(spark: SparkSession, *folders: str) -> None:
    """Refuse to start where an executor does not write what the driver finds; nothing on one machine.

    Raises:
        SetupError: Names the folder, and the settings that name another one.
    """
    if is_cluster(str(spark.sparkContext.master)):
        _await_executors(spark)
        require_shared(spark, folders)


def require_shared(spark: SparkSession, folders: Iterable[str]) -> None:
    """Have the executors write a file per task into each folder, and find the files from here.

    A folder that an executor has on a disk of its own takes its files without an error: the driver does not
    find them.

    Raises:
        SetupError: As ``require_shared_folders``.
    """
    master = spark.sparkContext.master
    tasks = 2 * max(2, int(spark.sparkContext.defaultParallelism))
    for folder in folders:
        name = f"_executors-{uuid4().hex}"
        try:
            spark.range(0, tasks, 1, tasks).write.parquet(f"{folder}/{name}")
            found = [each for each in StorageFolder(f"{folder}/{name}").names() if each.startswith("part-")]
        except PySparkException as error:
            cause = first_line(error)[:300]
            raise SetupError(
                f"{folder} cannot be written by the executors of {master}: {cause}. {_ADVICE}"
            ) from error
        finally:
            jvm.delete_folder(spark, f"{folder}/{name}")
        if len(found) != tasks:
            raise SetupError(
                f"{folder} is not one folder for the driver and all executors of {master}: of {tasks} files "
                f"that the executors wrote there, the driver finds {len(found)}. {_ADVICE}"
            )


_ADVICE = (
    "Tables and checkpoints of a cluster are in a folder that all of its machines share, or in an object "
    "store: name one with the settings warehouse and checkpoints, such as s3a://bucket/lake. Nothing was "
    "started."
)


def _await_executors(spark: SparkSession) -> None:
    """Wait for the first executor; Spark's own jobs would wait for it without a word."""
    began, is_said = time.monotonic(), False
    while not jvm.has_executor(spark):
        if not is_said and time.monotonic() - began > _SILENT_SECONDS:
            say(
                f"waiting for an executor of {spark.sparkContext.master}: none has registered. If this goes "
                "on, the workers have fewer free cores or less memory than spark.executor.cores and "
                "spark.executor.memory request, or cannot reach this host."
            )
            is_said = True
        time.sleep(_POLL_SECONDS)
