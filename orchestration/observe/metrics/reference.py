"""All metrics as Markdown, for ``docs/observe/metrics.md`` and ``medallion metrics reference``."""

from __future__ import annotations

from orchestration.observe.metrics.metric_list import METRICS


def reference() -> str:
    """Every metric with its type and meaning, by its labels."""
    lines = [
        "# Metrics",
        "",
        "What `/metrics` exports in Prometheus' text format; names and labels are stable. What is not known",
        "is not exported: a broker that is down leaves no lag of 0. Without another type it is a gauge.",
        "",
        "Written by `medallion metrics reference > docs/observe/metrics.md`.",
    ]
    for labels in dict.fromkeys(metric.labels for metric in METRICS):
        lines += ["", f"By {', '.join(f'`{label}`' for label in labels)}:", ""]
        for metric in METRICS:
            if metric.labels == labels:
                kind = "" if metric.kind == "gauge" else f" ({metric.kind})"
                lines.append(f"- `{metric.series}`{kind}: {metric.help}")
    return "\n".join(lines) + "\n"
