"""The shape of a JSON value, read without Spark: its fields, their types, and what is nested in them.

Three ways to write one schema: DDL text, a ``.json`` file as ``frame.schema.json()`` of Spark writes it,
or a ``StructType``. Everything wrong with it is told at once, in a ``PipelineError`` whose place is ``Json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.ddl import JSON_TYPES, DdlError, Field, parse, unknown_type
from common.declare import Json
from common.declaring import source_of
from common.errors import PipelineError, Problem, nearest

__all__ = ["Field", "ddl_or_json", "fields"]


def fields(json_format: Json, folder: Path) -> tuple[Field, ...]:
    """The top-level fields of a JSON value, in the order of the schema.

    Args:
        json_format: The declaration.
        folder: Where a relative file name starts: the folder of the pipeline file.

    Raises:
        PipelineError: The schema cannot be found or read, or is no valid schema.
    """
    faults: list[str] = []
    found: tuple[Field, ...] = ()
    if _is_ddl(json_format):
        try:
            found = parse(json_format.schema)
        except DdlError as error:
            faults.append(str(error))
    else:
        document, name = _document(json_format, folder)
        found = _struct(document, name, "", faults)
    faults.extend(_twins(found, ""))
    _refuse(json_format, faults)
    return found


def ddl_or_json(json_format: Json, folder: Path) -> str:
    """The text from which Spark makes the StructType: DDL, or a StructType as JSON (it begins with ``{``).

    Raises:
        PipelineError: The schema cannot be found or read, or is no valid schema.
    """
    fields(json_format, folder)
    if _is_ddl(json_format):
        text: str = json_format.schema
        return text
    return json.dumps(_document(json_format, folder)[0])


def _refuse(json_format: Json, faults: Sequence[str]) -> None:
    if faults:
        source = source_of(json_format)
        raise PipelineError([Problem("Json", fault, source) for fault in faults])


def _is_ddl(json_format: Json) -> bool:
    return isinstance(json_format.schema, str) and not json_format.schema.strip().lower().endswith(".json")


def _document(json_format: Json, folder: Path) -> tuple[Any, str]:
    """The schema as Spark's JSON, and what to call it in a message."""
    if not isinstance(json_format.schema, str):
        return json_format.schema.jsonValue(), "the StructType"
    name = json_format.schema.strip()
    path = folder / name
    try:
        return json.loads(path.read_text(encoding="utf-8")), name
    except FileNotFoundError:
        beside = [file.name for file in path.parent.glob("*.json")] if path.parent.is_dir() else []
        _refuse(json_format, [f"there is no file {name!r} in {folder}; {nearest(path.name, beside)}"])
    except OSError as error:
        _refuse(json_format, [f"{name} cannot be read ({error.strerror})"])
    except UnicodeDecodeError:
        _refuse(json_format, [f"{name} is not UTF-8 text; write it with frame.schema.json() of Spark"])
    except (json.JSONDecodeError, RecursionError) as error:
        where = f"{name}:{error.lineno}" if isinstance(error, json.JSONDecodeError) else name
        _refuse(json_format, [f"{where} is not JSON; write it with frame.schema.json() of Spark"])
    raise AssertionError("unreachable")


def _struct(document: object, name: str, place: str, faults: list[str]) -> tuple[Field, ...]:
    """Fields of a struct in Spark's JSON; what is wrong is added to ``faults``."""
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


_FLAGS = {"array": "containsNull", "map": "valueContainsNull"}


def _typed(label: str, kind: object, name: str, place: str, faults: list[str]) -> Field:
    if isinstance(kind, str):
        if (problem := unknown_type(kind, JSON_TYPES)) is not None:
            faults.append(f"{name}, field {place!r}: {problem}")
        return Field(label, JSON_TYPES.get(kind.partition("(")[0], kind) + _brackets(kind))
    if not isinstance(kind, Mapping):
        faults.append(
            f"{name}, field {place!r}: its type is a {type(kind).__name__}, not a name or an object"
        )
        return Field(label, "void")
    if (needs := _FLAGS.get(str(kind.get("type")))) is not None and needs not in kind:
        faults.append(f"{name}, field {place!r} lacks {needs!r}: true or false; Spark asks for it")
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


def _twins(found: Sequence[Field], place: str) -> Iterator[str]:
    """Names that Spark cannot tell apart: equal, or equal but for their case."""
    seen: dict[str, str] = {}
    for field in found:
        inner = f"{place}.{field.name}" if place else field.name
        first = seen.get(field.name.lower())
        if first == inner:
            yield f"field {inner!r} is there twice; keep one"
        elif first is not None:
            yield f"fields {first!r} and {inner!r} differ only by case, which Spark ignores; keep one"
        seen[field.name.lower()] = inner
        yield from _twins(field.nested, inner)
