"""Every Spark setting that the engine sets, with the value per profile and the reason. Data only.

The profile follows from Spark's master: ``small`` is one machine with one process that does all the work;
``cluster`` is everything else. The user's settings take precedence over all of these except ``OURS``.
``docs/install/settings.md`` is generated from this module. A value that each installation must choose
(memory, partitions) is a setting of the engine and appears here by the name of that setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from common.config import object_store
from common.config.settings import is_cluster
from common.schema import avro as avro_schema

Profile = Literal["small", "cluster"]

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
WITHOUT_ROWS = "spark.sql.streaming.noDataMicroBatches.enabled"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SMALL_FILE = "spark.databricks.delta.optimize.minFileSize"
FULL_FILE = "spark.databricks.delta.optimize.maxFileSize"
LOGGED_VACUUM = "spark.databricks.delta.vacuum.logging.enabled"
CLASS_PATH = "spark.driver.extraClassPath"
JARS = "spark.jars"
LOADED: Mapping[Profile, tuple[str, str]] = {"small": (CLASS_PATH, ":"), "cluster": (JARS, ",")}
"""The setting by which a session loads its jars, and what separates its values."""

STREAMING_METRICS = "spark.sql.streaming.metricsEnabled"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
STATE_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
LOCAL_DIR = "spark.local.dir"
WAREHOUSE = "spark.sql.warehouse.dir"
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
S3_LOG_STORE = "spark.delta.logStore.s3a.impl"
LEASE_OWNER = "spark.hadoop.medallion.lease.owner"
DRIVER_MEMORY = "spark.driver.memory"
UI = "spark.ui.enabled"
MASTER = "spark.master"
APP_NAME = "spark.app.name"
REDACTION = "spark.redaction.regex"
UMASK = "spark.hadoop.fs.permissions.umask-mode"

_UNEVEN = (
    "a query over two sources would have the watermark of the faster one, and rows of the slower one would "
    "be dropped without a word"
)
_GONE = (
    "rows of files that are gone or damaged would be left out without an error, and the checkpoints would "
    "count them as read. Where a file is gone, medallion recover --plan says what can be done"
)
LOSES_ROWS: Mapping[str, tuple[str, str]] = {
    "spark.sql.files.ignoreMissingFiles": ("true", _GONE),
    "spark.sql.files.ignoreCorruptFiles": ("true", _GONE),
    "spark.sql.streaming.multipleWatermarkPolicy": ("max", _UNEVEN),
}
"""Values of settings with which Spark leaves out rows without an error, and what would be lost."""


def losing(conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings of a configuration with which rows would be lost: the name, and the whole sentence."""
    for name, (value, lost) in LOSES_ROWS.items():
        if str(conf.get(name, "")).strip().lower() == value:
            yield name, f"{name} is {value}: {lost}. Take the setting out of spark.conf"


STATE_STORES = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}


@dataclass(frozen=True, slots=True)
class OfRun:
    """A value that is known only when a session is built.

    Attributes:
        shown: Description of the value in ``docs/install/settings.md``.
    """

    shown: str


Value = str | OfRun | None


@dataclass(frozen=True, slots=True)
class Conf:
    """One Spark setting.

    Attributes:
        key: Name of the setting.
        small: Value on one machine; ``None`` keeps Spark's default.
        cluster: Value on a cluster; ``None`` keeps Spark's default.
        why: Reason for the values, as shown in ``docs/install/settings.md``.
    """

    key: str
    small: Value
    cluster: Value
    why: str

    def of(self, profile: Profile) -> Value:
        """The value under a profile."""
        return self.small if profile == "small" else self.cluster


def profile_of(master: str) -> Profile:
    """The profile of a Spark master; ``local-cluster`` has separate executors, as any cluster has."""
    return "cluster" if is_cluster(master) else "small"


def values(profile: Profile, of_run: Mapping[str, str]) -> dict[str, str]:
    """The Spark settings that the engine sets under a profile.

    Args:
        profile: The profile.
        of_run: A value for each setting that is declared as ``OfRun``; a setting without one is not set.

    Raises:
        AssertionError: ``of_run`` names a setting that is not declared as ``OfRun`` under this profile, and
            that ``docs/install/settings.md`` would therefore not list.
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
_FOR_MONTHS = "Finished reports, plans and jobs would fill the driver's heap in a job that runs for months."

RELIED_ON: Sequence[Conf] = (
    _both(
        "spark.sql.extensions",
        "io.delta.sql.DeltaSparkSessionExtension",
        "Delta's SQL. Your own value must include this class.",
    ),
    _both(
        "spark.sql.catalog.spark_catalog",
        "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "Resolves tables as Delta tables.",
    ),
    _both("spark.sql.session.timeZone", "UTC", "A time without a zone means the same on every machine."),
    _both(
        "spark.sql.ansi.enabled",
        "true",
        "An expression that overflows, or casts a text that is not a number, fails and has its row "
        "quarantined, instead of giving a wrong value or null.",
    ),
    _both(
        "spark.sql.datetime.java8API.enabled",
        "true",
        "Files with days and times of 1582-10-05 to 1582-10-14 are read where such a day is sought. By the "
        "older classes of Java, whose calendar lacks these days, Spark skips them.",
    ),
    _both(
        "spark.sql.parquet.outputTimestampType",
        "TIMESTAMP_MICROS",
        "INT96, the default, has no min/max statistics and is not what other readers expect.",
    ),
    _both(
        "spark.hadoop.parquet.page.write-checksum.enabled",
        "true",
        "Each page of a data file has a checksum. Files that delta-rs writes in the driver have none.",
    ),
    _both(
        "spark.hadoop.parquet.page.verify-checksum.enabled",
        "true",
        "A page whose bits have changed on the disk fails the query, instead of giving another value.",
    ),
    _both(
        "spark.databricks.delta.skipRecordingEmptyCommits",
        "false",
        "A micro-batch without rows commits too: by its commits a table recognizes a replayed micro-batch "
        "and the checkpoint that belongs to it.",
    ),
    _both(
        "spark.databricks.delta.v2.enableMode",
        "NONE",
        "Delta may otherwise choose its newer streaming source, whose offsets and options differ.",
    ),
    Conf(
        "spark.delta.logStore.file.impl",
        "medallion.disk.LinkLogStore",
        "io.delta.storage.LocalLogStore",
        "On one machine, only one writer can commit a version of a table on the local disk, and the commit "
        "is flushed before it becomes visible. On a cluster: the log store of Delta's that starts the fewest "
        "processes per commit; only the lease excludes a second writer there.",
    ),
    Conf(
        "spark.hadoop.fs.file.impl",
        "medallion.disk.LocalDisk",
        None,
        "The local disk by system calls: no process is started per file, and a rename never replaces a file.",
    ),
    Conf(
        "spark.hadoop.fs.AbstractFileSystem.file.impl",
        "medallion.disk.LocalFiles",
        None,
        "The local disk by system calls behind Hadoop's other interface, which checkpoints use.",
    ),
    Conf(
        "spark.hadoop.fs.s3a.fast.upload.buffer",
        "array",
        None,
        "S3A keeps what it uploads in memory: its buffers on the local disk need Hadoop's own local file "
        "system, and each write would fail.",
    ),
    Conf(
        "spark.hadoop.fs.s3a.multipart.size",
        "8M",
        None,
        "Memory of each file that is being uploaded to an S3 store; a larger file is uploaded in parts.",
    ),
    _both(
        CHECKPOINT_FILES,
        OfRun("for checkpoints on `s3a://`"),
        "Spark's own writer of checkpoints for object stores: a file appears whole when it is closed, and "
        "none is renamed, which on S3 is a copy.",
    ),
    _both(
        S3_LOG_STORE,
        OfRun("for tables on `s3a://`"),
        "A version of a table on an S3 store is committed by a conditional put, by the holder of the table's "
        "lease only (`docs/install/object-stores.md`).",
    ),
    _both(LEASE_OWNER, OfRun("for tables on `s3a://`"), "By it the log store knows the job's own leases."),
    _both(
        "spark.driver.maxResultSize",
        "256m",
        "A job whose result would fill the driver's heap fails before that; the engine collects only small "
        "results. The engine lets as many queries collect at a time as fit into half of the heap at this "
        "size.",
    ),
    _both(
        "spark.sql.redaction.options.regex",
        "(?i)url|secret|password|token|jaas|key|certificate",
        "Redacts options that may contain a secret in plans and logs.",
    ),
)
"""Results or guarantees depend on these settings."""

_PAUSED = (
    "A machine that was suspended, or a process that was paused, goes on where it was. Driver and executor "
    "are one process here: after the default of two minutes it removes itself, and ends."
)

CHOSEN: Sequence[Conf] = (
    Conf(
        LOCAL_DIR,
        OfRun("`tmp` beside the logs"),
        None,
        "What Spark puts down while it computes, on the disk of the data; `java.io.tmpdir` is there too.",
    ),
    Conf("spark.network.timeout", "30d", None, _PAUSED),
    Conf("spark.storage.blockManagerHeartbeatTimeoutMs", "30d", None, _PAUSED),
    Conf("spark.executor.heartbeat.maxFailures", "2147483647", None, _PAUSED),
    _both(DRIVER_MEMORY, OfRun("`spark.driver_memory`"), "The driver's heap."),
    _both(
        SHUFFLE_PARTITIONS,
        OfRun("`spark.shuffle_partitions`"),
        "State partitions, fixed at a query's first start (see below).",
    ),
    _both(
        STATE_STORE,
        OfRun("`spark.state_store`"),
        "Where a query keeps its state; fixed at the query's first start too.",
    ),
    _both(UI, OfRun("`spark.ui`"), "Spark's web UI."),
    _both(UMASK, OfRun("`data_mode`"), "Permissions of files and folders that Spark writes."),
    _both(avro_schema.REGISTRY, OfRun("`silver.schema_registry`"), "Where writers' schemas are."),
    _both(
        avro_schema.REGISTRY_LOGIN,
        OfRun("`silver.schema_registry_login`"),
        "Name of the environment variable with the schema registry's login.",
    ),
    _both(
        object_store.ENDPOINT,
        OfRun("`AWS_ENDPOINT_URL`"),
        "Address of the S3 store, where tables or checkpoints are on `s3a://`; unset: AWS.",
    ),
    _both(object_store.REGION, OfRun("`AWS_REGION`"), "Region of the S3 store."),
    _both(
        object_store.PATH_STYLE,
        OfRun("true with an address"),
        "The bucket is a part of the path: a server of one's own rarely has a host name per bucket.",
    ),
    _both(
        WAREHOUSE,
        OfRun("a folder beside the log"),
        "Where Spark would create its own tables; the engine's tables are elsewhere.",
    ),
)
"""The engine's own settings, by Spark's names."""

COSTS: Sequence[Conf] = (
    Conf(
        "spark.sql.adaptive.enabled",
        "false",
        None,
        "Replanning between the stages of a query delays small micro-batches, and gains little with a few "
        "partitions.",
    ),
    _both(
        "spark.databricks.delta.snapshotPartitions",
        "2",
        "Delta rebuilds a table's state after every commit: by default with 50 tasks, for a handful of "
        "files.",
    ),
    _both(
        WITHOUT_ROWS,
        "false",
        "Each micro-batch without rows costs a commit. A query that needs such micro-batches to close "
        "windows turns them on for itself, whatever the value here.",
    ),
    _both(
        "spark.sql.streaming.minBatchesToRetain",
        "50",
        "Number of micro-batches whose files a checkpoint keeps: half of Spark's 100, so half the files.",
    ),
    _both(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "A micro-batch writes the changes of its state, not the whole state.",
    ),
    _both(
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage",
        "true",
        "All state stores of a process share one memory limit.",
    ),
    _both(
        "spark.sql.parquet.compression.codec",
        "zstd",
        "Smaller files than Spark's snappy.",
    ),
    _both(
        "spark.sql.inMemoryColumnarStorage.compressed",
        "false",
        "A micro-batch is cached for seconds: choosing the best encoding costs more than it saves.",
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
        "A few queries generate more than the 100 classes cached by default, and would compile each class "
        "again in every micro-batch.",
    ),
    _both(
        "spark.sql.sources.parallelPartitionDiscovery.parallelism",
        "16",
        "Maximum number of tasks by which VACUUM lists files: with the default of 10,000, VACUUM of the "
        "smallest table takes more than a minute.",
    ),
    _both(
        "spark.scheduler.mode",
        "FAIR",
        "Each query has its own scheduler pool; no query waits for another query's job.",
    ),
    _both(
        FULL_FILE,
        str(64 * _MIB),
        "A MERGE rewrites whole files, and a reader of few keys reads whole files: large files make both "
        "slow.",
    ),
    _both(
        SMALL_FILE,
        str(48 * _MIB),
        "OPTIMIZE compacts files smaller than this.",
    ),
    _both(
        "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.threshold",
        str(1024 * _MIB),
        "A group of clustered files up to this size is clustered again together with new files.",
    ),
    _both(
        "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize.targetCubeSize",
        str(1536 * _MIB),
        "Target size of a group of files that are clustered together.",
    ),
    _both(
        "spark.sql.ui.explainMode",
        "simple",
        "Spark formats each plan as text for its UI: the long form took 4 % of the CPU in a profile of small "
        "micro-batches.",
    ),
    _both(
        "spark.python.sql.dataFrameDebugging.enabled",
        "false",
        "Records where a column was created in Python; the look-up costs more than the rest of building a "
        "plan.",
    ),
    _both("spark.sql.streaming.numRecentProgressUpdates", "20", _FOR_MONTHS),
    _both("spark.sql.streaming.ui.retainedProgressUpdates", "20", _FOR_MONTHS),
    _both("spark.sql.ui.retainedExecutions", "25", _FOR_MONTHS),
    _both("spark.ui.retainedJobs", "50", _FOR_MONTHS),
    _both("spark.ui.retainedStages", "50", _FOR_MONTHS),
    _both("spark.ui.retainedTasks", "2000", _FOR_MONTHS),
    _both("spark.ui.showConsoleProgress", "false", "The engine writes to the terminal itself."),
)
"""These settings change time, memory and file sizes, never a result."""

OURS: Sequence[Conf] = (
    _both(MASTER, OfRun("`spark.master`"), "Determines the profile. `spark-submit --master` replaces it."),
    _both(APP_NAME, OfRun("the job's name"), "The application's name. `spark-submit --name` replaces it."),
    _both(
        JAVA_OPTIONS,
        OfRun("ours, then yours"),
        "Your options are appended to the engine's, which set the JVM's log file and garbage collector, have "
        "the JVM exit when its heap is full, and, in a run that ends, restrict which code is optimized "
        "(`common/spark/compiler.json`).",
    ),
    Conf(
        CLASS_PATH,
        OfRun("the locked jars, then yours"),
        None,
        "Classes on the driver's class path load faster than from a child class loader. Your own class path "
        "follows the engine's jars.",
    ),
    Conf(
        JARS,
        None,
        OfRun("the locked jars, then yours"),
        "Executors fetch these jars from the driver. Your own jars follow the engine's.",
    ),
    _both(
        REDACTION,
        OfRun("names of secrets, yours too"),
        "Values of settings with such a name are hidden in Spark's UI, event log and logs. Your own "
        "expression and all settings that are references (`env:`, `file:`) are added.",
    ),
)
"""Settings that ``spark.conf`` cannot replace."""

ALL: Sequence[Conf] = (*RELIED_ON, *CHOSEN, *COSTS, *OURS)
"""All settings of this module, each key once."""
