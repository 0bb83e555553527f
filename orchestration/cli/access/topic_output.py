"""A topic and its records, for people and as JSON; nothing that a record contains controls the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.text import Text

from common.machine.console import out, page
from common.machine.terminal import escape, visible
from orchestration.access.query.shown_values import iso, part, plain
from orchestration.cli.grid import Column, Grid
from orchestration.cli.json_output import print_document

if TYPE_CHECKING:
    from orchestration.access.kafka.topics import TopicDescription, TopicRecord
    from orchestration.author.cases.fates import Coordinates, Fate

_LONGEST = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def print_topic(topic: TopicDescription, address: str, read_by: Sequence[str], *, as_json: bool) -> None:
    """Print partitions, configurations and readers of a topic."""
    if as_json:
        print_document(topic_document(topic, address, read_by))
        return
    columns = (
        Column("partition", "right"),
        Column("leader", "right"),
        Column("replicas", rank=1),
        Column("in sync"),
        Column("first offset", "right"),
        Column("end offset", "right"),
    )
    rows = [
        (
            str(each.number),
            Text("none", style="bold red") if each.leader is None else str(each.leader),
            ", ".join(map(str, each.replicas)),
            ", ".join(map(str, each.in_sync)),
            "?" if each.first is None else f"{each.first:,}",
            "?" if each.end is None else f"{each.end:,}",
        )
        for each in topic.partitions
    ]
    _line(f"topic {topic.name} at {address}")
    _line(f"read by {', '.join(read_by)}" if read_by else "read by no bronze table of the pipeline")
    page().print(Grid(columns, rows))
    for config in topic.configs:
        value = "(secret)" if config.value is None else config.value
        _line(
            f"{config.name}={value}" + ("" if config.set_on == "topic" else f" (set on the {config.set_on})")
        )
    if not topic.configs:
        _line("every configuration is Kafka's default")


def topic_document(topic: TopicDescription, address: str, read_by: Sequence[str]) -> dict[str, Any]:
    """The document of a topic."""
    return {
        "topic": topic.name,
        "bootstrap_servers": address,
        "read_by": list(read_by),
        "partitions": [
            {
                "partition": each.number,
                **part(each, "leader", "replicas", "in_sync"),
                "first_offset": each.first,
                "end_offset": each.end,
            }
            for each in topic.partitions
        ],
        "configs": [part(each, "name", "value", "set_on") for each in topic.configs],
    }


def print_records(
    topic: str,
    records: Sequence[TopicRecord],
    fates: Mapping[Coordinates, Sequence[Fate]] = MappingProxyType({}),
    *,
    as_json: bool,
) -> None:
    """Print records, and what silver makes of them; as JSON a line for each, in ASCII."""
    if as_json:
        for each in records:
            told = plain(fates.get((each.topic, each.partition, each.offset), ()))
            silver = {"silver": told} if fates else {}
            sys.stdout.write(f"{json.dumps(record_document(each) | silver)}\n")
        return
    if not records:
        _line(f"Topic {topic} has no records.")
    for each in records:
        time = "no timestamp" if each.timestamp_ms is None else _time(each.timestamp_ms)
        _line(f"{each.topic}/{each.partition}/{each.offset}  {time}")
        _line(f"  key    {shown(each.key)}")
        for name, content in each.headers:
            _line(f"  header {_escaped(name)}: {shown(content)}")
        _line(f"  value  {shown(each.value)}")
        for fate in fates.get((each.topic, each.partition, each.offset), ()):
            _line(f"  {fate_text(fate)}")


def fate_text(fate: Fate) -> str:
    """What a table makes of a record, in one line."""
    text = f"{fate['table']}: {fate['verdict']}"
    if "row" in fate:
        return f"{text}, " + ", ".join(f"{name}={value}" for name, value in plain(fate["row"]).items())
    if "reasons" not in fate:
        return text
    field = f" (field {_escaped(fate['field'])})" if "field" in fate else ""
    return f"{text}, {', '.join(fate['reasons'])}{field}"


def record_document(record: TopicRecord) -> dict[str, Any]:
    """The document of a record, whole."""
    return {
        **part(record, "topic", "partition", "offset"),
        "timestamp": None if record.timestamp_ms is None else _time(record.timestamp_ms),
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(content)] for name, content in record.headers],
    }


def shown(content: bytes | None) -> str:
    """Bytes as one line for a terminal; a long one is cut, with its size."""
    if content is None:
        return "null"
    # No character has more than four bytes: a huge value is not decoded whole.
    text = content[: 4 * _LONGEST + 4].decode("utf-8", "backslashreplace")
    if len(content) <= 4 * _LONGEST and len(text) <= _LONGEST:
        return _escaped(text)
    return f"{_escaped(text[:_LONGEST])}… ({len(content):,} bytes)"


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "backslashreplace")


def _escaped(text: str) -> str:
    return "".join(letter if letter.isprintable() else escape(letter) for letter in text)


def _time(milliseconds: int) -> str:
    """In UTC; the number itself where it is beyond the years that have four digits."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return str(iso(moment))


def _line(text: str) -> None:
    out.print(visible(text), markup=False, highlight=False, soft_wrap=True)
