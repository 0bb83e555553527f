"""What the files of every place have in common: names, commands, times, references to secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from common.config.paths import is_local
from common.config.references import holds_secret
from common.config.settings import Settings
from common.errors import SettingsError

PORT = 8484
"""Port of page, metrics and health."""

HOME = "/srv/medallion"
"""Folder of the pipeline, its settings, its data and the jars, on a machine or in an image."""

_GRACE_SECONDS = 60
"""A stop takes ``stop_timeout_seconds``, and then what closes Spark and the leases."""

_ENV = re.compile(r"env:(\w+)")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_S3_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
LAYERS = ("bronze", "silver", "gold")


@dataclass(frozen=True)
class Plan:
    """One pipeline under its settings.

    Attributes:
        pipeline: The pipeline's name.
        file: Name of the pipeline's file.
        settings: The settings that the user has written, without the defaults; references stay references.
        stop_seconds: How long a stop may take before the processes are killed.
        memory_mb: Memory of the process that runs all layers: the driver's heap and what else a process has.
        secrets: Names of the variables that the settings refer to.
        optional: Of these, the ones that may be missing, as where the machine itself has access to the store.
        is_remote: Tables and checkpoints are in an object store, so that each layer can be a service.
    """

    pipeline: str
    file: str
    settings: Mapping[str, Any]
    stop_seconds: int
    memory_mb: int
    secrets: tuple[str, ...]
    optional: tuple[str, ...]
    is_remote: bool

    @property
    def name(self) -> str:
        """The name of units and resources: lower case letters, digits and hyphens."""
        return f"medallion-{_NOT_IN_A_NAME.sub('-', self.pipeline.lower()).strip('-')}"[:52]

    @property
    def services(self) -> Mapping[str, tuple[str, ...]]:
        """The commands to run, by name: one per layer on an object store, else one for all layers."""
        if self.is_remote:
            return {layer: ("run", layer) for layer in LAYERS}
        return {"up": ("up",)}


def plan_of(settings: Settings, pipeline: str) -> Plan:
    """The plan of a pipeline of this name under these settings.

    Raises:
        SettingsError: A setting holds a secret as it is, which would be in the files.
    """
    written = settings.model_dump(mode="json", exclude_unset=True, exclude={"pipeline", "env", "sandbox"})
    if plain := sorted(_plain_secrets(written)):
        raise SettingsError(
            f"{', '.join(plain)} holds a secret, which would be in the files. Write a reference to it: "
            "env:NAME for a variable, or file:/path."
        )
    places = (settings.warehouse, settings.checkpoints)
    is_remote = all(place is not None and not is_local(place) for place in places)
    optional = _S3_SECRETS if any((place or "").startswith("s3a://") for place in places) else ()
    return Plan(
        pipeline=pipeline,
        file="pipeline.py" if settings.pipeline is None else settings.pipeline.name,
        settings=written,
        stop_seconds=int(settings.stop_timeout_seconds) + _GRACE_SECONDS,
        memory_mb=_mebibytes(settings.spark.driver_memory) * 3 // 2 + 512,
        secrets=tuple(sorted({*_references(written), *optional})),
        optional=optional,
        is_remote=is_remote,
    )


def _references(tree: object) -> Iterator[str]:
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from _references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _references(value)
    elif isinstance(tree, str) and (found := _ENV.fullmatch(tree)) is not None:
        yield found[1]


def _plain_secrets(tree: Mapping[str, Any], place: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _plain_secrets(value, f"{place}{name}.")
        elif isinstance(value, str) and holds_secret(name, value):
            yield f"{place}{name}"


def _mebibytes(size: str) -> int:
    """A size as Spark writes it, such as ``2g``."""
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", size.strip().lower())
    number, unit = (int(found[1]), found[2]) if found is not None else (2, "g")
    return max(
        1,
        {"k": number // 1024, "": number // 2**20, "m": number, "g": number * 1024}.get(unit, number * 2**20),
    )
