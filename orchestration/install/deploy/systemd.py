"""A systemd unit per service, with watchdog, drain and restart limits, and a file for the secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from orchestration.install.deploy.deployment import HOME, PORT, Plan

_UNIT = Path(__file__).with_name("systemd.service").read_text(encoding="utf-8")


def files(plan: Plan, program: Sequence[str], user: str, home: str = HOME) -> Mapping[str, str]:
    """The units, settings and the file of secrets, by file name.

    Args:
        program: The command line that starts ``medallion``.
        home: Folder of the pipeline's file, its settings and its data.
    """
    found = {"medallion.yaml": settings_text(plan), f"{plan.name}.env": environment_text(plan)}
    options = ("--pipeline", f"{home}/{plan.file}", "--settings", f"{home}/medallion.yaml")
    for number, (unit, words) in enumerate(units(plan).items()):
        found[f"{unit}.service"] = _UNIT.format(
            unit=unit,
            # A job that has handed over ends well, and is the next standby.
            restart="on-failure" if plan.processes == 1 else "always",
            name=plan.name,
            pipeline=plan.pipeline,
            words=" ".join(words),
            user=user,
            home=home.replace("%", "%%"),
            cache=_quoted(f"XDG_CACHE_HOME={home}/cache"),
            writable=" ".join(map(_quoted, (home, *plan.folders))),
            command=" ".join(
                map(_quoted, (*program, *words, *options, "--http", f"127.0.0.1:{PORT + number}"))
            ),
            stop=plan.stop_seconds,
        )
    return found


def units(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    """The words of each unit, by its name; two units of a service differ in number and in nothing else."""
    numbers = [""] if plan.processes == 1 else [f"-{number}" for number in range(1, plan.processes + 1)]
    return {
        f"{plan.name}{'' if service == 'up' else f'-{service}'}{number}": words
        for service, words in plan.services.items()
        for number in numbers
    }


def _quoted(text: str) -> str:
    """A word of a unit: in quotes where it has a space, and without specifiers and variables."""
    plain = text.replace("%", "%%").replace("$", "$$")
    if not any(sign in plain for sign in " \t\"'\\;"):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def settings_text(plan: Plan) -> str:
    """The settings file: what the user has written, with references to secrets and no secret."""
    head = "# Settings of the service. A secret is a reference: env:NAME for a variable, or file:/path.\n"
    written: str = yaml.safe_dump({"pipeline": plan.file, **plan.settings}, sort_keys=False)
    return head + written


def environment_text(plan: Plan) -> str:
    """The variables that the settings refer to, without their values."""
    lines = ["# Values of the secrets. Make this file readable by its owner alone: chmod 600"]
    lines += [f"# {name}=   (unset: the machine's own access)" for name in plan.optional]
    lines += [f"{name}=" for name in plan.secrets if name not in plan.optional]
    return "\n".join(lines) + "\n"
