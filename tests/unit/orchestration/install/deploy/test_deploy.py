"""What `medallion deploy` writes is what each place accepts, and holds no secret."""

from __future__ import annotations

import getpass
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer.main
import yaml
from click.testing import CliRunner

from common.config.settings import Settings, load_settings
from common.declare import Pipeline, Topic
from common.errors import MissingExtraError, PipelineError, SettingsError
from common.machine import extras
from common.machine.service_manager import ServiceManager
from orchestration.cli.main import app
from orchestration.install.deploy import image, kubernetes, systemd
from orchestration.install.deploy.deployment import Plan, plan_of

LOCAL = ("kafka.bootstrap_servers=kafka:9092", "stop_timeout_seconds=90", "spark.driver_memory=4g")
REMOTE = (*LOCAL, "warehouse=s3a://lake/tables", "checkpoints=s3a://lake/checkpoints")
SECRET = 'kafka.options={"sasl.jaas.config": "env:KAFKA_LOGIN", "security.protocol": "SASL_SSL"}'  # noqa: S105
KUBERNETES = "1.34"


def settings(folder: Path, *given: str) -> Settings:
    (folder / "medallion.yaml").write_text("pipeline: jobs/shop.py\n")
    return load_settings(file=folder / "medallion.yaml", overrides=given)


SHOP = Pipeline(name="my_shop", bronze=[Topic("orders")])


def plan(folder: Path, *given: str, pipeline: Pipeline = SHOP) -> Plan:
    return plan_of(settings(folder, *given), pipeline)


def manifests(files: Mapping[str, str]) -> list[dict[str, Any]]:
    texts = (text for name, text in files.items() if name.endswith(".yaml"))
    return [document for text in texts for document in yaml.safe_load_all(text)]


@pytest.mark.parametrize("given", [(*LOCAL, SECRET), (*REMOTE, SECRET)], ids=["local", "s3a"])
def test_every_manifest_fits_the_schemas_of_kubernetes(tmp_path: Path, given: tuple[str, ...]) -> None:
    found = manifests(kubernetes.files(plan(tmp_path, *given), "registry/shop:1"))
    for manifest in found:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    sets = [each for each in found if each["kind"] == "StatefulSet"]
    assert len(sets) == (3 if "warehouse=s3a://lake/tables" in given else 1)


def test_the_validator_refuses_what_kubernetes_would(tmp_path: Path) -> None:
    manifest = manifests(kubernetes.files(plan(tmp_path, *LOCAL), "shop:1"))[1:]
    broken = next(each for each in manifest if each["kind"] == "StatefulSet")
    broken["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


def test_a_pod_drains_restarts_and_has_no_rights(tmp_path: Path) -> None:
    found = manifests(kubernetes.files(plan(tmp_path, *REMOTE, SECRET), "shop:1"))
    silver = next(
        each
        for each in found
        if each["kind"] == "StatefulSet" and each["metadata"]["name"] == "medallion-my-shop-silver"
    )
    pod = silver["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert silver["spec"]["replicas"] == 1
    assert pod["terminationGracePeriodSeconds"] > 90
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["args"][:2] == ["run", "silver"]
    assert {each["name"]: each["valueFrom"]["secretKeyRef"].get("optional") for each in container["env"]} == {
        "AWS_ACCESS_KEY_ID": True,
        "AWS_SECRET_ACCESS_KEY": True,
        "KAFKA_LOGIN": None,
    }
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_settings_of_the_files_are_read_as_the_users_own(tmp_path: Path) -> None:
    given = settings(tmp_path, *REMOTE, SECRET)
    (tmp_path / "written.yaml").write_text(systemd.settings_text(plan_of(given, SHOP)))
    read = load_settings(file=tmp_path / "written.yaml")
    assert read.model_dump(exclude={"pipeline"}) == given.model_dump(exclude={"pipeline"})
    assert read.pipeline.name == "shop.py"


@pytest.mark.parametrize("files", [kubernetes.files, image.files, systemd.files])
def test_a_secret_in_the_settings_is_refused_and_not_written(tmp_path: Path, files: Any) -> None:
    with pytest.raises(SettingsError, match=r"kafka.options.sasl.jaas.config holds a secret") as refused:
        files(plan(tmp_path, 'kafka.options={"sasl.jaas.config": "swordfish"}'))
    assert "swordfish" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ('alerts.channels={"team": "slack://tokenA/tokenB/swordfish"}', "alerts.channels.team"),
        ('alerts.channels={"hook": "json://user:swordfish@host"}', "alerts.channels.hook"),
        (
            'lineage.openlineage={"type": "http", "auth": {"type": "api_key", "apiKey": "swordfish"}}',
            "lineage.openlineage.auth.apiKey",
        ),
        (
            'spark.conf={"fs.azure.account.key.x.dfs.core.windows.net": "swordfish"}',
            "spark.conf.fs.azure.account.key.x.dfs.core.windows.net",
        ),
        (
            'spark.conf={"spark.hadoop.javax.jdo.option.ConnectionPassword": "swordfish"}',
            "ConnectionPassword",
        ),
        ('spark.conf={"spark.x.proxy": "http://me:swordfish@proxy:3128"}', "spark.conf.spark.x.proxy"),
        ('kafka.options={"sasl.login.key": "swordfish"}', "kafka.options.sasl.login.key"),
    ],
)
def test_whatever_holds_a_secret_is_refused_by_its_place(tmp_path: Path, given: str, place: str) -> None:
    """They were written into the ConfigMap, and into a file that all may read."""
    with pytest.raises(SettingsError, match="holds a secret") as refused:
        plan(tmp_path, *LOCAL, given)
    assert place in str(refused.value)
    assert "swordfish" not in str(refused.value)


def test_what_only_sounds_like_a_secret_is_written(tmp_path: Path) -> None:
    given = (
        'kafka.options={"sasl.login.callback.handler.class": "org.x.OAuthHandler"}',
        'spark.conf={"spark.x.token.refresh": "300"}',
        "silver.schema_registry_login=REGISTRY_LOGIN",
        'alerts.channels={"team": "env:TEAM_CHANNEL"}',
    )
    assert plan(tmp_path, *LOCAL, *given).secrets == ("REGISTRY_LOGIN", "TEAM_CHANNEL")


def test_a_pipeline_without_a_broker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no broker is named, and my_shop reads topics"):
        plan(tmp_path)


def test_units_whose_program_cannot_serve_the_page_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They start the program of this environment with ``--http``; an image has packages of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    (tmp_path / "shop.py").write_text(
        "from medallion import Pipeline, Topic\npipeline = Pipeline(name='shop', bronze=[Topic('orders')])\n"
    )
    words = ["-p", "shop.py", "--set", LOCAL[0], "-o"]
    command = typer.main.get_command(app)
    refused = CliRunner().invoke(command, ["deploy", "systemd", *words, "units"]).exception
    assert isinstance(refused, MissingExtraError)
    assert 'pip install "medallion-lakehouse[page]"' in str(refused)
    assert not (tmp_path / "units").exists()
    assert CliRunner().invoke(command, ["deploy", "compose", *words, "compose"]).exit_code == 0


def test_what_the_pipeline_and_the_settings_name_is_in_every_place(tmp_path: Path) -> None:
    """Variables, files that references name, trust stores, and tables outside of the data folder."""
    login = {"sasl.jaas.config": "env:TOPIC_LOGIN", "ssl.truststore.location": "/etc/kafka/trust store.jks"}
    shop = Pipeline(name="my_shop", bronze=[Topic("orders")], kafka=login)
    key = 'spark.conf={"spark.hadoop.fs.s3a.secret.key": "file:/run/secrets/s3"}'
    found = plan(tmp_path, *LOCAL, key, "warehouse=/mnt/lake", pipeline=shop)
    assert found.secrets == ("TOPIC_LOGIN",)
    assert found.files == ("/etc/kafka/trust store.jks", "/run/secrets/s3")
    service = yaml.safe_load(image.files(found)["compose.yaml"])["services"]["up"]
    assert service["volumes"][-3:] == [
        "/etc/kafka/trust store.jks:/etc/kafka/trust store.jks:ro",
        "/run/secrets/s3:/run/secrets/s3:ro",
        "/mnt/lake:/mnt/lake",
    ]
    (unit,) = (text for name, text in systemd.files(found, ["m"], "u").items() if name.endswith(".service"))
    assert "ReadWritePaths=/srv/medallion /mnt/lake" in unit.splitlines()
    documents = manifests(kubernetes.files(found, "shop:1"))
    for document in documents:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    (state,) = (each for each in documents if each["kind"] == "StatefulSet")
    mounts = state["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert {each["mountPath"]: each.get("subPath") for each in mounts[-3:]} == {
        "/etc/kafka/trust store.jks": "0-trust-store.jks",
        "/run/secrets/s3": "1-s3",
        "/mnt/lake": None,
    }
    assert [each["metadata"]["name"] for each in state["spec"]["volumeClaimTemplates"]] == [
        "data",
        "tables-0",
    ]


def test_a_service_waits_for_its_broker_and_a_changed_setting_restarts_a_pod(tmp_path: Path) -> None:
    first, second = plan(tmp_path, *LOCAL), plan(tmp_path, *LOCAL, "gold.trigger=1 minute")
    assert yaml.safe_load(image.files(first)["compose.yaml"])["services"]["up"]["restart"] == "on-failure"
    unit = systemd.files(first, ["m"], "u")["medallion-my-shop.service"].splitlines()
    # What is wrong with a pipeline is still wrong after a restart.
    assert {"StartLimitIntervalSec=0", f"RestartPreventExitStatus={PipelineError.exit_code}"} <= {*unit}

    def annotations(given: Plan) -> object:
        documents = manifests(kubernetes.files(given, "shop:1"))
        (state,) = (each for each in documents if each["kind"] == "StatefulSet")
        assert all(
            each["spec"]["publishNotReadyAddresses"] for each in documents if each["kind"] == "Service"
        )
        return state["spec"]["template"]["metadata"]["annotations"]

    assert annotations(first) != annotations(second)
    assert annotations(first) == annotations(plan(tmp_path, *LOCAL))


def test_a_path_may_have_spaces_and_signs(tmp_path: Path) -> None:
    home = str(tmp_path / "a lake 100%")
    Path(home).mkdir()
    found = plan(tmp_path, *LOCAL)
    unit = systemd.files(found, [sys.executable, "-m", "my program"], getpass.getuser(), home)
    text = unit["medallion-my-shop.service"]
    twice = home.replace("%", "%%")
    (command,) = (line for line in text.splitlines() if line.startswith("ExecStart="))
    assert f'-m "my program" up --pipeline "{twice}/shop.py" --settings "{twice}/medallion.yaml"' in command
    assert f'ReadWritePaths="{twice}"' in text.splitlines()
    if (program := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not on this machine")
    (tmp_path / "x.service").write_text(text)
    done = subprocess.run(
        [program, "verify", "--man=no", str(tmp_path / "x.service")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if "x.service" in line] == []


@pytest.mark.parametrize("given", [LOCAL, REMOTE], ids=["local", "s3a"])
def test_systemd_accepts_every_unit(tmp_path: Path, given: tuple[str, ...]) -> None:
    program = shutil.which("systemd-analyze")
    files = systemd.files(plan(tmp_path, *given), [sys.executable], getpass.getuser(), str(tmp_path))
    units = {name: text for name, text in files.items() if name.endswith(".service")}
    for text in units.values():
        assert {"Type=notify", "WatchdogSec=120", "TimeoutStopSec=150", "Restart=on-failure"} <= set(
            text.splitlines()
        )
    if program is None:
        pytest.skip("systemd-analyze is not on this machine")
    for name, text in units.items():
        (tmp_path / name).write_text(text)
    command = [program, "verify", "--man=no", *(str(tmp_path / name) for name in units)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    complaints = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert (done.returncode, complaints) == (0, [])


def test_a_standby_is_a_second_process_that_differs_in_its_number(tmp_path: Path) -> None:
    """A job that has handed over is started again, as the next standby."""
    two = replace(plan(tmp_path, *LOCAL), processes=2)
    found = systemd.files(two, ["m"], "u")
    first, second = (found[f"medallion-my-shop-{number}.service"] for number in (1, 2))
    assert " up --standby --pipeline " in first
    assert "Restart=always" in first.splitlines()
    assert second == first.replace("my-shop-1", "my-shop-2").replace(":8484", ":8485")
    documents = manifests(kubernetes.files(replace(plan(tmp_path, *REMOTE), processes=2), "shop:1"))
    for document in documents:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    specs = [each["spec"] for each in documents if each["kind"] == "StatefulSet"]
    assert [(each["replicas"], each["podManagementPolicy"]) for each in specs] == [(2, "Parallel")] * 3
    args = specs[0]["template"]["spec"]["containers"][0]["args"]
    assert args[:3] == ["run", "bronze", "--standby"]


@pytest.mark.parametrize(
    ("place", "why"), [("compose", "each service once"), ("kubernetes", "share no disk")]
)
def test_a_standby_that_could_not_reach_the_tables_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(
        "from medallion import Pipeline, Topic\npipeline = Pipeline(name='shop', bronze=[Topic('orders')])\n"
    )
    words = ["deploy", place, "-p", "shop.py", "--set", LOCAL[0], "-o", "files", "--standby"]
    refused = CliRunner().invoke(typer.main.get_command(app), words).exception
    assert why in str(refused)
    assert not (tmp_path / "files").exists()


def test_files_that_are_there_are_overwritten_only_by_name_and_secrets_are_their_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(
        "from medallion import Pipeline, Topic\npipeline = Pipeline(name='shop', bronze=[Topic('orders')])\n"
    )
    words = ["deploy", "compose", "-p", "shop.py", "--set", LOCAL[0], "-o", "files"]
    command = typer.main.get_command(app)
    assert CliRunner().invoke(command, words).exit_code == 0
    file, secrets = tmp_path / "files" / "compose.yaml", tmp_path / "files" / "medallion-shop.env"
    written = file.read_text()
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
    file.write_text("mine")
    assert "has Dockerfile, compose.yaml" in str(CliRunner().invoke(command, words).exception)
    assert file.read_text() == "mine"
    assert CliRunner().invoke(command, [*words, "--force"]).exit_code == 0
    assert file.read_text() == written


def test_a_compose_service_is_loopback_only_and_has_no_rights(tmp_path: Path) -> None:
    files = image.files(plan(tmp_path, *LOCAL, SECRET))
    service = yaml.safe_load(files["compose.yaml"])["services"]["up"]
    assert service["ports"] == ["127.0.0.1:8484:8484"]
    assert (service["user"], service["read_only"], service["cap_drop"]) == ("10001:10001", True, ["ALL"])
    assert service["stop_grace_period"] == "150s"
    assert files["medallion-my-shop.env"].splitlines()[1:] == ["KAFKA_LOGIN="]


def test_the_image_runs_as_no_root_and_fetches_nothing_at_its_start(tmp_path: Path) -> None:
    lines = image.dockerfile(plan(tmp_path, *REMOTE), "compose").splitlines()
    last_run = max(place for place, line in enumerate(lines) if line.startswith("RUN"))
    assert lines.index("USER 10001:10001") > last_run
    assert any(
        line.startswith("RUN medallion jars fetch --bundle /tmp/jars && medallion setup") for line in lines
    )
    assert "--set-name s3" in "\n".join(lines)
    assert not re.search(r"(ADD|COPY) .*http", "\n".join(lines))


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket on which a service manager listens; it has no watchdog."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(str(tmp_path / "notify"))
        found.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.delenv("WATCHDOG_USEC", raising=False)
        yield found


def test_the_service_manager_hears_that_a_job_is_ready_and_alive(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = ServiceManager()
    service.alive()
    service.alive()
    assert manager.recv(100) == b"READY=1\nWATCHDOG=1"
    monkeypatch.setattr(service, "_sent", time.monotonic() - 6)
    service.alive()
    service.stopping()
    assert [manager.recv(100), manager.recv(100)] == [b"WATCHDOG=1", b"STOPPING=1"]


def test_a_standby_that_takes_over_has_the_time_of_a_start(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was ready, so that the watchdog runs: no beat comes until its queries are supervised."""
    monkeypatch.setenv("WATCHDOG_USEC", "120000000")
    waiting, supervising = ServiceManager(), ServiceManager()
    waiting.alive()
    waiting.starting()
    supervising.alive()
    supervising.stopping()
    usual = b"READY=1\nWATCHDOG_USEC=120000000\nWATCHDOG=1"
    assert [manager.recv(100) for _ in range(3)] == [
        usual,
        b"WATCHDOG_USEC=300000000\nWATCHDOG=1",
        usual,
    ]


def test_without_a_service_manager_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    service = ServiceManager()
    service.alive()
    service.stopping()
