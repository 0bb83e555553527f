"""Prometheus alert rules over the metrics, as YAML."""

from __future__ import annotations

from dataclasses import dataclass, replace

import yaml

from orchestration.observe.metrics.processes import seen_once


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert rule: an expression, how long it must hold, and what to say."""

    alert: str
    expression: str
    hold: str
    severity: str
    summary: str
    description: str


_TABLE = "{{ $labels.table }} of {{ $labels.pipeline }}"

_RULES = (
    Rule(
        "MedallionQueryDown",
        seen_once("min", "medallion_query_up == 0"),
        "1m",
        "critical",
        f"The query of {_TABLE} does not run",
        "The page and `medallion status` say why: stopped, failed, dead, or being restarted.",
    ),
    Rule(
        "MedallionProcessGone",
        'up{job="medallion"} == 0',
        "1m",
        "critical",
        "The process at {{ $labels.instance }} does not answer",
        "Prometheus cannot read /metrics; the scrape job must be named medallion.",
    ),
    Rule(
        "MedallionNotFresh",
        seen_once("max", "medallion_waiting_seconds > GOAL"),
        "5m",
        "warning",
        "{{ $labels.pipeline }} is behind its sources",
        "A record has waited for {{ $value | humanizeDuration }} to be in gold.",
    ),
    Rule(
        "MedallionFreshnessUnknown",
        seen_once("max", "medallion_table_unknown_seconds > GOAL"),
        "0m",
        "warning",
        f"Whether records wait for {_TABLE} is not known",
        "It has not been known for {{ $value | humanizeDuration }}: the broker or a table cannot be read.",
    ),
    Rule(
        "MedallionDataLossNear",
        seen_once("min", "medallion_query_time_to_loss_seconds < 86400"),
        "5m",
        "critical",
        f"{_TABLE} loses unread data soon",
        "At the present rates it is deleted in {{ $value | humanizeDuration }}.",
    ),
    Rule(
        "MedallionOpenTransaction",
        seen_once(
            "max", "medallion_topic_uncommitted_seconds > 300 and medallion_topic_uncommitted_records > 0"
        ),
        "1m",
        "warning",
        f"A transaction in the topic of {_TABLE} hangs",
        "Records behind it cannot be read, and the lag does not count them.",
    ),
    Rule(
        "MedallionRestarts",
        seen_once("max", "increase(medallion_query_restarts_total[1h]) > 3"),
        "0m",
        "warning",
        f"The query of {_TABLE} restarts again and again",
        "{{ $value }} restarts in an hour.",
    ),
    Rule(
        "MedallionQuarantineGrows",
        seen_once(
            "max", "medallion_quarantine_recent_ratio > 0.05 and delta(medallion_quarantine_rows[15m]) > 100"
        ),
        "5m",
        "warning",
        f"Many rows of {_TABLE} go to quarantine",
        "{{ $value | humanizePercentage }} of the rows of the last 15 minutes: medallion quarantine list.",
    ),
    Rule(
        "MedallionAlertsNotWatched",
        seen_once("min", "medallion_alerts_watch_up == 0"),
        "5m",
        "warning",
        "No process watches the alerts of {{ $labels.pipeline }}",
        "A job or `medallion page` with the settings of the alerts watches them.",
    ),
    Rule(
        "MedallionAlertChannelDown",
        seen_once("min", "medallion_alert_channel_up == 0"),
        "5m",
        "warning",
        "Channel {{ $labels.channel }} of {{ $labels.pipeline }} takes no alerts",
        "Say why: medallion alerts test.",
    ),
    Rule(
        "MedallionBrokerDown",
        seen_once("min", "medallion_broker_up == 0"),
        "2m",
        "warning",
        "The broker of {{ $labels.pipeline }} does not answer",
        "Lag and time to loss of bronze are not known.",
    ),
)
"""The rules; ``GOAL`` stands for the setting ``http.freshness_goal`` in seconds."""


def alert_rules(goal_seconds: float) -> tuple[Rule, ...]:
    """The rules, with the freshness goal of the setting ``http.freshness_goal``."""
    return tuple(
        replace(rule, expression=rule.expression.replace("GOAL", f"{goal_seconds:g}")) for rule in _RULES
    )


def rules(goal_seconds: float) -> str:
    """The rules as the YAML of a rule file."""
    found = [
        {
            "alert": rule.alert,
            "expr": rule.expression,
            "for": rule.hold,
            "labels": {"severity": rule.severity},
            "annotations": {"summary": rule.summary, "description": rule.description},
        }
        for rule in alert_rules(goal_seconds)
    ]
    content = {"groups": [{"name": "medallion", "rules": found}]}
    text: str = yaml.safe_dump(content, sort_keys=False, width=110, allow_unicode=True)
    return text
