"""The steps of the Dockerfile that `medallion deploy` writes, in a plain folder in place of an image.

Left out are the steps that install a Java, create the user and change owners, which need root, and the locked
packages, which are those of this environment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

from common.config.settings import load_settings
from common.declare import Pipeline, Topic
from common.java.jar_cache import export
from orchestration.install.deploy import image
from orchestration.install.deploy.deployment import HOME, plan_of
from tests.support.processes import DEADLINE_SECONDS, EXAMPLE, ROOT
from tests.support.wheel import build, copy_of_the_sources

pytestmark = pytest.mark.long

_LEFT_OUT = ("apt-get", "useradd", "--require-hashes")


def steps(text: str) -> list[tuple[str, str]]:
    """Instructions of a Dockerfile, each with its argument."""
    joined = text.replace("\\\n", " ")
    lines = (line for line in joined.splitlines() if line and not line.startswith("#"))
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines]


def run(command: str, env: Mapping[str, str], folder: Path) -> str:
    """What a command of the shell prints; the command must end well."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=dict(env),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}"
    return done.stdout


def in_folder(text: str, moved: Mapping[str, str]) -> str:
    """A text with the folders of the image replaced by those of the test, each once."""
    return re.sub("|".join(map(re.escape, moved)), lambda found: moved[found[0]], text)


def copied(argument: str, context: Path, moved: Mapping[str, str]) -> None:
    """COPY: files into a folder, and what is in folders."""
    *sources, target = argument.split()
    target = in_folder(target, moved)
    for source in sources:
        if source.endswith("/"):
            shutil.copytree(context / source, target, dirs_exist_ok=True)
        else:
            Path(target).mkdir(parents=True, exist_ok=True)
            shutil.copy(context / source, target)


def test_the_steps_end_in_a_program_that_needs_no_network(tmp_path: Path) -> None:
    """After the steps every jar is there, and a start fetches nothing: no proxy of its variables answers."""
    (tmp_path / "medallion.yaml").write_text(f"pipeline: {EXAMPLE}\n")
    settings = load_settings(file=tmp_path / "medallion.yaml")
    context, root = tmp_path / "context", tmp_path / "root"
    build("build_wheel", copy_of_the_sources(tmp_path / "source"), context / "wheel")
    shutil.copy(ROOT / "requirements.lock", context)
    export(settings, context / "jars", "spark", "kafka-server")
    shutil.copytree(EXAMPLE.parent, context / "pipeline")
    moved = {HOME: f"{root}{HOME}", "/tmp/": f"{root}/tmp/"}  # noqa: S108  # in the image
    Path(moved[HOME]).mkdir(parents=True)
    Path(moved["/tmp/"]).mkdir(parents=True)  # noqa: S108
    run(f"{sys.executable} -m venv {root}/venv", os.environ, tmp_path)
    packages = next((root / "venv" / "lib").glob("python*/site-packages"))
    (packages / "locked.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    env = {"PATH": f"{root}/venv/bin:{os.environ['PATH']}", "HOME": moved[HOME]}
    quakes = Pipeline(name="earthquakes", bronze=[Topic("quakes")], kafka={"bootstrap.servers": "kafka:9092"})
    for word, argument in steps(image.dockerfile(plan_of(settings, quakes), "compose")):
        if word == "ENV":
            for each in argument.split():
                name, _, value = each.partition("=")
                env[name] = value.replace(HOME, moved[HOME])
        elif word == "COPY":
            copied(argument, context, moved)
        elif word == "RUN" and not any(part in argument for part in _LEFT_OUT):
            run(in_folder(argument.partition(" && chown")[0], moved), env, tmp_path)
    offline = env | dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:1"
    )
    where = run("python -c 'import medallion; print(medallion.__file__)'", offline, tmp_path)
    assert where.startswith(str(root))
    listed = json.loads(run("medallion jars list --json", offline, tmp_path))["jars"]
    states = {each["state"] for each in listed if each["set"] in {"spark", "kafka-server"}}
    assert states == {"ok"}
    run(f"medallion check -p {moved[HOME]}/pipeline/{EXAMPLE.name}", offline, tmp_path)
