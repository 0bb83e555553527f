"""Twelve secrets, each by reference: no command leaves one in a file, an output or the process list.

Spark logs at DEBUG and writes its event log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from common.declare import Message
from common.machine.processes import command_line
from tests.support.processes import Command, Medallion, medallion, public_files

pytestmark = pytest.mark.long

_PIPELINE = """
from common.declare import Aggregate, Json, KafkaSink, Pipeline, Publish, Rule, Silver, Storage, Topic

pipeline = Pipeline(
    name="shop",
    kafka={{"sasl.password": "env:CANARY_1"}},
    bronze=[Topic("orders", topics=[{topic!r}], kafka={{"ssl.key.password": "{folder}/canary_2"}})],
    silver=[Silver("orders", reads="bronze.orders", value=Json("id int, ms bigint"),
                   columns={{"id": "id", "ordered_at": "timestamp_millis(ms)"}}, key=["id"],
                   event_time="ordered_at", watermark="7 days", rules=[Rule("small", "id < 5")])],
    gold=[Aggregate("counts", reads="silver.orders", by=["id"], measures={{"orders": "count(*)"}},
                    storage=Storage(change_feed=True))],
    publish=[Publish("sent", reads="gold.counts",
                     to=KafkaSink({topic_out!r}, kafka={{"sasl.username": "me",
                                                        "sasl.password": "env:CANARY_3"}}))],
)
"""
_SETTINGS = {
    4: "kafka.options.sasl.jaas.config=env:CANARY_4",
    5: "kafka.options.ssl.keystore.password={file}",
    6: "spark.conf.spark.hadoop.fs.s3a.secret.key={file}",
    7: "spark.conf.spark.hadoop.fs.s3a.session.token=env:CANARY_7",
    8: "spark.conf.spark.hadoop.fs.azure.account.key.x=env:CANARY_8",
    9: "spark.conf.spark.hadoop.shop.word=env:CANARY_9",
    10: "spark.conf.spark.ssl.keyStorePassword={file}",
    11: "spark.conf.spark.redis.auth=env:CANARY_11",
    12: "silver.schema_registry_login={file}",
}


def canary(number: int) -> str:
    return f"canary-{number}-swordfish"


@pytest.fixture
def shop(
    tmp_path: Path, broker: str, new_topic: Callable[[], str], send: Callable[[str, Sequence[Message]], None]
) -> Iterator[Medallion]:
    """Commands over a topic with ten messages, two of them not readable."""
    topic, topic_out = new_topic(), new_topic()
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    for number in range(1, 13):
        (secrets / f"canary_{number}").write_text(f"{canary(number)}\n")
    values = [json.dumps({"id": n, "ms": 1_700_000_000_000 + n}).encode() for n in range(8)] + [b"{", b"["]
    send(topic, [Message(b"%d" % n, value) for n, value in enumerate(values)])
    file = tmp_path / "shop.py"
    file.write_text(_PIPELINE.format(topic=topic, topic_out=topic_out, folder=f"file:{secrets}"))
    settings = [text.format(file=f"file:{secrets}/canary_{n}") for n, text in _SETTINGS.items()]
    events = tmp_path / "events"
    events.mkdir()
    debug = [
        "spark.conf.spark.log.level=DEBUG",
        "spark.conf.spark.eventLog.enabled=true",
        "spark.conf.spark.eventLog.compress=false",
        f"spark.conf.spark.eventLog.dir=file:{events}",
    ]
    with medallion(
        tmp_path / "run", file, f"kafka.bootstrap_servers={broker}", *settings, *debug
    ) as commands:
        yield commands


def process_lines(command: Command) -> Iterator[str]:
    """Command lines of the command and its children, as long as it runs."""
    while command.is_running:
        try:
            parent = psutil.Process(command.pid)
            for process in (parent, *parent.children(recursive=True)):
                yield command_line(process.pid)
        except psutil.Error:
            continue


def test_no_command_leaves_a_secret_anywhere(shop: Medallion, tmp_path: Path) -> None:
    env = {f"CANARY_{number}": canary(number) for number in range(1, 13)}
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    env["CANARY_4"] = f'{module} required username="me" password="{canary(4)}";'
    running = shop.start("backfill", env=env)
    lines = set(process_lines(running))
    assert running.code() == 0, running.stderr
    assert any("SparkSubmit" in line for line in lines)
    ended = [running]
    for words in (
        ("status", "--json"),
        ("audit",),
        ("check",),
        ("doctor",),
        ("query", "select * from gold.counts"),
        ("quarantine", "list"),
        ("maintain", "--json"),
    ):
        ended.append(shop.run(*words, env=env))
        assert "Traceback" not in ended[-1].stderr, ended[-1].stderr
    without = {name: value for name, value in env.items() if name != "CANARY_9"}
    failed = shop.run("run", "gold", "--available-now", env=without)
    assert "CANARY_9" in failed.stderr
    assert "Traceback" not in failed.stderr
    ended.append(failed)
    printed = "\n".join([*lines, *(command.stdout + command.stderr for command in ended)])
    files = [
        file for file in (*(tmp_path / "run").rglob("*"), *(tmp_path / "events").rglob("*")) if file.is_file()
    ]
    assert any(file.name.endswith(".log") and b" DEBUG" in file.read_bytes() for file in files)
    assert any(b"SparkListenerEnvironmentUpdate" in file.read_bytes() for file in files)
    found = {
        number: [str(file) for file in files if canary(number).encode() in file.read_bytes()]
        + ["printed"] * (canary(number) in printed)
        for number in range(1, 13)
    }
    assert {number: places for number, places in found.items() if places} == {}
    assert public_files(tmp_path / "run" / "data") == {}
