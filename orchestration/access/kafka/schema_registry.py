"""Looks up a writer's schema by its id, for commands; queries look schemas up in the JVM reader."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from pathlib import Path

from common.config.references import resolve
from common.config.settings import Settings
from common.errors import RegistryError, UsageError

_SECONDS = 5.0
_NO_SCHEMA = 40403
"""The code by which a registry says that it has no such schema; a 404 alone may be a proxy's."""


def schema_text(settings: Settings, schema_id: int) -> str:
    """The schema as Avro JSON.

    Raises:
        RegistryError: The registry does not answer.
        SettingsError: The registry's login cannot be read.
        UsageError: No registry is set, or it has no schema of that id.
    """
    place = settings.silver.schema_registry
    if place is None:
        raise UsageError(
            "The topic's values are framed Avro, and no schema registry is set. "
            "Give --set silver.schema_registry=ADDRESS, or a folder of <id>.avsc."
        )
    missing = f"{place} has no schema {schema_id}, which the topic's values name."
    if not place.startswith(("http://", "https://")):
        try:
            return (Path(place) / f"{schema_id}.avsc").read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(missing) from error
    request = urllib.request.Request(f"{place.rstrip('/')}/schemas/ids/{schema_id}")  # noqa: S310  # http(s), see above
    if (name := settings.silver.schema_registry_login) is not None:
        reference = name if name.startswith("file:") else f"env:{name.removeprefix('env:')}"
        secret = resolve({"schema_registry_login": reference}, "silver")["schema_registry_login"].strip()
        basic = f"Basic {base64.b64encode(secret.encode()).decode()}"
        request.add_header("Authorization", secret if secret.startswith("Bearer ") else basic)
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310  # as above
            found = json.load(answer)
            kind, text = found.get("schemaType", "AVRO"), str(found["schema"])
    except urllib.error.HTTPError as error:
        with error:
            code = _error_code(error)
        if code == _NO_SCHEMA:
            raise UsageError(missing) from None
        raise RegistryError(f"The schema registry at {place} answers with status {error.code}.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RegistryError(f"The schema registry at {place} does not answer with a schema.") from error
    if kind != "AVRO":
        raise UsageError(
            f"Schema {schema_id}, which the topic's values name, is of {kind}, and only Avro is proposed. "
            "Declare the format by hand, such as Protobuf(…), with the class's example in "
            "docs/author/declarations.md."
        )
    return text


def _error_code(answer: urllib.error.HTTPError) -> int | None:
    """The registry's own code of an error; ``None`` if the answer is not the registry's."""
    try:
        return int(json.load(answer)["error_code"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
