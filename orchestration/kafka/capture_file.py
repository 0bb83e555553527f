"""Reads messages from a capture file, which has one message per line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from common.declare import Message
from common.errors import UsageError
from orchestration.kafka.topic_sample import chunks


def read_capture(path: Path, key_field: str | None = None) -> Iterator[Message]:
    """The messages of a file of JSON lines, in order; a ``.gz`` file is decompressed.

    A message's value is the unchanged line without its line feed. The key is the text at ``key_field``, such
    as ``properties.url``; it is null if the line has no such field or is not JSON.

    Raises:
        UsageError: The file cannot be read; names the line.
    """
    names = key_field.split(".") if key_field else ()
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):  # noqa: B007  # the error message uses it
                value = line.removesuffix(b"\n")
                yield Message(_key(value, names), value)
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{path}: cannot be read after line {number} ({why}). Give --from a whole file."
        ) from error


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
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    if found is None:
        return None
    return (found if isinstance(found, str) else json.dumps(found)).encode()
