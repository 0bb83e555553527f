"""What ``medallion init`` takes from a schema: one of a registry, or a file of Protobuf's descriptors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from common.config.settings import Settings
from common.declare import Avro, Protobuf
from common.errors import PipelineError, UsageError
from common.schema import avro as avro_schema
from common.schema import protobuf as protobuf_schema
from orchestration.access.kafka.schema_registry import (
    PROTOBUF,
    framed_indexes,
    message_name,
    message_names,
    writer_schema,
)
from orchestration.author.propose.described import Described
from orchestration.author.propose.propose import is_framed, table_name
from orchestration.author.source_text import literal


def of_registry(
    settings: Settings, topic: str, values: Sequence[bytes], output: Path, beside: dict[str, bytes]
) -> Described | None:
    """What the schema of most values says; ``None`` if most values have no schema id.

    Args:
        beside: Files to write beside it, by name; the schema is added.

    Raises:
        RegistryError: The registry does not answer.
        SettingsError: The registry's login cannot be read.
        UsageError: There is no such schema, or no columns can be made of it.
    """
    if not is_framed(values):
        return None
    framed = [value for value in values if value[0] == 0]
    number = Counter(int.from_bytes(value[1:5], "big") for value in framed).most_common(1)[0][0]
    found = writer_schema(settings, number)
    whose = f"Topic {topic}: schema {number}"
    if found.kind == PROTOBUF:
        same = [value for value in framed if int.from_bytes(value[1:5], "big") == number]
        indexes = Counter(map(framed_indexes, same)).most_common(1)[0][0]
        message = message_name(found.content, indexes)
        file = f"{table_name(topic)}.desc"
        beside[file] = found.content
        with TemporaryDirectory() as folder:
            (Path(folder) / file).write_bytes(found.content)
            return _of_message(whose, Path(folder), file, message, is_framed=True)
    text = found.content.decode()
    try:
        fields = avro_schema.fields(Avro(text), output.parent)
    except PipelineError as error:
        raise _refused(whose, error) from error
    file = f"{table_name(topic)}.avsc"
    beside[file] = found.content
    return Described("avro", f'Avro({literal(file)}, framing="registry")', fields, json.loads(text))


def of_descriptors(file: Path, message: str | None, values: Sequence[bytes], output: Path) -> Described:
    """What a message of a file of descriptors says.

    Args:
        message: The message's full name; unset: the only one of the file that the descriptors are of.
        values: Sampled values, which may be behind a registry's frame.

    Raises:
        UsageError: The file is none of descriptors, it is not said which message, or no columns can be made.
    """
    if message is None:
        try:
            names = message_names(file.read_bytes())
        except OSError as error:
            raise UsageError(f"--descriptors {file}: it cannot be read ({error.strerror}).") from error
        except ImportError as error:
            raise UsageError(f"--descriptors {file}: {protobuf_schema.NOT_INSTALLED}") from error
        if len(names) != 1:
            shown = f"it has the messages {', '.join(names)}" if names else "its last file has no message"
            raise UsageError(f"--descriptors {file}: {shown}. Name one with --message.")
        message = names[0]
    whole, beside = file.resolve(), output.parent.resolve()
    place = whole.relative_to(beside) if whole.is_relative_to(beside) else whole
    return _of_message(f"--descriptors {file}", beside, str(place), message, is_framed=is_framed(values))


def _of_message(whose: str, folder: Path, file: str, message: str, *, is_framed: bool) -> Described:
    framing = ', framing="registry"' if is_framed else ""
    try:
        fields = protobuf_schema.fields(Protobuf(file, message), folder)
    except PipelineError as error:
        raise _refused(whose, error) from error
    return Described("protobuf", f"Protobuf({literal(file)}, {literal(message)}{framing})", fields)


def _refused(whose: str, error: PipelineError) -> UsageError:
    return UsageError(f"{whose}: {'; '.join(problem.message for problem in error.problems)}")
