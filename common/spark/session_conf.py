"""Every setting of Spark that the engine makes, with its value per profile and the reason for it. Data.

A profile is the kind of place that Spark's master names: ``small``, one machine whose one process does all
the work, or ``cluster``. The user's own settings win over all of these but the few of ``OURS``;
``docs/settings.md`` is made of this module. What a place must choose for itself (memory, partitions) is a
setting of the engine, and shows here by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from common.schema import avro as avro_schema

Profile = Literal["small", "cluster"]

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
WITHOUT_ROWS = "spark.sql.streaming.noDataMicroBatches.enabled"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SMALL_FILE = "spark.databricks.delta.optimize.minFileSize"
CLASS_PATH = "spark.driver.extraClassPath"
JARS = "spark.jars"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
WAREHOUSE = "spark.sql.warehouse.dir"
DRIVER_MEMORY = "spark.driver.memory"
UI = "spark.ui.enabled"
MASTER = "spark.master"
APP_NAME = "spark.app.name"

STATE_STORES = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}


@dataclass(frozen=True, slots=True)
class OfRun:
    """A value that only a run knows.

    Attributes:
        shown: What it is, for the page of settings.
    """

    shown: str


Value = str | OfRun | None


@dataclass(frozen=True, slots=True)
class Conf:
    """One setting of Spark.

    Attributes:
        key: Its name.
        small: On one machine; ``None`` leaves what Spark has.
        cluster: On a cluster.
        why: What it is for.
    """

    key: str
    small: Value
    cluster: Value
    why: str

    def of(self, profile: Profile) -> Value:
        """Its value under a profile."""
        return self.small if profile == "small" else self.cluster


def profile_of(master: str) -> Profile:
    """The profile of a Spark master; ``local-cluster`` has executors of their own, as any cluster has."""
    return "small" if master.startswith("local") and not master.startswith("local-cluster") else "cluster"


def values(profile: Profile, of_run: Mapping[str, str]) -> dict[str, str]:
    """What the engine sets under a profile.

    Args:
        profile: Where it runs.
        of_run: The values that only the run knows; one that is left out is not set.

    Raises:
        AssertionError: A value is given that is not the run's to give: it has no place on the page.
    """
    found: dict[str, str] = {}
    expected = set()
    for conf in ALL:
        value = conf.of(profile)
        if isinstance(value, OfRun):
            expected.add(conf.key)
            value = of_run.get(conf.key)
        if value is not None:
            found[conf.key] = value
    if unknown := of_run.keys() - expected:
        raise AssertionError(f"not in common.spark.session_conf for {profile!r}: {sorted(unknown)}")
    return found


def _both(key: str, value: Value, why: str) -> Conf:
    return Conf(key, value, value, why)


_MIB = 1024 * 1024
_FOR_MONTHS = "What is over (reports, plans, jobs) would fill the driver of a job that runs for months."

RELIED_ON: Sequence[Conf] = (
    _both(
        "spark.sql.extensions",
        "io.delta.sql.DeltaSparkSessionExtension",
        "Delta's SQL. A value of your own must name this one too.",
    ),
    _both(
        "spark.sql.catalog.spark_catalog",
        "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "Tables are Delta tables.",
    ),
    _both("spark.sql.session.timeZone", "UTC", "A time without a zone means the same wherever it is read."),
    _both(
        "spark.sql.ansi.enabled",
        "true",
        "An expression that overflows or casts what is no number fails, and sets its row aside, instead of "
        "giving another value.",
    ),
    _both(
        "spark.sql.parquet.outputTimestampType",
        "TIMESTAMP_MICROS",
        "INT96, the default, has no min/max statistics and is not what other readers expect.",
    ),
    _both(
        "spark.databricks.delta.skipRecordingEmptyCommits",
        "false",
        "A micro-batch without a row leaves its commit too: by it a replay is known, and a checkpoint its "
        "table.",
    ),
    _both(
        "spark.databricks.delta.v2.enableMode",
        "NONE",
        "Delta's newer source, which it may choose by itself, has positions and options of its own.",
    ),
    Conf(
        "spark.delta.logStore.file.impl",
        "medallion.disk.LinkLogStore",
        "io.delta.storage.LocalLogStore",
        "On one machine a version of a table on the local disk has one writer, and is flushed before it "
        "counts. On a cluster it is Delta's own that starts fewest processes per commit; there the lease "
        "alone keeps a second writer away.",
    ),
    Conf(
        "spark.hadoop.fs.file.impl",
        "medallion.disk.LocalDisk",
        None,
        "The local disk by system calls: no process forked per file, and a rename that replaces nothing.",
    ),
    Conf(
        "spark.hadoop.fs.AbstractFileSystem.file.impl",
        "medallion.disk.LocalFiles",
        None,
        "The same by Hadoop's other interface, which checkpoints use.",
    ),
    _both(
        "spark.driver.maxResultSize",
        "256m",
        "Results that come to the driver are few; what would fill its heap is refused before it does. Of all "
        "queries so many results come at once as fit into half of the heap at this size.",
    ),
    _both(
        "spark.sql.redaction.options.regex",
        "(?i)url|secret|password|token|jaas|key",
        "Options that may hold a secret are not shown in plans and logs.",
    ),
)
"""A result or a guarantee rests on these."""

CHOSEN: Sequence[Conf] = (
    _both(DRIVER_MEMORY, OfRun("`spark.driver_memory`"), "The driver's heap."),
    _both(
        SHUFFLE_PARTITIONS,
        OfRun("`spark.shuffle_partitions`"),
        "State partitions, fixed at a query's first start: see below.",
    ),
    _both(
        STATE_STORE,
        OfRun("`spark.state_store`"),
        "Where state is kept; fixed at a query's first start too.",
    ),
    _both(UI, OfRun("`spark.ui`"), "Spark's web UI."),
    _both(avro_schema.REGISTRY, OfRun("`silver.schema_registry`"), "Where schemas of Avro values are."),
    _both(
        avro_schema.REGISTRY_LOGIN,
        OfRun("`silver.schema_registry_login`"),
        "Names the variable with its login.",
    ),
    _both(
        WAREHOUSE,
        OfRun("a folder beside the log"),
        "Where Spark would put tables of its own; the engine's are elsewhere.",
    ),
    Conf(
        CLASS_PATH,
        OfRun("the locked jars"),
        None,
        "On the driver's own class path the classes load faster than from a child loader. A value of your "
        "own must name them too.",
    ),
    Conf(
        JARS,
        None,
        OfRun("the locked jars"),
        "Executors fetch them from the driver. A value of your own must name them too.",
    ),
)
"""Settings of the engine, in Spark's words."""

COSTS: Sequence[Conf] = (
    Conf(
        "spark.sql.adaptive.enabled",
        "false",
        None,
        "Planning anew between the stages of a query takes small batches time, and has little to choose "
        "among a few partitions.",
    ),
    _both(
        "spark.databricks.delta.snapshotPartitions",
        "2",
        "A fresh table's state is rebuilt at every commit: 50 tasks by default, for a handful of files.",
    ),
    _both(
        WITHOUT_ROWS,
        "false",
        "Each micro-batch without rows costs a commit. A query that closes windows by one asks for them "
        "itself, whatever this says.",
    ),
    _both(
        "spark.sql.streaming.minBatchesToRetain",
        "50",
        "So many micro-batches back a checkpoint is kept: half of Spark's 100, and half the files.",
    ),
    _both(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "A micro-batch writes what changed in its state, not the state.",
    ),
    _both(
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage",
        "true",
        "All states of a process share one bound of memory.",
    ),
    _both(
        "spark.sql.parquet.compression.codec",
        "zstd",
        "Smaller files than Spark's snappy.",
    ),
    _both(
        "spark.sql.inMemoryColumnarStorage.compressed",
        "false",
        "A micro-batch is kept for seconds: a search for the best encoding costs more than it saves.",
    ),
    Conf(
        "spark.buffer.pageSize",
        "2m",
        None,
        "Each broadcast relation, and each task that sorts or groups, takes at least one page, however few "
        "its rows are: by default 16 or 32 MB each with a heap of 2 GB. A larger row gets a larger page.",
    ),
    _both(
        "spark.sql.codegen.cache.maxEntries",
        "1000",
        "A few queries have more plans than the 100 classes kept by default: each compiled anew in every "
        "batch.",
    ),
    _both(
        "spark.sql.sources.parallelPartitionDiscovery.parallelism",
        "16",
        "Tasks that list a folder, for VACUUM: 10,000 by default, a minute and more for the smallest table.",
    ),
    _both("spark.scheduler.mode", "FAIR", "Each query has a pool of its own; none waits for another's job."),
    _both(
        "spark.databricks.delta.optimize.maxFileSize",
        str(64 * _MIB),
        "A MERGE writes whole files anew, and a reader of few keys reads whole files: neither wants huge "
        "ones.",
    ),
    _both(
        SMALL_FILE,
        str(48 * _MIB),
        "Smaller files than this are put together.",
    ),
    _both(
        "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold",
        str(1024 * _MIB),
        "Up to here rows that are clustered already are clustered again with new ones.",
    ),
    _both(
        "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize",
        str(1536 * _MIB),
        "Bytes of rows that are clustered as one.",
    ),
    _both(
        "spark.sql.ui.explainMode",
        "simple",
        "Each plan is written out for a UI: in the long form 4 % of the CPU in a profile of small batches.",
    ),
    _both(
        "spark.python.sql.dataFrameDebugging.enabled",
        "false",
        "Where a column was written in Python: asking costs more than all else that building a plan does.",
    ),
    _both("spark.sql.streaming.numRecentProgressUpdates", "20", _FOR_MONTHS),
    _both("spark.sql.streaming.ui.retainedProgressUpdates", "20", _FOR_MONTHS),
    _both("spark.sql.ui.retainedExecutions", "25", _FOR_MONTHS),
    _both("spark.ui.retainedJobs", "50", _FOR_MONTHS),
    _both("spark.ui.retainedStages", "50", _FOR_MONTHS),
    _both("spark.ui.retainedTasks", "2000", _FOR_MONTHS),
    _both("spark.ui.showConsoleProgress", "false", "The terminal is the engine's."),
)
"""What they change is time, memory and the size of files, never a result."""

OURS: Sequence[Conf] = (
    _both(MASTER, OfRun("`spark.master`"), "It chooses the profile. `spark-submit` has its own."),
    _both(APP_NAME, OfRun("the job's name"), "Names the log. `spark-submit` has its own."),
    _both(
        JAVA_OPTIONS,
        OfRun("ours, then yours"),
        "Yours are added: ours say where the JVM logs, how it collects garbage, that it ends when its heap "
        "is full, and, in a run that ends, what it need not optimize (`common/spark/compiler.json`).",
    ),
)
"""These ``spark.conf`` cannot replace."""

ALL: Sequence[Conf] = (*RELIED_ON, *CHOSEN, *COSTS, *OURS)
"""All of them, each key once."""
