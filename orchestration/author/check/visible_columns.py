"""The columns that an SQL expression may name, with their nested fields as far as they are known.

Names are compared as Spark compares them: case-insensitively.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from common.errors import nearest
from common.schema.ddl import Field, parse
from common.sql.expression import ELEMENT, Path

KAFKA = parse(
    "_kafka struct<topic string, partition int, offset bigint, timestamp timestamp, timestamp_type int,"
    " ingested_at timestamp, key binary, value binary, headers array<struct<key: string, value: binary>>,"
    " fault string, fault_field string, rescued string>"
)
"""The column that a silver table's SQL may name besides the fields of the value."""

KAFKA_OF_ELEMENT = (replace(KAFKA[0], nested=(*KAFKA[0].nested, *parse("element bigint"))),)
"""The same of a table with a row per element, which sees the element's position."""


def before_reading(kafka: tuple[Field, ...]) -> tuple[Field, ...]:
    """A column ``_kafka`` without what is known only after the value was read."""
    known = tuple(field for field in kafka[0].nested if not field.name.startswith(("fault", "rescued")))
    return (replace(kafka[0], nested=known),)


KAFKA_OF_RECORD = before_reading(KAFKA)
"""The same without what is known only after the value was read: the column that ``where`` may name."""

METADATA = parse(
    "_kafka_topic string, _kafka_partition int, _kafka_offset bigint, _kafka_timestamp timestamp,"
    " _ingested_at timestamp"
)
"""The columns that a silver table has besides the declared ones."""

OF_ELEMENT = parse("_element bigint")
"""The column that a silver table with a row per element has besides."""

BRONZE = parse(
    "topic string, partition int, offset bigint, kafka_timestamp timestamp, kafka_timestamp_type int,"
    " ingested_at timestamp, key binary, value binary, headers array<struct<key: string, value: binary>>"
)
"""The columns of a bronze table."""

QUARANTINE = (
    *(field for field in BRONZE if field.name not in {"key", "value", "headers"}),
    *parse("reasons array<string>, field string, verdict string, rule_version string"),
    *(field for field in BRONZE if field.name in {"key", "value", "headers"}),
)
"""The columns of a quarantine table."""

LATE = parse("_watermark timestamp")
"""The column that a table of late rows has besides those of its silver table."""


def unknown(name: str) -> Field:
    """A column whose type is known only to Spark."""
    return Field(name, "")


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that an SQL expression may name."""

    what: str  # the owner of the columns, for messages: ``the value``, ``silver.orders``
    fields: tuple[Field, ...] | None  # the columns; None if they are known only at job start

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns without the metadata columns, which begin with an underscore."""
        return tuple(field.name for field in self.fields or () if not field.name.startswith("_"))

    def has(self, name: str) -> bool:
        """Whether a column of that name exists or may exist."""
        return self.fields is None or _named(self.fields, name) is not None

    def missing(self, path: Path) -> str | None:
        """The fault of a reference; None if no fault is known."""
        if self.fields is None:
            return None
        field = _named(self.fields, path[0])
        if field is None:
            return f"{self.what} has no {path[0]!r}; {self._advice(path[0])}"
        return _missing_inside(field, path)

    def type_of(self, path: Path) -> Field:
        """The field that a reference names; its type is empty if it is not known."""
        field = _named(self.fields or (), path[0])
        for step in path[1:]:
            field = _step(field, step) if field is not None else None
        return field if field is not None else unknown(path[-1])

    def _advice(self, name: str) -> str:
        fields = self.fields or ()
        inner = [path for path in _paths(fields, "") if path.rpartition(".")[2].lower() == name.lower()]
        if inner:
            return f"did you mean {inner[0]!r}?"
        return nearest(name, [field.name for field in fields] if name.startswith("_") else self.names)


def _missing_inside(field: Field, path: Path) -> str | None:
    so_far = field.name
    for step in path[1:]:
        if field.type == "" or field.kind == "variant":
            return None
        found = _step(field, step)
        if found is None:
            inside = _struct_of(field)
            if inside is None:
                return f"{so_far!r} is {field.type}, which has no field {step!r}"
            known = [member.name for member in inside.nested]
            return f"{so_far!r} has no field {step!r}; {nearest(step, known)}"
        field = found
        so_far += "[]" if step == ELEMENT else f".{step}"
    return None


def _step(field: Field, step: str) -> Field | None:
    if field.type == "":
        return field
    if field.kind == "map":
        return field.nested[1]
    if field.kind == "array":
        # In SQL, a field of an array of structs is the array of that field's values
        return field.nested[0] if step == ELEMENT else _step(field.nested[0], step)
    if field.kind == "struct":
        return unknown(step) if step == ELEMENT else _named(field.nested, step)
    return None


def _struct_of(field: Field) -> Field | None:
    while field.kind == "array":
        field = field.nested[0]
    return field if field.kind == "struct" else None


def _named(fields: Sequence[Field], name: str) -> Field | None:
    return next((field for field in fields if field.name.lower() == name.lower()), None)


def _paths(fields: Sequence[Field], before: str) -> Iterator[str]:
    for field in fields:
        if field.kind == "struct":
            yield from (f"{before}{field.name}.{path}" for path in _paths(field.nested, ""))
        if before or field.kind != "struct":
            yield f"{before}{field.name}"
