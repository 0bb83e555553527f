"""A Dockerfile with all jars in the image, and a compose file: no network at the start, and no root."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from orchestration.install.deploy.deployment import HOME, PORT, Plan
from orchestration.install.deploy.systemd import environment_text, settings_text

UID = 10001

_DOCKERFILE = Path(__file__).with_name("Dockerfile").read_text(encoding="utf-8")


def dockerfile(plan: Plan, place: str) -> str:
    """The image's text."""
    return _DOCKERFILE.format(
        place=place,
        more_sets=" --set-name spark --set-name kafka-server --set-name s3"
        if plan.optional
        else " --set-name spark --set-name kafka-server",
        uid=UID,
        home=HOME,
        port=PORT,
        file=plan.file,
    )


def files(plan: Plan) -> Mapping[str, str]:
    """The Dockerfile, the compose file, the settings and the file of secrets, by file name."""
    services = {
        service: {
            "image": plan.name,
            "build": ".",
            "command": [*words, *arguments(plan)],
            "env_file": [{"path": f"{plan.name}.env", "required": False}],
            "volumes": [
                f"./medallion.yaml:{HOME}/medallion.yaml:ro",
                f"data-{service}:{HOME}/data",
                *(f"{file}:{file}:ro" for file in plan.files),
                *(f"{folder}:{folder}" for folder in plan.folders),
            ],
            "ports": [f"127.0.0.1:{PORT + number}:{PORT}"],
            "user": f"{UID}:{UID}",
            "read_only": True,
            "tmpfs": ["/tmp"],  # noqa: S108  # in the container
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "init": True,
            "restart": "on-failure",  # without an end: without its broker or store, a service waits
            "stop_grace_period": f"{plan.stop_seconds}s",
            "mem_limit": f"{plan.memory_mb}m",
            "healthcheck": {"test": ["CMD", *health("healthz")], "interval": "30s", "start_period": "300s"},
        }
        for number, (service, words) in enumerate(plan.services.items())
    }
    volumes: dict[str, None] = {f"data-{service}": None for service in plan.services}
    compose = {"name": plan.name, "services": services, "volumes": volumes}
    return {
        "Dockerfile": dockerfile(plan, "compose"),
        "compose.yaml": yaml.safe_dump(compose, sort_keys=False),
        "medallion.yaml": settings_text(plan),
        f"{plan.name}.env": environment_text(plan),
    }


def arguments(plan: Plan) -> list[str]:
    """The options of a command in a container: where its files are, and the address of its health."""
    return [
        *("--pipeline", f"{HOME}/pipeline/{plan.file}", "--settings", f"{HOME}/medallion.yaml"),
        *("--set", f"data_dir={HOME}/data", "--http", f"0.0.0.0:{PORT}"),
    ]


def health(path: str) -> list[str]:
    """A command that ends with 0 where the process answers well; the image has no curl."""
    url = f"http://127.0.0.1:{PORT}/{path}"
    return ["python", "-c", f"import urllib.request as u; u.urlopen({url!r}, timeout=5)"]
