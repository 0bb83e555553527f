"""The only place that builds a Spark session."""

from __future__ import annotations

import logging
import os
import pwd
import re
import sys
from collections.abc import Mapping, Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from common.config import object_store
from common.config.paths import user_home
from common.config.references import HIDDEN_NAMES, is_reference, resolve
from common.config.settings import Settings
from common.errors import SettingsError, SetupError, first_line
from common.java.compile_sources import reader_jar
from common.java.find_java import Java, find_java, trims_native_heap
from common.java.jar_cache import require, session_sets
from common.machine import event_log, lease_owner, processes
from common.machine.console import awaited
from common.machine.file_modes import umask
from common.machine.stop_signals import hangup_ignored, interrupt_with
from common.schema import avro as avro_schema
from common.spark import class_archive, jvm
from common.spark import session_conf as spark_conf
from common.spark.private_properties import submitted_by_file
from common.spark.temporary_files import FOLDER as TEMPORARY
from common.spark.temporary_files import folder_of, temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = processes.JVM_LOG + "{}"

_LOG_BYTES, _LOG_FILES = 20 * 2**20, 5
"""Size of a log file, and number of older ones that are kept; as ``log4j2.properties`` has it for Spark."""

Compiled = Literal["quickly", "rows", "all"]
"""Which code Spark's JVM compiles with full optimization. ``all``: for jobs that run for months. ``rows``:
only the code that processes rows, for runs that end; compiling the planner would take longer than planning.
``quickly``: none, but all of it earlier than usual, for runs of a minute or two."""

DIRECTIVES = Path(__file__).with_name("compiler.json")
_COMPILER: Mapping[Compiled, Sequence[str]] = {
    "quickly": ("-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=0.25"),
    "rows": ("-XX:+UnlockDiagnosticVMOptions", f'-XX:CompilerDirectivesFile="{DIRECTIVES}"'),
    "all": (),
}
_OPTIMIZER = "C2 "
"""The JVM's threads that compile with full optimization. In a job that runs for months they may take their
time: in its first minutes they would take a quarter of the CPU that its rows wait for."""


def build_session(
    settings: Settings,
    app: str,
    log_dir: Path,
    sets: Sequence[str] = ("spark",),
    *,
    compiled: Compiled = "all",
) -> SparkSession:
    """A classic Spark session with Delta and Kafka, or the session that `spark-submit` has already started.

    Args:
        settings: Master, memory, partitions, state store, and any further Spark setting.
        app: Name of the application; also names its log file.
        log_dir: Folder of the log files: ``<app>.log`` of Spark, instead of the console; ``<app>.jvm.log``
            with the output of Spark's JVM; ``<app>.python.log`` of Python's libraries.
        compiled: Which code the JVM compiles with full optimization.

    Raises:
        JavaError: No usable Java.
        JarError: A locked jar is missing and cannot be fetched.
        SetupError: No native library can be loaded from the folder of temporary files.
    """
    java = find_java(settings)
    jars = (*require(settings, *session_sets(settings, *sets)), reader_jar(settings))
    with umask(settings.umask):
        log_dir.mkdir(parents=True, exist_ok=True)
        _log_python(log_dir / f"{app}.python.log")
        temporary = temporary_folder(log_dir.parent / TEMPORARY, app)
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = _submitted()
    is_small = spark_conf.profile_of(submitted.get(spark_conf.MASTER, settings.spark.master)) == "small"
    options = [
        *_java_options(log_dir / f"{app}.log"),
        _property("java.io.tmpdir", temporary),
        *_user(temporary),
        *_log_options(settings, app, log_dir),
        *_native_memory(java),
        *_COMPILER[compiled],
    ]
    if is_small:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if "ArchiveClassesAtExit" not in settings.spark.conf.get(spark_conf.JAVA_OPTIONS, ""):
            options += class_archive.jvm_options(java, jars)
    if not settings.spark.fsync:
        options.append("-Dmedallion.disk.volatile=true")
    conf = session_conf(settings, app, log_dir, jars, options, submitted)
    with umask(settings.umask), awaited("Spark"):  # the JVM inherits the umask
        session = _launch(conf, log_dir / f"{app}.log", jvm.output_file(log_dir, app))
    if compiled == "all" and (child := jvm.process(session)) is not None:
        processes.let_others_first(child.pid, _OPTIMIZER)
    return session


def session_conf(  # noqa: PLR0913, PLR0917  # every source of the configuration
    settings: Settings,
    app: str,
    log_dir: Path,
    jars: Sequence[Path],
    java_options: Sequence[str],
    submitted: Mapping[str, str],
) -> dict[str, str]:
    """A session's configuration; later sources win: the profile, the setting ``spark.conf``, `spark-submit`.

    Args:
        settings: Master, memory, partitions, state store, and any further Spark setting.
        jars: Jars that the session loads; those of ``spark.conf`` follow them.
        java_options: The engine's JVM options; those of ``spark.conf`` are appended.
        submitted: Configuration given to `spark-submit`; its master, if set, determines the profile.

    Raises:
        SettingsError: A setting lets Spark leave out rows without an error.
    """
    profile = spark_conf.profile_of(submitted.get(spark_conf.MASTER, settings.spark.master))
    own = resolve(settings.spark.conf, "spark.conf")
    key, separator = spark_conf.LOADED[profile]
    loaded = {key: separator.join([*map(str, jars), *filter(None, [own.get(key)])])}
    always = {
        spark_conf.JAVA_OPTIONS: " ".join([*java_options, *filter(None, [own.get(spark_conf.JAVA_OPTIONS)])]),
        spark_conf.APP_NAME: f"medallion {app}",
        spark_conf.MASTER: settings.spark.master,
        **loaded,
    }
    warehouse = {spark_conf.WAREHOUSE: (log_dir.parent / "spark-warehouse").as_uri()}
    if profile == "small":
        warehouse[spark_conf.LOCAL_DIR] = str(folder_of(log_dir.parent / TEMPORARY, app))
    metrics = {spark_conf.STREAMING_METRICS: "true"} if settings.http.spark_metrics else {}
    referred = [name for name, value in settings.spark.conf.items() if is_reference(name, value)]
    always[spark_conf.REDACTION] = _redaction(own.get(spark_conf.REDACTION), referred)
    given = (
        _engine_settings(settings)
        | registry_conf(settings)
        | object_store.s3a_conf(settings)
        | _on_object_store(settings)
        | warehouse
        | always
    )
    conf = {**spark_conf.values(profile, given), **metrics, **own, **always, **submitted}
    _refuse_lost_rows(conf)
    return conf


def _refuse_lost_rows(conf: Mapping[str, str]) -> None:
    """Refuse settings with which Spark leaves out rows without an error."""
    for _, text in spark_conf.losing(conf):
        raise SettingsError(f"{text}.")


def _on_object_store(settings: Settings) -> dict[str, str]:
    """How Spark writes tables and checkpoints on ``s3a://``; empty for those elsewhere."""
    found = {}
    if any(one.startswith("s3a://") for one in settings.storage_places if one != settings.warehouse):
        found[spark_conf.CHECKPOINT_FILES] = (
            "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
        )
    if (settings.warehouse or "").startswith("s3a://"):
        found[spark_conf.S3_LOG_STORE] = "medallion.store.LeasedLogStore"
        found[spark_conf.LEASE_OWNER] = lease_owner.OWNER
    return found


def _redaction(own: str | None, referred: Sequence[str]) -> str:
    """A regular expression of names of settings whose values Spark hides in its UI, event log and logs."""
    # Hadoop's configuration has a property of spark.hadoop.* without this prefix.
    exact = [f"^(spark\\.hadoop\\.)?{re.escape(name.removeprefix('spark.hadoop.'))}$" for name in referred]
    return "|".join([HIDDEN_NAMES, *filter(None, [own and own.removeprefix("(?i)")]), *exact])


def _engine_settings(settings: Settings) -> dict[str, str]:
    """The engine's own settings, by Spark's names."""
    own = settings.spark
    return {
        spark_conf.DRIVER_MEMORY: own.driver_memory,
        spark_conf.SHUFFLE_PARTITIONS: str(own.shuffle_partitions),
        spark_conf.STATE_STORE: spark_conf.STATE_STORES[own.state_store],
        spark_conf.UI: str(own.ui).lower(),
        **({} if settings.umask is None else {spark_conf.UMASK: f"{settings.umask:03o}"}),
    }


def _submitted() -> dict[str, str]:
    """Configuration given to `spark-submit`, which has started the JVM; empty without `spark-submit`."""
    from pyspark import SparkConf  # half a second that `medallion status` saves

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    jvm.connect()  # without a connection a SparkConf has no values of the JVM
    return dict(SparkConf().getAll())


def registry_conf(settings: Settings) -> dict[str, str]:
    """Place and login of the schema registry, as configuration for the session's readers of framed values."""
    place, login = settings.silver.schema_registry, settings.silver.schema_registry_login
    if place is not None and "://" not in place:
        place = str(Path(place).absolute())
    login = login and login.removeprefix("env:")
    return {
        name: value
        for name, value in ((avro_schema.REGISTRY, place), (avro_schema.REGISTRY_LOGIN, login))
        if value is not None
    }


def _silence_error_logs() -> None:
    """Keep PySpark from printing each error's whole plan: the engine prints one line per error."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _release_at_last_use() -> None:
    """Have Python release each JVM object, with everything that the object references, at its last use.

    py4j caches each member that was looked up (``frame.select``) in the object's proxy, and the member refers
    to the proxy: a reference cycle per object, which stays until the next full run of Python's garbage
    collector. In a job of hours, hundreds of micro-batches pass until then. Looking up a member without the
    cache takes a microsecond; calling the member takes a hundred.
    """
    from py4j.java_gateway import JavaMember, JavaObject, is_magic_member

    def member(self: Any, name: str) -> Any:
        if is_magic_member(name):
            raise AttributeError(name)
        return JavaMember(name, self, self._target_id, self._gateway_client)

    JavaObject.__getattr__ = member


def _launch(conf: dict[str, str], log: Path, output: Path) -> SparkSession:
    """Start the JVM, unless one runs already, with its output in a file; return the session in the JVM."""
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf  # half a second that `medallion status` saves
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    _silence_error_logs()
    _release_at_last_use()
    wanted = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    if not jvm.is_launched():
        try:
            _shorten(output)
            with (
                output.open("ab") as printed,
                submitted_by_file(conf),
                hangup_ignored(),
                jvm.ignoring_stop_signals(),
            ):
                gateway = launch_gateway(None, {"stdout": printed, "stderr": printed})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            tail = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
            raise SetupError(
                f"Spark's JVM did not start: {' | '.join(tail)}. Its output is in {output}."
            ) from error
        except BaseException:
            # Interrupted: PySpark deletes the folder into which the JVM is to write its port, and a JVM
            # that cannot write its port never ends.
            for pid in processes.find_by_command_line(_LOG.format(log)):
                if processes.parent_pid(pid) == os.getpid():
                    processes.kill(pid, processes.start_mark(pid))
            raise
        jvm.connect(gateway)
        if not _user_has_name():
            jvm.name_user(str(os.getuid()))  # without one Hadoop opens no file system
    try:
        with jvm.own_interrupt() as is_new:
            session = SparkSession.builder.config(conf=wanted).getOrCreate()
    except Py4JJavaError as error:
        cause = first_line(error.java_exception.getMessage())
        raise SetupError(
            f"Spark did not start on {conf[spark_conf.MASTER]}: {cause[:300]} The logs of the master and the "
            f"workers have the reason, where the master is a cluster's; the log of this process is {log}."
        ) from error
    if is_new:
        interrupt_with(session.sparkContext.cancelAllJobs)
    return session


def _shorten(output: Path) -> None:
    """Begin a new file where the output of earlier JVMs is long; the one before is kept."""
    if output.exists() and output.stat().st_size > _LOG_BYTES:
        output.replace(output.with_name(f"{output.name}.1"))


def _log_python(file: Path) -> None:
    """Log libraries to a file: py4j would print a stack trace for each micro-batch that fails."""
    handler = RotatingFileHandler(
        file, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8", delay=True
    )
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    handler.setFormatter(event_log.JsonLines() if event_log.is_json() else text)
    logging.getLogger().addHandler(handler)


def _log_options(settings: Settings, app: str, log_dir: Path) -> list[str]:
    """Options of the JVM's log: as text, or as JSON with the facts that all of its events have."""
    folder = Path(__file__).parent
    if settings.log.format == "text":
        return [f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"]
    return [
        f"-Dlog4j2.configurationFile={(folder / 'log4j2-json.properties').as_uri()}",
        f"-Dmedallion.log.template={(folder / 'log-event.json').as_uri()}",
        f"-Dmedallion.pipeline={log_dir.parent.name}",
        f"-Dmedallion.run={event_log.RUN_ID}",
        f"-Dmedallion.job={app}",
    ]


def _native_memory(java: Java) -> list[str]:
    """Gives back what native libraries have freed: the C library keeps it, up to a GiB within half an hour.

    Where the JVM has no option for that, the C library has few arenas that could keep memory.
    """
    if trims_native_heap(java.home):
        return ["-XX:TrimNativeHeapInterval=60000"]
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    return []


def _property(name: str, value: object) -> str:
    """A property as an option of a JVM."""
    return f'"-D{name}={value}"' if " " in str(value) else f"-D{name}={value}"


def _user(temporary: Path) -> list[str]:
    """Name and home folder of a user that ``/etc/passwd`` does not know: a JVM's would be "?".

    Spark refuses to start where the home folder is no absolute path.
    """
    if _user_has_name():
        return []
    return [_property("user.name", os.getuid()), _property("user.home", user_home() or temporary)]


def _user_has_name() -> bool:
    """Whether ``/etc/passwd`` has an entry for this user: a container may run with any user id."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def _java_options(log_file: Path) -> list[str]:
    return [
        _LOG.format(log_file),
        "-Djava.net.preferIPv4Stack=true",
        # A JVM that continues after an OutOfMemoryError has lost an arbitrary thread, and its job hangs.
        "-XX:+ExitOnOutOfMemoryError",
        # Each plan has generated code; the 48 MB of -XX:TieredStopAtLevel=1 are full with a dozen queries.
        "-XX:ReservedCodeCacheSize=256m",
        # Spark's classes take 200 MB: from the usual 21 MB on, each growth begins with a full collection.
        "-XX:MetaspaceSize=256m",
        "-XX:+UseSerialGC" if (os.cpu_count() or 1) <= 2 else "-XX:+UseG1GC",  # noqa: PLR2004
    ]
