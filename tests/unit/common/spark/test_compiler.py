"""What the JVM's optimizing compiler leaves alone: what makes plans, and nothing that touches rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import launch_gateway

from common.config.settings import Settings
from common.java.find_java import find_java
from common.machine import console
from common.spark import session as spark_session

PATTERNS = re.findall(
    r'^\s+"(\S+)\.\*",?$', spark_session.DIRECTIVES.read_text(encoding="utf-8"), re.MULTILINE
)


def is_left(name: str) -> bool:
    """Whether a class is the quick compiler's for good."""
    return any(fnmatchcase(name, pattern) for pattern in PATTERNS)


@pytest.mark.parametrize(
    "name",
    [
        "org/codehaus/janino/UnitCompiler",
        "org/antlr/v4/runtime/atn/ParserATNSimulator",
        "org/apache/spark/sql/catalyst/optimizer/Optimizer$$anon$1",
        "org/apache/spark/sql/delta/Snapshot",
        "java/io/ObjectInputStream$BlockDataInputStream",
    ],
)
def test_what_makes_plans_is_left(name: str) -> None:
    assert is_left(name)


@pytest.mark.parametrize(
    "name",
    [
        "org/apache/spark/sql/catalyst/expressions/GeneratedClass$GeneratedIteratorForCodegenStage1",
        "org/apache/spark/sql/catalyst/expressions/GetJsonObject",
        "org/apache/spark/sql/catalyst/expressions/UnsafeRow",
        "org/apache/spark/sql/catalyst/expressions/codegen/UnsafeWriter",
        "org/apache/spark/sql/catalyst/util/ArrayData",
        "org/apache/spark/sql/delta/deletionvectors/RoaringBitmapArray",
        "org/apache/spark/sql/delta/stats/DeltaTaskStatisticsTracker",
        "org/apache/spark/sql/execution/aggregate/TungstenAggregationIterator",
        "org/apache/spark/sql/execution/streaming/state/RocksDBStateEncoder",
        "org/apache/spark/sql/kafka010/KafkaRecordToRowConverter",
        "org/apache/spark/sql/types/Decimal",
        "org/apache/spark/shuffle/sort/BypassMergeSortShuffleWriter",
        "org/apache/spark/unsafe/types/UTF8String",
        "org/apache/spark/util/collection/unsafe/sort/UnsafeExternalSorter",
        "org/apache/parquet/column/values/dictionary/DictionaryValuesWriter",
        "org/apache/kafka/clients/consumer/internals/CompletedFetch",
        "org/apache/kafka/common/record/DefaultRecord",
        "com/fasterxml/jackson/core/json/UTF8StreamJsonParser",
        "java/util/HashMap",
        "java/util/regex/Pattern",
        "medallion/JsonReader",
        "net/jpountz/lz4/LZ4BlockInputStream",
        "scala/collection/immutable/List",
    ],
)
def test_what_touches_rows_is_not(name: str) -> None:
    assert not is_left(name)


def test_a_jvm_takes_the_file() -> None:
    """One that could not read it would not start."""
    java = find_java(Settings()).executable
    options = ["-XX:+UnlockDiagnosticVMOptions", f"-XX:CompilerDirectivesFile={spark_session.DIRECTIVES}"]
    done = subprocess.run([str(java), *options, "-version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def jvm() -> Iterator[subprocess.Popen[bytes]]:
    """One that waits."""
    (jar,) = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
    *_, started = launch_gateway(
        jarpath=str(jar), java_path=str(find_java(Settings()).executable), return_proc=True, die_on_exit=True
    )
    with started:
        yield started
        started.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
@pytest.mark.parametrize(
    ("compiled", "expected"), [("all", 10), ("rows", os.getpriority(os.PRIO_PROCESS, 0))]
)
def test_rows_of_a_long_job_go_before_the_optimization_of_code(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    jvm: subprocess.Popen[bytes],
    compiled: spark_session.Compiled,
    expected: int,
) -> None:
    """The optimizing thread has a low priority, every other one that of the process."""
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=jvm)))
    monkeypatch.setattr(spark_session, "_launch", lambda *_: session)
    monkeypatch.setattr(spark_session, "_log_python", lambda _: None)
    monkeypatch.setattr(os, "environ", {**os.environ})
    assert spark_session.build_session(Settings(), "job", tmp_path, compiled=compiled) is session
    others, optimizing = set[int](), set[int]()
    for task in Path(f"/proc/{jvm.pid}/task").iterdir():
        is_optimizer = (task / "comm").read_text(encoding="utf-8").startswith("C2 CompilerThre")
        (optimizing if is_optimizer else others).add(os.getpriority(os.PRIO_PROCESS, int(task.name)))
    assert optimizing == {expected}
    assert others == {os.getpriority(os.PRIO_PROCESS, 0)}


def test_each_command_that_starts_spark_says_what_it_awaits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "_REPORT_SECONDS", 0.2)
    monkeypatch.setattr(spark_session, "_launch", lambda *_: time.sleep(0.3))
    monkeypatch.setattr(spark_session, "_log_python", lambda _: None)
    monkeypatch.setattr(os, "environ", {**os.environ})
    spark_session.build_session(Settings(), "audit", tmp_path, compiled="rows")
    assert re.match(r"waiting for Spark, \d+ s so far\n", capsys.readouterr().err)
