"""Spark's own metrics of the streaming queries of this process, as Prometheus text, where they are turned on.

Spark registers them in its JVM with ``spark.sql.streaming.metricsEnabled``, which the setting
``http.spark_metrics`` sets. They are read through the session of the job, when they are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from py4j.protocol import Py4JError

from common.spark import jvm

_SOURCE = "spark.streaming."
_NO_NAME = re.compile(r"[^a-zA-Z0-9_]+")


def spark_text(queries: Sequence[str]) -> bytes:
    """The metrics of these queries; empty without a session, and for queries that have not started.

    Names are ``medallion_spark_streaming_`` and Spark's name, such as ``input_rate_total``; the label is
    ``query``.
    """
    found: dict[str, list[str]] = {}
    for query, gauge, value in _gauges(queries):
        name = f"medallion_spark_streaming_{_named(gauge)}"
        found.setdefault(name, []).append(f'{name}{{query="{query}"}} {value}')
    lines = [line for name, each in sorted(found.items()) for line in (f"# TYPE {name} gauge", *each)]
    return "".join(f"{line}\n" for line in lines).encode()


def _named(gauge: str) -> str:
    """Spark's name in Prometheus' letters: ``inputRate-total`` is ``input_rate_total``."""
    return _NO_NAME.sub("_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", gauge)).lower()


def _gauges(queries: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:  # noqa: SLF001  # a page beside a job has none
        return
    try:
        # While Spark starts there is a context, and no connection or no environment yet.
        root = jvm.packages()
        environment = None if root is None else root.org.apache.spark.SparkEnv.get()
        if environment is None:
            return
        system = environment.metricsSystem()
        for query in queries:
            sources = system.getSourcesByName(f"{_SOURCE}{query}")
            for place in range(sources.size()):
                gauges = sources.apply(place).metricRegistry().getGauges()
                for gauge in gauges.keySet():
                    value = gauges.get(gauge).getValue()
                    if isinstance(value, (int, float)):
                        yield query, str(gauge), float(value)
    except (Py4JError, OSError):  # Spark is being stopped
        return
