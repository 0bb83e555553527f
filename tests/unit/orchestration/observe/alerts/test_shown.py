"""Alerts in the document of the page, in the metrics, in ``status`` and in ``medallion alerts``."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from common.config.alert_settings import AlertRule
from common.config.settings import load_settings
from common.errors import SettingsError
from orchestration.access.history.alert_state import AlertsFile, AlertState, write_alerts
from orchestration.cli.observe.status_output import render
from orchestration.observe.alerts.scope import blind_rules, watched_tables
from orchestration.observe.alerts.watch import Watch
from orchestration.observe.metrics.exposition import prometheus_text
from orchestration.observe.page.live import Live
from orchestration.observe.status.document import document
from orchestration.observe.status.model import Status
from tests.support.in_process import run
from tests.support.oracles.lived_in import PIPELINE, LivedIn
from tests.support.processes import EXAMPLE
from tests.support.servers.receivers import http_receiver

FILE = """
import sys
sys.path.insert(0, {root!r})
from tests.support.oracles.lived_in import PIPELINE as pipeline
"""
ROOT = str(Path(__file__).parents[5])


@pytest.fixture
def status(tmp_path: Path) -> Status:
    pipeline = LivedIn(tmp_path)
    pipeline.caught_up()
    now = datetime.now(UTC)
    alerts = (
        AlertState("lag", "silver.orders", "warning", "12 rows are unread (limit 3)", now, now),
        AlertState("dead", "gold.by_day", "critical", "the query is dead", now, now, told=("team",)),
        AlertState("loss", "bronze.orders", "critical", "soon", now),
    )
    rules = {"lag": "warning", "dead": "critical", "loss": "critical"}
    channels = {"team": "", "mail": "no answer within 20 s"}
    content = AlertsFile(now, 7, "host", 10.0, rules, channels, alerts)
    write_alerts(pipeline.layout.alerts, content)
    return Live(PIPELINE, pipeline.settings, pipeline.layout).status()


def test_the_document_has_the_raised_alerts_critical_ones_first(status: Status) -> None:
    found = document(status)["alerts"]
    assert [(one["rule"], one["table"], one["untold"]) for one in found["raised"]] == [
        ("dead", "gold.by_day", ["mail"]),
        ("lag", "silver.orders", ["mail"]),
    ]
    assert found["is_watched"]
    assert found["channels"] == {"team": "", "mail": "no answer within 20 s"}


def test_the_metrics_count_the_raised_alerts_of_each_rule(status: Status) -> None:
    text = prometheus_text(status).decode()
    for rule, severity, count in (("dead", "critical", 1), ("lag", "warning", 1), ("loss", "critical", 0)):
        line = f'medallion_alerts_raised{{pipeline="shop",rule="{rule}",severity="{severity}"}} {count}.0'
        assert line in text
    assert 'medallion_alert_channel_up{channel="mail",pipeline="shop"} 0.0' in text
    assert 'medallion_alert_channel_up{channel="team",pipeline="shop"} 1.0' in text
    assert 'medallion_alerts_watch_up{pipeline="shop"} 1.0' in text


@pytest.mark.parametrize("width", [80, 200])
def test_status_says_the_raised_alerts(status: Status, width: int) -> None:
    console = Console(file=StringIO(), width=width)
    console.print(render(status))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    first = next(number for number, line in enumerate(lines) if line.startswith(" ! alert lag"))
    assert lines[first + 1].startswith("   " if width == 80 else "╭")
    shown = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert "! alert lag silver.orders: 12 rows are unread (limit 3)" in shown
    assert "(not delivered to mail)" in shown
    assert "loss" not in shown


def command(folder: Path, *words: str, settings: tuple[str, ...]) -> object:
    (folder / "medallion.yaml").touch()
    (folder / "shop.py").write_text(FILE.format(root=ROOT))
    given = ("-p", str(folder / "shop.py"), "--settings", str(folder / "medallion.yaml"))
    return run("alerts", *words, *given, settings=(f"data_dir={folder}", *settings))


def test_test_sends_a_message_to_each_channel_and_says_which_fails(tmp_path: Path) -> None:
    with http_receiver() as inbox:
        settings = (f"alerts.channels.team={inbox.address}", "alerts.channels.gone=json://127.0.0.1:1/hook")
        both = command(tmp_path, "test", settings=settings)
        one = command(tmp_path, "test", "team", settings=settings)
    assert (both.code, one.code) == (1, 0)  # type: ignore[attr-defined]
    assert "team: delivered" in both.stdout  # type: ignore[attr-defined]
    assert "gone: A Connection error" in both.stdout  # type: ignore[attr-defined]
    assert inbox.titles == ["medallion shop: test"] * 2
    wrong = command(tmp_path, "test", "taem", settings=settings)
    assert "did you mean 'team'?" in wrong.error  # type: ignore[attr-defined]
    none = command(tmp_path, "test", settings=())
    assert "no channel is configured" in none.error  # type: ignore[attr-defined]


def test_ls_lists_rules_channels_and_what_is_raised(tmp_path: Path) -> None:
    settings = ("alerts.rules.lag={when: lag, over: 3}", "alerts.channels.team=json://u:secret@127.0.0.1:1/x")
    unwatched = command(tmp_path, "list", settings=settings)
    assert "No process has watched yet" in unwatched.stdout  # type: ignore[attr-defined]
    pipeline = LivedIn(tmp_path, alerts={"rules": {"lag": {"when": "lag", "over": "3"}}})
    pipeline.caught_up()
    pipeline.bronze(5, ago=60)
    live = Live(PIPELINE, pipeline.settings, pipeline.layout)
    Watch("shop", pipeline.settings.alerts, pipeline.layout.alerts, live.facts).look()
    found = command(tmp_path, "list", settings=settings)
    assert "raised: silver.orders" in found.stdout  # type: ignore[attr-defined]
    assert "lag silver.orders: 5 rows are unread (limit 3)" in found.stdout  # type: ignore[attr-defined]
    as_json = json.loads(command(tmp_path, "list", "--json", settings=settings).stdout)  # type: ignore[attr-defined]
    assert as_json["rules"]["lag"]["channels"] == ["team"]
    assert [one["rule"] for one in as_json["raised"]] == ["lag"]
    assert "secret" not in found.stdout + json.dumps(as_json)  # type: ignore[attr-defined]


def test_ls_says_of_a_rule_that_cannot_be_judged_that_it_is_not_known(tmp_path: Path) -> None:
    """No broker answers: whether a record waits is not known, and that is not fine."""
    rules = {"fresh": {"when": "freshness", "over": "1 hour"}}
    pipeline = LivedIn(tmp_path, alerts={"rules": rules})
    pipeline.caught_up()
    live = Live(PIPELINE, pipeline.settings, pipeline.layout)
    Watch("shop", pipeline.settings.alerts, pipeline.layout.alerts, live.facts).look()
    settings = ("alerts.rules.fresh={when: freshness, over: 1 hour}",)
    found = command(tmp_path, "list", settings=settings)
    assert "not known" in found.stdout  # type: ignore[attr-defined]
    assert "fine" not in found.stdout  # type: ignore[attr-defined]


def test_a_rule_that_matches_no_table_is_named_before_a_night_depends_on_it(tmp_path: Path) -> None:
    """It would be watched, be fine, and never ring."""
    wrong = "alerts.rules.night={when: query_dead, tables: [gold.quakes_latset]}"
    given = ("-p", str(EXAMPLE), "--settings", str(tmp_path / "medallion.yaml"))
    (tmp_path / "medallion.yaml").touch()
    for words in (("alerts", "list"), ("check",)):
        found = " ".join(run(*words, *given, settings=(f"data_dir={tmp_path}", wrong)).stdout.split())
        assert "alerts.rules.night watches nothing: gold.quakes_latset matches no table of" in found
        assert "did you mean 'gold.quakes_latest'?" in found


@pytest.mark.parametrize(
    ("rule", "tables"),
    [
        ({"when": "broker_down"}, None),
        ({"when": "freshness", "over": "1 minute"}, None),
        ({"when": "freshness", "over": "1 minute", "tables": ["gold.*"]}, ("gold.by_day",)),
        ({"when": "query_dead"}, ("bronze.orders", "silver.orders", "gold.by_day")),
        ({"when": "quarantine_share", "over": "5 %", "tables": ["gold.*"]}, ()),
        ({"when": "no_data", "over": "1 minute"}, ("bronze.orders",)),
        ({"when": "suite_failed"}, ()),
    ],
)
def test_a_rule_watches_the_tables_that_its_kind_concerns(
    rule: dict[str, object], tables: tuple[str, ...] | None
) -> None:
    found = AlertRule.model_validate(rule)
    assert watched_tables(found, PIPELINE) == tables
    blind = list(blind_rules({"a": found}, PIPELINE))
    assert bool(blind) == bool(tables == () and found.tables)


def test_a_rule_that_the_watching_process_does_not_know_is_not_fine(tmp_path: Path) -> None:
    """Its settings are those of its start; nor is a rule fine that no process has looked at for an hour."""
    old, new = "alerts.rules.old={when: query_dead}", "alerts.rules.new={when: broker_down}"
    pipeline = LivedIn(tmp_path)
    now = datetime.now(UTC)
    for at, states in ((now, ["fine", "not watched"]), (now - timedelta(hours=1), ["not watched"] * 2)):
        write_alerts(pipeline.layout.alerts, AlertsFile(at, 7, "host", 10.0, {"old": "warning"}))
        lines = command(tmp_path, "list", settings=(old, new)).stdout.splitlines()  # type: ignore[attr-defined]
        assert [line.partition("none")[2].strip() for line in lines[1:3]] == states


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("a={when: lag}", "a rule for lag needs 'over', such as '100000'"),
        ("a={when: lag, over: soon}", "over 'soon' is no rows or duration"),
        ("a={when: time_to_loss, over: 1 day}", "a rule for time_to_loss has 'under', not 'over'"),
        ("a={when: query_dead, over: 1}", "a rule for query_dead has no limit, not 'over'"),
        ("a={when: lag, over: 1, fro: 1 minute}", "did you mean 'alerts.rules.a.for'?"),
        ("a={when: lag, over: 1, channels: [taem]}", "rule a: channel taem: did you mean 'team'?"),
        ("a.b={when: query_dead}", "alerts.rules.a"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_name_and_without_addresses(
    tmp_path: Path, given: str, says: str
) -> None:
    (tmp_path / "medallion.yaml").touch()
    texts = ["alerts.channels.team=json://u:secret@host", f"alerts.rules.{given}"]
    with pytest.raises(SettingsError) as raised:
        load_settings(file=tmp_path / "medallion.yaml", overrides=texts)
    assert says in str(raised.value)
    assert "secret" not in str(raised.value)


def test_channels_and_rules_may_be_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "medallion.yaml").touch()
    monkeypatch.setenv("MEDALLION_ALERTS__CHANNELS", '{"team": "env:HOOK"}')
    monkeypatch.setenv("MEDALLION_ALERTS__RULES__LAG", '{"when": "lag", "over": "10", "for": "1 minute"}')
    found = load_settings(file=tmp_path / "medallion.yaml").alerts
    assert found.channels == {"team": "env:HOOK"}
    assert found.active_rules["lag"].lasting_seconds == 60
