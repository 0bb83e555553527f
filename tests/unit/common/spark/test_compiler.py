"""What the JVM's optimizing compiler leaves alone: what makes plans, and nothing that touches rows."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatchcase

import pytest

from common.config.settings import Settings
from common.java.find_java import find_java
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
