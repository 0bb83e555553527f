"""A drill: a job freezes, another dies, the broker stalls, quarantine fills, retention comes near.

Each is seen on the page, by /readyz, in the metrics and as an alert at a real receiver, and is resolved
after. One pipeline and one broker of the test's own, which the test stops and continues.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from common.config.settings import load_settings
from common.declare import Message
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.access.embedded_broker import lifecycle as embedded
from orchestration.access.kafka import client as kafka
from tests.support.pages import pipeline_metric, seen, unready
from tests.support.processes import EXAMPLE, Command, Medallion, await_that, example_on, medallion
from tests.support.servers.receivers import Inbox, http_receiver

TOPIC = "quakes"
GOOD, BAD, MORE = 300, 60, 1_500
OLD_SECONDS = 6.5 * 24 * 3600
RULES = {
    "dead": "{when: query_dead, severity: critical}",
    "broker": "{when: broker_down}",
    "rejected": "{when: quarantine_share, over: 5 %, rows: 20}",
    "loss": "{when: time_to_loss, under: 1 day, severity: critical}",
}

pytestmark = pytest.mark.long


@dataclass
class Drill:
    """A running job, a page beside it, and what it needs to be disturbed."""

    commands: Medallion
    up: Command
    page: str
    inbox: Inbox
    broker: str
    broker_pid: int
    sample: Iterator[Message] = field(repr=False, default=iter(()))

    def send(self, messages: list[Message], ago: float = 0) -> None:
        producer = Producer({"bootstrap.servers": self.broker})
        at = int((time.time() - ago) * 1000)
        for message in messages:
            producer.produce(TOPIC, key=message.key, value=message.value, timestamp=at)
        assert producer.flush(60) == 0

    def raised(self) -> set[str]:
        """The rules whose alerts the page shows as raised."""
        alerts = json.loads(self.read("api/status"))["alerts"]
        return set() if alerts is None else {one["rule"] for one in alerts["raised"]}

    def read(self, path: str) -> str:
        with urlopen(f"{self.page}{path}", timeout=30) as answer:  # noqa: S310  # our own address
            text: str = answer.read().decode()
            return text

    def metric(self, rule: str) -> float:
        """The number of raised alerts of a rule, as the metrics have it."""
        found = re.search(rf'medallion_alerts_raised{{.*rule="{rule}".*}} (\S+)', self.read("metrics"))
        return 0.0 if found is None else float(found[1])

    def await_raised(self, rule: str, *running: Command) -> None:
        """Wait until an alert is on the page, in the metrics, and at the receiver."""
        await_that(lambda: rule in self.raised(), f"{rule} is raised on the page", *running)
        assert self.metric(rule) >= 1
        await_that(lambda: rule in self.told(is_end=False), f"{rule} is at the receiver")

    def await_resolved(self, rule: str, *running: Command) -> None:
        await_that(lambda: rule not in self.raised(), f"{rule} is resolved on the page", *running)
        assert self.metric(rule) == 0
        await_that(lambda: rule in self.told(is_end=True), f"the end of {rule} is at the receiver")

    def await_ready(self, *running: Command) -> None:
        """Wait until /readyz is 200."""
        await_that(lambda: unready(self.page) == set(), "all tables are ready", *running)

    def await_unready(self, *running: Command) -> None:
        """Wait until /readyz names each table."""
        tables = {one["table"] for one in json.loads(self.read("api/status"))["tables"]}
        await_that(lambda: unready(self.page) == tables, "no table is ready", *running)

    def told(self, *, is_end: bool) -> set[str]:
        """The rules whose alerts, or whose ends, the receiver was sent."""
        with self.inbox.lock:
            bodies = [one["message"] for one in self.inbox.received if ("resolved" in one["title"]) is is_end]
        lines = [line for body in bodies for line in body.splitlines()]
        return {line.partition(":")[0].partition(" ")[0] for line in lines}


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    folder = tmp_path_factory.mktemp("drill")
    (folder / "broker.yaml").touch()
    own = load_settings(
        file=folder / "broker.yaml", overrides=[f"data_dir={folder / 'broker'}", "kafka.heap_mb=256"]
    )
    with embedded.start(own) as running, http_receiver() as inbox:
        broker = running.bootstrap_servers
        kafka.ensure_topics(broker, [TOPIC], 1, {})
        keep_a_week(broker)
        pid = int((embedded.describe(own) or {})["pid"])
        given = [
            f"kafka.bootstrap_servers={broker}",
            "history.interval_seconds=3",
            "alerts.interval=1 second",
            f"alerts.channels.hook={inbox.address}",
            *(f"alerts.rules.{name}={rule}" for name, rule in RULES.items()),
        ]
        with medallion(folder, example_on(folder, TOPIC), *given) as commands:
            up, beside = commands.start("up"), commands.start("page", "--http", "127.0.0.1:0")
            beside.await_stderr("page at http://")
            page = re.search(r"page at (http://\S+)", beside.stderr)
            assert page is not None
            sample = load_pipeline(EXAMPLE).bronze[0].sample
            assert sample is not None
            try:
                yield Drill(commands, up, page[1], inbox, broker, pid, iter(sample(7)))
            finally:
                os.kill(pid, signal.SIGCONT)


def keep_a_week(broker: str) -> None:
    """The topic gets Kafka's usual retention; the embedded broker keeps all."""
    entry = ConfigEntry(
        "retention.ms", str(7 * 24 * 3600 * 1000), incremental_operation=AlterConfigOpType.SET
    )
    topic = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": broker})
    for done in client.incremental_alter_configs([topic]).values():
        done.result(30)


def test_each_trouble_is_seen_and_resolved(drill: Drill) -> None:
    drill.up.await_stderr("running bronze.quakes")
    drill.send(list(islice(drill.sample, GOOD)))
    await_that(lambda: rows(drill, "silver.quakes") > 0, "silver has rows", drill.up)
    drill.await_ready(drill.up)
    assert drill.raised() == set()

    drill.send([Message(b"k", b'{"secret": "ann@shop.example"')] * BAD)
    drill.await_raised("rejected", drill.up)
    assert unready(drill.page) == set()  # rows are aside, and the others go on
    drill.send(list(islice(drill.sample, MORE)))
    drill.await_resolved("rejected", drill.up)

    os.kill(drill.broker_pid, signal.SIGSTOP)
    drill.await_raised("broker", drill.up)
    drill.await_unready(drill.up)
    assert pipeline_metric(drill.page, "medallion_broker_up") == 0
    os.kill(drill.broker_pid, signal.SIGCONT)
    drill.await_resolved("broker", drill.up)
    drill.await_ready(drill.up)

    os.killpg(drill.up.pid, signal.SIGSTOP)  # it may be the one that watches the alerts
    drill.await_raised("dead")
    drill.await_unready()
    assert set(seen(drill.page).values()) == {"critical"}
    os.killpg(drill.up.pid, signal.SIGCONT)
    drill.await_resolved("dead", drill.up)
    drill.await_ready(drill.up)

    drill.up.kill_group()
    drill.await_raised("dead")
    drill.await_unready()
    seen_in_a_browser(drill, "dead")
    drill.send(list(islice(drill.sample, 50)), ago=OLD_SECONDS)
    drill.await_raised("loss")
    again = drill.commands.start("up")
    drill.await_resolved("loss", again)
    drill.await_resolved("dead", again)
    drill.await_ready(again)
    again.signal(signal.SIGTERM)
    assert again.code() == 0, again.stderr

    assert drill.raised() == set()
    lines = Counter(
        (line.split(": ")[0], "resolved" in one["title"])
        for one in drill.inbox.received
        for line in one["message"].splitlines()
    )
    # Two jobs were away, each of them for all tables.
    assert {place[0] for place, count in lines.items() if count != (2 if "dead" in place[0] else 1)} == set()
    assert {place for place, is_end in lines if is_end} == {place for place, is_end in lines if not is_end}
    assert {place.partition(" ")[0] for place, _ in lines} == set(RULES)
    assert "ann@shop.example" not in drill.inbox.text


def rows(drill: Drill, table: str) -> int:
    tables: list[dict[str, Any]] = json.loads(drill.read("api/status"))["tables"]
    return next(one["rows"] or 0 for one in tables if one["table"] == table)


def seen_in_a_browser(drill: Drill, rule: str) -> None:
    """The page draws the alert; where a browser is installed."""
    from tests.process.observe.test_page import CHROMIUM

    playwright = pytest.importorskip("playwright.sync_api") if CHROMIUM else None
    if playwright is None:
        return
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page()
        page.goto(drill.page)
        page.locator(f"#alerts tr[data-rule={rule}]").first.wait_for()
        if picture := os.environ.get("ALERTS_PICTURE"):
            page.screenshot(path=Path(picture), full_page=True)
        chromium.close()
