"""The fields of a message value, from its declared schema, without Spark.

A schema is DDL text, a ``.json`` file as Spark's ``frame.schema.json()`` writes it, or a ``StructType``. One
``PipelineError`` reports all its faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.declare import Bytes, Columns, Csv, Debezium, Json, Text
from common.declare.declared import source_of
from common.errors import Fault, PipelineError, Problem, as_fault, nearest
from common.schema import ddl
from common.schema.ddl import (
    JSON_TYPES,
    MOST_LEVELS,
    TOO_DEEP,
    Field,
    is_unicode,
    parse,
    type_fault,
    unknown_type,
)
from common.schema.supported_types import required_faults, type_faults

__all__ = ["Field", "fields", "paths_in", "spark_schema_text"]


Structured = Json | Debezium | Csv | Columns
"""Formats that are declared with a Spark schema."""

_TRANSACTION_FIELDS = [("id", "string"), ("total_order", "long"), ("data_collection_order", "long")]
_SOURCE_FIELDS = [
    *((name, "string") for name in ("connector", "db", "schema", "table")),
    *((name, "long") for name in ("ts_ms", "lsn")),
    ("file", "string"),
    *((name, "long") for name in ("pos", "row")),
    # Positions of Oracle and SQL Server, and what PostgreSQL and MySQL have besides.
    *((name, "string") for name in ("scn", "commit_scn", "change_lsn", "commit_lsn")),
    ("event_serial_no", "long"),
    *((name, "string") for name in ("sequence", "gtid", "snapshot")),
]


def _ddl(members: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"`{name}` {JSON_TYPES.get(kind, kind)}" for name, kind in members)


_ENVELOPE = (
    f"op string, ts_ms bigint, source struct<{_ddl(_SOURCE_FIELDS)}>, "
    f"transaction struct<{_ddl(_TRANSACTION_FIELDS)}>"
)


def fields(value: Structured | Text | Bytes, folder: Path) -> tuple[Field, ...]:
    """The fields that a value's columns see, in the order of the schema.

    Args:
        folder: Where a relative file name starts: the folder of the pipeline file.

    Raises:
        PipelineError: The schema is missing, unreadable or invalid, has types that the format does not
            support, or lacks a required field.
    """
    found, faults = examine(value, folder)
    if not isinstance(value, Text | Bytes):
        _refuse(value, faults)
    return found


def examine(value: Structured | Text | Bytes, folder: Path) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """The fields of a value and all faults of its schema; a field of an unknown type has an empty type.

    Raises:
        PipelineError: The schema is missing or unreadable.
    """
    if isinstance(value, Text):
        return (Field("value", "string"),), ()
    if isinstance(value, Bytes):
        return (Field("value", "binary"),), ()
    if isinstance(value, Columns) and value.schema is None:
        return (), ()  # all columns of bronze, which are known at the start only
    faults: list[str] = []
    found: tuple[Field, ...] = ()
    if _is_ddl(value):
        found, wrong = ddl.examine(_declared_schema(value))
        faults.extend(wrong)
    else:
        document, name = _document(value, folder)
        if _levels(document) > MOST_LEVELS:
            faults.append(f"{name} {TOO_DEEP}")
        else:
            found = _struct(document, name, "", faults)
    faults.extend(_duplicate_names(found, ""))
    if isinstance(value, Columns):
        return found, tuple(faults)
    faults.extend(type_faults(value, found))
    if isinstance(value, Debezium) and found:
        row = f"struct<{','.join(f'{field.name}:{field.type}' for field in found)}>"
        found = (Field("before", row, found), Field("after", row, found), *parse(_ENVELOPE))
    if found:
        faults.extend(required_faults(value, found))
    return found, tuple(faults)


def spark_schema_text(value: Structured, folder: Path) -> str:
    """The text of which Spark makes a StructType: DDL, or a StructType as JSON (which begins with ``{``).

    Raises:
        PipelineError: As ``fields``.
    """
    fields(value, folder)
    if _is_ddl(value):
        text: str = _declared_schema(value)
        if not isinstance(value, Debezium):
            return text
        row = text if re.match(r"\s*struct\s*<", text, re.IGNORECASE) else f"struct<{text}>"
        return f"before {row}, after {row}, {_ENVELOPE}"
    document = _document(value, folder)[0]
    if isinstance(value, Debezium):
        members = [_nullable(name, document) for name in ("before", "after")]
        members += [_nullable("op", "string"), _nullable("ts_ms", "long")]
        for name, inner in (("source", _SOURCE_FIELDS), ("transaction", _TRANSACTION_FIELDS)):
            kind = {"type": "struct", "fields": [_nullable(*each) for each in inner]}
            members.append(_nullable(name, kind))
        document = {"type": "struct", "fields": members}
    return json.dumps(document)


def _nullable(name: str, kind: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _refuse(value: Structured, faults: Sequence[str]) -> None:
    if faults:
        source = source_of(value)
        raise PipelineError(
            [Problem(type(value).__name__, as_fault(fault, "MED-1401"), source) for fault in faults]
        )


def _declared_schema(value: Structured) -> Any:
    return value.row if isinstance(value, Debezium) else value.schema


def _is_ddl(value: Structured) -> bool:
    written = _declared_schema(value)
    return isinstance(written, str) and not written.strip().lower().endswith(".json")


def _document(value: Structured, folder: Path) -> tuple[Any, str]:
    """The schema as Spark's JSON, and its name in messages."""
    written = _declared_schema(value)
    if not isinstance(written, str):
        return written.jsonValue(), "the StructType"
    name = written.strip()
    path = folder / name
    try:
        return json.loads(path.read_text(encoding="utf-8")), name
    except FileNotFoundError:
        beside = [file.name for file in path.parent.glob("*.json")] if path.parent.is_dir() else []
        _refuse(value, [f"there is no file {name!r} in {folder}; {nearest(path.name, beside)}"])
    except OSError as error:
        _refuse(value, [f"{name} cannot be read ({error.strerror})"])
    except UnicodeDecodeError:
        _refuse(value, [f"{name} is not UTF-8 text; write it with frame.schema.json() of Spark"])
    except (json.JSONDecodeError, RecursionError) as error:
        where = f"{name}:{error.lineno}" if isinstance(error, json.JSONDecodeError) else name
        _refuse(value, [f"{where} is not JSON; write it with frame.schema.json() of Spark"])
    raise AssertionError("unreachable")


def _levels(document: object) -> int:
    """Levels of nested types in Spark's JSON."""
    deepest, waiting = 0, [(document, 0)]
    while waiting:
        part, level = waiting.pop()
        if isinstance(part, Mapping):
            level += isinstance(part.get("type"), str) and "name" not in part
            deepest = max(deepest, level)
            waiting += [(inner, level) for inner in part.values()]
        elif isinstance(part, list):
            waiting += [(inner, level) for inner in part]
    return deepest - 1


def _struct(document: object, name: str, place: str, faults: list[str]) -> tuple[Field, ...]:
    """Fields of a struct in Spark's JSON; appends its faults to ``faults``."""
    where = f"{name}, field {place!r}" if place else name
    if not isinstance(document, Mapping):
        faults.append(f"{where} is a {type(document).__name__}, not a struct; {_HOW}")
        return ()
    if not place and document.get("type") != "struct" and {"$schema", "properties"} & set(document):
        faults.append(
            f"{where} is a JSON Schema document, which Spark does not read; {_HOW}, or write DDL text"
        )
        return ()
    members = document.get("fields")
    if document.get("type") != "struct" or not isinstance(members, list):
        faults.append(f"{where} is not a struct; {_HOW}")
        return ()
    return tuple(field for member in members for field in _member(member, name, place, faults))


_HOW = 'expected {"type": "struct", "fields": […]}, as frame.schema.json() of Spark writes it'


def _member(member: object, name: str, place: str, faults: list[str]) -> Iterator[Field]:
    if not isinstance(member, Mapping) or not isinstance(member.get("name"), str) or "type" not in member:
        faults.append(f"{name}: a field{f' of {place!r}' if place else ''} lacks its name or type; {_HOW}")
        return
    inner = f"{place}.{member['name']}" if place else member["name"]
    yield _typed(member["name"], member["type"], name, inner, faults)


def unchecked_nulls(value: Structured, folder: Path) -> tuple[str, ...]:
    """Places of a schema in Spark's JSON that it declares never null, although the reader accepts null there.

    The reader checks ``required`` fields only. DDL text is no such schema.

    Raises:
        PipelineError: The schema is missing or unreadable.
    """
    if isinstance(value, Columns) or _is_ddl(value):
        return ()
    places = _never_null(_document(value, folder)[0], "")
    return tuple(place for place in places if place not in value.required)


def _never_null(kind: object, place: str) -> Iterator[str]:
    if not isinstance(kind, Mapping):
        return
    for member in kind.get("fields") or ():
        inner = f"{place}.{member['name']}" if place else str(member["name"])
        if member.get("nullable") is False:
            yield inner
        yield from _never_null(member["type"], inner)
    for flag, part in (("containsNull", "elementType"), ("valueContainsNull", "valueType")):
        if part in kind:
            if kind.get(flag) is False:
                yield f"{place}[]"
            yield from _never_null(kind[part], f"{place}[]")


_FLAGS = {"array": "containsNull", "map": "valueContainsNull"}


def _typed(label: str, kind: object, name: str, place: str, faults: list[str]) -> Field:
    if isinstance(kind, str):
        found = JSON_TYPES.get(kind.partition("(")[0], kind.partition("(")[0]) + _brackets(kind)
        if (problem := unknown_type(kind, JSON_TYPES) or type_fault(found, is_json=True)) is not None:
            faults.append(f"{name}, field {place!r}: {problem}")
            found = ""
        return Field(label, found)
    if not isinstance(kind, Mapping):
        faults.append(
            f"{name}, field {place!r}: its type is a {type(kind).__name__}, not a name or an object"
        )
        return Field(label, "")
    if (needs := _FLAGS.get(str(kind.get("type")))) is not None and needs not in kind:
        faults.append(f"{name}, field {place!r} lacks {needs!r}: true or false; Spark requires it")
    if kind.get("type") == "array":
        element = _typed("element", kind.get("elementType"), name, place, faults)
        return Field(label, f"array<{element.type}>", (element,))
    if kind.get("type") == "map":
        pair = (
            _typed("key", kind.get("keyType"), name, place, faults),
            _typed("value", kind.get("valueType"), name, place, faults),
        )
        return Field(label, f"map<{pair[0].type},{pair[1].type}>", pair)
    nested = _struct(kind, name, place, faults)
    return Field(label, f"struct<{','.join(f'{field.name}:{field.type}' for field in nested)}>", nested)


def _brackets(kind: str) -> str:
    _, bracket, rest = kind.partition("(")
    return bracket + rest.replace(" ", "")


def _duplicate_names(found: Sequence[Field], place: str) -> Iterator[str]:
    """Names that are equal to Spark: the same, or the same but for case."""
    seen: dict[str, str] = {}
    for field in found:
        inner = f"{place}.{field.name}" if place else field.name
        if not is_unicode(field.name):
            yield Fault(
                "MED-1304",
                f"field {inner!r} has a lone surrogate in its name, which is no character; rename it",
            )
        first = seen.get(field.name.lower())
        if first == inner:
            yield Fault("MED-1303", f"field {inner!r} is there twice; keep one")
        elif first is not None:
            yield Fault(
                "MED-1303",
                f"fields {first!r} and {inner!r} differ only by case, which Spark ignores; keep one",
            )
        seen[field.name.lower()] = inner
        yield from _duplicate_names(field.nested, inner)


def paths_in(value: Any, known: Sequence[Field], place: str = "") -> Iterator[tuple[str, bool]]:
    """Paths of the fields in a parsed JSON value, and whether a schema has them.

    A path is ``order.lines[].price``. The fields inside of an unknown field, and the keys of a map, are
    left out.

    Args:
        place: The path of the value itself.

    Yields:
        The path and whether the schema has it, in the order of the value; a path inside of an array comes
        once per item.
    """
    if isinstance(value, list):
        for item in value:
            yield from paths_in(item, known, f"{place}[]")
        return
    if not isinstance(value, dict):
        return
    named = {field.name: field for field in known}
    for name, inner in value.items():
        path = f"{place}.{name}" if place else name
        yield path, name in named
        if name in named and (nested := _nested_fields(named[name])):
            yield from paths_in(inner, nested, path)


def _nested_fields(field: Field) -> Sequence[Field]:
    """The fields of a struct, or of the structs in an array; a map has none, because its keys are data."""
    if field.kind == "array":
        return _nested_fields(field.nested[0])
    return field.nested if field.kind == "struct" else ()
