"""What the files of every place have in common: names, commands, times, references to secrets."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from common.config.paths import is_local
from common.config.references import is_reference, plain_secrets
from common.config.settings import Settings
from common.declare import Pipeline
from common.errors import SettingsError
from orchestration.access.kafka.client import named_broker

PORT = 8484
"""Port of page, metrics and health."""

HOME = "/srv/medallion"
"""Folder of the pipeline, its settings, its data and the jars, on a machine or in an image."""

_GRACE_SECONDS = 60
"""A stop takes ``stop_timeout_seconds``, and then what closes Spark and the leases."""

_ENV = re.compile(r"env:(\w+)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_CERTIFICATES = re.compile(r"(?i)(location|certificate|ca|cafile|truststore|keystore)$")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_S3_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
LAYERS = ("bronze", "silver", "gold")


@dataclass(frozen=True)
class Plan:
    """One pipeline under its settings."""

    pipeline: str  # the pipeline's name
    file: str  # name of the pipeline's file
    # The settings that the user has written, without the defaults; references stay references.
    settings: Mapping[str, Any]
    stop_seconds: int  # how long a stop may take before the processes are killed
    # Memory of the process that runs all layers: the driver's heap and what else a process has.
    memory_mb: int
    secrets: tuple[str, ...]  # names of the variables that the settings refer to
    # Of these, the ones that may be missing, as where the machine itself has access to the store.
    optional: tuple[str, ...]
    is_remote: bool  # tables and checkpoints are in an object store, so that each layer can be a service
    # Files outside of the pipeline's folder that are read: what references name, trust stores.
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()  # folders of tables and checkpoints on the disk, outside of the data folder
    processes: int = 1  # processes of each service: 2 where one is the standby of the other

    @property
    def name(self) -> str:
        """The name of units and resources: lower case letters, digits and hyphens."""
        return f"medallion-{_NOT_IN_A_NAME.sub('-', self.pipeline.lower()).strip('-')}"[:52]

    @property
    def services(self) -> Mapping[str, tuple[str, ...]]:
        """The commands to run, by name: one per layer on an object store, else one for all layers."""
        more = ("--standby",) if self.processes > 1 else ()
        if self.is_remote:
            return {layer: ("run", layer, *more) for layer in LAYERS}
        return {"up": ("up", *more)}


def plan_of(settings: Settings, pipeline: Pipeline) -> Plan:
    """The plan of a pipeline under these settings.

    Raises:
        SettingsError: A setting holds a secret as it is, which would be in the files; or no broker is named.
    """
    written = settings.model_dump(mode="json", exclude_unset=True, exclude={"pipeline", "env", "sandbox"})
    if plain := sorted(plain_secrets(written)):
        raise SettingsError(
            f"{', '.join(plain)} holds a secret, which would be in the files. Write a reference to it: "
            "env:NAME for a variable, or file:/path."
        )
    if pipeline.topics and named_broker(pipeline, settings) is None:
        raise SettingsError(
            f"no broker is named, and {pipeline.name} reads topics: a service would start a development "
            "broker of its own, without its records. Write kafka.bootstrap_servers: host:port."
        )
    read = [*_texts(written), *_texts(pipeline)]
    folders = [one.storage.folder for one in pipeline.tables]
    places = (*settings.storage_places, *(one for one in folders if one is not None))
    is_remote = None not in {settings.warehouse, settings.checkpoints} and not any(map(is_local, places))
    optional = _S3_SECRETS if any(place.startswith("s3a://") for place in places) else ()
    return Plan(
        pipeline=pipeline.name,
        file="pipeline.py" if settings.pipeline is None else settings.pipeline.name,
        settings=written,
        stop_seconds=int(settings.stop_timeout_seconds) + _GRACE_SECONDS,
        memory_mb=_mebibytes(settings.spark.driver_memory) * 3 // 2 + 512,
        secrets=tuple(sorted({*_variables(read), *optional})),
        optional=optional,
        is_remote=is_remote,
        files=tuple(sorted(set(_files(read)))),
        folders=tuple(dict.fromkeys(place for place in places if place.startswith("/"))),
    )


def _texts(tree: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Every text of settings or of a declaration, with its name."""
    if isinstance(tree, str):
        yield name, tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _texts(value, str(key))
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _texts(value, name)
    elif dataclasses.is_dataclass(tree):
        for each in dataclasses.fields(tree):
            yield from _texts(getattr(tree, each.name), each.name)


def _variables(read: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The variables that texts refer to; a registry's login may be a name alone."""
    for name, text in read:
        if (found := _ENV.fullmatch(text)) is not None or (name.endswith("login") and _NAME.fullmatch(text)):
            yield found[1] if found is not None else text


def _files(read: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The files that texts name: by a reference, or as a certificate or a store of them."""
    for name, text in read:
        if is_reference(name, text) and text.startswith("file:/"):
            yield unquote(urlsplit(text).path)
        elif text.startswith("/") and _CERTIFICATES.search(name):
            yield text


def _mebibytes(size: str) -> int:
    """A size as Spark writes it, such as ``2g``."""
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", size.strip().lower())
    number, unit = (int(found[1]), found[2]) if found is not None else (2, "g")
    return max(
        1,
        {"k": number // 1024, "": number // 2**20, "m": number, "g": number * 1024}.get(unit, number * 2**20),
    )
