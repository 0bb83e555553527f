"""Kinds of types, and which of them Spark refuses where; asserted against Spark by a test.

Only what Spark refuses for every type of a kind stands here: texts become numbers, dates and booleans by
themselves, and so do numbers of one another. The session checks as ANSI says, Spark's default.
"""

from __future__ import annotations

from collections.abc import Mapping

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
_TIMES = ("date", "timestamp")


NUMBER = "number"
"""The type of an expression that is surely a number, of whichever type."""


def kind_of(field: Field) -> str:
    """The kind of a column's type; empty where it is not known, or none of these."""
    return field.kind if field.kind in (*NESTED, NUMBER) else _OF_TYPE.get(field.kind, "")


def _pairs(*groups: tuple[str, str]) -> frozenset[tuple[str, str]]:
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
    ("boolean binary array map struct", "number text boolean date timestamp binary array map struct"),
)
"""Kinds that ``+``, ``-``, ``*``, ``/`` and ``%`` do not take together."""

_ALL = frozenset(KINDS)
_NESTED = frozenset(NESTED)

REFUSED: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("sum", "avg", "mean", "stddev", "variance", "abs", "round", "floor", "ceil", "sqrt"),
        _ALL - {"number", "text", "timestamp"},
    ),
    **dict.fromkeys(("max", "min"), frozenset({"map"})),
    **dict.fromkeys(("upper", "lower", "trim"), _NESTED),
    "length": _NESTED,
    **dict.fromkeys(("year", "month", "day", "quarter"), _ALL - {"date", "timestamp", "text"}),
    **dict.fromkeys(("hour", "minute", "second"), _ALL - {"date", "timestamp", "text"}),
    **dict.fromkeys(("bool_and", "bool_or", "count_if", "every", "some", "any"), _ALL - {"boolean", "text"}),
    **dict.fromkeys(("explode", "explode_outer", "posexplode", "size"), _ALL - {"array", "map"}),
    **dict.fromkeys(("sort_array", "array_max", "array_min", "array_distinct"), _ALL - {"array"}),
    **dict.fromkeys(("map_keys", "map_values", "map_entries"), _ALL - {"map"}),
}
"""Kinds that a function does not take as its first argument."""

CONDITION = _ALL - {"boolean", "text"}
"""Kinds that are no condition of ``where``, ``on`` and ``case``; of ``having`` Spark makes booleans."""
