"""Kubernetes manifests: a StatefulSet per service, settings, references to secrets, a disruption budget."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from orchestration.install.deploy.deployment import HOME, PORT, Plan
from orchestration.install.deploy.image import UID, arguments, dockerfile
from orchestration.install.deploy.systemd import settings_text

_DATA = "20Gi"
_NOT_IN_A_KEY = re.compile(r"[^-._a-zA-Z0-9]")


def files(plan: Plan, image: str) -> Mapping[str, str]:
    """The manifests and the Dockerfile, by file name.

    Args:
        plan: The pipeline.
        image: The image's name, with its tag.
    """
    found = {"configmap.yaml": _text(_settings(plan)), "Dockerfile": dockerfile(plan, "kubernetes")}
    for service, words in plan.services.items():
        found[f"{service}.yaml"] = _text(
            _headless(plan, service), _stateful_set(plan, service, words, image), _budget(plan, service)
        )
    return found


def _text(*documents: Mapping[str, Any]) -> str:
    # Through JSON: a part that two places share is written in full twice, and not once with a reference.
    plain = (json.loads(json.dumps(each)) for each in documents)
    return "".join(f"---\n{yaml.safe_dump(each, sort_keys=False)}" for each in plain)


def _labels(plan: Plan, service: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "medallion",
        "app.kubernetes.io/instance": plan.name,
        "app.kubernetes.io/component": service,
    }


def _settings(plan: Plan) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{plan.name}-settings"},
        "data": {"medallion.yaml": settings_text(plan)},
    }


def _headless(plan: Plan, service: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{plan.name}-{service}", "labels": _labels(plan, service)},
        "spec": {
            "clusterIP": "None",
            # The page says why a pod is not ready: it must be reached then, too.
            "publishNotReadyAddresses": True,
            "selector": _labels(plan, service),
            "ports": [{"name": "http", "port": PORT}],
        },
    }


def _budget(plan: Plan, service: str) -> Mapping[str, Any]:
    """A drain of a node may end the only pod of a service, which stops at a micro-batch boundary."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"{plan.name}-{service}"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _labels(plan, service)}},
    }


def _stateful_set(plan: Plan, service: str, words: tuple[str, ...], image: str) -> Mapping[str, Any]:
    """One pod: a StatefulSet never runs two of one name, and its data folder follows it."""
    labels = _labels(plan, service)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": f"{plan.name}-{service}", "labels": labels},
        "spec": {
            "replicas": plan.processes,
            # A standby need not wait until the other pod is ready.
            **({"podManagementPolicy": "Parallel"} if plan.processes > 1 else {}),
            "serviceName": f"{plan.name}-{service}",
            "selector": {"matchLabels": labels},
            "template": {
                # A changed ConfigMap changes the template, and so restarts the pod: its file is mounted once.
                "metadata": {"labels": labels, "annotations": {"medallion/settings": _digest(plan)}},
                "spec": {
                    "terminationGracePeriodSeconds": plan.stop_seconds,
                    "automountServiceAccountToken": False,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": UID,
                        "runAsGroup": UID,
                        "fsGroup": UID,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [_container(plan, words, image)],
                    "volumes": [
                        {"name": "settings", "configMap": {"name": f"{plan.name}-settings"}},
                        {"name": "tmp", "emptyDir": {}},
                        *([_files_volume(plan)] if plan.files else []),
                    ],
                },
            },
            "volumeClaimTemplates": [_claim("data"), *(_claim(name) for name in _folders(plan))],
        },
    }


def _claim(name: str) -> Mapping[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": _DATA}}},
    }


def _folders(plan: Plan) -> Mapping[str, str]:
    """Folders of tables and checkpoints, by the name of their volume."""
    return {f"tables-{number}": folder for number, folder in enumerate(plan.folders)}


def file_keys(plan: Plan) -> Mapping[str, str]:
    """Files that the settings name, by their key in the Secret ``<name>-files``."""
    return {
        f"{number}-{_NOT_IN_A_KEY.sub('-', Path(file).name)}": file for number, file in enumerate(plan.files)
    }


def _files_volume(plan: Plan) -> Mapping[str, Any]:
    return {"name": "files", "secret": {"secretName": f"{plan.name}-files", "defaultMode": 0o440}}


def _digest(plan: Plan) -> str:
    return hashlib.sha256(settings_text(plan).encode()).hexdigest()[:16]


def _container(plan: Plan, words: tuple[str, ...], image: str) -> Mapping[str, Any]:
    memory = f"{plan.memory_mb}Mi"
    return {
        "name": "medallion",
        "image": image,
        "args": [*words, *arguments(plan), "--set", "http.show_records=false"],
        "env": [_secret(plan, name) for name in plan.secrets],
        "ports": [{"name": "http", "containerPort": PORT}],
        # A start has Spark's, and the checks of every table before the first micro-batch.
        "startupProbe": _probe("healthz", period=5, failures=60),
        "livenessProbe": _probe("healthz", period=20, failures=3),
        "readinessProbe": _probe("readyz", period=20, failures=3),
        "resources": {"requests": {"cpu": "1", "memory": memory}, "limits": {"memory": memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {
                "name": "settings",
                "mountPath": f"{HOME}/medallion.yaml",
                "subPath": "medallion.yaml",
                "readOnly": True,
            },
            {"name": "data", "mountPath": f"{HOME}/data"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  # in the container
            *(
                {"name": "files", "mountPath": file, "subPath": key, "readOnly": True}
                for key, file in file_keys(plan).items()
            ),
            *({"name": name, "mountPath": folder} for name, folder in _folders(plan).items()),
        ],
    }


def _secret(plan: Plan, name: str) -> Mapping[str, Any]:
    key: dict[str, Any] = {"name": f"{plan.name}-secrets", "key": name}
    if name in plan.optional:
        key["optional"] = True
    return {"name": name, "valueFrom": {"secretKeyRef": key}}


def _probe(path: str, *, period: int, failures: int) -> Mapping[str, Any]:
    return {
        "httpGet": {"path": f"/{path}", "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
