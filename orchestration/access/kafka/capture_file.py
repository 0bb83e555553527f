"""Reads messages from a capture file, which has one message per line."""

from __future__ import annotations

import codecs
import gzip
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from common.declare import Message
from common.errors import UsageError, nearest
from orchestration.access.kafka.topic_sample import chunks

_EXAMINED = 1_000
"""Messages at the start of a file that are searched for the key field."""

_DEPTH = 5
"""Levels of nesting down to which a misspelt field is compared with those that are there."""


class KeyedMessages(Iterator[Message]):
    """The messages of a capture file with their keys, and the number of those without a key.

    Attributes:
        field: The field with the key, as given.
        keyless: Messages so far that have no such field.
    """

    def __init__(self, messages: Iterator[Message], field: str) -> None:
        self._messages = messages
        self.field = field
        self.keyless = 0

    def __next__(self) -> Message:
        message = next(self._messages)
        self.keyless += message.key is None
        return message


def read_keyed_capture(path: Path, key_field: str) -> KeyedMessages:
    """The messages of a file as ``read_capture`` reads them, after a look for the key field.

    Raises:
        UsageError: None of the first thousand messages has the field; names the nearest one.
    """
    first = list(itertools.islice(read_capture(path, key_field), _EXAMINED))
    if first and all(message.key is None for message in first):
        known = {name for message in first for name in _paths(_parsed(message.value or b""), "", _DEPTH)}
        advice = nearest(key_field, known) if known else "they are no JSON objects"
        which = f"None of the first {len(first):,} messages" if len(first) == _EXAMINED else "No message"
        raise UsageError(f"--key-field {key_field}: {which} of {path} has such a field; {advice}")
    return KeyedMessages(read_capture(path, key_field), key_field)


def read_capture(path: Path, key_field: str | None = None) -> Iterator[Message]:
    """The messages of a file of JSON lines, in order; a ``.gz`` file is decompressed.

    A message's value is the unchanged line without its line feed; a mark of UTF-8 before the first one is of
    the file, and no part of it. The key is the text at ``key_field``, such
    as ``properties.url``, where a dot leads into an object or is part of a name. The key is null if the line
    has no such field or is not JSON.

    Raises:
        UsageError: The file cannot be read, or is UTF-16; names the line.
    """
    names = key_field.split(".") if key_field else ()
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                value = (line if number > 1 else _without_mark(path, line)).removesuffix(b"\n")
                yield Message(_key(value, names), value)
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{path}: cannot be read after line {number} ({why}). Give --from-file a whole file."
        ) from error


def _without_mark(path: Path, first: bytes) -> bytes:
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        other = path.with_stem(f"{path.stem}-utf8")
        raise UsageError(
            f"{path} is UTF-16; write it as UTF-8: iconv -f UTF-16 -t UTF-8 {quote(str(path))} > "
            f"{quote(str(other))}"
        )
    return first.removeprefix(codecs.BOM_UTF8)


def sample_capture(path: Path, count: int) -> list[Message]:
    """About ``count`` messages of a file, in order; all messages if the file has fewer.

    Half of them are neighbours, in runs over the whole file: a repeated identifier often repeats soon. The
    other half is spread evenly. The first line is always one of them.

    Raises:
        UsageError: The file cannot be read; names the line.
    """
    total = sum(1 for _ in read_capture(path))
    runs = [range(start, end) for start, end in chunks(0, total, max(count // 2, 1))]
    spread = range(0, total, max(1, -(-total // max(count // 2, 1))))
    return [
        message
        for place, message in enumerate(read_capture(path))
        if place in spread or any(place in run for run in runs)
    ]


def _key(value: bytes, names: Sequence[str]) -> bytes | None:
    if not names:
        return None
    found = _at(_parsed(value), names)
    if found is None:
        return None
    return (found if isinstance(found, str) else json.dumps(found)).encode(errors="surrogatepass")


def _parsed(value: bytes) -> object:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _at(found: object, names: Sequence[str]) -> object:
    """The value at a path; a field within an object comes before a name that contains the dot."""
    if not names:
        return found
    if not isinstance(found, dict):
        return None
    for count in range(1, len(names) + 1):
        name = ".".join(names[:count])
        if name in found and (inner := _at(found[name], names[count:])) is not None:
            return inner
    return None


def _paths(found: object, before: str, depth: int) -> Iterator[str]:
    if not isinstance(found, dict) or depth == 0:
        return
    for name, value in found.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{before}{name}.", depth - 1)
        else:
            yield f"{before}{name}"
