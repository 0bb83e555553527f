"""Proposes a pipeline from sampled messages: format, columns, key, event time, rules and gold tables.

Pure. A proposal contains the names of fields and reasons for each choice. The only values in it are those of
a field that names the type of each message, and a mark for null.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from common.errors import UsageError
from orchestration.access.kafka.topic_sample import Sampled
from orchestration.author.propose import csv_lines, gold_tables, value_shapes
from orchestration.author.propose.csv_tables import CsvTables, field_names
from orchestration.author.propose.described import Described, propose_described
from orchestration.author.propose.documents import DocumentTables, snake, use_coordinates
from orchestration.author.propose.pipeline_source import Proposal, SampledFiles
from orchestration.author.propose.value_shapes import is_error_body

ODD = "of_another_kind"
"""Kind of documents in which a field has another type than in almost all other documents."""

CSV, HEADER_LINE = "csv", "header_line"

_FORMATS = {
    value_shapes.JSON,
    value_shapes.DEBEZIUM,
    value_shapes.REGISTRY,
    value_shapes.TEXT,
    value_shapes.BYTES,
}
_STRUCTURED = (value_shapes.JSON, value_shapes.DEBEZIUM, value_shapes.REGISTRY)
_FEW = 20
_JSON_LAYOUT = re.compile(r'\s*(\[|"[^"]*"\s*:)')
"""How a line of JSON over several lines begins, or a list."""


def propose(
    topic: str,
    messages: Sequence[Sampled],
    known: Described | None = None,
    everything: Callable[[], Iterable[bytes | None]] | None = None,
    files: SampledFiles | None = None,
) -> Proposal:
    """The proposal for a topic, or for files.

    Args:
        messages: Sampled messages, in order within each partition.
        known: What a schema says of the values, of a registry or of a file.
        everything: Reads all values at hand, in which a key is searched for collisions; unset: the sample.
        files: The files whose records the messages are; unset: they are of a topic.

    Raises:
        UsageError: No sampled message has a value of a known format.
    """
    proposal = Proposal(topic, table_name(topic), len(messages), files=files)
    seen = [value_shapes.recognize(message.value) for message in messages]
    proposal.kinds = Counter(each.kind for each in seen)
    if known is not None:
        _count_described(proposal, known)
        return propose_described(proposal, known)
    formats = Counter({kind: number for kind, number in proposal.kinds.items() if kind in _FORMATS})
    if not formats:
        raise _nothing_to_read(proposal)
    proposal.format = _main_format(formats)
    if proposal.format in (value_shapes.JSON, value_shapes.DEBEZIUM):
        pairs = [
            (message, each.document)
            for message, each in zip(messages, seen, strict=True)
            if each.kind == proposal.format and each.document is not None
        ]
        records = _without_error_bodies(proposal, pairs)
        usual = _without_odd_documents(proposal, records)
        found = [document for _, document in usual]

        def documents() -> Iterable[Mapping[str, Any]]:
            if everything is None:
                return found
            every, are_errors = _documents(everything(), proposal.format), all(map(is_error_body, found))
            return (each for each in every if are_errors or not is_error_body(each))

        DocumentTables(proposal, [message for message, _ in usual], found, documents).propose()
    else:
        texts = [
            message
            for message, each in zip(messages, seen, strict=True)
            if each.kind == value_shapes.TEXT and message.value
        ]
        _propose_plain(proposal, texts, everything)
    return proposal


def _nothing_to_read(proposal: Proposal) -> UsageError:
    if not proposal.messages:
        return UsageError(f"{proposal.topic} has no messages. Name a topic or a file that has some.")
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in proposal.kinds.most_common())
    return UsageError(
        f"Topic {proposal.topic}: none of {proposal.messages:,} messages has a value that can be recognized "
        f"({kinds}). Name a topic or a file that has some, or read more messages with --samples."
    )


def is_framed(values: Iterable[bytes | None]) -> bool:
    """Whether most values are behind a registry's frame."""
    seen = Counter(value_shapes.recognize(value).kind for value in values)
    formats = Counter({kind: number for kind, number in seen.items() if kind in _FORMATS})
    return bool(formats) and _main_format(formats) == value_shapes.REGISTRY


def _count_described(proposal: Proposal, known: Described) -> None:
    """Count the values that a schema describes under its format: those behind a frame, or all of them."""
    described = (value_shapes.REGISTRY,) if "framing=" in known.value else _FORMATS
    number = sum(proposal.kinds.pop(kind, 0) for kind in described)
    proposal.kinds[known.format] = number


def _main_format(formats: Counter[str]) -> str:
    """The most frequent format; lines of text beside one structured value in twenty are faults."""
    structured = Counter({kind: formats[kind] for kind in _STRUCTURED if formats[kind]})
    if structured and _FEW * structured.total() >= formats.total():
        return structured.most_common(1)[0][0]
    return formats.most_common(1)[0][0]


def _documents(values: Iterable[bytes | None], kind: str) -> Iterator[Mapping[str, Any]]:
    for value in values:
        seen = value_shapes.recognize(value)
        if seen.kind == kind and seen.document is not None:
            yield seen.document


def _without_error_bodies(
    proposal: Proposal, pairs: list[tuple[Sampled, dict[str, Any]]]
) -> list[tuple[Sampled, dict[str, Any]]]:
    """Messages and documents without what a service answers with an error, unless there is nothing else."""
    records = [pair for pair in pairs if not is_error_body(pair[1])]
    if not records:
        proposal.remarks.append("all values look like a service's error messages, and not like records")
        return pairs
    if errors := len(pairs) - len(records):
        proposal.kinds[proposal.format] -= errors
        proposal.kinds[value_shapes.ERROR_BODY] = errors
        proposal.remarks.append(
            f"{errors:,} of {len(pairs):,} sampled values are a service's error messages, and"
        )
        proposal.remarks.append("no records: rows of them lack the key, and go to quarantine")
    return records


def _without_odd_documents(
    proposal: Proposal, pairs: list[tuple[Sampled, dict[str, Any]]]
) -> list[tuple[Sampled, dict[str, Any]]]:
    """Messages and documents without the odd ones, which are counted and noted in a remark."""
    whole = value_shapes.shape_of([document for _, document in pairs])
    usual = [pair for pair in pairs if not value_shapes.is_odd(whole, pair[1])]
    if odd := len(pairs) - len(usual):
        proposal.kinds[proposal.format] -= odd
        proposal.kinds[ODD] = odd
        proposal.remarks.append(f"{odd:,} of {len(pairs):,} sampled values have a field of another kind than")
        proposal.remarks.append("the rest: they would go to quarantine as wrong_type")
    return usual


def table_name(topic: str) -> str:
    """A table name from a topic's name: lower-case words joined by single underscores."""
    name = re.sub(r"[^a-z0-9]+", "_", snake(topic)).strip("_")
    return name if name[:1].isalpha() else f"topic_{name}".rstrip("_")


def _propose_plain(
    proposal: Proposal,
    messages: Sequence[Sampled],
    everything: Callable[[], Iterable[bytes | None]] | None,
) -> None:
    texts = [(message.value or b"").decode() for message in messages]
    lines = csv_lines.read(texts) if proposal.format == value_shapes.TEXT and len(texts) > 1 else None
    if lines is not None:
        _propose_csv(proposal, [messages[place] for place in lines.places], lines, everything)
        return
    if proposal.files is not None and proposal.files.format == CSV:
        proposal.remarks.append("no separator divides the lines into equally many fields: each is one text")
    if texts and _JSON_LAYOUT.match(texts[0]):
        proposal.remarks.append("the text looks like a list, or like objects over several lines: one object")
        proposal.remarks.append("per line is read; `jq -c '.[]'` and `jq -c .` write a file so")
    proposal.value = "Text()" if proposal.format == value_shapes.TEXT else "Bytes()"
    proposal.columns = {"content": "value"}
    use_coordinates(proposal, "each message is an event of its own")
    proposal.gold = gold_tables.per_day(proposal.table, proposal.event_time)


def _propose_csv(
    proposal: Proposal,
    messages: Sequence[Sampled],
    lines: csv_lines.Lines,
    everything: Callable[[], Iterable[bytes | None]] | None,
) -> None:
    proposal.format = CSV
    proposal.kinds[CSV] = proposal.kinds.pop(value_shapes.TEXT)
    if lines.header:
        proposal.messages -= 1
        proposal.kinds.update({CSV: -1, HEADER_LINE: 1})
    files = proposal.files
    if files is not None:
        proposal.files = replace(files, has_header=bool(lines.header))
    names = field_names(lines, are_of_files=files is not None)
    pairs = list(zip(messages, lines.documents(names), strict=True))
    usual = _without_odd_documents(proposal, pairs)
    found = [document for _, document in usual]

    def documents() -> Iterable[Mapping[str, Any]]:
        return found if everything is None else lines.all_documents(names, _texts(everything()))

    CsvTables(proposal, [message for message, _ in usual], found, documents, lines).propose()


def _texts(values: Iterable[bytes | None]) -> Iterator[str]:
    for value in values:
        if value and value_shapes.recognize(value).kind == value_shapes.TEXT:
            yield value.decode()
