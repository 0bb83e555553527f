"""The metrics as Prometheus text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from orchestration.observe.metrics.metric_list import METRICS, values
from orchestration.observe.status.model import Status

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def prometheus_text(status: Status) -> bytes:
    """All metrics of a status in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest  # loaded with the first request

    registry = CollectorRegistry()
    registry.register(_Families(status))
    return generate_latest(registry)


class _Families:
    """Prometheus' view of a status."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Family]:
        """One family per metric."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}
        for metric in METRICS:
            family = kinds[metric.kind](metric.name, metric.help, labels=metric.labels)
            for labels, value in values(metric, self._status):
                family.add_metric(labels, value)
            yield family
