"""The only place that builds a Spark session."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from common.config.settings import Settings
from common.errors import SetupError
from common.java.compile_sources import reader_jar
from common.java.find_java import find_java
from common.java.jar_cache import require
from common.machine import processes
from common.schema import avro as avro_schema
from common.spark import class_archive, jvm
from common.spark import session_conf as spark_conf
from common.spark.private_properties import submitted_by_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = "-Dmedallion.log={}"
"""Where the JVM logs; it also tells our JVMs from others."""

Compiled = Literal["quickly", "rows", "all"]
"""How well the JVM compiles: all of a job of months; only what touches rows in a run that ends, where
compiling what plans takes longer than planning; nothing in a run of a minute or two."""

DIRECTIVES = Path(__file__).with_name("compiler.json")
_COMPILER: Mapping[Compiled, Sequence[str]] = {
    "quickly": ("-XX:TieredStopAtLevel=1",),
    "rows": ("-XX:+UnlockDiagnosticVMOptions", f'-XX:CompilerDirectivesFile="{DIRECTIVES}"'),
    "all": (),
}

_END_SECONDS = 5.0


def build_session(
    settings: Settings,
    app: str,
    log_dir: Path,
    sets: Sequence[str] = ("spark",),
    *,
    compiled: Compiled = "all",
) -> SparkSession:
    """A classic Spark session with Delta and Kafka, or the one `spark-submit` has already made.

    Args:
        settings: Master, memory, partitions, state store, and any further Spark setting.
        app: Name of the application; also names its log file.
        log_dir: Folder of ``<app>.log``, where Spark's own log goes instead of the console, of
            ``<app>.jvm.log`` with what its JVM prints, and of ``<app>.python.log`` for Python's libraries.
        sets: Sets of locked jars to load.
        compiled: How well the JVM compiles.

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
    submitted = _submitted()
    is_small = spark_conf.profile_of(submitted.get(spark_conf.MASTER, settings.spark.master)) == "small"
    options = [*_java_options(log_dir / f"{app}.log"), *_COMPILER[compiled]]
    if is_small:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if "ArchiveClassesAtExit" not in settings.spark.conf.get(spark_conf.JAVA_OPTIONS, ""):
            options += class_archive.jvm_options(java, jars)
    if not settings.spark.fsync:
        options.append("-Dmedallion.disk.volatile=true")
    conf = session_conf(settings, app, log_dir, jars, options, submitted)
    return _launch(conf, log_dir / f"{app}.log", log_dir / f"{app}.jvm.log")


def session_conf(  # noqa: PLR0913, PLR0917  # all that has a say in it
    settings: Settings,
    app: str,
    log_dir: Path,
    jars: Sequence[Path],
    java_options: Sequence[str],
    submitted: Mapping[str, str],
) -> dict[str, str]:
    """A session's configuration: the profile's, then ``spark.conf`` of the settings, then what was submitted.

    Args:
        settings: Master, memory, partitions, state store, and any further Spark setting.
        app: Name of the application.
        log_dir: Folder of its log.
        jars: What the session loads.
        java_options: The engine's own; those of ``spark.conf`` come after them.
        submitted: What `spark-submit` was given; its master chooses the profile, if it has one.
    """
    profile = spark_conf.profile_of(submitted.get(spark_conf.MASTER, settings.spark.master))
    paths = [str(jar) for jar in jars]
    loaded = {spark_conf.CLASS_PATH: os.pathsep.join(paths)}
    if profile == "cluster":
        loaded = {spark_conf.JARS: ",".join(paths)}
    own = settings.spark.conf
    always = {
        spark_conf.JAVA_OPTIONS: " ".join([*java_options, *filter(None, [own.get(spark_conf.JAVA_OPTIONS)])]),
        spark_conf.APP_NAME: f"medallion {app}",
        spark_conf.MASTER: settings.spark.master,
    }
    warehouse = {spark_conf.WAREHOUSE: (log_dir.parent / "spark-warehouse").as_uri()}
    given = _chosen(settings) | registry_conf(settings) | warehouse | loaded | always
    return {**spark_conf.values(profile, given), **own, **always, **submitted}


def _chosen(settings: Settings) -> dict[str, str]:
    """What the engine's own settings say, in Spark's words."""
    chosen = settings.spark
    return {
        spark_conf.DRIVER_MEMORY: chosen.driver_memory,
        spark_conf.SHUFFLE_PARTITIONS: str(chosen.shuffle_partitions),
        spark_conf.STATE_STORE: spark_conf.STATE_STORES[chosen.state_store],
        spark_conf.UI: str(chosen.ui).lower(),
    }


def _submitted() -> dict[str, str]:
    """What `spark-submit` was given, whose JVM is there already; nothing else where it did not start us."""
    from pyspark import SparkConf  # half a second that `medallion status` saves

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    jvm.connect()  # before that a SparkConf has none of the JVM's values
    return dict(SparkConf().getAll())


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
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _release_at_last_use() -> None:
    """Have Python release each object of the JVM at its last use, with all that it holds there.

    py4j keeps each member that was looked up (``frame.select``) in the object's proxy, and the member refers
    to the proxy: a reference cycle per object, which stays until Python's collector next looks at everything.
    In a job of hours that is hundreds of micro-batches later. A member without a cache costs a microsecond,
    its call a hundred.
    """
    from py4j.java_gateway import JavaMember, JavaObject, is_magic_member

    def member(self: Any, name: str) -> Any:
        if is_magic_member(name):
            raise AttributeError(name)
        return JavaMember(name, self, self._target_id, self._gateway_client)

    JavaObject.__getattr__ = member


def _launch(conf: dict[str, str], log: Path, output: Path) -> SparkSession:
    """Start the JVM, unless it is there already, with what it prints in a file; then the session in it."""
    from pyspark import SparkConf  # half a second that `medallion status` saves
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    _hush()
    _release_at_last_use()
    wanted = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    if not jvm.is_launched():
        try:
            with output.open("ab") as said, submitted_by_file(conf):
                gateway = launch_gateway(None, {"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            tail = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            raise SetupError(
                f"Spark's JVM did not start: {' | '.join(tail)}. Its output is in {output}."
            ) from error
        except BaseException:
            # Interrupted: PySpark takes the folder away in which the JVM is to leave its port, and a JVM
            # that cannot do so stays for ever.
            for pid in processes.find_by_command_line(_LOG.format(log)):
                if processes.parent_pid(pid) == os.getpid():
                    processes.terminate(pid, processes.start_mark(pid), timeout_seconds=_END_SECONDS)
            raise
        jvm.connect(gateway)
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
        # A JVM that goes on without memory has lost a thread at random, and its job waits for ever.
        "-XX:+ExitOnOutOfMemoryError",
        # Each plan has code of its own; 48 MB, a quick compiler's share, is full with a dozen queries.
        "-XX:ReservedCodeCacheSize=256m",
        "-XX:+UseSerialGC" if (os.cpu_count() or 1) <= 2 else "-XX:+UseG1GC",  # noqa: PLR2004
    ]
