"""The array of a value whose elements are rows (``Silver.each``), by the declared fields; without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from common.errors import Fault, nearest
from common.schema.ddl import Field


def each_fault(fields: Sequence[Field], path: Sequence[str]) -> Fault | None:
    """Why a path does not lead to an array, through structs and other arrays; None if it does.

    Args:
        path: Names, exactly as the schema has them.
    """
    within, done = fields, ""
    for place, name in enumerate(path):
        field = next((one for one in within if one.name == name), None)
        if field is None:
            where = f"{done!r} has no field {name!r}" if done else f"there is no field {name!r}"
            return Fault("MED-1403", f"{where}; {nearest(name, [one.name for one in within])}")
        done = f"{done}.{name}" if done else name
        if not field.type:
            return None  # its type is wrong, and is reported
        is_last = place + 1 == len(path)
        if is_last and field.kind != "array":
            return Fault("MED-1207", f"{done!r} is of type {field.kind}, not an array{_instead(field)}")
        inner = field.nested[0] if field.kind == "array" else field
        if not is_last and inner.kind != "struct":
            return Fault(
                "MED-1207", f"{done!r} is of type {field.type} and has no fields; end the path there"
            )
        within = inner.nested
    return None


def _instead(field: Field) -> str:
    if field.kind == "map":
        return "; keep the map as a column, and take it apart in a View with lateral view explode(…)"
    arrays = [inner.name for inner in field.nested if inner.kind == "array"] if field.kind == "struct" else []
    return f"; it has {', '.join(f'{field.name}.{name}' for name in arrays)}" if arrays else ""


def with_element(fields: Sequence[Field], path: Sequence[str]) -> tuple[Field, ...]:
    """The fields with one element in place of the array that a path leads to, and of arrays on the way."""
    return tuple(_with_element(field, path) if field.name == path[0] else field for field in fields)


def _with_element(field: Field, path: Sequence[str]) -> Field:
    inner = field.nested[0] if field.kind == "array" else field
    nested = inner.nested
    if path[1:] and inner.kind == "struct":
        nested = with_element(nested, path[1:])
        kind = f"struct<{','.join(f'{one.name}:{one.type}' for one in nested)}>"
        return Field(field.name, kind, nested)
    return replace(inner, name=field.name)
