"""All metrics as Markdown, for ``docs/observe/metrics.md`` and ``medallion metrics reference``."""

from __future__ import annotations

from orchestration.observe.metrics.metric_list import METRICS


def reference() -> str:
    """Every metric with its type, labels and meaning."""
    lines = [
        "# Metrics",
        "",
        "What `/metrics` exports, in Prometheus' text format. Names and labels are stable. A number that is",
        "not known is not exported: a broker that is down leaves no lag of 0.",
        "",
        "Written by `medallion metrics reference > docs/observe/metrics.md`; a test compares.",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.series}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(lines) + "\n"
