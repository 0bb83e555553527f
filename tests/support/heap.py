"""Counts live objects per class in Spark's JVM, by the JVM's own class histogram."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

QUERY = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
SESSION = "org.apache.spark.sql.classic.SparkSession"
PLAN = "org.apache.spark.sql.execution.QueryExecution"
_SECONDS = 20.0


def live(spark: Any, names: Sequence[str]) -> dict[str, int]:
    """Live objects by class name; the JVM runs a full garbage collection before the histogram."""
    found = dict.fromkeys(names, 0)
    for line in _histogram(spark).splitlines():
        words = line.split()
        if len(words) > 3 and words[3] in found:
            found[words[3]] = int(words[1])
    return found


def release_tables() -> None:
    """Release the memory of tables and plans in the session's JVM, if there is one.

    Delta caches a table's state for an hour after its last use; a run has hundreds of tables and is shorter.
    """
    gc.collect()  # DataFrames in reference cycles of Python keep their plans alive
    if "pyspark" in sys.modules:
        from pyspark import SparkContext

        if (context := SparkContext._active_spark_context) is not None and context._jvm is not None:
            delta_log: Any = context._jvm.org.apache.spark.sql.delta.DeltaLog
            delta_log.clearCache()


def _histogram(spark: Any) -> str:
    """The output of ``jcmd <pid> GC.class_histogram``, without a JDK."""
    jvm, array = spark.sparkContext._jvm, spark.sparkContext._gateway.new_array
    lang, management = jvm.java.lang, jvm.java.lang.management.ManagementFactory
    words, types = array(lang.Object, 1), array(lang.String, 1)
    words[0], types[0] = array(lang.String, 0), "[Ljava.lang.String;"
    given = array(lang.Object, 4)
    given[0] = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    given[1], given[2], given[3] = "gcClassHistogram", words, types
    # By reflection: the server's class is in a module that does not export it, so py4j cannot call it.
    methods = lang.Class.forName("javax.management.MBeanServer").getMethods()
    invoke = next(method for method in methods if method.getName() == "invoke")
    return str(invoke.invoke(management.getPlatformMBeanServer(), given))


def counts_within(spark: Any, at_most: Mapping[str, int]) -> dict[str, int]:
    """The counts as soon as none exceeds its bound, or after a time limit.

    One garbage collection is not enough: objects that the JVM releases let Python release others, and these
    let the JVM release more.
    """
    deadline = time.monotonic() + _SECONDS
    while True:
        gc.collect()
        found = live(spark, [*at_most])
        if all(found[name] <= bound for name, bound in at_most.items()) or time.monotonic() > deadline:
            return found
        time.sleep(0.5)
