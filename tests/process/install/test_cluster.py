"""The example on a real standalone cluster: executors do the work, one is killed, and results stay right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest
from deltalake import DeltaTable

from common.declare import Message
from common.delta.log import LogReader
from common.java.compile_sources import reader_jar
from common.java.find_java import find_java
from common.java.jar_cache import require
from orchestration.access.declaration.load_file import load_pipeline
from tests.support.oracles.oracle import outcome
from tests.support.processes import (
    DEADLINE_SECONDS,
    EXAMPLE,
    ROOT,
    SMALL,
    Medallion,
    await_that,
    example_on,
    medallion,
)
from tests.support.servers.spark_cluster import Cluster, spark_cluster

pytestmark = pytest.mark.long

FIELDS = ("quake_id", "updated_at", "event_at", "magnitude", "latitude", "status", "is_retracted")
TABLES = ("bronze.quakes", "silver.quakes", "gold.quakes_latest", "gold.quakes_by_network")
RECORDS, PORTION = 600, 100
MANY = 4_000
LARGEST_RESULT = 128 * 1024
"""Bytes: metrics and statistics of a task, and none of its rows."""

_LOOK = """
import sys
from pathlib import Path
from common.config.settings import load_settings
from common.spark.session import build_session
from common.spark.shared_folders import require_shared

folder = Path(sys.argv[1])
settings = load_settings(file=folder / "medallion.yaml", overrides=sys.argv[2:])
spark = build_session(settings, "look", folder / "log", compiled="quickly")
require_shared(spark, [str(folder)])
print("one folder")
try:
    require_shared(spark, ["/proc/self/cwd/tables"])
except Exception as error:
    print(type(error).__name__, error)
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests."""
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def rows(commands: Medallion, table: str) -> list[dict[str, Any]]:
    """Rows by delta-rs."""
    found: list[dict[str, Any]] = DeltaTable(commands.layout.table_path(table)).to_pyarrow_table().to_pylist()
    return found


def test_the_oracles_rows_though_an_executor_is_killed(
    cluster: Cluster, broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """Jars reach the executors by themselves, every commit is Spark's, and the audit balances."""
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    sent: list[Message] = list(islice(sample(11), RECORDS))
    send(topic, sent)
    overrides = (
        f"kafka.bootstrap_servers={broker}",
        f"bronze.max_offsets_per_trigger={PORTION}",
        *cluster.overrides,
    )
    with medallion(tmp_path, example_on(tmp_path / "pipeline", topic), *overrides) as commands:
        job = commands.start("backfill", env={"SPARK_LOCAL_IP": "127.0.0.1"})
        bronze = LogReader(commands.layout.table_path("bronze.quakes"))
        await_that(lambda: (bronze.latest_version() or 0) > 1, "bronze has written", job)
        executors = cluster.executors()
        assert len(executors) == 2
        os.kill(executors[0], signal.SIGKILL)
        await_that(lambda: not psutil.pid_exists(executors[0]), "the executor is gone")
        assert job.code() == 0, job.stderr[-3000:]
        assert f"on {cluster.master}" in job.stderr
        require_oracles_rows(commands, sent)
        audit = commands.run("audit", env={"SPARK_LOCAL_IP": "127.0.0.1"})
        assert audit.code() == 0, audit.stderr[-3000:]


def require_oracles_rows(commands: Medallion, sent: list[Message]) -> None:
    """The tables are those of the oracle, and every commit is of Spark's executors."""
    expected = outcome(sent)
    stored = Counter((row["key"], row["value"]) for row in rows(commands, "bronze.quakes"))
    assert stored == Counter((message.key, message.value) for message in sent)
    silver = Counter(tuple(row[name] for name in FIELDS) for row in rows(commands, "silver.quakes"))
    assert silver == Counter(expected.silver)
    latest = {
        row["quake_id"]: tuple(row[name] for name in FIELDS) for row in rows(commands, "gold.quakes_latest")
    }
    assert latest == expected.latest
    for table in TABLES:
        history = DeltaTable(commands.layout.table_path(table)).history()
        assert {str(commit.get("engineInfo", "")).partition("/")[0] for commit in history} == {"Apache-Spark"}


def test_spark_submit_gives_the_same_and_no_rows_reach_the_driver(
    cluster: Cluster, broker: str, topic: str, send: Callable[..., None], tmp_path: Path
) -> None:
    """In client mode. The results of tasks are what an executor sends to the driver."""
    sample = load_pipeline(EXAMPLE).bronze[0].sample
    assert sample is not None
    sent: list[Message] = list(islice(sample(12), MANY))
    assert sum(len(message.value or b"") for message in sent) > 10 * LARGEST_RESULT
    send(topic, sent)
    events = tmp_path / "events"
    events.mkdir()
    log = {"enabled": "true", "dir": events.as_uri(), "compress": "false", "rolling.enabled": "false"}
    conf = {f"spark.eventLog.{name}": value for name, value in log.items()}
    given = (f"kafka.bootstrap_servers={broker}", *cluster.overrides[1:])
    with medallion(tmp_path, example_on(tmp_path / "pipeline", topic), *given) as commands:
        done = submit(cluster, commands, tmp_path, conf, "client")
        assert done.returncode == 0, done.stderr[-3000:]
        assert f"on {cluster.master}" in done.stdout  # spark-submit merges both
        require_oracles_rows(commands, sent)
    results = list(task_results(events))
    assert len(results) > 20
    assert max(results) < LARGEST_RESULT
    refused = submit(cluster, commands, tmp_path, conf, "cluster")
    assert "not supported for python applications on standalone clusters" in refused.stderr


def submit(
    cluster: Cluster, commands: Medallion, folder: Path, conf: dict[str, str], mode: str
) -> subprocess.CompletedProcess[str]:
    """``backfill`` by spark-submit, which starts the JVM itself."""
    jars = (*require(commands.settings, "spark"), reader_jar(commands.settings))
    job = folder / "job.py"
    job.write_text("from medallion import main\n\nmain()\n")
    home = Path(pyspark.__file__).parent
    words = [
        *(str(home / "bin" / "spark-submit"), "--master", cluster.master, "--deploy-mode", mode),
        *("--jars", ",".join(map(str, jars)), "--driver-memory", "1g"),
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        # A user's own class path beside the engine's jars.
        *("--conf", f"spark.driver.extraClassPath={folder}", str(job)),
    ]
    env = os.environ | {
        "JAVA_HOME": str(find_java(commands.settings).home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [*words, "backfill", *commands.options],
        env=env,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def task_results(events: Path) -> Iterator[int]:
    """Bytes that each task of an application has sent to the driver, by Spark's event log."""
    for file in events.iterdir():
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                yield event["Task Metrics"]["Result Size"]


def test_a_folder_that_executors_have_for_themselves_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """Each process has another folder under this path: its own working directory."""
    (tmp_path / "medallion.yaml").touch()
    (tmp_path / "tables").mkdir()
    script = tmp_path / "look.py"
    script.write_text(_LOOK)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), *SMALL, *cluster.overrides],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = done.stdout.splitlines()
    assert first == "one folder"
    assert second.startswith("SetupError /proc/self/cwd/tables is not one folder for the driver and all exec")
    assert "the settings warehouse and checkpoints" in second
    assert list((tmp_path / "tables").iterdir()) == []
