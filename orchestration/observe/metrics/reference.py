"""All metrics as Markdown, for ``docs/observe/metrics.md`` and ``medallion metrics reference``."""

from __future__ import annotations

from orchestration.observe.metrics.metric_list import METRICS


def reference() -> str:
    """Every metric with its type and meaning, by its labels."""
    lines = [
        "# Metrics",
        "",
        "What `/metrics` exports, in Prometheus' text format. Names and labels are stable. A number that is",
        "not known is not exported: a broker that is down leaves no lag of 0. A metric is a gauge where no",
        "other type is named.",
        "",
        "Written by `medallion metrics reference > docs/observe/metrics.md`.",
    ]
    sets = dict.fromkeys(metric.labels for metric in METRICS)
    for labels in sets:
        lines += ["", f"By {', '.join(f'`{label}`' for label in labels)}:", ""]
        for metric in METRICS:
            if metric.labels == labels:
                kind = "" if metric.kind == "gauge" else f" ({metric.kind})"
                lines.append(f"- `{metric.series}`{kind}: {metric.help}")
    return "\n".join(lines) + "\n"
