"""What the embedded broker knows before, and without, a running Kafka."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from common.config.paths import broker_dir
from common.config.settings import Settings, load_settings
from common.errors import BrokerError
from common.machine import processes
from orchestration.access.embedded_broker import lifecycle as broker
from orchestration.access.embedded_broker.server_process import _escaped
from orchestration.access.embedded_broker.state_folder import (
    Identity,
    State,
    data_dir,
    identity_of,
    jvm_log,
    last_words,
    log_file,
    log_size,
    write_identity,
)

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(file=Path(os.devnull), overrides=[f"data_dir={tmp_path}"])


def note(settings: Settings, **facts: object) -> None:
    state = {
        "pid": os.getpid(),
        "process_start": processes.start_mark(os.getpid()),
        "port": 1,
        "controller_port": 2,
        "kafka_version": "4.3.1",
        "cluster_id": CLUSTER,
        "started_at": "2026-01-01T00:00:00+00:00",
    }
    broker_dir(settings).mkdir(parents=True, exist_ok=True)
    (broker_dir(settings) / "broker.json").write_text(json.dumps(state | facts))


def test_without_a_broker_there_is_nothing_to_describe(settings: Settings) -> None:
    assert broker.describe(settings) is None
    assert broker.running_address(settings) is None


def test_another_program_of_the_noted_pid_is_not_taken_for_the_broker(settings: Settings) -> None:
    note(settings)
    found = broker.describe(settings)
    assert found is not None
    assert (found["alive"], found["answering"]) == (False, False)
    assert found["bootstrap_servers"] == "127.0.0.1:1"
    assert broker.running_address(settings) is None


def test_a_noted_broker_that_started_at_another_time_is_gone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "_ANSWER_SECONDS", 0.2)
    properties = broker_dir(settings) / "server.properties"
    words = [sys.executable, "-c", "input()", "kafka.Kafka", str(properties)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as lookalike:
        note(settings, pid=lookalike.pid, process_start="1")
        assert (broker.describe(settings) or {})["alive"] is False
        note(settings, pid=lookalike.pid, process_start=processes.start_mark(lookalike.pid))
        assert (broker.describe(settings) or {})["alive"] is True
        lookalike.communicate(b"\n")
    assert (broker.describe(settings) or {})["alive"] is False


def test_the_last_user_ends_a_broker_that_another_process_has_started_anew(settings: Settings) -> None:
    """The broker that the user knows has ended; the state file names the next one."""
    properties = broker_dir(settings) / "server.properties"
    words = [sys.executable, "-c", "input()", "kafka.Kafka", str(properties)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as lookalike:
        note(settings, pid=lookalike.pid, process_start=processes.start_mark(lookalike.pid))
        former = State(2**22, "1", 1, 2, "4.3.1", CLUSTER, "2026-01-01T00:00:00+00:00")
        users = os.open(broker_dir(settings) / "users.lock", os.O_RDWR | os.O_CREAT)
        broker.Broker(settings, former, users, None).stop()
        assert lookalike.wait(20) != 0
    assert broker.describe(settings) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_state_that_cannot_be_read_is_no_broker(settings: Settings, text: str) -> None:
    note(settings)
    (broker_dir(settings) / "broker.json").write_text(text)
    assert broker.describe(settings) is None


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    chosen = load_settings(file=Path(os.devnull), overrides=[f"data_dir={tmp_path / 'file'}"])
    with pytest.raises(BrokerError, match="Name another with the setting data_dir"):
        broker.start(chosen)


def test_both_ports_cannot_be_the_same(tmp_path: Path) -> None:
    port = processes.free_port()
    overrides = [f"kafka.port={port}", f"kafka.controller_port={port}"]
    chosen = load_settings(file=Path(os.devnull), overrides=overrides)
    with pytest.raises(BrokerError, match=f"are both {port}"):
        broker._ports(chosen, Identity(CLUSTER, "4.3.1"))


def test_the_ports_of_the_last_run_are_kept_while_they_are_free(settings: Settings) -> None:
    first, second = processes.free_port(), processes.free_port()
    assert broker._ports(settings, Identity(CLUSTER, "4.3.1", first, second)) == (first, second)
    with socket.create_server(("127.0.0.1", first)):
        port, controller_port = broker._ports(settings, Identity(CLUSTER, "4.3.1", first, second))
    assert port != first
    assert controller_port == second


def test_a_new_folder_gets_an_identity_and_keeps_it(tmp_path: Path) -> None:
    new = identity_of(tmp_path, "4.3.1")
    assert (len(new.cluster_id), new.kafka_version, new.port) == (22, "4.3.1", 0)
    write_identity(tmp_path, new)
    assert identity_of(tmp_path, "4.3.1") == new
    assert identity_of(tmp_path, "4.3.10") == new


def test_a_newer_kafkas_folder_is_refused_whatever_else_it_remembers(tmp_path: Path) -> None:
    facts = {"cluster_id": CLUSTER, "kafka_version": "4.10.0", "port": 1, "controller_port": 2, "later": []}
    (tmp_path / "identity.json").write_text(json.dumps(facts))
    with pytest.raises(BrokerError, match=r"written by Kafka 4\.10\.0; this engine runs 4\.9\.2"):
        identity_of(tmp_path, "4.9.2")


def test_a_lost_identity_is_read_from_the_data(tmp_path: Path) -> None:
    data_dir(tmp_path).mkdir()
    (data_dir(tmp_path) / "meta.properties").write_text(f"node.id=1\ncluster.id={CLUSTER}\n")
    assert identity_of(tmp_path, "4.3.1") == Identity(CLUSTER, "4.3.1")


def test_last_words_are_the_new_errors_without_stacks(tmp_path: Path) -> None:
    log = log_file(tmp_path)
    log.parent.mkdir()
    assert last_words(tmp_path, 0) == "(nothing)"
    log.write_text("2026-01-01T00:00:00.000Z ERROR Old trouble\n")
    before = log_size(tmp_path)
    with log.open("a") as file:
        file.write("2026-01-01T00:00:01.000Z INFO Kafka fine\n")
        assert file.tell()
    assert last_words(tmp_path, before) == "2026-01-01T00:00:01.000Z INFO Kafka fine"
    with log.open("a") as file:
        file.write(
            "2026-01-01T00:00:02.000Z ERROR Kafka trouble\njava.io.IOException: disk full\n\tat a.b(C.java)\n"
        )
        file.write("2026-01-01T00:00:03.000Z INFO Kafka bye\n")
    jvm_log(tmp_path).write_text("Killed\n")
    assert last_words(tmp_path, before).splitlines() == [
        "2026-01-01T00:00:02.000Z ERROR Kafka trouble",
        "java.io.IOException: disk full",
        "Killed",
    ]


def test_a_path_in_a_properties_file_is_escaped() -> None:
    assert _escaped("/a b/é\\𝄞") == "/a b/\\u00e9\\\\\\ud834\\udd1e"
