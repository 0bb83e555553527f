"""Kubernetes manifests: a StatefulSet per service, settings, references to secrets, a disruption budget.

``kubernetes.yaml`` has what all services have in common.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import yaml

from orchestration.install.deploy.deployment import HOME, PORT, Plan
from orchestration.install.deploy.image import UID, arguments, dockerfile
from orchestration.install.deploy.systemd import settings_text

_DATA = "20Gi"
_NOT_IN_A_KEY = re.compile(r"[^-._a-zA-Z0-9]")


def files(plan: Plan, image: str) -> Mapping[str, str]:
    """The manifests and the Dockerfile, by file name."""
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{plan.name}-settings"},
        "data": {"medallion.yaml": settings_text(plan)},
    }
    found = {"configmap.yaml": _text(settings), "Dockerfile": dockerfile(plan, "kubernetes")}
    for service, words in plan.services.items():
        found[f"{service}.yaml"] = _text(*_manifests(plan, service, words, image))
    return found


def _text(*documents: Mapping[str, Any]) -> str:
    # Through JSON: a part that two places share is written in full twice, and not once with a reference.
    plain = (json.loads(json.dumps(each)) for each in documents)
    return "".join(f"---\n{yaml.safe_dump(each, sort_keys=False)}" for each in plain)


def _manifests(plan: Plan, service: str, words: Sequence[str], image: str) -> Sequence[Mapping[str, Any]]:
    """The service, its StatefulSet and its disruption budget."""
    template = Path(__file__).with_name("kubernetes.yaml").read_text(encoding="utf-8")
    filled = Template(template).substitute(
        instance=plan.name,
        component=service,
        service=f"{plan.name}-{service}",
        digest=hashlib.sha256(settings_text(plan).encode()).hexdigest()[:16],
        processes=plan.processes,
        stop_seconds=plan.stop_seconds,
        memory_mb=plan.memory_mb,
        home=HOME,
        port=PORT,
        uid=UID,
    )
    found: Sequence[Any] = yaml.safe_load(filled)["manifests"]
    stateful_set = found[1]["spec"]
    if plan.processes > 1:  # a standby need not wait until the other pod is ready
        stateful_set["podManagementPolicy"] = "Parallel"
    folders = {f"tables-{number}": folder for number, folder in enumerate(plan.folders)}
    stateful_set["volumeClaimTemplates"] = [_claim(name) for name in ("data", *folders)]
    pod = stateful_set["template"]["spec"]
    if plan.files:
        secret = {"secretName": f"{plan.name}-files", "defaultMode": 0o440}
        pod["volumes"].append({"name": "files", "secret": secret})
    (container,) = pod["containers"]
    container["image"] = image
    container["args"] = [*words, *arguments(plan), "--set", "http.show_records=false"]
    container["env"] = [_secret(plan, name) for name in plan.secrets]
    container["volumeMounts"] += [
        {"name": "files", "mountPath": file, "subPath": key, "readOnly": True}
        for key, file in file_keys(plan).items()
    ]
    container["volumeMounts"] += [{"name": name, "mountPath": folder} for name, folder in folders.items()]
    return found


def _claim(name: str) -> Mapping[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": _DATA}}},
    }


def file_keys(plan: Plan) -> Mapping[str, str]:
    """Files that the settings name, by their key in the Secret ``<name>-files``."""
    return {
        f"{number}-{_NOT_IN_A_KEY.sub('-', Path(file).name)}": file for number, file in enumerate(plan.files)
    }


def _secret(plan: Plan, name: str) -> Mapping[str, Any]:
    key: dict[str, Any] = {"name": f"{plan.name}-secrets", "key": name}
    if name in plan.optional:
        key["optional"] = True
    return {"name": name, "valueFrom": {"secretKeyRef": key}}
