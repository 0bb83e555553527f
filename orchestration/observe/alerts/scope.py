"""Which tables of a pipeline a rule watches, and rules that watch none: such an alarm would never ring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from common.config.alert_settings import AlertRule, Kind
from common.declare import Pipeline
from common.errors import nearest

_OF_PIPELINE: frozenset[Kind] = frozenset({"broker_down", "job_killed", "no_standby"})
_LAYER: Mapping[Kind, str] = {
    "no_data": "bronze",
    "volume": "bronze",
    "open_transaction": "bronze",
    "no_receipt": "bronze",
    "quarantine_share": "silver",
}


def watched_tables(rule: AlertRule, pipeline: Pipeline) -> tuple[str, ...] | None:
    """The tables, in the order of data flow; None for a rule that watches the pipeline as a whole."""
    if rule.when in _OF_PIPELINE or (rule.when == "freshness" and not rule.tables):
        return None
    return tuple(table for table in _tables_of(rule.when, pipeline) if rule.watches(table))


def blind_rules(rules: Mapping[str, AlertRule], pipeline: Pipeline) -> Iterator[str]:
    """A sentence for each rule whose ``tables`` match no table that a rule of its kind can watch."""
    for name, rule in rules.items():
        if rule.tables and watched_tables(rule, pipeline) == ():
            known = _tables_of(rule.when, pipeline)
            given = ", ".join(rule.tables)
            yield (
                f"alerts.rules.{name} watches nothing: {given} matches no table of {pipeline.name} that "
                f"{rule.when} concerns; {nearest(rule.tables[0], known)}"
            )


def _tables_of(kind: Kind, pipeline: Pipeline) -> tuple[str, ...]:
    """The tables that rules of a kind can watch."""
    if kind == "suite_failed":
        return tuple(dict.fromkeys(suite.table for suite in pipeline.quality))
    names = tuple(one.table for one in (*pipeline.tables, *pipeline.publish))
    if kind == "freshness":
        names = tuple(one.table for one in pipeline.tables)
    layer = _LAYER.get(kind, "")
    return tuple(name for name in names if name.startswith(f"{layer}.") or not layer)
