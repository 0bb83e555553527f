"""Renders a proposed pipeline as the source of a Python file. Pure."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestration.author.propose import value_shapes
from orchestration.author.propose.value_shapes import Shape
from orchestration.author.source_text import literal, names

_UNKNOWN_FIELDS = (
    "What happens to fields that the schema above does not name: ignore leaves them in bronze alone,",
    "rescue keeps them as JSON in the column _rescued, evolve makes columns of them, fail stops the query.",
)
_KEEP_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


@dataclass(frozen=True)
class SampledFiles:
    """Files whose records were sampled."""

    path: str  # their folder, as the pipeline file names it
    format: str  # ``csv`` or ``jsonl``
    only: str = ""  # the pattern of their names; empty: the folder has no others
    has_header: bool = False  # whether the first line of each names its columns

    def source(self, table: str) -> str:
        """The declaration, as Python source."""
        more = ", header=True" if self.has_header else ""
        more += f", only={literal(self.only)}" if self.only else ""
        return f"Files({literal(table)}, path={literal(self.path)}, format={literal(self.format)}{more})"


@dataclass
class Proposal:
    """The proposed bronze and silver table of one topic."""

    topic: str
    table: str
    messages: int = 0  # number of sampled messages, without the header line of CSV
    # Number of messages per kind: formats and faults; a header line is a kind.
    kinds: Counter[str] = field(default_factory=Counter)
    format: str = ""
    value: str = ""  # the declaration of the value's format, as Python source
    columns: dict[str, str] = field(default_factory=dict)  # column names and their SQL
    key: list[str] = field(default_factory=list)
    event_time: str = ""
    watermark: str = "7 days"
    # Comments beside columns, ``key``, ``event_time`` and ``watermark``.
    notes: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)  # comment lines above the table
    rules: list[str] = field(default_factory=list)  # rules of the silver table, as Python source
    gold: list[str] = field(default_factory=list)  # lines of the gold tables, as Python source
    where: str = ""  # the condition that makes a message the table's own; empty if every message is
    bronze: str = ""  # the bronze table; empty if it has the silver table's name
    # One table per type of message, instead of one table of all types.
    parts: list[Proposal] = field(default_factory=list)
    each: str = ""  # the array whose elements are the rows; empty: a message is a row
    # Tables with a row per element, beside the table of the messages.
    elements: list[Proposal] = field(default_factory=list)
    files: SampledFiles | None = None  # the files whose records the messages are; None: they are of a topic

    @property
    def tables(self) -> list[Proposal]:
        """The silver tables: one, or one per type of message, and those of elements."""
        return [*(self.parts or [self]), *self.elements]


def render(name: str, proposals: Sequence[Proposal]) -> str:
    """The source of the pipeline file."""
    tables = [table for proposal in proposals for table in proposal.tables]
    gold = [line for proposal in proposals for line in proposal.gold]
    kinds = {match[1] for line in gold if (match := re.match(r"([A-Z]\w+)\($", line))}
    used = {"Rule"} if any(table.rules for table in tables) else set()
    used |= {"Topic" if proposal.files is None else "Files" for proposal in proposals}
    imports = sorted({_format(table) for table in tables} | kinds | used | {"Pipeline", "Silver"})
    lines = [
        f'"""Pipeline {name}: proposed from a sample of messages; read it, and make it yours."""',
        "",
        f"from medallion import {', '.join(imports)}",
        "",
        "pipeline = Pipeline(",
        f"    name={literal(name)},",
        "    bronze=[",
        *(f"        {_topic(proposal)}," for proposal in proposals),
        "    ],",
        "    silver=[",
        *(f"        {line}".rstrip() for table in tables for line in _silver(table)),
        "    ],",
    ]
    if gold:
        lines += ["    gold=[", *(f"        {line}" for line in gold), "    ],"]
    return "\n".join([*lines, ")"]) + "\n"


def _format(proposal: Proposal) -> str:
    return proposal.value.partition("(")[0]


def _topic(proposal: Proposal) -> str:
    if proposal.files is not None:
        return proposal.files.source(proposal.table)
    topics = "" if proposal.topic == proposal.table else f", topics=[{literal(proposal.topic)}]"
    return f"Topic({literal(proposal.table)}{topics})"


def _silver(proposal: Proposal) -> Iterator[str]:
    notes = proposal.notes
    yield "Silver("
    yield f"    {literal(proposal.table)},"
    yield f'    reads="bronze.{proposal.bronze or proposal.table}",'
    yield from (f"    # {remark}" for remark in proposal.remarks)
    if proposal.each:
        yield f"    each={literal(proposal.each)},"
    if proposal.where:
        yield f"    where={literal(proposal.where)},"
    first, *rest = f"value={proposal.value},".split("\n")
    yield f"    {first}"
    yield from (f"    {line}" for line in rest)
    yield "    columns={"
    for name, sql in proposal.columns.items():
        yield f"        {literal(name)}: {literal(sql)},{_note(notes.get(name))}"
    yield "    },"
    yield f"    key=[{names(proposal.key)}],{_note(notes.get('key'))}"
    yield f"    event_time={literal(proposal.event_time)},{_note(notes.get('event_time'))}"
    yield f"    watermark={literal(proposal.watermark)},{_note(notes.get('watermark'))}"
    if proposal.rules:
        yield "    rules=["
        yield from (f"        {rule}," for rule in proposal.rules)
        yield "    ],"
    if _format(proposal) in ("Json", "Debezium") and not proposal.each:
        yield from (f"    # {line}" for line in _UNKNOWN_FIELDS)
        yield '    unknown_fields="ignore",'
    yield "),"


def _note(text: str | None) -> str:
    return f"  # {text}" if text else ""


def in_words_of_files(proposal: Proposal) -> None:
    """Have the comments of a proposal, which speak of messages and of Kafka, speak of lines and files."""
    words = (("Kafka's timestamp", "the file's time of modification"), ("message", "line"))
    for table in proposal.tables:
        for name, text in table.notes.items():
            for ours, theirs in words:
                text = text.replace(ours, theirs)  # noqa: PLW2901
            table.notes[name] = text


def ddl(shape: Shape) -> str:
    """A struct as DDL text in a Python literal, which has several lines if the text is long.

    A text with control characters or direction marks has them as escapes, in one line.
    """
    return ddl_of([f"{value_shapes.quoted(name)} {inner.type}" for name, inner in shape.members.items()])


def ddl_of(lines: Sequence[str]) -> str:
    """Fields, each a name and a type, as DDL text in such a literal."""
    text = ", ".join(lines)
    if len(text) <= 60 or not text.isprintable() or '"""' in text or "\\" in text:  # noqa: PLR2004  # short
        return literal(text)
    body = ",\n".join(_folded(line) for line in lines)
    return f'"""\n{body}\n"""'


def _folded(line: str) -> str:
    """A field in lines of at most 92 characters; a line that names a field with a blank is not broken."""
    if re.search(r"`[^`]*\s[^`]*`", line):
        return f"    {line}"
    return textwrap.fill(line, 92, initial_indent="    ", subsequent_indent="        ", **_KEEP_WORDS)


def required(paths: Sequence[str]) -> str:
    """The argument ``required=[…]``, with a comma before it; empty if there are no paths."""
    if not paths:
        return ""
    text = ", ".join(literal(path) for path in paths)
    if len(text) <= 60 or any(" " in path for path in paths):  # noqa: PLR2004  # as above
        return f", required=[{text}]"
    folded = textwrap.fill(text, 92, initial_indent="    ", subsequent_indent="    ", **_KEEP_WORDS)
    return f", required=[\n{folded},\n]"
