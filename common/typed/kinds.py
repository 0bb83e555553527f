"""Kinds of types, and which of them Spark refuses where; asserted against Spark by a test.

Only what Spark refuses for every type of a kind stands here: texts become numbers, dates and booleans by
themselves, and so do numbers of one another. The session checks as ANSI says, Spark's default.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from common.schema.ddl import Field

KINDS: Mapping[str, tuple[str, ...]] = {
    "number": ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)"),
    "text": ("string",),
    "boolean": ("boolean",),
    "date": ("date",),
    "timestamp": ("timestamp", "timestamp_ntz"),
    "binary": ("binary",),
    "array": ("array<string>", "array<int>"),
    "map": ("map<string,int>",),
    "struct": ("struct<a:int>",),
}
"""The kinds that are told apart, and types of each."""

_OF_TYPE = {
    type_.partition("(")[0]: kind for kind, types in KINDS.items() for type_ in types if "<" not in type_
}
NESTED = ("array", "map", "struct")


NUMBER = "number"
"""The type of an expression that is surely a number, of whichever type."""


def kind_of(field: Field) -> str:
    """The kind of a column's type; empty where it is not known, or none of these."""
    return field.kind if field.kind in (*NESTED, NUMBER) else _OF_TYPE.get(field.kind, "")


def holds(field: Field, kinds: Collection[str]) -> bool:
    """Whether a type is of one of these kinds, or has one inside."""
    return field.kind in kinds or any(holds(each, kinds) for each in field.nested)


Pairs = frozenset[tuple[str, str]]


def _pairs(*groups: tuple[str, str]) -> Pairs:
    """Pairs of kinds, in both orders."""
    found = {(one, other) for first, second in groups for one in first.split() for other in second.split()}
    return frozenset(found | {(other, one) for one, other in found})


UNCOMPARED = _pairs(
    ("number", "date timestamp binary array map struct"),
    ("boolean", "number date timestamp binary array map struct"),
    ("text date timestamp binary", "array map struct"),
    ("date timestamp", "binary"),
    ("array", "map struct"),
    ("map", "map struct"),
)
"""Kinds that ``=``, ``<`` and ``in`` do not compare."""

UNMIXED = UNCOMPARED - {("map", "map")}
"""Kinds that are no column together: branches of ``case`` and ``coalesce``, and the parts of a union."""

NOT_ADDED = _pairs(
    ("boolean binary array map struct", "number text boolean date timestamp binary array map struct")
)
"""Kinds that ``+``, ``-``, ``*``, ``/`` and ``%`` do not take together."""

UNLIKE = UNMIXED | _pairs(("text", "number boolean date timestamp binary"), ("map", "map"))
"""Kinds that ``greatest`` and ``least`` do not take together."""

_NOT_CAST_TO = {
    "number": "date binary array map struct",
    "text": "array map struct",
    "boolean": "date timestamp binary array map struct",
    "date": "number boolean binary array map struct",
    "timestamp": "boolean binary array map struct",
    "binary": "number boolean date timestamp array map struct",
    "array": "number boolean date timestamp binary map struct",
    "map": "number boolean date timestamp binary array struct",
    "struct": "number boolean date timestamp binary array map",
}
UNCAST: Pairs = frozenset((one, to) for one, others in _NOT_CAST_TO.items() for to in others.split())
"""Kinds, and those to which no value of them is cast."""

_ALL = frozenset(KINDS)
CONDITION = _ALL - {"boolean", "text"}
"""Kinds that are no condition of ``where``, ``on`` and ``case``; of ``having`` Spark makes booleans."""
