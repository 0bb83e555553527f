"""Formats of message values that a pipeline may declare; a pipeline imports them from ``medallion``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, PlainValidator

from common.declare.declared import ADDED_LATER, declared
from common.errors import Fault


def refuse_bare_text(value: object) -> object:
    """Refuse a single text where a list of names is expected: it would be taken letter by letter."""
    if isinstance(value, str):
        raise ValueError(f'must be a list, even of one: ["{value}"]')  # noqa: TRY004  # pydantic expects a ValueError
    return value


def _schema(value: object) -> object:
    if isinstance(value, str) or hasattr(value, "jsonValue"):
        return value
    raise ValueError("must be DDL text, the name of a .json file, or a StructType")


Texts = Annotated[Sequence[str], AfterValidator(tuple)]

Framing = Literal["none", "registry"]
"""What precedes a datum: nothing, or a zero byte and a schema's id of four bytes."""

Timestamps = Literal["offset", "utc"]
"""Times in text without an offset: ``offset`` rejects them, ``utc`` reads them as UTC."""

Decimals = Literal["number", "text", "base64"]
"""How a decimal is written in JSON."""

DESCRIPTOR_ENDINGS = (".desc", ".binpb", ".pb")
"""How the names of files with a set of Protobuf's descriptors end."""


class _Limited:
    """A format whose values have limits."""

    max_depth: int = 1
    max_bytes: int

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if not 1 <= self.max_depth <= 1000:  # noqa: PLR2004
            yield Fault("MED-1104", f"max_depth is {self.max_depth}; it must be from 1 to 1000")
        if self.max_bytes < 1:
            yield Fault("MED-1104", f"max_bytes is {self.max_bytes}; it must be at least 1")


@declared
class Json(_Limited):
    """JSON values, read with a schema. A value is read exactly as it was sent, or rejected."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"schema": '"id string, amount decimal(12,2)"'}

    schema: Annotated[Any, PlainValidator(_schema)]
    """DDL text (``"id string, time bigint"``), the name of a ``.json`` file beside the pipeline (what
    ``frame.schema.json()`` of Spark writes), or a ``StructType``.
    """
    strict: bool = True
    """Reject a value that is not exactly one JSON object of the schema's types, with the reason.
    ``False``: Spark's ``from_json``, which silently changes some values.
    """
    required: Annotated[Sequence[str], BeforeValidator(refuse_bare_text), AfterValidator(tuple)] = ()
    """Fields that must be present and not null; a dot leads into structs: ``"after.id"``."""
    timestamps: Timestamps = "offset"
    """How a time in text without an offset is read."""
    max_depth: int = 64
    """Most levels of nesting; a deeper value is rejected."""
    max_bytes: int = 16_777_216
    """Most bytes of a value; a longer value is rejected."""
    framing: Framing = field(default="none", metadata={ADDED_LATER: True})
    """``registry``: a zero byte and the schema's id in a registry (four bytes) precede the document, as
    serializers of JSON Schema write it. The id is not looked up: ``schema`` decides.
    """
    decimals: Decimals = field(default="number", metadata={ADDED_LATER: True})
    """How fields of type ``decimal`` are written: as a number; ``text``: as a number, or a text that is one
    (Debezium's ``decimal.handling.mode=string``); ``base64``: as a number, or its digits without a point in
    bytes with a sign (``precise``), with the scale of the field's type or, in an object of ``scale`` and
    ``value``, one of its own. A number that the type cannot hold exactly is refused.
    """

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        yield from _Limited.mistakes(self)
        if self.framing != "none" and not self.strict:
            yield Fault("MED-1105", "framing is for strict values only; leave out framing, or strict=False")
        if self.decimals != "number" and not self.strict:
            yield Fault("MED-1105", "decimals is for strict values only; leave out decimals, or strict=False")


@declared
class Debezium(_Limited):
    """Change events in Debezium's JSON envelope, with or without its embedded schema.

    Silver's columns see ``before`` and ``after`` (structs of ``row``), ``op`` (c, u, d, r), ``ts_ms``,
    ``source``: a struct of connector, db, schema, table, ts_ms, snapshot, and the position in the source's
    log: lsn and sequence (PostgreSQL), file, pos, row and gtid (MySQL), scn and commit_scn (Oracle),
    commit_lsn, change_lsn and event_serial_no (SQL Server); and ``transaction``: a struct of id,
    total_order and data_collection_order. Of an envelope with an embedded schema
    (``{"schema": …, "payload": {…}}``) the payload is read. All else is as with ``Json``.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"row": '"id bigint, name string"'}

    row: Annotated[Any, PlainValidator(_schema)]
    """The schema of the captured table: DDL text, a ``.json`` file, or a ``StructType``."""
    required: Annotated[Sequence[str], BeforeValidator(refuse_bare_text), AfterValidator(tuple)] = ("op",)
    """Fields that must be present and not null."""
    timestamps: Timestamps = "offset"
    """How a time in text without an offset is read."""
    max_depth: int = 64
    """Most levels of nesting; a deeper value is rejected."""
    max_bytes: int = 16_777_216
    """Most bytes of a value; a longer value is rejected."""
    framing: Framing = field(default="none", metadata={ADDED_LATER: True})
    """As with ``Json``."""
    decimals: Decimals = field(default="number", metadata={ADDED_LATER: True})
    """As with ``Json``."""


@declared
class Avro(_Limited):
    """Avro values."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"schema": '"order.avsc"'}

    schema: str
    """The reader's schema: Avro's JSON text, or the name of an ``.avsc`` file beside the pipeline. Values
    written with another version of it are resolved by Avro's rules.
    """
    framing: Framing = "none"
    """``none``: the value is the datum, written with ``schema``; ``registry``: a zero byte and the
    writer's schema id (four bytes, big-endian) precede the datum. The setting ``silver.schema_registry``
    says where the id is looked up: a registry's address, or a folder of ``<id>.avsc``.
    """
    max_bytes: int = 16_777_216
    """Most bytes of a value; a longer value is rejected."""


@declared
class Protobuf(_Limited):
    """Protobuf values. It needs the extra ``protobuf``."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {"schema": '"order.desc"', "message": '"shop.Order"'}

    schema: str
    """The name of a file beside the pipeline with the set of descriptors (``.desc``, ``.binpb`` or ``.pb``):
    what ``protoc --include_imports --descriptor_set_out=order.desc order.proto`` writes.
    """
    message: str
    """The full name of the message: the package, a dot, its name."""
    framing: Framing = "none"
    """``none``: the value is the message; ``registry``: a zero byte, the writer's schema id (four bytes,
    big-endian) and the indexes of the message in that schema precede it. The setting
    ``silver.schema_registry`` says where the id is looked up: a registry's address, or a folder of
    ``<id>.desc``.
    """
    timestamps: Literal["micros", "parts"] = "micros"
    """How ``google.protobuf.Timestamp`` is read: ``micros`` as a timestamp, where a time that is no whole
    microsecond is rejected; ``parts`` as a struct of seconds and nanos.
    """
    max_bytes: int = 16_777_216
    """Most bytes of a value; a longer value is rejected."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if not self.schema.lower().endswith(DESCRIPTOR_ENDINGS):
            yield Fault(
                "MED-1401",
                f"schema is {self.schema!r}; write the name of a file with a set of descriptors, such as "
                '"order.desc": protoc --include_imports --descriptor_set_out=order.desc order.proto',
            )
        yield from _Limited.mistakes(self)


@declared
class Csv(_Limited):
    """One line of delimited text per value (RFC 4180), read as strictly as JSON.

    Fields are found by their positions; of files with ``header=True`` by the names in the file's first line,
    in any order and without regard to case. Further columns of such a file are unknown fields
    (``Silver.unknown_fields``); the lines of a file that lacks a column go to quarantine.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {"schema": '"id string, amount decimal(12,2)"'}

    schema: Annotated[Any, PlainValidator(_schema)]
    """DDL text, a ``.json`` file, or a ``StructType``, of plain types, in the line's order."""
    separator: str = ","
    """The character between two fields."""
    null_text: str | Texts = ""
    """An unquoted field with this text is null; a list where several texts stand for null: ``["?", "NA",
    ""]``.
    """
    required: Annotated[Sequence[str], BeforeValidator(refuse_bare_text), AfterValidator(tuple)] = ()
    """Fields that must not be null."""
    timestamps: Timestamps = "offset"
    """How a time in text without an offset is read."""
    max_bytes: int = 16_777_216
    """Most bytes of a value; a longer value is rejected."""

    def mistakes(self) -> Iterator[str]:
        """Faults of the field values in combination."""
        if len(self.separator) != 1 or self.separator in '"\r\n':
            yield Fault(
                "MED-1103",
                f"separator is {self.separator!r}; it must be one character, and no quote or line end",
            )
        if not isinstance(self.null_text, str) and not self.null_text:
            yield Fault(
                "MED-1103",
                'null_text is an empty list; leave it out where an empty field is null (null_text="")',
            )
        yield from _Limited.mistakes(self)


@declared
class Text(_Limited):
    """Plain UTF-8 text, which silver's columns see as ``value string``."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {}

    max_bytes: int = 16_777_216
    """Most bytes of a value; a longer value is rejected."""


@declared
class Bytes:
    """Raw bytes, not parsed, which silver's columns see as ``value binary``."""

    EXAMPLES: ClassVar[Mapping[str, str]] = {}


@declared
class Columns:
    """The typed columns of a bronze table that is read from a Delta table: nothing is parsed.

    Silver's columns see the source's columns by their names and with their types. A row of a change data
    feed also has ``_change_type``, ``_commit_version`` and ``_commit_timestamp``.
    """

    EXAMPLES: ClassVar[Mapping[str, str]] = {}

    schema: Annotated[Any, PlainValidator(_schema)] | None = None
    """The columns to read with their types: DDL text, a ``.json`` file, or a ``StructType``; they are
    compared with bronze's at every start. A type that holds every value of the source's (``bigint`` for
    ``int``) is converted. Unset: all columns of bronze, which are known at the start only, so that
    ``medallion check`` knows no types.
    """


Value = Json | Debezium | Avro | Protobuf | Csv | Text | Bytes | Columns
