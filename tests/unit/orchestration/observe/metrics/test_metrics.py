"""Board, rules and reference name only metrics that exist; promtool loads the rules where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from common.config.settings import Settings
from common.delta.lease.local_leases import Leases
from orchestration.access.progress.query_states import QueryState, Restart, write_state
from orchestration.observe.metrics.board import PANELS, board
from orchestration.observe.metrics.exposition import prometheus_text
from orchestration.observe.metrics.metric_list import METRICS
from orchestration.observe.metrics.reference import reference
from orchestration.observe.metrics.rules import alert_rules, rules
from orchestration.observe.page.live import Live
from tests.support.in_process import run
from tests.support.oracles.lived_in import PIPELINE, LivedIn

PROMTOOL = shutil.which("promtool")
SERIES = {metric.series for metric in METRICS}
DOCS = Path(__file__).parents[5] / "docs"
UNITS = (
    "_seconds",
    "_bytes",
    "_rows",
    "_files",
    "_records",
    "_per_second",
    "_total",
    "_up",
    "_standbys",
    "_state",
    "_restarts",
    "_id",
    "_version",
    "_ratio",
    "_raised",
)


def named(text: str) -> set[str]:
    """The engine's metrics that an expression names."""
    return set(re.findall(r"\bmedallion_\w+", text))


def test_each_metric_of_the_board_exists() -> None:
    drawn = {name for panel in PANELS for expression, _ in panel.lines for name in named(expression)}
    assert drawn <= SERIES
    content = json.loads(board())
    assert len(content["panels"]) == len(PANELS)
    places = [tuple(panel["gridPos"].values()) for panel in content["panels"]]
    assert len(set(places)) == len(places)
    assert all(place[0] + place[2] <= 24 for place in places)
    assert named(json.dumps(content)) <= SERIES


def test_each_metric_of_the_rules_exists() -> None:
    found = yaml.safe_load(rules(600))
    (group,) = found["groups"]
    assert len(group["rules"]) == len(alert_rules(600))
    for rule in group["rules"]:
        assert named(rule["expr"]) <= SERIES, rule["alert"]
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert any("> 600" in rule["expr"] for rule in group["rules"])


@pytest.mark.ci
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
def test_promtool_loads_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(rules(Settings().http.goal_seconds))
    done = subprocess.run(
        [PROMTOOL or "", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


TROUBLE = {
    "MedallionQueryDown": 'medallion_query_up{table="t",pipeline="p"} 0',
    "MedallionProcessGone": 'up{job="medallion",instance="i"} 0',
    "MedallionNotFresh": 'medallion_waiting_seconds{pipeline="p"} 601',
    "MedallionFreshnessUnknown": 'medallion_table_unknown_seconds{table="t",pipeline="p"} 601',
    "MedallionDataLossNear": 'medallion_query_time_to_loss_seconds{table="t",pipeline="p"} 3600',
    "MedallionOpenTransaction": 'medallion_topic_uncommitted_seconds{table="t",pipeline="p"} 301',
    "MedallionRestarts": 'medallion_query_restarts_total{table="t",pipeline="p"} 0+1x20',
    "MedallionQuarantineGrows": 'medallion_quarantine_recent_ratio{table="t",pipeline="p"} 0.06',
    "MedallionAlertsNotWatched": 'medallion_alerts_watch_up{pipeline="p"} 0',
    "MedallionAlertChannelDown": 'medallion_alert_channel_up{pipeline="p",channel="c"} 0',
    "MedallionBrokerDown": 'medallion_broker_up{pipeline="p"} 0',
}
"""A series of each rule that makes it fire; those of ``BESIDE`` go with it."""

BESIDE = {
    "MedallionOpenTransaction": 'medallion_topic_uncommitted_records{table="t",pipeline="p"} 5',
    "MedallionQuarantineGrows": 'medallion_quarantine_rows{table="t",pipeline="p"} 0+20x20',
}
FINE = {
    "MedallionQueryDown": 1,
    "MedallionProcessGone": 1,
    "MedallionNotFresh": 599,
    "MedallionFreshnessUnknown": 599,
    "MedallionDataLossNear": "+Inf",
    "MedallionOpenTransaction": 299,
    "MedallionRestarts": 3,
    "MedallionQuarantineGrows": 0.04,
    "MedallionAlertsNotWatched": 1,
    "MedallionAlertChannelDown": 1,
    "MedallionBrokerDown": 1,
}
"""A value of the same series at which nothing is wrong."""


def judged(folder: Path, *series: str, fires: str = "") -> str:
    """Runs the rules over 20 minutes of series by promtool; empty if only this alert fires, if any."""
    (folder / "rules.yml").write_text(rules(600))
    inputs = [text.rpartition(" ") for text in series]
    given = [
        {
            "series": name,
            "values": value if "x" in value else f"{value}+0x20" if value != "+Inf" else "Inf+0x20",
        }
        for name, _, value in inputs
    ]
    tests = [
        {
            "interval": "1m",
            "input_series": given,
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "20m",
                    "exp_samples": [{"labels": f'{{alertname="{fires}"}}', "value": 1}] if fires else [],
                }
            ],
        }
    ]
    file = folder / "tests.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests})
    )
    done = subprocess.run(
        [PROMTOOL or "", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.ci
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
@pytest.mark.parametrize("alert", TROUBLE)
def test_each_rule_fires_in_its_trouble_and_not_without(tmp_path: Path, alert: str) -> None:
    assert [rule.alert for rule in alert_rules(600)] == list(TROUBLE)
    beside = [BESIDE[alert]] if alert in BESIDE else []
    name = TROUBLE[alert].rpartition(" ")[0]
    assert judged(tmp_path, TROUBLE[alert], *beside, fires=alert) == ""
    assert judged(tmp_path, f"{name} {FINE[alert]}", *beside) == ""


def by_three(series: str) -> list[str]:
    """A series as three processes of a pipeline export it."""
    return [series.replace("{", f'{{job="medallion",instance="{host}:8484",', 1) for host in "abc"]


@pytest.mark.ci
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
@pytest.mark.parametrize("alert", sorted(TROUBLE.keys() - {"MedallionProcessGone"}))
def test_a_trouble_that_three_processes_see_fires_once(tmp_path: Path, alert: str) -> None:
    """Each of a process per layer exports the whole pipeline."""
    beside = by_three(BESIDE[alert]) if alert in BESIDE else []
    assert judged(tmp_path, *by_three(TROUBLE[alert]), *beside, fires=alert) == ""


@pytest.mark.ci
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
def test_the_board_draws_what_three_processes_see_once(tmp_path: Path) -> None:
    """Each of its expressions has one line; a query that does not run is one."""
    drawn = [expression.replace("$pipeline", "p") for panel in PANELS for expression, _ in panel.lines]
    series = {name for expression in drawn for name in named(expression)}
    given = [text for name in sorted(series) for text in by_three(f'{name}{{pipeline="p",table="t"}}')]
    expected = [(f"count({expression})", 1) for expression in drawn]
    (stopped,) = (expression for expression in drawn if expression.startswith("count("))
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": text, "values": "0+0x20"} for text in given],
            "promql_expr_test": [
                {"expr": text, "eval_time": "20m", "exp_samples": [{"labels": "{}", "value": value}]}
                for text, value in [*expected, (stopped, 1)]
            ],
        }
    ]
    file = tmp_path / "tests.yml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(
        [PROMTOOL or "", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.ci
@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
def test_promtool_finds_no_fault_in_the_exported_text(tmp_path: Path) -> None:
    """Also with characters in a reason that the format escapes."""
    lived_in = LivedIn(tmp_path)
    lived_in.caught_up()
    lived_in.job()
    lived_in.quarantine({b"a": 'x"y\\ \n', b"b": "unreadable"})
    text = prometheus_text(Live(PIPELINE, lived_in.settings, lived_in.layout).status())
    done = subprocess.run([PROMTOOL or "", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_restarts_are_exported_by_their_cause(tmp_path: Path) -> None:
    """Those of the last hour; the failure by its kind, until the query works again."""
    lived_in = LivedIn(tmp_path)
    lived_in.caught_up()
    lived_in.job()
    query, now = PIPELINE.bronze[0].table, datetime.now(UTC)
    ages = ((7_200, "the network"), (60, "the Kafka broker"), (5, "the Kafka broker"))
    restarts = tuple(Restart((now - timedelta(seconds=age)).isoformat(), what) for age, what in ages)
    state = QueryState(
        query, 1, "waits", "transient", "the Kafka broker", "away", now.isoformat(), None, 3, restarts
    )
    write_state(lived_in.layout.query_states, state)
    with Leases(lived_in.layout.leases, [query], "up"):
        text = prometheus_text(Live(PIPELINE, lived_in.settings, lived_in.layout).status()).decode()
    found = [line for line in text.splitlines() if re.match(r"medallion_query_(recent|failure)", line)]
    labels = f'layer="bronze",pipeline="{PIPELINE.name}",table="{query}"'
    assert found == [
        f'medallion_query_recent_restarts{{cause="the Kafka broker",{labels}}} 2.0',
        f'medallion_query_failure_state{{kind="transient",{labels}}} 1.0',
    ]


def test_names_end_with_their_unit_and_are_unique() -> None:
    assert len(SERIES) == len(METRICS)
    assert [metric.series for metric in METRICS if not metric.series.endswith(UNITS)] == []
    assert all(metric.name.startswith("medallion_") and metric.help.endswith(".") for metric in METRICS)


def test_labels_are_bounded_by_the_declaration() -> None:
    known = {"pipeline", "layer", "table", "state", "phase", "reason", "rule", "severity", "channel"}
    known |= {"cause", "kind"}
    assert {label for metric in METRICS for label in metric.labels} <= known


def test_the_page_of_metrics_is_in_step() -> None:
    """Written by `medallion metrics reference > docs/observe/metrics.md`."""
    assert (DOCS / "observe" / "metrics.md").read_text(encoding="utf-8") == reference()


@pytest.mark.parametrize(
    ("what", "begins"), [("board", "{\n"), ("rules", "groups:\n"), ("reference", "# Metrics\n")]
)
def test_the_command_prints_each(what: str, begins: str) -> None:
    ended = run("metrics", what)
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.startswith(begins)
