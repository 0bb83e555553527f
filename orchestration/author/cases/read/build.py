"""Builds cases from located values, as a YAML file has them; names every mistake with its line.

::

    pipeline: pipeline.py            # unset: the pipeline of the command
    cases:
    - name: an order that is sent twice counts once
      topic: orders                  # unset: the pipeline's only topic
      messages:
      - {"id": "a1", "amount": 5}    # a mapping without the names below: the value, as JSON
      - value: '{"id": "a1"}'        # a text; null: a tombstone; a mapping or a list: JSON
        key: a1
        timestamp: 2026-03-01T12:00:00Z
      - cut                          # the records below are another micro-batch
      - value_file: order.json       # or value_base64, value_hex; lines_file: a record per line
      expect:
        silver.orders: |
          | id | amount |
          | a1 | 5.0    |
        silver.orders__quarantine: none
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common.declare import Message
from common.errors import Problem, nearest
from common.schema.ddl import Field
from orchestration.author.cases.read.case import TIMESTAMP, Case, Place, Record, TextTable
from orchestration.author.cases.read.cells import cell_text
from orchestration.author.cases.read.located import Located
from orchestration.author.cases.read.text_table import parse_table

CUT = "cut"
"""Stands between two records of different micro-batches."""

FILE_KEYS = ("pipeline", "shared", "cases")
CASE_KEYS = ("name", "topic", "timestamp", "messages", "lookups", "expect")
_VALUES = ("value", "value_base64", "value_hex", "value_file", "lines_file")
_KEYS = ("key", "key_base64", "key_hex")
_COORDINATES = ("topic", "partition", "offset", "timestamp", "headers")
_MESSAGE = (*_VALUES, *_KEYS, *_COORDINATES)


@dataclass
class Builder:
    """Builds the cases of one file."""

    file: Path  # the file; paths in it are relative to its folder
    problems: list[Problem] = field(default_factory=list)  # the mistakes found

    def cases(self, content: Located | None) -> list[Case]:
        """The cases of the file that have no mistake."""
        if content is None or not isinstance(content.value, dict) or "cases" not in content.value:
            self._problem("cases", "expected 'cases:' with a list of cases", content.line if content else 1)
            return []
        self._refuse_unknown("cases", content, FILE_KEYS)
        listed = content.value["cases"]
        if not isinstance(listed.value, list):
            self._problem("cases", "expected a list: '- name: …'", listed.line)
            return []
        pipeline = content.value.get("pipeline")
        found = [case for each in listed.value if (case := self.case(each)) is not None]
        for case in found:
            if sum(other.name == case.name for other in found) > 1:
                self._problem(
                    _named(case.name), "another case of the file has the same name", case.place.line
                )
        if pipeline is None:
            return found
        path = self.file.parent / str(pipeline.value)
        if not path.is_file():
            self._problem("cases", f"pipeline: {path} does not exist", pipeline.line)
        return [replace(case, pipeline=path) for case in found]

    def case(self, given: Located) -> Case | None:
        """One case; None for one with a mistake."""
        before = len(self.problems)
        if not isinstance(given.value, dict):
            self._problem("case", "expected 'name:', 'messages:' and 'expect:'", given.line)
            return None
        name = str(given.value["name"].plain) if "name" in given.value else ""
        what = _named(name) if name else "case"
        for needed in ("name", "messages", "expect"):
            if needed not in given.value:
                self._problem(what, f"needs {needed!r}", given.line)
        self._refuse_unknown(what, given, CASE_KEYS)
        batches = self._batches(what, given)
        expect = self._tables(what, given.value.get("expect"), "expect")
        if not expect and "expect" in given.value:
            self._problem(what, "expects nothing: name a table below 'expect:'", given.line)
        lookups = self._tables(what, given.value.get("lookups"), "lookups")
        place = Place(self.file, given.line)
        case = Case(name, place, tuple(map(tuple, batches)), expect, lookups)
        return case if len(self.problems) == before else None

    def _tables(self, what: str, given: Located | None, of: str) -> Mapping[str, TextTable]:
        if given is None:
            return {}
        if not isinstance(given.value, dict):
            self._problem(what, f"{of}: expected names of tables, each with its rows", given.line)
            return {}
        found = {}
        for name, table in given.value.items():
            place, of_table = Place(self.file, table.line), f"{what}, {of} {name}"
            if isinstance(table.value, list):
                found[name] = self._of_rows(of_table, table, place)
            elif isinstance(table.value, str) or table.value is None:
                found[name] = parse_table(str(table.value or ""), place, of_table, self.problems)
            else:
                text = "expected a table of text: '|', then a heading and rows; or none"
                self._problem(of_table, text, table.line)
        return found

    def _of_rows(self, what: str, table: Located, place: Place) -> TextTable:
        """The table of a list of mappings, as Python cases have it."""
        columns: list[str] = []
        for row in table.value:
            if not isinstance(row.value, dict):
                self._problem(what, "expected a list of rows: mappings of columns to values", row.line)
                return TextTable((), (), place, ())
            columns += [name for name in row.value if name not in columns]
        rows = tuple(tuple(_cell(row.plain.get(name)) for name in columns) for row in table.value)
        return TextTable(tuple(columns), rows, place, tuple(row.line for row in table.value))

    def _batches(self, what: str, given: Located) -> list[list[Record]]:
        messages = given.value.get("messages", Located([], given.line))
        if not isinstance(messages.value, list):
            self._problem(what, "messages: expected a list: '- …'", messages.line)
            return []
        shared = {name: given.value[name] for name in ("topic", "timestamp") if name in given.value}
        batches: list[list[Record]] = [[]]
        for number, each in enumerate(messages.value, 1):
            if each.value == CUT:
                batches.append([])
                continue
            try:
                batches[-1] += self._records(f"{what}, message {number}", each, shared)
            except (ValueError, OSError) as error:
                self._problem(f"{what}, message {number}", str(error), each.line)
        return [batch for batch in batches if batch]

    def _records(self, what: str, given: Located, shared: Mapping[str, Located]) -> Iterator[Record]:
        """The records of one element of ``messages``.

        Raises:
            ValueError: A value cannot be read.
            OSError: A file cannot be read.
        """
        fields = self._fields(given)
        if fields is None:
            yield replace(self._record({}, shared, given.line), **self._bare(given.plain))
            return
        self._refuse_unknown(what, given, _MESSAGE)
        if sum(name in fields for name in _VALUES) != 1:
            raise ValueError(f"needs exactly one of {', '.join(_VALUES)}; a tombstone has value: null")
        if sum(name in fields for name in _KEYS) > 1:
            raise ValueError(f"give one of {', '.join(_KEYS)}")
        record = self._record(fields, shared, given.line)
        if "lines_file" not in fields:
            yield replace(record, value=self._value(fields))
            return
        if "offset" in fields:
            raise ValueError("lines_file has many records, and offset names one; leave offset out")
        for line in (self.file.parent / str(fields["lines_file"].value)).read_bytes().splitlines():
            if line.strip():
                yield replace(record, value=line)

    @staticmethod
    def _fields(given: Located) -> dict[str, Located] | None:
        """The named parts of a message; None for a message that is a value alone."""
        if not isinstance(given.value, dict):
            return None
        fields: dict[str, Located] = given.value
        if any(name in _VALUES for name in fields):
            return fields
        if named := [name for name in fields if name in _MESSAGE]:
            raise ValueError(
                f"has {named[0]!r} and no value: write value: …; a document that has a field {named[0]!r} "
                "goes below value: as well"
            )
        return None

    @staticmethod
    def _bare(value: Any) -> dict[str, Any]:
        """A message that is a value alone: a text, a mapping that is JSON, or a ``Message`` of Python."""
        if isinstance(value, Message):
            return {"key": value.key, "value": value.value}
        return {"value": _encoded(value)}

    def _record(self, fields: Mapping[str, Located], shared: Mapping[str, Located], line: int) -> Record:
        given = {name: each.plain for name, each in {**shared, **fields}.items()}
        key = _encoded(given["key"]) if "key" in given else None
        for name, decode in _DECODERS.items():
            if f"key_{name}" in given:
                key = decode(given[f"key_{name}"])
        return Record(
            value=None,
            key=key,
            headers=_headers(given.get("headers")),
            topic=None if given.get("topic") is None else str(given["topic"]),
            partition=_number("partition", given.get("partition", 0)),
            offset=None if given.get("offset") is None else _number("offset", given["offset"]),
            timestamp=_time(given["timestamp"]) if "timestamp" in given else TIMESTAMP,
            place=Place(self.file, line),
        )

    def _value(self, fields: Mapping[str, Located]) -> bytes | None:
        for name, decode in _DECODERS.items():
            if f"value_{name}" in fields:
                return decode(fields[f"value_{name}"].plain)
        if "value_file" in fields:
            return (self.file.parent / str(fields["value_file"].value)).read_bytes()
        return _encoded(fields["value"].plain)

    def _refuse_unknown(self, what: str, given: Located, known: tuple[str, ...]) -> None:
        for name, each in given.value.items():
            if name not in known:
                self._problem(what, f"{name!r} is no part of it; {nearest(name, known)}", each.line)

    def _problem(self, what: str, text: str, line: int) -> None:
        self.problems.append(Problem(what, text, str(Place(self.file, line))))


def _named(name: str) -> str:
    return f"case {name!r}"


def _encoded(value: Any) -> bytes | None:
    """A text or bytes as they are, anything else as JSON; None is no value."""
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()


def _of_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text!r} is no base64: {error}") from None


def _of_hex(text: Any) -> bytes:
    try:
        return bytes.fromhex(str(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is no hex: {error}") from None


_DECODERS: Mapping[str, Callable[[Any], bytes]] = {"base64": _of_base64, "hex": _of_hex}


def _headers(given: Any) -> tuple[tuple[str, bytes | None], ...]:
    """Headers of a mapping, or of a list of mappings where a name occurs twice."""
    if given is None:
        return ()
    mappings = given if isinstance(given, list) else [given]
    if not all(isinstance(each, dict) for each in mappings):
        raise ValueError("headers: expected names with their values")
    return tuple((name, _encoded(value)) for each in mappings for name, value in each.items())


def _number(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(f"{name} is {given!r}; expected a number from 0")
    return given


def _time(given: Any) -> datetime:
    """A moment: ISO text, in UTC where it has no zone, or milliseconds since the epoch."""
    if isinstance(given, datetime):
        return given if given.tzinfo else given.replace(tzinfo=UTC)
    if isinstance(given, int) and not isinstance(given, bool):
        return datetime.fromtimestamp(given / 1000, UTC)
    try:
        found = datetime.fromisoformat(str(given))
    except ValueError:
        raise ValueError(f"timestamp is {given!r}; write it like 2026-03-01T12:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _cell(value: Any) -> str:
    """A Python value as the text of a cell; a text is read as a cell is, but an empty one is itself."""
    return value if isinstance(value, str) and value else cell_text(value, _kind_of(value))


def _kind_of(value: Any) -> Field:
    """The type under which a Python value is written as a cell."""
    if isinstance(value, dict):
        return Field("", "struct", tuple(replace(_kind_of(each), name=str(k)) for k, each in value.items()))
    if isinstance(value, list | tuple):
        return Field("", "array", (_kind_of(value[0]) if value else Field("", "string"),))
    if isinstance(value, datetime):
        return Field("", "timestamp" if value.tzinfo else "timestamp_ntz")
    return Field("", "binary" if isinstance(value, bytes) else "")
