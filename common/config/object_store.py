"""Access to the object store of tables and checkpoints, from S3A's settings and AWS's variables.

S3A's settings in ``spark.conf`` (``spark.hadoop.fs.s3a.endpoint``, ``.access.key``, ``.secret.key`` …) come
first; their secrets may be references. The usual AWS environment variables stand for what is not set there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from common.config.references import resolve
from common.config.settings import Settings
from common.errors import UsageError
from common.machine import object_store
from common.machine.object_store import S3Access

_S3A = "spark.hadoop.fs.s3a."
ENDPOINT, REGION, PATH_STYLE = f"{_S3A}endpoint", f"{_S3A}endpoint.region", f"{_S3A}path.style.access"
_DEFAULT_REGION = "us-east-1"
"""The region of a store that is named by its address and has none of its own."""


def uses_s3a(settings: Settings) -> bool:
    """Whether tables or checkpoints are on ``s3a://``, or files are read from there."""
    return settings.jars.s3 or any(path.startswith("s3a://") for path in settings.storage_places)


def require_jars(action: str, path: str, settings: Settings) -> None:
    """Refuse a declared path on ``s3a://`` where the jars of S3 are not loaded.

    Args:
        action: What is done there, such as ``bronze.history reads``.
        settings: Say whether the jars are loaded.

    Raises:
        UsageError: Names the setting.
    """
    if path.startswith("s3a://") and not uses_s3a(settings):
        raise UsageError(f"{action} {path}, and the jars of S3 are not loaded: set jars.s3 to true.")


def jar_sets(settings: Settings) -> tuple[str, ...]:
    """The sets of locked jars that Spark needs for the paths of these settings, beside ``spark``."""
    return ("s3",) if uses_s3a(settings) else ()


def s3a_conf(settings: Settings) -> dict[str, str]:
    """S3A's settings that stand in AWS's environment variables; empty where no path is on ``s3a://``.

    S3A reads the variables of the credentials by itself.
    """
    if not uses_s3a(settings):
        return {}
    own, env = settings.spark.conf, os.environ
    endpoint = own.get(ENDPOINT) or env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
    found = {ENDPOINT: endpoint, REGION: env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")}
    if endpoint is not None:
        found[PATH_STYLE] = "true"  # a server of one's own rarely has a host name per bucket
        found[REGION] = found[REGION] or _DEFAULT_REGION
    return {name: value for name, value in found.items() if value}


def connect(settings: Settings) -> None:
    """Have this process reach S3 stores as Spark does; nothing changes where no path is on ``s3a://``.

    Raises:
        SettingsError: A reference to a secret cannot be resolved.
    """
    if uses_s3a(settings):
        object_store.use(_access(settings))


def _access(settings: Settings) -> S3Access:
    chosen = {name: value for name, value in settings.spark.conf.items() if name.startswith(_S3A)}
    conf = s3a_conf(settings) | resolve(chosen, "spark.conf")
    return S3Access(
        endpoint=_with_scheme(conf),
        region=conf.get(REGION),
        is_path_style=conf.get(PATH_STYLE, "false").lower() == "true",
        access_key=conf.get(f"{_S3A}access.key"),
        secret_key=conf.get(f"{_S3A}secret.key"),
        session_token=conf.get(f"{_S3A}session.token"),
    )


def _with_scheme(conf: Mapping[str, str]) -> str | None:
    """The endpoint as a URL: S3A also takes a host name, and then chooses the scheme by another setting."""
    endpoint = conf.get(ENDPOINT)
    if endpoint is None or "://" in endpoint:
        return endpoint
    is_plain = conf.get(f"{_S3A}connection.ssl.enabled", "true").lower() == "false"
    return f"{'http' if is_plain else 'https'}://{endpoint}"
