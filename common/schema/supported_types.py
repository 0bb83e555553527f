"""Checks that a format can be read exactly into a schema's types, and that the schema has required fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from common.declare import Csv, Debezium, Json
from common.errors import Fault, nearest
from common.schema.ddl import Field

_UNREAD = {
    "variant": "write string, and try_parse_json(…) in a column",
    "time": "write string, and try_to_time(…) in a column",
    "void": "write string, or leave the field out",
    "interval": "write string, and try_cast(… as interval …) in a column",
}


def type_faults(value: Json | Debezium | Csv, found: Sequence[Field]) -> Iterator[str]:
    """Fields of a type that the strict reader does not support; Spark's reader (``strict=False``) may."""
    if isinstance(value, Json) and not value.strict:
        return
    for field in found:
        if isinstance(value, Csv) and field.nested:
            yield Fault(
                "MED-1402",
                f"field {field.name!r} is of type {field.kind}; a line has plain fields only: write string",
            )
        else:
            yield from _unread(field, field.name)


def _unread(field: Field, place: str) -> Iterator[str]:
    if field.kind in _UNREAD:
        yield Fault(
            "MED-1402",
            f"field {place!r} is of type {field.kind}, which is not read strictly; {_UNREAD[field.kind]}",
        )
    if field.kind == "map" and field.nested[0].kind not in {"string", ""}:
        kind = field.nested[0].type
        yield Fault(
            "MED-1402",
            f"field {place!r} has keys of type {kind}; names in JSON are texts: write map<string,…>",
        )
        return
    for inner in field.nested:
        yield from _unread(inner, f"{place}.{inner.name}")


def required_faults(value: Json | Debezium | Csv, found: Sequence[Field]) -> Iterator[str]:
    """Required fields that are not in the schema."""
    if isinstance(value, Json) and value.required and not value.strict:
        yield Fault(
            "MED-1105", "required is checked in strict values only; leave out required, or strict=False"
        )
        return
    for path in value.required:
        fields, done = found, ""
        for part in path.split("."):
            names = [field.name for field in fields]
            if part not in names:
                within = f"{done!r} has no field {part!r}" if done else f"there is no field {part!r}"
                yield Fault("MED-1403", f"required names {path!r}, but {within}; {nearest(part, names)}")
                break
            chosen = fields[names.index(part)]
            if not chosen.type:
                break  # its type is wrong, and is reported
            fields = chosen.nested if chosen.kind == "struct" else ()
            done = f"{done}.{part}" if done else part
