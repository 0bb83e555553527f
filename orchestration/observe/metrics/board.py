"""A Grafana board over the metrics, as JSON to import."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from orchestration.observe.metrics.processes import seen_once

_WIDTH, _HEIGHT = 12, 8
_COLUMNS = 24
_CHOSEN = '{pipeline="$pipeline"}'
_NAMED = "{{table}}"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: title, unit by Grafana's name, and expressions with the names of their lines."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    kind: str = "timeseries"
    width: int = _WIDTH
    height: int = _HEIGHT


def _of(metric: str, name: str = _NAMED) -> tuple[str, str]:
    return seen_once("max", f"{metric}{_CHOSEN}"), name


PANELS: tuple[Panel, ...] = (
    Panel(
        "Kafka to gold",
        "s",
        (_of("medallion_waiting_seconds", "oldest record that gold lacks"),),
        "stat",
        6,
        5,
    ),
    Panel(
        "Queries that do not run",
        "short",
        ((f"count({seen_once('min', f'medallion_query_up{_CHOSEN}')} == 0) or vector(0)", "queries"),),
        "stat",
        6,
        5,
    ),
    Panel(
        "Time to loss, shortest",
        "s",
        ((f"min(medallion_query_time_to_loss_seconds{_CHOSEN})", "until"),),
        "stat",
        6,
        5,
    ),
    Panel(
        "Broker answers",
        "bool_yes_no",
        ((seen_once("min", f"medallion_broker_up{_CHOSEN}"), "broker"),),
        "stat",
        6,
        5,
    ),
    Panel("Rows read per second", "short", (_of("medallion_query_rows_per_second"),)),
    Panel("Behind Kafka", "s", (_of("medallion_table_waiting_seconds"),)),
    Panel("Rows to read", "short", (_of("medallion_query_lag_rows"),)),
    Panel("Age of the oldest unread row", "s", (_of("medallion_query_lag_seconds"),)),
    Panel("Bytes to read", "bytes", (_of("medallion_query_outstanding_bytes"),)),
    Panel("Files to read", "short", (_of("medallion_query_outstanding_files"),)),
    Panel("Micro-batch", "s", (_of("medallion_query_batch_duration_seconds"),)),
    Panel("Parts of a micro-batch", "s", (_of("medallion_query_phase_seconds", "{{table}} {{phase}}"),)),
    Panel("State", "bytes", (_of("medallion_query_state_bytes"),)),
    Panel("State rows", "short", (_of("medallion_query_state_rows"),)),
    Panel(
        "Quarantine by reason", "short", (_of("medallion_quarantine_reason_rows", "{{table}} {{reason}}"),)
    ),
    Panel("Late rows, left out", "short", (_of("medallion_late_left_out_rows"),)),
    Panel("Alerts", "short", (_of("medallion_alerts_raised", "{{rule}} ({{severity}})"),)),
    Panel("Quarantined, last 15 minutes", "percentunit", (_of("medallion_quarantine_recent_ratio"),)),
    Panel("Live files", "short", (_of("medallion_table_files"),)),
    Panel("Size", "bytes", (_of("medallion_table_bytes"),)),
    Panel(
        "Open transactions",
        "short",
        (
            _of("medallion_topic_uncommitted_records", "{{table}} records"),
            _of("medallion_topic_uncommitted_seconds", "{{table}} seconds"),
        ),
    ),
    Panel(
        "Restarts in an hour",
        "short",
        ((seen_once("max", f"increase(medallion_query_restarts_total{_CHOSEN}[1h])"), _NAMED),),
    ),
)


def board() -> str:
    """The board as JSON; it asks for the Prometheus data source when it is imported."""
    pipelines = {
        "name": "pipeline",
        "type": "query",
        "datasource": _source(),
        "query": "label_values(medallion_broker_up, pipeline)",
        "refresh": 2,
        "sort": 1,
    }
    content = {
        "__inputs": [
            {
                "name": "DS_PROMETHEUS",
                "label": "Prometheus",
                "type": "datasource",
                "pluginId": "prometheus",
                "pluginName": "Prometheus",
            }
        ],
        "title": "Medallion pipeline",
        "uid": "medallion-pipeline",
        "tags": ["medallion"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [pipelines]},
        "panels": list(_placed()),
    }
    return json.dumps(content, indent=2) + "\n"


def _placed() -> list[dict[str, Any]]:
    """The panels from left to right and from top to bottom."""
    found: list[dict[str, Any]] = []
    x = y = 0
    for number, panel in enumerate(PANELS, 1):
        if x + panel.width > _COLUMNS:
            x, y = 0, y + found[-1]["gridPos"]["h"]
        place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
        found.append(_panel(panel, number) | {"gridPos": place})
        x += panel.width
    return found


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": name, "datasource": _source()}
        for place, (expression, name) in enumerate(panel.lines)
    ]
    return {
        "id": number,
        "title": panel.title,
        "type": panel.kind,
        "datasource": _source(),
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def _source() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
