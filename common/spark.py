"""The only place that builds a Spark session."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common import avro_schema, class_archive, process
from common.errors import SetupError
from common.jars import require
from common.java import find_java
from common.reader_jar import reader_jar
from common.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_STORES = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}

# Held fixed because a result or a guarantee depends on it; `spark.conf` of the settings still wins.
_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # INT96, the default, has no min/max statistics and is not what other readers expect.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # A fresh table's state is rebuilt at every commit: 50 tasks by default, for a handful of files.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Delta's choice for local files starts helper processes for every commit; this one, two. Neither is
    # safe for two processes on one table: the lease is.
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    # A micro-batch without a row leaves its commit too: by it a replay is known, and a checkpoint its table.
    "spark.databricks.delta.skipRecordingEmptyCommits": "false",
    "spark.databricks.delta.v2.enableMode": "NONE",
    # Each empty micro-batch costs a commit; a query that closes windows by one asks for them itself.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "50",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    # A few queries have more plans than the 100 classes kept by default: each compiled anew in every batch.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # A micro-batch is kept for seconds: a search for the best encoding costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # Each plan is written out for a UI: in the long form 4 % of the CPU in a profile of small batches.
    "spark.sql.ui.explainMode": "simple",
    # Results that come to the driver are few; what would fill its heap is refused before it does.
    "spark.driver.maxResultSize": "256m",
    # Tasks that list a folder, for VACUUM: 10,000 by default, a minute and more for the smallest table.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    # Where a column was written in Python: asking costs more than all else that building a plan does.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Old executions and plans fill the driver of a job that runs for months.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "25",
    "spark.sql.streaming.ui.retainedProgressUpdates": "20",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|jaas|key",
}


_LOCAL_DISK = {
    "spark.hadoop.fs.file.impl": "medallion.disk.LocalDisk",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "medallion.disk.LocalFiles",
    "spark.delta.logStore.file.impl": "medallion.disk.LinkLogStore",
}
"""The local disk without a process forked per file, and a commit that is there or never was."""

_ONE_MACHINE = {
    # Planning anew between the stages of a query takes small batches time, and has little to choose here.
    "spark.sql.adaptive.enabled": "false",
}
"""What pays on one machine, with as many shuffle partitions as cores, and not on a cluster."""


_LOG = "-Dmedallion.log={}"
"""Where the JVM logs; it also tells our JVMs from others."""

_END_SECONDS = 5.0


def build_session(
    settings: Settings,
    app: str,
    log_dir: Path,
    sets: Sequence[str] = ("spark",),
    *,
    is_short: bool = False,
) -> SparkSession:
    """A classic Spark session with Delta and Kafka, or the one `spark-submit` has already made.

    Args:
        settings: Master, memory, partitions, state store, and any further Spark setting.
        app: Name of the application; also names its log file.
        log_dir: Folder of ``<app>.log``, where Spark's own log goes instead of the console, of
            ``<app>.jvm.log`` with what its JVM prints, and of ``<app>.python.log`` for Python's libraries.
        sets: Sets of locked jars to load.
        is_short: For a run of a minute or two: the JVM compiles quickly rather than well.

    Raises:
        JavaError: No usable Java.
        JarError: A locked jar cannot be had.
    """
    java = find_java(settings)
    jars = (*require(settings, *sets), reader_jar(settings))
    log_dir.mkdir(parents=True, exist_ok=True)
    _log_python(log_dir / f"{app}.python.log")
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    local = settings.spark.master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

    conf = dict(_CONF)
    conf["spark.sql.shuffle.partitions"] = str(settings.spark.shuffle_partitions)
    conf["spark.sql.streaming.stateStore.providerClass"] = STATE_STORES[settings.spark.state_store]
    conf["spark.ui.enabled"] = str(settings.spark.ui).lower()
    conf["spark.driver.memory"] = settings.spark.driver_memory
    conf |= registry_conf(settings)
    paths = [str(jar) for jar in jars]
    if local:
        # On the driver's own class path the classes load faster than from a child loader.
        conf["spark.driver.extraClassPath"] = os.pathsep.join(paths)
        conf |= _LOCAL_DISK | _ONE_MACHINE
    else:
        conf["spark.jars"] = ",".join(paths)
    options = _java_options(log_dir / f"{app}.log") + (["-XX:TieredStopAtLevel=1"] if is_short else [])
    if local and "ArchiveClassesAtExit" not in settings.spark.conf.get("spark.driver.extraJavaOptions", ""):
        options += class_archive.options(java, jars)
    if not settings.spark.fsync:
        options.append("-Dmedallion.disk.volatile=true")
    own = "spark.driver.extraJavaOptions"
    conf["spark.sql.warehouse.dir"] = (log_dir.parent / "spark-warehouse").as_uri()
    conf |= settings.spark.conf
    conf[own] = " ".join([*options, *filter(None, [settings.spark.conf.get(own)])])
    conf |= {"spark.app.name": f"medallion {app}", "spark.master": settings.spark.master}
    return _launch(conf, log_dir / f"{app}.log", log_dir / f"{app}.jvm.log")


def registry_conf(settings: Settings) -> dict[str, str]:
    """Where the reader of Avro values finds schemas: a session keeps it, for all that read values in it."""
    place, login = settings.silver.schema_registry, settings.silver.schema_registry_login
    if place is not None and "://" not in place:
        place = str(Path(place).absolute())
    return {
        name: value
        for name, value in ((avro_schema.REGISTRY, place), (avro_schema.REGISTRY_LOGIN, login))
        if value is not None
    }


def _hush() -> None:
    """Keep PySpark from writing each error's whole plan to stderr: whoever catches one tells it in a line."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _launch(conf: dict[str, str], log: Path, output: Path) -> SparkSession:
    """Start the JVM with what it prints in a file, then the session in it.

    Under `spark-submit` the JVM is there already, and what was submitted with `--conf` wins.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  # half a second that `medallion status` saves
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    _hush()
    wanted = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        submitted = SparkConf()
        wanted = SparkConf(loadDefaults=False).setAll([*conf.items(), *submitted.getAll()])
    elif SparkContext._gateway is None:  # noqa: SLF001  # asked before a second one is started
        try:
            with output.open("ab") as said:
                gateway = launch_gateway(wanted, {"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            tail = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            raise SetupError(
                f"Spark's JVM did not start: {' | '.join(tail)}. Its output is in {output}."
            ) from error
        except BaseException:
            # Interrupted: PySpark takes the folder away in which the JVM is to leave its port, and a JVM
            # that cannot do so stays for ever.
            for pid in process.find(_LOG.format(log)):
                if process.parent(pid) == os.getpid():
                    process.end(pid, process.started(pid), timeout_seconds=_END_SECONDS)
            raise
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001  # PySpark's own way to take one
    return SparkSession.builder.config(conf=wanted).getOrCreate()


def _log_python(file: Path) -> None:
    """What libraries log goes into a file: py4j would print a stack trace of each micro-batch that fails."""
    handler = logging.FileHandler(file, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger().addHandler(handler)


def _java_options(log_file: Path) -> list[str]:
    config = Path(__file__).with_name("log4j2.properties")
    return [
        f"-Dlog4j2.configurationFile={config.as_uri()}",
        _LOG.format(log_file),
        "-Djava.net.preferIPv4Stack=true",
        # Each plan has code of its own; 48 MB, a quick compiler's share, is full with a dozen queries.
        "-XX:ReservedCodeCacheSize=256m",
        "-XX:+UseSerialGC" if (os.cpu_count() or 1) <= 2 else "-XX:+UseG1GC",  # noqa: PLR2004
    ]
