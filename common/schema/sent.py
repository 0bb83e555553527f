"""Schemas by which a publication writes messages: their fields, and their ids in a registry.

Pure but for what reads files and asks a registry. The JVM writes the values; what precedes them, a zero byte,
the schema's id and the indexes of a Protobuf message, is the same for all of a publication.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.declare.declared import folder_of, source_of
from common.declare.value_formats import Avro, Protobuf
from common.errors import Fault, PipelineError, Problem, RegistryError, nearest
from common.schema import avro, protobuf
from common.schema.ddl import Field
from common.schema.registry import (
    NO_SCHEMA,
    NO_SUBJECT,
    NO_VERSION,
    Refused,
    RegistryServer,
    is_address,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor

CHANGE = "_change_type"
"""The column of a publication with ``deletes`` that names the change."""

_BUILT_IN = ("google/protobuf/", "google/type/", "confluent/")
"""Files of Protobuf that each registry has."""

_INCOMPATIBLE, _TOO_MANY, _OF_THE_SERVER = 409, 429, 500
"""Statuses of HTTP: an incompatible schema, too many requests, and from here on a fault of the server."""


@dataclass(frozen=True)
class Registered:
    """Where schemas are registered."""

    place: str  # a registry's address, or a folder of ``<id>.avsc`` and ``<id>.desc``
    login: str | None  # ``user:password``, or ``Bearer`` and a token; None without one
    subject: str  # the name under which the schema is registered
    register: bool  # whether a schema that the registry lacks is registered


def sent_fields(value: Avro | Protobuf) -> tuple[Field, ...]:
    """The fields of the messages of a format; raises as the format's ``fields``."""
    folder = folder_of(value)
    return avro.fields(value, folder) if isinstance(value, Avro) else protobuf.fields(value, folder)


def writer_spec(value: Avro | Protobuf) -> str:
    """What the JVM's writer of a format takes; raises as the format's ``fields``."""
    folder = folder_of(value)
    if isinstance(value, Avro):
        return avro.schema_text(value, folder)
    return json.dumps(protobuf.spec_and_fields(value, folder)[0])


def column_faults(
    columns: Sequence[str], formats: Mapping[str, tuple[Field, ...]], elsewhere: Sequence[str]
) -> Iterator[str]:
    """Fields of a message's formats without a column, and columns that no part of the message has.

    Of the engine's own columns, which begin with an underscore, those are sent that a schema names.

    Args:
        formats: The fields of ``key`` and ``value``, where they are formats.
        elsewhere: Columns that the other parts of the message are made of.
    """
    lower = {name.lower() for name in columns}
    for part, fields in formats.items():
        for field in fields:
            if field.name.lower() not in lower:
                yield Fault(
                    "MED-1202",
                    f"{part}: the schema's field {field.name!r} has no column: add one in columns; "
                    f"{nearest(field.name, columns)}",
                )
    if "value" not in formats:
        return  # the value is SQL text, or the whole row
    known = {field.name for fields in formats.values() for field in fields}
    used = {name.lower() for name in (*known, *elsewhere)}
    for name in columns:
        if name.lower() not in used and not name.startswith("_"):
            yield Fault(
                "MED-1202",
                f"value: column {name!r} is no field of the schema and would not be sent: leave it out of "
                f"columns; {nearest(name, known)}",
            )


def frame(value: Avro | Protobuf, at: Registered, place: str) -> bytes:
    """What precedes each value of a format with a registry's frame.

    Args:
        at: Where its schema is registered.
        place: The declaration, for errors.

    Raises:
        PipelineError: The registry does not have the schema, or refuses it.
        RegistryError: The registry does not answer.
    """
    folder = folder_of(value)
    message = protobuf.descriptor(value, folder) if isinstance(value, Protobuf) else None
    try:
        if is_address(at.place):
            found: int | None = _asked(value, at)
        else:
            found = _of_folder(value, folder, Path(at.place))
    except Refused as refused:
        if refused.status == _TOO_MANY or refused.status >= _OF_THE_SERVER:
            raise RegistryError(
                f"The schema registry at {at.place} answers with status {refused.status}: {refused.text}"
            ) from None
        raise PipelineError([Problem(place, _refusal(refused, at), source_of(value))]) from None
    if found is None:
        kind = "avsc" if isinstance(value, Avro) else "desc"
        text = f"no file <id>.{kind} in {at.place} has the schema; copy it there, with its id as its name"
        raise PipelineError([Problem(place, Fault("MED-1504", text), source_of(value))])
    indexes = b"" if message is None else _varints(message_indexes(message))
    return b"\0" + found.to_bytes(4, "big") + indexes


def _refusal(refused: Refused, at: Registered) -> Fault:
    if refused.code in {NO_SUBJECT, NO_VERSION, NO_SCHEMA} and not at.register:
        text = (
            f"the schema registry at {at.place} does not have the schema under {at.subject!r}. Register "
            "it, or have the publication do so: register_schemas=True"
        )
    elif refused.status == _INCOMPATIBLE:
        text = (
            f"the schema registry at {at.place} refuses the schema under {at.subject!r}: it is not "
            "compatible with the versions before it. Change the schema, or send to another topic"
        )
    else:
        text = f"the schema registry at {at.place} refuses the schema under {at.subject!r}: {refused.text}"
    return Fault("MED-1504", text)


def _asked(value: Avro | Protobuf, at: Registered) -> int:
    server = RegistryServer(at.place, at.login)
    if isinstance(value, Avro):
        request: dict[str, Any] = {"schema": avro.schema_text(value, folder_of(value))}
    else:
        request = _protobuf_request(server, at, protobuf.descriptor(value, folder_of(value)).file)
    answer = _version(server, at, at.subject, request)
    return _number(answer, "id", at)


def _version(
    server: RegistryServer, at: Registered, subject: str, schema: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The registry's answer about a schema of a subject; it is registered where that is wanted and needed."""
    try:
        return server.subject(subject, schema)
    except Refused as refused:
        if not at.register or refused.code not in {NO_SUBJECT, NO_VERSION, NO_SCHEMA}:
            raise
    server.subject(subject, schema, register=True)
    return server.subject(subject, schema)


def _protobuf_request(server: RegistryServer, at: Registered, file: FileDescriptor) -> dict[str, Any]:
    """A file of Protobuf as a registry takes it; the files that it imports are subjects of their names."""
    references = []
    for imported in file.dependencies:
        if not imported.name.startswith(_BUILT_IN):
            answer = _version(server, at, imported.name, _protobuf_request(server, at, imported))
            version = _number(answer, "version", at)
            references.append({"name": imported.name, "subject": imported.name, "version": version})
    text = base64.b64encode(file.serialized_pb).decode()
    return {"schema": text, "schemaType": "PROTOBUF", "references": references}


def _number(answer: Mapping[str, Any], name: str, at: Registered) -> int:
    found = answer.get(name)
    if not isinstance(found, int):
        raise RegistryError(f"The schema registry at {at.place} does not answer with a schema's {name}.")
    return found


def _of_folder(value: Avro | Protobuf, folder: Path, registry: Path) -> int | None:
    """The id of the file that has the same schema."""
    if not registry.is_dir():
        raise RegistryError(f"The folder of schemas {registry} does not exist.")
    if isinstance(value, Avro):
        wanted = json.loads(avro.schema_text(value, folder))
        same = [file for file in registry.glob("*.avsc") if _json(file) == wanted]
    else:
        content = protobuf.content(value, folder)
        same = [file for file in registry.glob("*.desc") if file.read_bytes() == content]
    return next((int(file.stem) for file in sorted(same) if file.stem.isdigit()), None)


def _json(file: Path) -> object:
    """What a file has; None where it is no JSON, which no schema equals."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None


def message_indexes(message: Descriptor) -> list[int]:
    """Where a message is in its file: the index of the outermost message, then of each within it.

    Entries of maps, which no author writes, are not counted.
    """
    indexes: list[int] = []
    while message is not None:
        outer = message.containing_type
        among = message.file.message_types_by_name.values() if outer is None else outer.nested_types
        names = [one.name for one in among if not one.GetOptions().map_entry]
        indexes.insert(0, names.index(message.name))
        message = outer
    return indexes


def _varints(indexes: Sequence[int]) -> bytes:
    """How many, and each, as Avro writes whole numbers; a single zero stands for the first message."""
    numbers = [0] if list(indexes) == [0] else [len(indexes), *indexes]
    out = bytearray()
    for number in numbers:
        rest = number << 1
        while rest > 0x7F:  # noqa: PLR2004  # seven bits
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)
