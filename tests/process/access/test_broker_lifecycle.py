"""The embedded broker's promises, kept by a real Kafka: ready, lasting, shared, never left in silence.

One folder serves most tests, because formatting takes a second and starting three.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from common.config.paths import broker_dir
from common.config.settings import Settings, load_settings
from common.errors import BrokerError
from common.machine import processes
from orchestration.access.embedded_broker import lifecycle as broker
from orchestration.access.embedded_broker.server_process import Server
from orchestration.access.embedded_broker.state_folder import data_dir, identity_of, properties_file
from orchestration.access.kafka import client as kafka
from tests.support.processes import await_that

ROOT = Path(__file__).parents[3]
BIG_BYTES = 10 * 1024 * 1024

USER = """
import sys
from common.config.settings import load_settings
from orchestration.access.embedded_broker import lifecycle as broker
mine = broker.start(load_settings(overrides=["data_dir=" + sys.argv[1]]))
print(mine.pid, flush=True)
sys.stdin.readline()
mine.stop()
"""


def _settings(folder: Path, *overrides: str) -> Settings:
    return load_settings(file=Path(os.devnull), overrides=[f"data_dir={folder}", *overrides])


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("shared data é")
    chosen = _settings(folder, "kafka.stop_timeout_seconds=2")
    yield chosen
    assert processes.find_by_command_line(f" kafka.Kafka {properties_file(broker_dir(chosen))}") == []


def another_user(settings: Settings) -> tuple[subprocess.Popen[str], int]:
    """A second Python process that uses the broker until it reads a line; with the broker's pid."""
    child = subprocess.Popen(
        [sys.executable, "-c", USER, str(settings.data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert child.stdout is not None
    return child, int(child.stdout.readline())


def produced(address: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": address, "message.max.bytes": BIG_BYTES + 1024})
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(20) == 0


def consumed(address: str, topic: str, count: int) -> list[bytes]:
    group = {"group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": address, **group})
    consumer.subscribe([topic])
    try:
        messages = [message for _ in range(count) for message in consumer.consume(1, timeout=20)]
        assert [message.error() for message in messages] == [None] * count
        return [message.value() for message in messages]
    finally:
        consumer.close()


@pytest.mark.long
def test_topics_and_messages_outlive_a_stop_and_an_older_kafka(settings: Settings) -> None:
    values = [b"first", b"x" * BIG_BYTES, b"last"]
    with broker.start(settings) as first:
        assert os.getsid(first.pid) == first.pid  # Ctrl-C in the terminal is not for it
        assert broker.running_address(settings) == first.bootstrap_servers
        assert kafka.ensure_topics(first.bootstrap_servers, ["orders", "events"], 2, {}) == [
            "orders",
            "events",
        ]
        assert kafka.ensure_topics(first.bootstrap_servers, ["orders"], 2, {}) == []
        produced(first.bootstrap_servers, "orders", values)
        assert consumed(first.bootstrap_servers, "orders", 3) == values
    assert not first.is_running()
    assert broker.describe(settings) is None
    remembered = broker_dir(settings) / "identity.json"
    facts = json.loads(remembered.read_text())
    remembered.write_text(json.dumps(facts | {"kafka_version": "4.2.1"}))
    with broker.start(settings) as second:
        assert second.bootstrap_servers == first.bootstrap_servers
        assert kafka.topic_names(second.bootstrap_servers, {}) == ["events", "orders"]
        assert kafka.end_offsets(second.bootstrap_servers, ["orders"], {}) == {"orders": {0: 3, 1: 0}}
        assert consumed(second.bootstrap_servers, "orders", 3) == values
    assert json.loads(remembered.read_text()) == facts


@pytest.mark.long
def test_end_offsets_are_those_of_a_read_committed_consumer(settings: Settings) -> None:
    with broker.start(settings) as running:
        address = running.bootstrap_servers
        kafka.wait_reachable(address, {}, 30)
        kafka.ensure_topics(address, ["payments"], 1, {})
        producer = Producer({"bootstrap.servers": address, "transactional.id": "test"})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("payments", b"open")
        producer.flush(20)
        assert kafka.end_offsets(address, ["payments", "absent"], {}) == {"payments": {0: 0}, "absent": {}}
        producer.commit_transaction(20)
        # The record and the marker that ends its transaction, which the broker writes after its answer.
        await_that(
            lambda: kafka.end_offsets(address, ["payments"], {}) == {"payments": {0: 2}},
            "the marker is written",
        )
        assert kafka.first_offsets(address, ["payments"], {}) == {"payments": {0: 0}}


@pytest.mark.long
def test_an_orphan_is_reused_and_ends_with_its_last_user(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    user, pid = another_user(settings)
    user.kill()
    user.communicate()
    assert processes.start_mark(pid) is not None
    with broker.start(settings) as adopted:
        assert adopted.pid == pid
        assert f"reusing the broker of pid {pid}, left by a process that is gone" in capsys.readouterr().err
    assert processes.start_mark(pid) is None


def test_a_shared_broker_ends_with_its_last_user_only(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    user, pid = another_user(settings)
    mine = broker.start(settings)
    assert mine.pid == pid
    assert f"sharing the broker of pid {pid}" in capsys.readouterr().err
    user.communicate("stop\n", timeout=20)
    assert user.returncode == 0
    assert broker.running_address(settings) == mine.bootstrap_servers
    with broker.start(settings) as also_mine:
        assert also_mine.pid == pid
    assert mine.is_running()
    mine.stop()
    mine.stop()
    assert processes.start_mark(pid) is None


@pytest.mark.long
def test_a_broker_that_was_started_anew_ends_with_the_last_user_of_either(settings: Settings) -> None:
    """As a standby, which waits with the broker of the job that has died."""
    waiting = broker.start(settings)
    processes.kill(waiting.pid, processes.start_mark(waiting.pid))
    await_that(lambda: processes.start_mark(waiting.pid) is None, "the broker has ended")
    anew = broker.start(settings)
    assert anew.pid != waiting.pid
    anew.stop()
    assert broker.running_address(settings) == anew.bootstrap_servers
    waiting.stop()
    assert processes.start_mark(anew.pid) is None


@pytest.mark.long
def test_a_pid_that_was_given_to_another_program_is_left_alone(settings: Settings) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    state = {
        "pid": bystander.pid,
        "process_start": processes.start_mark(bystander.pid),
        "port": 1,
        "controller_port": 2,
        "kafka_version": "4.3.1",
        "cluster_id": "x",
        "started_at": "2026-01-01T00:00:00+00:00",
    }
    (broker_dir(settings) / "broker.json").write_text(json.dumps(state))
    stale = broker.describe(settings)
    assert stale is not None
    assert not stale["alive"]
    with broker.start(settings) as started:
        assert started.pid != bystander.pid
        assert broker.running_address(settings) == started.bootstrap_servers
    assert bystander.poll() is None
    bystander.communicate(b"\n")


@pytest.mark.long
def test_a_broker_whose_start_was_killed_before_it_was_noted_is_ended_first(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    user, pid = another_user(settings)
    user.kill()
    user.communicate()
    (broker_dir(settings) / "broker.json").unlink()
    with broker.start(settings) as started:
        assert started.pid != pid
    assert f"pid {pid}, was left by a start that was killed" in capsys.readouterr().err
    assert processes.start_mark(pid) is None


@pytest.mark.long
def test_formatting_twice_keeps_the_data_of_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    server = Server.of(folder, _settings(tmp_path))
    folder.mkdir()
    identity = identity_of(folder, server.version)
    server.prepare(identity)
    written = (data_dir(folder) / "meta.properties").read_bytes()
    assert f"cluster.id={identity.cluster_id}".encode() in written
    server.format(identity.cluster_id)
    assert (data_dir(folder) / "meta.properties").read_bytes() == written


@pytest.mark.long
def test_a_newer_kafkas_data_is_refused(settings: Settings) -> None:
    remembered = broker_dir(settings) / "identity.json"
    facts = remembered.read_text()
    newer = json.loads(facts) | {"kafka_version": "4.10.0", "unheard_of": True}
    remembered.write_text(json.dumps(newer))
    try:
        with pytest.raises(BrokerError, match=r"written by Kafka 4\.10\.0; this engine runs 4\.3\.1"):
            broker.start(settings)
    finally:
        remembered.write_text(facts)


def test_a_taken_port_is_told_with_who_holds_it(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        chosen = _settings(settings.data_dir, f"kafka.port={port}")
        with pytest.raises(BrokerError, match=rf"Port {port} \(setting kafka.port\) is taken") as refused:
            broker.start(chosen)
    if sys.platform == "linux":
        assert f"by pid {os.getpid()} (" in str(refused.value)


@pytest.mark.long
def test_a_broker_that_cannot_start_is_told_with_the_end_of_its_log(settings: Settings) -> None:
    meta = data_dir(broker_dir(settings)) / "meta.properties"
    sound = meta.read_text()
    meta.write_text(sound.replace("node.id=1", "node.id=7"))
    try:
        with pytest.raises(BrokerError, match="ended with exit code 1") as failed:
            broker.start(settings)
    finally:
        meta.write_text(sound)
    assert str(broker_dir(settings) / "log" / "kafka.log") in str(failed.value)
    assert "Stored node id 7 doesn't match previous node id 1" in str(failed.value)
    assert broker.describe(settings) is None


# Last: the broker after a killed one waits until the killed one's session has ended.
@pytest.mark.long
def test_a_broker_that_hangs_is_replaced_and_one_that_ignores_sigterm_is_killed(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    hung = broker.start(settings)
    os.kill(hung.pid, signal.SIGSTOP)
    fresh = broker.start(settings)
    said = capsys.readouterr().err
    assert f"the broker of pid {hung.pid} does not answer at {hung.bootstrap_servers}" in said
    assert f"pid {hung.pid} did not end within 2 s of SIGTERM and was killed" in said
    assert not hung.is_running()
    hung.stop()
    assert fresh.is_running()
    os.kill(fresh.pid, signal.SIGSTOP)
    fresh.stop()
    assert f"pid {fresh.pid} did not end within 2 s of SIGTERM and was killed" in capsys.readouterr().err
    assert not fresh.is_running()
