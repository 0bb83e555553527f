"""Looks up a writer's schema by its id, for commands; queries look schemas up in the JVM reader."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.config.references import registry_login
from common.config.settings import Settings
from common.errors import RegistryError, UsageError
from common.schema.avro_named import with_types
from common.schema.protobuf import NOT_INSTALLED
from common.schema.registry import (
    NO_SCHEMA,
    NO_SUBJECT,
    NO_VERSION,
    Refused,
    RegistryServer,
    is_address,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

AVRO, PROTOBUF = "AVRO", "PROTOBUF"
_ENDINGS = {AVRO: ".avsc", PROTOBUF: ".desc"}


@dataclass(frozen=True)
class WriterSchema:
    """A schema of a registry."""

    kind: str  # ``AVRO`` or ``PROTOBUF``
    # Avro's JSON text with all types that it names, or a set of descriptors, whose last file is the schema.
    content: bytes


def writer_schema(settings: Settings, schema_id: int) -> WriterSchema:
    """The schema with an id.

    Raises:
        RegistryError: The registry does not answer.
        SettingsError: The registry's login cannot be read.
        UsageError: No registry is set, it has no schema of that id, or one that no format reads.
    """
    place = settings.silver.schema_registry
    if place is None:
        raise UsageError(
            "The topic's values are behind the frame of a schema registry, and none is set. "
            "Give --set silver.schema_registry=ADDRESS, or a folder of <id>.avsc or <id>.desc."
        )
    missing = f"{place} has no schema {schema_id}, which the topic's values name."
    if not is_address(place):
        for kind, ending in _ENDINGS.items():
            if (file := Path(place) / f"{schema_id}{ending}").is_file():
                return WriterSchema(kind, file.read_bytes())
        raise UsageError(missing)
    try:
        server = RegistryServer(place, registry_login(settings.silver.schema_registry_login))
        found = server.schema(schema_id)
        kind = found.get("schemaType", AVRO)
        if kind == PROTOBUF:
            return WriterSchema(kind, _descriptors(server, schema_id))
        text = _whole_schema(server, schema_id, found) if kind == AVRO else ""
    except Refused as refused:
        if refused.code == NO_SCHEMA:
            raise UsageError(missing) from None
        raise RegistryError(f"The schema registry at {place} answers with status {refused.status}.") from None
    except KeyError as error:
        raise RegistryError(f"The schema registry at {place} does not answer with a schema.") from error
    if kind != AVRO:
        raise UsageError(
            f"Schema {schema_id}, which the topic's values name, is of {kind}, and only Avro and Protobuf "
            'are proposed. Declare the format by hand: for JSON Schema Json(…, framing="registry").'
        )
    return WriterSchema(AVRO, text.encode())


_MOST_REFERENCES = 1000
"""A registry whose references have no end is refused, as the reader of values refuses it."""


def _whole_schema(server: RegistryServer, schema_id: int, answer: Mapping[str, Any]) -> str:
    """A schema of Avro with the types that it names of other subjects; raises as ``writer_schema``."""
    others: dict[str, str] = {}
    _add_types(server, schema_id, answer, others)
    try:
        return with_types(str(answer["schema"]), [*others.values()])
    except (ValueError, RecursionError):
        raise UsageError(
            f"The schema registry at {server.place} gives no JSON text of schema {schema_id} or of "
            f"{', '.join(others)}. Write its whole schema to a file, and declare Avro(FILE) by hand."
        ) from None


def _add_types(
    server: RegistryServer, schema_id: int, answer: Mapping[str, Any], others: dict[str, str]
) -> None:
    """Add the schemas of an answer's references by name, each behind those that it refers to itself."""
    for each in answer.get("references") or ():
        name, subject, version = each["name"], each["subject"], each["version"]
        if name in others:
            continue
        if len(others) >= _MOST_REFERENCES:
            raise UsageError(f"Schema {schema_id} refers to more than {_MOST_REFERENCES} other schemas.")
        others[name] = ""  # a reference back to it ends here
        try:
            found = server.version(subject, version)
        except Refused as refused:
            if refused.code not in {NO_SUBJECT, NO_VERSION, NO_SCHEMA}:
                raise
            raise UsageError(
                f"Schema {schema_id}, which the topic's values name, refers to {name}, version {version} of "
                f"the subject {subject}, which the registry at {server.place} does not have. Register it, or "
                "declare Avro(FILE) by hand."
            ) from None
        _add_types(server, schema_id, found, others)
        others[name] = others.pop(name) or str(found["schema"])


def _descriptors(server: RegistryServer, schema_id: int) -> bytes:
    """A set of descriptors with what the schema imports, each file after those that it imports."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
    except ImportError as error:
        raise UsageError(f"The topic's values are of Protobuf: {NOT_INSTALLED}") from error
    whole = FileDescriptorSet()
    _add(server, server.ask(f"/schemas/ids/{schema_id}?format=serialized"), f"{schema_id}.proto", whole)
    return bytes(whole.SerializeToString())


def _add(server: RegistryServer, answer: Mapping[str, Any], name: str, whole: FileDescriptorSet) -> None:
    """Add a registry's schema and what it imports; raises as ``writer_schema``."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    for each in answer.get("references", ()):
        if each["name"] not in {file.name for file in whole.file}:
            found = server.version(each["subject"], each["version"], "serialized")
            _add(server, found, each["name"], whole)
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(answer["schema"], validate=True))
    except (DecodeError, ValueError) as error:
        raise UsageError(
            f"The schema registry at {server.place} gives no descriptors of {name}. Write them by "
            "protoc --include_imports --descriptor_set_out=FILE, and give --descriptors FILE."
        ) from error
    file.name = name
    for imported in file.dependency:
        if imported not in {one.name for one in whole.file}:
            whole.file.append(_not_registered(imported))
    whole.file.append(file)


def _not_registered(name: str) -> FileDescriptorProto:
    """A file that registries do not send: one of Protobuf's own, or an empty one in the place of another."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    found = FileDescriptorProto(name=name)
    if name.startswith("google/protobuf/"):
        module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
        with suppress(ImportError):  # one without messages, such as cpp_features.proto
            importlib.import_module(module).DESCRIPTOR.CopyToProto(found)
    return found


def framed_indexes(value: bytes) -> tuple[int, ...]:
    """Which message of its schema a framed value is: places in the file, and in the messages around it."""
    numbers: list[int] = []
    place = 5
    while not numbers or len(numbers) <= numbers[0]:
        number = shift = 0
        while place < len(value) and value[place] & 0x80:
            number |= (value[place] & 0x7F) << shift
            place, shift = place + 1, shift + 7
        if place >= len(value):
            return (0,)
        number |= value[place] << shift
        numbers.append(number >> 1 ^ -(number & 1))
        place += 1
    return tuple(numbers[1:]) or (0,)


def message_name(content: bytes, indexes: Sequence[int]) -> str:
    """The full name of a message of the last file of a set of descriptors; empty if there is none there."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    file = FileDescriptorSet.FromString(content).file[-1]
    names, messages = [file.package] if file.package else [], file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            return ""
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def message_names(content: bytes) -> list[str]:
    """The full names of the messages in the last file of a set of descriptors; none of what is no set."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        files = FileDescriptorSet.FromString(content).file
    except DecodeError:
        return []
    return [
        ".".join(filter(None, (file.package, one.name))) for file in files[-1:] for one in file.message_type
    ]
