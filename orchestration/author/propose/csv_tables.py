"""Proposes the table of delimited lines: the columns of a document each, read by position. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from common.sql.quoting import spark_text
from orchestration.access.kafka.topic_sample import Sampled
from orchestration.author.propose import gold_tables
from orchestration.author.propose.csv_lines import Lines
from orchestration.author.propose.documents import (
    Documents,
    DocumentTables,
    as_time,
    by_coordinates,
    column,
    free_name,
    note_of,
)
from orchestration.author.propose.pipeline_source import Proposal, ddl_of
from orchestration.author.propose.value_shapes import Leaf, Shape, quoted, shape_of
from orchestration.author.source_text import names


def column_names(lines: Lines) -> list[str]:
    """A name per column, from the header line or by its place."""
    found: list[str] = []
    for place, title in enumerate(lines.header or [""] * lines.width, 1):
        name = column((title,)) if title.strip("\ufeff ") else f"field_{place}"
        found.append(free_name(name, found))
    return found


def field_names(lines: Lines, *, are_of_files: bool) -> list[str]:
    """The name of the field per column: of lines of files with a header the name that the file gives it.

    A column of such files without a name has an empty one, and is no field.
    """
    if are_of_files and lines.header:
        return [title.strip("\ufeff ") for title in lines.header]
    return column_names(lines)


class CsvTables(DocumentTables):
    """Delimited lines with their messages, from which a proposal is filled.

    Args:
        found: The lines as documents with the names of ``field_names``.
        everything: Reads all lines at hand as such documents.
    """

    def __init__(
        self,
        proposal: Proposal,
        messages: Sequence[Sampled],
        found: Sequence[dict[str, Any]],
        everything: Documents,
        lines: Lines,
    ) -> None:
        super().__init__(proposal, messages, found, everything)
        self.lines = lines

    def propose(self) -> None:
        """Fill the proposal: columns, key, event time, watermark, rules and gold tables."""
        shape = self._whole_shape()
        fields = []
        columns = zip(self._field_names(), column_names(self.lines), self.lines.other_nulls, strict=True)
        for field, name, others in columns:
            if field not in shape.members:
                continue
            inner = shape.members[field]
            fields.append(f"{quoted(field)} {'string' if others else inner.type}")
            self._line_column(field, name, inner, others)
            is_always = not others and inner.seen == len(self.found)
            text = Shape(seen=inner.seen, depth=1, name=field) if others else inner
            self.by_name[name] = Leaf((field,), text, is_always)
        self._declared = f"Csv({ddl_of(fields)}{self._options()})"
        self.always = [leaf.path for leaf in self.by_name.values() if leaf.is_always]
        self._note_header()
        self._note_lines()
        self._declare(shape)

    def _value(self, shape: Shape) -> str:
        """All fields of a line, whichever of them the shape has: they are read by position."""
        return self._declared

    _part_value = _value

    def _whole_shape(self) -> Shape:
        """The shape of all lines, with a member for each column in their order."""
        shape = shape_of(self.found)
        shape.members = {
            name: shape.members.get(name, Shape(depth=1, name=name)) for name in self._field_names() if name
        }
        return shape

    def _field_names(self) -> list[str]:
        return field_names(self.lines, are_of_files=self.proposal.files is not None)

    def _line_column(self, field: str, name: str, shape: Shape, others: Sequence[str]) -> None:
        sql = quoted(field)
        for mark in others:
            sql = f"nullif({sql}, '{mark}')"
        self.proposal.columns[name] = sql if others else as_time(sql, shape, field)
        if others:
            marks = " and ".join(others)
            self.proposal.notes[name] = (
                f"{marks} is null here, and a word in another column; the other values are {shape.type}"
            )
        elif note := note_of(Leaf((field,), shape, is_always=False)):
            self.proposal.notes[name] = note

    def _options(self) -> str:
        options = "" if self.lines.separator == "," else f", separator={self.lines.separator!r}"
        return options + (f", null_text=[{names([*self.lines.nulls, ''])}]" if self.lines.nulls else "")

    def _note_header(self) -> None:
        lines, proposal = self.lines, self.proposal
        if not lines.header:
            proposal.remarks.append("lines have no names: rename the fields")
        elif proposal.files is not None:
            proposal.remarks.append("fields are found by the names in the first line of each file")
        elif any(leaf.shape.type != "string" for leaf in self.by_name.values()):
            proposal.remarks.append(
                "names are those of the header line: medallion produce leaves it out; from others it goes to"
            )
            proposal.remarks.append("quarantine as wrong_type")
        else:
            proposal.remarks.append("names are those of the header line, which a rule drops")
            name = next(iter(proposal.columns))
            condition = f"coalesce({quoted(name)}, '') <> {spark_text(lines.header[0])}"
            self.first_rules.append(gold_tables.rule("is_no_header", condition, "drop"))

    def _note_lines(self) -> None:
        if self.lines.odd:
            self.proposal.remarks.append(
                f"{self.lines.odd:,} sampled lines have another number of fields: they would be in"
            )
            self.proposal.remarks.append("quarantine as wrong_field_count")

    def _key_of_whole_messages(self, about: str) -> None:
        equal = self.documents - self.different
        repeated = f"; {equal:,} lines equal another one" if equal else ""
        by_coordinates(self.proposal, f"{about}{repeated}; each message is an event of its own")

    def _key(self) -> str:
        """The proposed key. Equal CSV lines are separate events; equal messages are one event sent twice."""
        thing = super()._key()
        if "message_offset" not in self.proposal.key and (equal := self.documents - self.different):
            by_coordinates(
                self.proposal, f"lines that equal another one: {equal:,}; each message is an event of its own"
            )
        return thing
