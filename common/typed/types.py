"""The types of SQL expressions, as far as they are surely known without Spark. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from sqlglot import exp

from common.schema.ddl import DdlError, Field, examine, parse
from common.sql.functions import FUNCTIONS
from common.sql.syntax import arguments, called, counted_unit, written_type
from common.typed.kinds import NUMBER, kind_of

UNKNOWN = Field("", "")
NULL = Field("", "void")
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
NULL_SAFE = (exp.NullSafeEQ, exp.NullSafeNEQ)
CALCULATIONS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
LOGIC = (exp.And, exp.Or, exp.Not)
MIXED = {
    **dict.fromkeys(("coalesce", "nvl", "ifnull", "greatest", "least", "array"), 0),
    **dict.fromkeys(("if", "nvl2"), 1),
}
"""Functions whose arguments become one type, from this one on."""

_MATCHES = (exp.Like, exp.ILike, exp.RegexpLike, exp.Escape)
_BOOLEANS = (
    exp.Boolean,
    *COMPARISONS,
    *NULL_SAFE,
    *LOGIC,
    *_MATCHES,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Exists,
)
_AROUND = (exp.Alias, exp.Paren, exp.Filter, exp.Window, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_IN_A_TEXT = frozenset({"number", "text", "boolean", "date", "timestamp"})
_OF_AN_ELEMENT = frozenset({"element_at", "try_element_at", "get", "array_max", "array_min"})
_OVER_ELEMENTS = frozenset({"transform", "filter", "exists", "forall"})
_WORDS = {"text": "a string", "array": "an array"}

Resolve = Callable[[exp.Column], tuple[Field, Sequence[str]]]
"""The column that a name of one or several parts begins with, and the parts that are fields of it."""


@dataclass
class Types:
    """The types of the expressions of one query."""

    resolve: Resolve  # finds a column; ``UNKNOWN`` where it is not known
    # Gives the output columns of a query inside; None where they are not known.
    outputs: Callable[[exp.Expr], Sequence[Field] | None] = lambda _: None
    _known: dict[int, Field] = field(default_factory=dict)

    def type_of(self, node: exp.Expr) -> Field:
        """The type of an expression; without a type where it is not surely known."""
        if id(node) not in self._known:
            self._known[id(node)] = self._type(node)
        return self._known[id(node)]

    def kind(self, node: exp.Expr) -> str:
        """The kind of an expression's type; empty where it is not known."""
        return kind_of(self.type_of(node))

    def together(self, nodes: Iterable[exp.Expr]) -> Field:
        """The type that Spark gives to expressions of one column, such as branches of ``case``."""
        return reduce(common_type, map(self.type_of, nodes), NULL)

    def shown(self, node: exp.Expr) -> str:
        """An expression in messages: a column with its type, of another one the kind."""
        inner = node.unnest() if isinstance(node, exp.Paren) else node
        found = self.type_of(inner)
        return f"{inner.name} ({found.type})" if isinstance(inner, exp.Column | exp.Dot) else a(found)

    def _type(self, node: exp.Expr) -> Field:
        for forms, read in _READERS:
            if isinstance(node, forms):
                return read(self, node)
        return self._result(node)

    def _column(self, node: Any) -> Field:
        inside, steps = self.resolve(node)
        return reduce(into, steps, inside)

    def _calculated(self, node: exp.Expr) -> Field:
        kinds = {self.kind(side) for side in (node.this, node.expression)}
        return Field("", NUMBER) if "number" in kinds and kinds <= {"number", "text"} else UNKNOWN

    def _negative(self, node: exp.Expr) -> Field:
        return self.type_of(node.this) if self.kind(node.this) == "number" else UNKNOWN

    def _of_query(self, node: exp.Expr) -> Field:
        columns = self.outputs(node) or ()
        return columns[0] if len(columns) == 1 else UNKNOWN

    def _result(self, node: exp.Expr) -> Field:
        """The type of what a call returns."""
        name, given = called(node) or "", arguments(node)
        function = FUNCTIONS.get(name)
        if function is None or counted_unit(node) is not None:
            return UNKNOWN
        if name in MIXED:
            found = self.together(given[MIXED[name] :])
            return parsed(f"array<{found.type}>") if name == "array" else found
        if name == "concat" or (name in _OF_AN_ELEMENT and given):
            types = list(map(self.type_of, given))
            return _joined(types) if name == "concat" else element_of(types[0], given[1:])
        if "{0}" not in function.result:
            return Field("", NUMBER) if function.result == NUMBER else parsed(function.result)
        first = self.type_of(given[0]).type if given else ""
        return UNKNOWN if first in {"", NUMBER} else parsed(function.result.replace("{0}", first))

    def _parameter(self, node: exp.Expr) -> Field:
        """The type of a lambda's parameter: of those over one array it is known."""
        around = node.find_ancestor(exp.Lambda)
        while around is not None and node.name not in {each.name for each in around.expressions}:
            around = around.find_ancestor(exp.Lambda)
        call = around.parent if around is not None else None
        if around is None or call is None or called(call) not in _OVER_ELEMENTS:
            return UNKNOWN
        is_element = around.expressions[0].name == node.name
        return element_of(self.type_of(arguments(call)[0])) if is_element else Field("", "int")


_READERS: Sequence[tuple[tuple[type[exp.Expr], ...], Callable[[Types, exp.Expr], Field]]] = (
    (_AROUND, lambda types, node: types.type_of(node.this)),
    ((exp.Column,), Types._column),  # noqa: SLF001  # of this module
    ((exp.Dot,), lambda types, node: into(types.type_of(node.this), node.expression.name)),
    ((exp.Bracket,), lambda types, node: element_of(types.type_of(node.this), node.expressions)),
    ((exp.Identifier,), Types._parameter),  # noqa: SLF001
    ((exp.Literal,), lambda _, node: Field("", "string") if node.is_string else _number(node.name)),
    ((exp.Null,), lambda *_: NULL),
    (_BOOLEANS, lambda *_: Field("", "boolean")),
    ((exp.Cast,), lambda _, node: cast_type(node)),
    ((exp.DPipe,), lambda types, node: _joined([*map(types.type_of, (node.this, node.expression))])),
    (CALCULATIONS, Types._calculated),  # noqa: SLF001
    ((exp.Neg,), Types._negative),  # noqa: SLF001
    ((exp.Case,), lambda types, node: types.together(branches(node))),
    ((exp.Extract,), lambda *_: Field("", NUMBER)),
    ((exp.Subquery,), Types._of_query),  # noqa: SLF001
)
"""What gives the type of an expression, by its form; a call is none of them."""


def branches(node: exp.Expr) -> list[exp.Expr]:
    """What a ``case`` may give."""
    given = [each.args["true"] for each in node.args["ifs"]]
    return [*given, node.args.get("default") or exp.null()]


def into(inside: Field, step: str) -> Field:
    """The type of a field of a value: of an array of structs it is an array."""
    if inside.kind == "map":
        return inside.nested[1]
    if inside.kind == "struct":
        return named(inside.nested, step) or UNKNOWN
    if inside.kind == "array" and struct_of(inside) is not None:
        found = into(inside.nested[0], step)
        return Field(step, f"array<{found.type}>", (found,)) if found.type else UNKNOWN
    return UNKNOWN


def struct_of(found: Field) -> Field | None:
    """The struct that a value is, or that an array has as its elements."""
    while found.kind == "array":
        found = found.nested[0]
    return found if found.kind == "struct" else None


def named(fields: Iterable[Field], name: str) -> Field | None:
    """The field of a name, as Spark compares names."""
    return next((each for each in fields if each.name.lower() == name.lower()), None)


def element_of(inside: Field, index: Sequence[exp.Expr] = ()) -> Field:
    """The type of an element of an array, of a map's values, or of a struct's field by its name."""
    if inside.kind == "array":
        return inside.nested[0]
    if inside.kind == "map":
        return inside.nested[1]
    is_field = inside.kind == "struct" and bool(index) and isinstance(index[0], exp.Literal)
    return into(inside, index[0].name) if is_field else UNKNOWN


def common_type(one: Field, other: Field) -> Field:
    """The type that Spark gives to two expressions of one column."""
    if NULL in (one, other):
        return other if one == NULL else one
    if one.type == other.type:
        return one
    kinds = {kind_of(one), kind_of(other)}
    return Field("", NUMBER) if "number" in kinds and kinds <= {"number", "text"} else UNKNOWN


def _joined(types: Sequence[Field]) -> Field:
    kinds = {kind_of(each) for each in types}
    if len({each.type for each in types}) == 1 and kinds <= {"text", "array"}:
        return types[0]
    return Field("", "string") if kinds <= _IN_A_TEXT else UNKNOWN


def _number(digits: str) -> Field:
    if digits.isdigit() and int(digits) < 2**63:
        return Field("", "int" if int(digits) < 2**31 else "bigint")
    return Field("", NUMBER)


def parsed(text: str) -> Field:
    """The type of a text of DDL; ``UNKNOWN`` where it is none."""
    try:
        (found,) = parse(f"a {text}")
    except (DdlError, ValueError):
        return UNKNOWN
    return Field("", found.type, found.nested)


def cast_type(node: exp.Expr) -> Field:
    """The type to which a value is cast; ``UNKNOWN`` where it is none."""
    return parsed(written_type(node) or node.args["to"].sql(dialect="spark"))


def type_faults(text: str) -> Iterator[str]:
    """What is wrong with a text that is to be a type."""
    for fault in examine(f"a {text}")[1]:
        has_grammar = fault.startswith("the schema")
        told = f"{text!r} is none of Spark's; write it like array<int>, map<string, int> or struct<a: int>"
        yield told if has_grammar else re.sub(r"^field '.*?': ", "", fault)


def a(found: Field) -> str:
    """A type's kind in messages."""
    return a_kind(kind_of(found))


def a_kind(kind: str) -> str:
    """A kind in messages."""
    return _WORDS.get(kind, f"a {kind}")
