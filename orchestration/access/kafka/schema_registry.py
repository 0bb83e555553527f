"""Looks up a writer's schema by its id, for commands; queries look schemas up in the JVM reader."""

from __future__ import annotations

from pathlib import Path

from common.config.references import registry_login
from common.config.settings import Settings
from common.errors import RegistryError, UsageError
from common.schema.registry import NO_SCHEMA, Refused, RegistryServer, is_address


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
    if not is_address(place):
        try:
            return (Path(place) / f"{schema_id}.avsc").read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(missing) from error
    try:
        found = RegistryServer(place, registry_login(settings.silver.schema_registry_login)).schema(schema_id)
        kind, text = found.get("schemaType", "AVRO"), str(found["schema"])
    except Refused as refused:
        if refused.code == NO_SCHEMA:
            raise UsageError(missing) from None
        raise RegistryError(f"The schema registry at {place} answers with status {refused.status}.") from None
    except KeyError as error:
        raise RegistryError(f"The schema registry at {place} does not answer with a schema.") from error
    if kind != "AVRO":
        raise UsageError(
            f"Schema {schema_id}, which the topic's values name, is of {kind}, and only Avro is proposed. "
            "Declare the format by hand, such as Protobuf(…), with the class's example in "
            "docs/author/declarations.md."
        )
    return text
