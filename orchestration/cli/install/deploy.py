"""``medallion deploy`` writes what runs a pipeline under systemd, on Kubernetes, or by a compose file."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from common.errors import SetupError, UsageError
from common.machine import extras
from common.machine.console import out
from orchestration.access.declaration.context import Context
from orchestration.cli.options import command_named
from orchestration.install.deploy import image, kubernetes, systemd
from orchestration.install.deploy.deployment import HOME, Plan, plan_of

_PROGRAM = __name__.removesuffix(".cli.install.deploy")
"""``orchestration``, in a wheel ``medallion.orchestration``."""

Place = Literal["systemd", "kubernetes", "compose"]


@command_named("deploy")
def deploy(  # the options of all places
    ready: Context,
    place: Annotated[Place, typer.Argument(help="systemd, kubernetes or compose.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the files.")],
    home: Annotated[
        str, typer.Option("--home", metavar="DIR", help="systemd: folder of pipeline, settings and data.")
    ] = HOME,
    user: Annotated[str, typer.Option("--user", help="systemd: the user of the service.")] = "medallion",
    image_name: Annotated[
        str, typer.Option("--image", metavar="NAME:TAG", help="kubernetes: the image.")
    ] = "medallion:latest",
    standby: Annotated[
        bool, typer.Option("--standby", help="Two processes of each service, of which one is the standby.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files.")] = False,
) -> None:
    """Write the files that run a pipeline as a service; nothing is installed or started."""
    if place == "systemd":  # its units start the program of this environment; an image has all extras
        extras.require("page", "the page, metrics and health of a service")
    plan = plan_of(ready.settings, ready.pipeline)
    if standby:
        _require_shared_tables(place, plan)
        plan = replace(plan, processes=2)
    files = {
        "systemd": lambda: systemd.files(plan, _program(), user, home.rstrip("/")),
        "kubernetes": lambda: kubernetes.files(plan, image_name),
        "compose": lambda: image.files(plan),
    }[place]()
    _write(output, files, force=force)
    for name in sorted(files):
        out.print(str(output / name), highlight=False, soft_wrap=True)
    for line in _next_steps(place, plan, output, home):
        out.print(line, highlight=False, soft_wrap=True)


def _require_shared_tables(place: Place, plan: Plan) -> None:
    """Refuse a standby that could not reach the tables of the other process."""
    if place == "compose":
        raise UsageError("compose runs each service once: --standby is for systemd and kubernetes")
    if place == "kubernetes" and not plan.is_remote:
        raise UsageError(
            "two pods share no disk: --standby on Kubernetes needs tables and checkpoints in an object store "
            "(the settings warehouse and checkpoints)"
        )


def _program() -> list[str]:
    """The absolute command line of this program: a service has no search path of a user."""
    found = shutil.which("medallion", path=str(Path(sys.executable).parent))
    return [found] if found is not None else [sys.executable, "-P", "-m", _PROGRAM]


def _write(output: Path, files: Mapping[str, str], *, force: bool) -> None:
    taken = [name for name in files if (output / name).exists()]
    if taken and not force:
        raise UsageError(
            f"{output} has {', '.join(taken)} already. Name another folder, or overwrite with --force."
        )
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            file = output / name
            if name.endswith(".env"):
                file.touch(mode=0o600)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SetupError(f"{output} cannot be written ({error.strerror}). Name another folder.") from error


def _next_steps(place: Place, plan: Plan, output: Path, home: str) -> list[str]:
    if place == "systemd":
        units = " ".join(systemd.units(plan))
        return [
            f"Then: put the pipeline, medallion.yaml and {plan.name}.env into {home},",
            f"  cp {output}/*.service /etc/systemd/system/ && systemctl enable --now {units}",
        ]
    if place == "compose":
        return [f"Then: prepare the folder as the head of {output}/Dockerfile says, and: docker compose up"]
    secrets = " ".join(f"--from-literal={name}=…" for name in plan.secrets)
    create = f"kubectl create secret generic {plan.name}-secrets {secrets}" if plan.secrets else ""
    keys = " ".join(f"--from-file={key}={file}" for key, file in kubernetes.file_keys(plan).items())
    return [
        f"Then: build and push the image ({output}/Dockerfile),",
        *([f"  {create}"] if create else []),
        *([f"  kubectl create secret generic {plan.name}-files {keys}"] if keys else []),
        f"  kubectl apply -f {output}",
    ]
