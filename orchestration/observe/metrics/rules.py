"""Prometheus alert rules over the metrics, as YAML; ``alert_rules.yaml`` has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def alert_rules(goal_seconds: float) -> tuple[Rule, ...]:
    """The rules, with the freshness goal of the setting ``http.freshness_goal``."""
    text = Path(__file__).with_name("alert_rules.yaml").read_text(encoding="utf-8")
    return tuple(_rule(goal_seconds, **given) for given in yaml.safe_load(text))


def _rule(goal_seconds: float, *, expr: str, seen: Any = None, **given: str) -> Rule:
    expression = expr if seen is None else seen_once(seen, expr)
    return Rule(expression=expression.replace("GOAL", f"{goal_seconds:g}"), hold=given.pop("for"), **given)


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
