"""What `medallion deploy` writes is what each place accepts, and holds no secret."""

from __future__ import annotations

import getpass
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from common.config.settings import Settings, load_settings
from common.errors import SettingsError
from common.machine.service_manager import ServiceManager
from orchestration.install.deploy import image, kubernetes, systemd
from orchestration.install.deploy.deployment import Plan, plan_of

LOCAL = ("kafka.bootstrap_servers=kafka:9092", "stop_timeout_seconds=90", "spark.driver_memory=4g")
REMOTE = (*LOCAL, "warehouse=s3a://lake/tables", "checkpoints=s3a://lake/checkpoints")
SECRET = 'kafka.options={"sasl.jaas.config": "env:KAFKA_LOGIN", "security.protocol": "SASL_SSL"}'  # noqa: S105
KUBERNETES = "1.34"


def settings(folder: Path, *given: str) -> Settings:
    (folder / "medallion.yaml").write_text("pipeline: jobs/shop.py\n")
    return load_settings(file=folder / "medallion.yaml", overrides=given)


def plan(folder: Path, *given: str) -> Plan:
    return plan_of(settings(folder, *given), "My_Shop")


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
    (tmp_path / "written.yaml").write_text(systemd.settings_text(plan_of(given, "shop")))
    read = load_settings(file=tmp_path / "written.yaml")
    assert read.model_dump(exclude={"pipeline"}) == given.model_dump(exclude={"pipeline"})
    assert read.pipeline.name == "shop.py"


@pytest.mark.parametrize("files", [kubernetes.files, image.files, systemd.files])
def test_a_secret_in_the_settings_is_refused_and_not_written(tmp_path: Path, files: Any) -> None:
    with pytest.raises(SettingsError, match=r"kafka.options.sasl.jaas.config holds a secret") as refused:
        files(plan(tmp_path, 'kafka.options={"sasl.jaas.config": "swordfish"}'))
    assert "swordfish" not in str(refused.value)


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
        line.startswith("RUN medallion jars fetch --from /tmp/jars && medallion setup") for line in lines
    )
    assert "--set-name s3" in "\n".join(lines)
    assert not re.search(r"(ADD|COPY) .*http", "\n".join(lines))


def test_the_service_manager_hears_that_a_job_is_ready_and_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        service = ServiceManager()
        service.alive()
        service.alive()
        assert manager.recv(100) == b"READY=1\nWATCHDOG=1"
        monkeypatch.setattr(service, "_sent", time.monotonic() - 6)
        service.alive()
        service.stopping()
        assert [manager.recv(100), manager.recv(100)] == [b"WATCHDOG=1", b"STOPPING=1"]


def test_without_a_service_manager_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    service = ServiceManager()
    service.alive()
    service.stopping()
