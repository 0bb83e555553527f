"""The job in Flink SQL on tables of Apache Paimon: three chained jobs in one JVM, a checkpoint a second.

A script of its own, run as a process:

    python -m distribution.bench.contenders.flink_job --folder F --bootstrap H:P --topic T

With ``--running`` the jobs stream until they are stopped: Kafka to bronze, bronze to silver and quarantine,
silver to both gold tables, each reading what the one before has committed. Without it each drains what is
there in Flink's batch mode, one after the other; ``--bronze-only`` leaves the other hops out.

Settings are Flink's and Paimon's defaults, but for: parallelism 2, a checkpoint each second into the folder
(state is on the heap), tables that are looked at for new snapshots ten times a second instead of every ten
seconds, no compaction (Paimon's guide gives it to a job of its own; a reader merges), and manifests that are
not compressed, so that the reader of the bench needs no more than Avro. Events are read by a function in
Java (``Event.java``), in one pass: Flink's own would read a message once for each column. A duplicate is
known for an hour.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from common.config.settings import Settings, load_settings
from common.java.compile_sources import compiled
from common.java.find_java import find_java
from common.java.jar_cache import PACKAGES, cache_dir, jar_path, jars_of, require
from distribution.bench.contenders.contender import CORES, DRIVER_MEMORY
from distribution.bench.contenders.script_options import script_options

JARS = Path(__file__).with_name("flink.yaml")
"""Settings that name the jars, each with its sha256."""
_SOURCE = Path(__file__).with_name("Event.java")
_OF_SPARK = (
    "commons-*.jar",
    "hadoop-client-*.jar",
    "log4j-*.jar",
    "lz4-*.jar",
    "py4j-*.jar",
    "slf4j-api-*.jar",
)
"""Jars that pyspark has: what Flink and Paimon need of others, and what takes calls of this process."""

_OPENED = ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio", "text", "time", "util")
_OPENED_TOO = ("util.concurrent", "util.concurrent.atomic", "util.concurrent.locks")

_TABLES = """
CREATE TABLE IF NOT EXISTS bronze (
    `partition` INT, `offset` BIGINT, `timestamp` TIMESTAMP_LTZ(3), `key` BYTES, `value` BYTES
) WITH ({options});
CREATE TABLE IF NOT EXISTS silver (
    event_id STRING, event_time TIMESTAMP_LTZ(6), sent_at BIGINT, kind STRING, product STRING, cents BIGINT,
    quantity INT, user_id BIGINT, country STRING
) WITH ({options});
CREATE TABLE IF NOT EXISTS quarantine (
    `partition` INT, `offset` BIGINT, `timestamp` TIMESTAMP_LTZ(3), `key` BYTES, `value` BYTES
) WITH ({options});
CREATE TABLE IF NOT EXISTS `groups` (
    product STRING, events BIGINT, cents BIGINT, newest_sent_at BIGINT, PRIMARY KEY (product) NOT ENFORCED
) WITH ('bucket' = '{cores}', {options});
CREATE TABLE IF NOT EXISTS latest (
    user_id BIGINT, event_id STRING, event_time TIMESTAMP_LTZ(6), sent_at BIGINT, product STRING,
    cents BIGINT, PRIMARY KEY (user_id) NOT ENFORCED
) WITH ('bucket' = '{cores}', 'sequence.field' = 'event_time,event_id', {options});
CREATE TEMPORARY TABLE events (
    `partition` INT METADATA VIRTUAL, `offset` BIGINT METADATA VIRTUAL,
    `timestamp` TIMESTAMP_LTZ(3) METADATA VIRTUAL, `key` BYTES, `value` BYTES
) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
    'scan.startup.mode' = 'earliest-offset', 'key.format' = 'raw', 'key.fields' = 'key',
    'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY'{bounded}
);
CREATE TEMPORARY SYSTEM FUNCTION event AS 'bench.Event';
CREATE TEMPORARY VIEW judged AS SELECT *, event(`value`) AS e FROM bronze
"""
_OPTIONS = (
    "'continuous.discovery-interval' = '100 ms', 'write-only' = 'true', 'manifest.compression' = 'null'"
)

_BRONZE = "INSERT INTO bronze SELECT `partition`, `offset`, `timestamp`, `key`, `value` FROM events"
_SILVER = """EXECUTE STATEMENT SET BEGIN
INSERT INTO quarantine SELECT `partition`, `offset`, `timestamp`, `key`, `value` FROM judged WHERE e IS NULL;
INSERT INTO silver
SELECT event_id, event_time, sent_at, kind, product, cents, quantity, user_id, country FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY event_id ORDER BY {first}) AS place FROM (
        SELECT e.event_id, e.event_time, e.sent_at, e.kind, e.product, e.cents, e.quantity, e.user_id,
            e.country, PROCTIME() AS seen
        FROM judged WHERE e IS NOT NULL
    )
) WHERE place = 1;
END"""
_GOLD = """EXECUTE STATEMENT SET BEGIN
INSERT INTO `groups` SELECT product, COUNT(*), SUM(cents), MAX(sent_at) FROM silver GROUP BY product;
INSERT INTO latest SELECT user_id, event_id, event_time, sent_at, product, cents FROM silver;
END"""


def set_up() -> None:
    """Fetch the jars, and compile the function that reads events; quick where both are there.

    Raises:
        JarError: A jar cannot be fetched.
        JavaError: There is no Java.
    """
    settings = load_settings(file=JARS)
    java, jars = find_java(settings), require(settings, PACKAGES)
    folder = _classes(settings)
    if not folder.exists():
        draft = folder.with_name(f"{folder.name}.{os.getpid()}")
        for name, code in compiled({"bench/Event.java": _SOURCE.read_text()}, java, jars).items():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).write_bytes(code)
        draft.rename(folder)


def _classes(settings: Settings) -> Path:
    return cache_dir(settings) / "bench" / sha256(_SOURCE.read_bytes()).hexdigest()[:16]


def _class_path(settings: Settings) -> Iterator[str]:
    import pyspark

    yield str(_classes(settings))
    yield from (str(jar_path(settings, jar)) for jar in jars_of(settings, PACKAGES))
    for pattern in _OF_SPARK:
        yield from map(str, (Path(pyspark.__file__).parent / "jars").glob(pattern))


def launched() -> Any:
    """A JVM with Flink, its classes as attributes; it ends with this process."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    settings = load_settings(file=JARS)
    path = list(_class_path(settings))
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in (*_OPENED, *_OPENED_TOO)]
    port, token = launch_gateway(
        jarpath=next(jar for jar in path if "py4j" in jar),
        classpath=os.pathsep.join(path),
        javaopts=[f"-Xmx{DRIVER_MEMORY}", *opened, "-Dlog4j.rootLogger.level=WARN"],
        java_path=str(find_java(settings).executable),
        die_on_exit=True,
        enable_auth=True,
        redirect_stdout=sys.stdout,
        redirect_stderr=sys.stdout,
    )
    parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
    return JavaGateway(gateway_parameters=parameters).jvm


def environment(jvm: Any, folder: Path, *, running: bool) -> Any:
    """What takes statements: each INSERT is a job with a small cluster of its own in the JVM."""
    flink = jvm.org.apache.flink
    conf = {
        "execution.target": "local",
        "execution.runtime-mode": "STREAMING" if running else "BATCH",
        "parallelism.default": str(CORES),
        # The plan of a view that several statements read is made once, and its rows are computed once.
        "table.optimizer.reuse-optimize-block-with-digest-enabled": "true",
    }
    if running:
        conf |= {
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
        }
    wanted = flink.table.api.EnvironmentSettings.newInstance()
    wanted.withConfiguration(flink.configuration.Configuration.fromMap(conf))
    made = flink.table.api.TableEnvironment.create(wanted.build())
    made.executeSql(f"CREATE CATALOG lake WITH ('type'='paimon', 'warehouse'='{folder.as_uri()}')")
    made.executeSql("USE CATALOG lake")
    return made


def tables_of(topic: str, bootstrap: str, *, running: bool) -> str:
    """The statements that create what the jobs read and write, with ``;`` and a line between two."""
    bounded = "" if running else ", 'scan.bounded.mode' = 'latest-offset'"
    return _TABLES.format(options=_OPTIONS, cores=CORES, topic=topic, bootstrap=bootstrap, bounded=bounded)


def main() -> None:
    """Drain, or run until SIGINT."""
    given = script_options()
    stopped: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
    made = environment(launched(), given.folder, running=given.running)
    for statement in tables_of(given.topic, given.bootstrap, running=given.running).split(";\n"):
        made.executeSql(statement)
    jobs = {"bronze": _BRONZE}
    if not given.bronze_only:
        jobs |= {"silver": _SILVER.format(first="seen" if given.running else "sent_at"), "gold": _GOLD}
    started = []
    for name, statement in jobs.items():
        began = time.monotonic()
        # Of gold's keys no state goes; a key of silver is known for an hour.
        made.getConfig().set("table.exec.state.ttl", "1 h" if name == "silver" else "0 s")
        started.append(made.executeSql(statement))
        if not given.running:
            getattr(started[-1], "await")()  # a word of Python, too
            sys.stdout.write(f"\n{name}: done in {time.monotonic() - began:.1f} s\n")
            sys.stdout.flush()
    while given.running and not stopped:
        _check(started)
        time.sleep(1)


def _check(jobs: Sequence[Any]) -> None:
    for job in jobs:
        status = str(job.getJobClient().get().getJobStatus().get())
        if status in {"FAILED", "CANCELED", "FINISHED"}:
            sys.exit(f"a job is {status}")


if __name__ == "__main__":
    main()
