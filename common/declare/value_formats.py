"""How a message's value is read: the formats that a pipeline may declare.

They are part of ``common.declare.pipeline``, which is where a pipeline imports them from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, PlainValidator

from common.declare.declared import declared


def refuse_bare_text(value: object) -> object:
    """A list of names; one name alone is a mistake that would be read letter by letter."""
    if isinstance(value, str):
        raise ValueError(f'must be a list, even of one: ["{value}"]')  # noqa: TRY004  # pydantic wants it
    return value


def _schema(value: object) -> object:
    if isinstance(value, str) or hasattr(value, "jsonValue"):
        return value
    raise ValueError("must be DDL text, the name of a .json file, or a StructType")


Timestamps = Literal["offset", "utc"]
"""Text times without an offset: ``offset`` rejects them, ``utc`` reads them as UTC."""


@declared
class Json:
    """JSON values, read with a schema. A value that passes is the value that was sent, or it is rejected.

    Attributes:
        schema: DDL text (``"id string, time bigint"``), the name of a ``.json`` file beside the
            pipeline (what ``frame.schema.json()`` of Spark writes), or a ``StructType``.
        strict: Reject what is not exactly one JSON object of the schema's types, each with a reason of
            its own. ``False``: Spark's ``from_json``, which also rewrites values without a word.
        required: Fields that must be there and not null; a dot goes into structs: ``"after.id"``.
        timestamps: What a text time without an offset is.
        max_depth: Levels of nesting; more are rejected.
        max_bytes: Length of a value; more is rejected.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"schema": '"id string, amount decimal(12,2)"'}

    schema: Annotated[Any, PlainValidator(_schema)]
    strict: bool = True
    required: Annotated[Sequence[str], BeforeValidator(refuse_bare_text), AfterValidator(tuple)] = ()
    timestamps: Timestamps = "offset"
    max_depth: int = 64
    max_bytes: int = 16_777_216

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        yield from _limits(self.max_depth, self.max_bytes)


@declared
class Debezium:
    """Change events in Debezium's JSON envelope, with or without its embedded schema.

    The columns see ``before`` and ``after`` (structs of ``row``), ``op`` (c, u, d, r), ``ts_ms``, and
    ``source``: a struct of connector, db, schema, table, ts_ms, and the place in the source's log: lsn
    (PostgreSQL), or file, pos and row (MySQL). An envelope with an embedded schema
    (``{"schema": …, "payload": {…}}``) is read from its payload. Otherwise as ``Json``.

    Attributes:
        row: The captured table's row: DDL text, a ``.json`` file, or a ``StructType``.
        required: Fields that must be there and not null.
        timestamps: What a text time without an offset is.
        max_depth: Levels of nesting; more are rejected.
        max_bytes: Length of a value; more is rejected.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"row": '"id bigint, name string"'}

    row: Annotated[Any, PlainValidator(_schema)]
    required: Annotated[Sequence[str], BeforeValidator(refuse_bare_text), AfterValidator(tuple)] = ("op",)
    timestamps: Timestamps = "offset"
    max_depth: int = 64
    max_bytes: int = 16_777_216

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        yield from _limits(self.max_depth, self.max_bytes)


@declared
class Avro:
    """Avro values.

    Attributes:
        schema: The schema that the columns see: Avro's JSON text, or the name of an ``.avsc`` file beside
            the pipeline. Values written with another version of it are resolved to it by Avro's rules.
        framing: ``none``: the value is the datum, written with ``schema``; ``registry``: a zero byte and
            the writer's schema id (four bytes, big-endian) come first. The id is looked up where the
            setting ``silver.schema_registry`` says: a registry's address, or a folder of ``<id>.avsc``.
        max_bytes: Length of a value; more is rejected.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"schema": '"order.avsc"'}

    schema: str
    framing: Literal["none", "registry"] = "none"
    max_bytes: int = 16_777_216

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        yield from _limits(1, self.max_bytes)


@declared
class Csv:
    """One line of delimited text per value (RFC 4180), read by position and as strictly as JSON.

    Attributes:
        schema: DDL text, a ``.json`` file, or a ``StructType``, of plain types, in the line's order.
        separator: Between two fields; one character.
        null_text: An unquoted field that reads so is null.
        required: Fields that must not be null.
        timestamps: What a text time without an offset is.
        max_bytes: Length of a value; more is rejected.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"schema": '"id string, amount decimal(12,2)"'}

    schema: Annotated[Any, PlainValidator(_schema)]
    separator: str = ","
    null_text: str = ""
    required: Annotated[Sequence[str], BeforeValidator(refuse_bare_text), AfterValidator(tuple)] = ()
    timestamps: Timestamps = "offset"
    max_bytes: int = 16_777_216

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        if len(self.separator) != 1 or self.separator in '"\r\n':
            yield f"separator is {self.separator!r}; it is one character, and no quote or line end"
        yield from _limits(1, self.max_bytes)


@declared
class Text:
    """Plain UTF-8 text: the columns see it as ``value string``.

    Attributes:
        max_bytes: Length of a value; more is rejected.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {}

    max_bytes: int = 16_777_216

    def mistakes(self) -> Iterator[str]:
        """What is wrong with the values together."""
        yield from _limits(1, self.max_bytes)


@declared
class Bytes:
    """Raw bytes, not read at all: the columns see them as ``value binary``."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {}


Value = Json | Debezium | Avro | Csv | Text | Bytes


def _limits(max_depth: int, max_bytes: int) -> Iterator[str]:
    if not 1 <= max_depth <= 1000:  # noqa: PLR2004
        yield f"max_depth is {max_depth}; it is from 1 to 1000"
    if max_bytes < 1:
        yield f"max_bytes is {max_bytes}; it is at least 1"
