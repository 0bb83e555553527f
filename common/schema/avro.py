"""The fields of an Avro schema with Spark's types, without Spark.

Types that no column can hold exactly are refused: unions of several types, recursive records, decimals of
more than 38 digits. One ``PipelineError`` reports all faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log10
from pathlib import Path
from typing import Any

from common.declare.declared import source_of
from common.declare.value_formats import Avro
from common.errors import Fault, PipelineError, Problem, nearest
from common.schema.avro_default import Defaults
from common.schema.ddl import Field

REGISTRY = "spark.medallion.schemaRegistry"
REGISTRY_LOGIN = "spark.medallion.schemaRegistryLogin"
"""Settings of a Spark session that hold the schema registry's address and login for all readers."""

_PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "timestamp-nanos"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("long", "local-timestamp-nanos"): "timestamp_ntz",
}
_WIDER = {frozenset({"int", "long"}): "bigint", frozenset({"float", "double"}): "double"}
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MOST_DIGITS = 38
_UUID_BYTES = 16


def fields(avro: Avro, folder: Path) -> tuple[Field, ...]:
    """The fields of a value, in the order of the schema.

    Args:
        folder: Where a relative file name starts: the folder of the pipeline file.

    Raises:
        PipelineError: The schema is missing or unreadable, or has a type that no column can hold.
    """
    return _read(avro, folder)[1]


def schema_text(avro: Avro, folder: Path) -> str:
    """The schema as Avro's JSON text; raises as ``fields``."""
    return json.dumps(_read(avro, folder)[0])


def _read(avro: Avro, folder: Path) -> tuple[Any, tuple[Field, ...]]:
    document, name = _document(avro, folder)
    reader = _Reader(name)
    found = reader.type(document, "", "")
    if found.kind != "struct" and not reader.faults:
        reader.faults.append(f"{name} is of type {found.type}; a value is a record, its fields the columns")
    if not reader.faults:
        reader.judge_defaults()
    if reader.faults:
        raise _refused(avro, reader.faults)
    return document, found.nested


def _document(avro: Avro, folder: Path) -> tuple[Any, str]:
    """The schema, and its name in messages."""
    written = avro.schema.strip()
    if not written.lower().endswith(".avsc"):
        try:
            return json.loads(written), "the schema"
        except (json.JSONDecodeError, RecursionError) as error:
            where = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
            how = "write Avro's JSON text, or the name of an .avsc file"
            raise _refused(avro, [f"the schema is not JSON{where}; {how}"]) from error
    path = folder / written
    try:
        return json.loads(path.read_text(encoding="utf-8")), written
    except FileNotFoundError as error:
        beside = [file.name for file in path.parent.glob("*.avsc")] if path.parent.is_dir() else []
        fault = f"there is no file {written!r} in {folder}; {nearest(path.name, beside)}"
        raise _refused(avro, [fault]) from error
    except OSError as error:
        raise _refused(avro, [f"{written} cannot be read ({error.strerror})"]) from error
    except (ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise _refused(avro, [f"{written}{line} is not JSON text in UTF-8"]) from error


def _refused(avro: Avro, faults: Sequence[str]) -> PipelineError:
    return PipelineError([Problem("Avro", Fault("MED-1401", fault), source_of(avro)) for fault in faults])


@dataclass
class _Reader:
    """Walks a schema and collects its faults in ``faults``."""

    name: str
    faults: list[str] = field(default_factory=list)
    _known: dict[str, Field | None] = field(default_factory=dict)
    """Named types by full name; None while the walk is inside of the type."""
    _schemas: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _defaults: list[tuple[str, Any, Any, str]] = field(default_factory=list)
    """Place, type, default and namespace of fields; judged when all types are known to be valid."""

    def judge_defaults(self) -> None:
        """Add the faults of defaults; the schema has no other fault."""
        defaults = Defaults(self._schemas)
        for place, kind, value, space in self._defaults:
            if (text := defaults.fault(kind, value, space)) is not None:
                self._fault(place, f"has a bad default: {text}")

    def type(self, schema: object, place: str, space: str) -> Field:
        """A type, as a field without a name."""
        if isinstance(schema, list):
            return self._union(schema, place, space)
        if isinstance(schema, str):
            return self._named(schema, place, space)
        if not isinstance(schema, Mapping) or "type" not in schema:
            return self._fault(place, "is no Avro type: a name, a list, or an object with a type")
        kinds = {
            "record": self._record,
            "enum": self._enum,
            "fixed": self._fixed,
            "array": self._several,
            "map": self._several,
            **dict.fromkeys(_PLAIN, self._plain),
        }
        kind = schema["type"]
        if isinstance(kind, str) and kind in kinds:
            return kinds[kind](schema, place, space)
        return self.type(kind, place, space)

    def _fault(self, place: str, text: str) -> Field:
        self.faults.append(f"{f'{self.name}, field {place!r}' if place else self.name} {text}")
        return Field("", "string")

    def _named(self, name: str, place: str, space: str) -> Field:
        if name in _PLAIN:
            return Field("", _PLAIN[name])
        if name == "null":
            return self._fault(place, "is of type null alone; leave it out, or write a union with null")
        full = name if "." in name or not space else f"{space}.{name}"
        full = full if full in self._known else name
        if full not in self._known:
            known = [*_PLAIN, "record", "enum", "array", "map", "fixed", *self._known]
            return self._fault(place, f"is of type {name!r}, which is not known; {nearest(name, known)}")
        found = self._known[full]
        return found or self._fault(place, f"holds the record {name!r} within itself; no column can")

    def _union(self, branches: Sequence[object], place: str, space: str) -> Field:
        plain = [branch for branch in branches if branch != "null"]
        if len(branches) - len(plain) > 1 or any(isinstance(branch, list) for branch in plain):
            return self._fault(place, "is a union with a union or with null twice in it")
        if len(plain) == 1:
            return self.type(plain[0], place, space)
        names = [branch for branch in plain if isinstance(branch, str)]
        if len(names) == len(plain) and (wider := _WIDER.get(frozenset(names))):
            return Field("", wider)
        return self._fault(place, f"is a union of {len(plain)} types; a column has one, which may be null")

    def _several(self, schema: Mapping[str, Any], place: str, space: str) -> Field:
        kind, part = schema["type"], "items" if schema["type"] == "array" else "values"
        if part not in schema:
            return self._fault(place, f"is an {kind} without {part!r}")
        inner = self.type(schema[part], place, space)
        if kind == "array":
            return Field("", f"array<{inner.type}>", (Field("element", inner.type, inner.nested),))
        pair = (Field("key", "string"), Field("value", inner.type, inner.nested))
        return Field("", f"map<string,{inner.type}>", pair)

    def _record(self, schema: Mapping[str, Any], place: str, space: str) -> Field:
        inside = self._declare(schema, place, space)
        members = schema.get("fields")
        if not isinstance(members, list) or not members:
            return self._fault(place, "is a record without fields")
        nested = tuple(found for member in members for found in self._member(member, place, inside))
        for text in _duplicate_names(nested):
            self._fault(place, text)
        shown = ",".join(f"{found.name}:{found.type}" for found in nested)
        return self._keep(schema, space, Field("", f"struct<{shown}>", nested))

    def _member(self, member: object, place: str, space: str) -> Iterator[Field]:
        name = member.get("name") if isinstance(member, Mapping) else None
        if not isinstance(member, Mapping) or "type" not in member or not _is_name(name):
            self._fault(place, "has a field without a type or a valid name")
            return
        inner = f"{place}.{name}" if place else str(name)
        found = self.type(member["type"], inner, space)
        if "default" in member:
            self._defaults.append((inner, member["type"], member["default"], space))
        yield Field(str(name), found.type, found.nested)

    def _declare(self, schema: Mapping[str, Any], place: str, space: str) -> str:
        """Register a named type; returns its namespace."""
        name = schema.get("name")
        if not isinstance(name, str) or not all(_is_name(part) for part in name.split(".")):
            self._fault(place, f"is a {schema['type']} without a valid name")
            return space
        full = _full(schema, space)
        if full in self._known:
            self._fault(place, f"declares {full!r} a second time; name it by its name")
        self._known[full] = None
        self._schemas[full] = schema
        return full.rpartition(".")[0]

    def _keep(self, schema: Mapping[str, Any], space: str, found: Field) -> Field:
        if isinstance(schema.get("name"), str):
            self._known[_full(schema, space)] = found
        return found

    def _enum(self, schema: Mapping[str, Any], place: str, space: str) -> Field:
        self._declare(schema, place, space)
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not symbols or not all(_is_name(symbol) for symbol in symbols):
            self._fault(place, "is an enum without valid symbols")
        elif len(set(symbols)) < len(symbols) or schema.get("default", symbols[0]) not in symbols:
            self._fault(
                place, "is an enum with a symbol twice, or with a default that is none of its symbols"
            )
        return self._keep(schema, space, Field("", "string"))

    def _fixed(self, schema: Mapping[str, Any], place: str, space: str) -> Field:
        self._declare(schema, place, space)
        size, logical, found = schema.get("size"), schema.get("logicalType"), Field("", "binary")
        if type(size) is not int or size < 1:
            found = self._fault(place, "is a fixed without a size")
        elif logical == "decimal":
            found = self._decimal(schema, place, int((8 * size - 1) * log10(2)))
        elif logical == "uuid":
            found = Field("", "string")
            if size != _UUID_BYTES:
                self._fault(place, f"is a uuid of {size} bytes; it has {_UUID_BYTES}")
        return self._keep(schema, space, found)

    def _plain(self, schema: Mapping[str, Any], place: str, space: str) -> Field:
        kind, logical = schema["type"], schema.get("logicalType")
        if kind == "bytes" and logical == "decimal":
            return self._decimal(schema, place, _MOST_DIGITS)
        if kind == "bytes" and logical == "big-decimal":
            return self._fault(place, "is a big-decimal, whose scale differs by value; write decimal")
        return Field("", _LOGICAL.get((kind, str(logical)), _PLAIN[kind]))

    def _decimal(self, schema: Mapping[str, Any], place: str, most: int) -> Field:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
            return self._fault(place, "is a decimal without a valid precision and scale")
        if not 1 <= precision <= min(most, _MOST_DIGITS):
            return self._fault(place, f"is a decimal of {precision} digits; at most {min(most, 38)} are held")
        return Field("", f"decimal({precision},{scale})")


def _full(schema: Mapping[str, Any], space: str) -> str:
    name = str(schema["name"])
    own = schema.get("namespace", space)
    return name if "." in name or not own else f"{own}.{name}"


def _is_name(text: object) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _duplicate_names(nested: Sequence[Field]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for each in nested:
        if (first := seen.setdefault(each.name.lower(), each.name)) is not each.name:
            yield f"has fields {first!r} and {each.name!r}, which are equal to Spark; keep one"
