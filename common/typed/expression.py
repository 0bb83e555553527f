"""What is wrong with the types, the words and the calls of one SQL expression, without Spark.

An expression whose type is not surely known has none, and nothing is said of it. The findings are told apart
by their codes: what Spark refuses; what it reads at another moment each time (``CLOCK``); what stops a query
at some values (``STOPS``); and what it takes, though it can hardly be meant (``DOUBTFUL``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

from sqlglot import exp

from common.errors import DOUBTFUL, SqlError, nearest
from common.schema.ddl import DdlError, Field, parse
from common.typed.kinds import (
    CONDITION,
    KINDS,
    NESTED,
    NOT_ADDED,
    NUMBER,
    UNCAST,
    UNCOMPARED,
    UNLIKE,
    UNMIXED,
    Pairs,
    holds,
    kind_of,
)
from common.sql.argument_counts import count_fault
from common.sql.as_written import arguments, called, counted_unit
from common.sql.functions import BY_CHANCE, FUNCTIONS, NON_DETERMINISTIC, WITHOUT_BRACKETS, Function
from common.sql.places import offset_of
from common.typed.words import (
    PATTERNS,
    UNIT_PLACES,
    WRITTEN_BY_PATTERN,
    fits,
    is_moment,
    pattern_doubts,
    pattern_faults,
    unit_fault,
)

NO_FUNCTION, CLOCK, TYPE, STOPS = "MED-1203", "MED-1205", "MED-1207", "MED-1208"
UNKNOWN = Field("", "")
_WORDS = {"text": "a string", "array": "an array"}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_NULL_SAFE = (exp.NullSafeEQ, exp.NullSafeNEQ)
_CALCULATIONS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
_LOGIC = (exp.And, exp.Or, exp.Not)
_MATCHES = (exp.Like, exp.ILike, exp.RegexpLike, exp.Escape)
_CONDITIONS = (*_COMPARISONS, *_NULL_SAFE, *_LOGIC, *_MATCHES, exp.Is, exp.In, exp.Between, exp.Exists)
_READ_AS = frozenset({"number", "date", "timestamp", "boolean"})
"""Kinds as which Spark reads a text that meets one of them."""
_TIMES = frozenset({"date", "timestamp"})
_IN_A_TEXT = frozenset({"number", "text", "boolean", "date", "timestamp"})
_AROUND = (exp.Alias, exp.Paren, exp.Filter, exp.Window, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_FEW = 4
NULL = Field("", "void")
READS_TEXTS = frozenset(
    {"to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz", "unix_timestamp", "to_unix_timestamp"}
    | {"try_to_date", "try_to_timestamp", "date", "timestamp", "to_time", "try_to_time"}
)
"""Functions that are there to read a text as a time."""
_COMPARING = frozenset({"collect_set", "max", "min", "mode", "approx_count_distinct"})
"""Aggregates that tell values apart, or order them."""
_OVER_ELEMENTS = frozenset({"transform", "filter", "exists", "forall"})
_MIXED = {
    **dict.fromkeys(("coalesce", "nvl", "ifnull", "greatest", "least", "array"), 0),
    **dict.fromkeys(("if", "nvl2"), 1),
}
"""Functions whose arguments become one type, from this one on."""

Resolve = Callable[[Sequence[str]], tuple[Field, Sequence[str]]]
"""The column that a name of one or several parts begins with, and the parts that are fields of it."""


@dataclass
class Judge:
    """Judges the parts of a text.

    Attributes:
        resolve: Finds a column; one without a type where it is not known.
        tells_fields: Whether a field of a column that there is not is told here.
        may_ask_clock: Whether an expression may depend on the moment at which it is evaluated.
        faults: What has been found.
        queries: The output columns of the queries inside, by the query's identity, as far as they are known.
    """

    resolve: Resolve
    tells_fields: bool = True
    may_ask_clock: bool = False
    faults: list[SqlError] = field(default_factory=list)
    queries: dict[int, Sequence[Field] | None] = field(default_factory=dict)
    _types: dict[int, Field] = field(default_factory=dict)

    def judge(self, node: exp.Expr) -> None:
        """Judge an expression and its parts, but not the queries inside."""
        for each in node.walk(prune=_is_query):
            self._judge_one(each)

    def condition(self, node: exp.Expr, word: str) -> None:
        """Judge what stands as a condition behind a word."""
        if kind_of(found := self.type_of(node)) in CONDITION:
            self.add(node, f"has {a(found)} as the condition of {word}; write a comparison")

    def add(self, node: exp.Expr, text: str, code: str = TYPE) -> None:
        """Note a finding at the place of a node."""
        self.faults.append(SqlError(text, at=offset_of(node), code=code))

    def type_of(self, node: exp.Expr | None) -> Field:
        """The type of an expression; without a type where it is not surely known."""
        if node is None:
            return UNKNOWN
        if id(node) not in self._types:
            self._types[id(node)] = self._type(node)
        return self._types[id(node)]

    def together(self, nodes: Iterable[exp.Expr]) -> Field:
        """The type that Spark gives to expressions of one column, such as branches of ``case``."""
        return reduce(common_type, map(self.type_of, nodes), NULL)

    def read_as(self, text: exp.Expr, kind: str, said: str, to: str) -> None:
        """Judge a text that Spark reads as a value of another kind.

        Args:
            text: The text.
            kind: The kind.
            said: What is done with it, with ``{}`` in the place of the text.
            to: The type that it gets.
        """
        text = text.unnest() if isinstance(text, exp.Paren) else text
        if not isinstance(text, exp.Literal):
            read = f"each text is read as {a_kind(kind)}, and one that is none stops the query"
            to = "double" if to in {"", NUMBER} else to
            self.add(text, f"{said.format(self.shown(text))}: {read}; write try_cast(… as {to})", STOPS)
        elif kind in _TIMES and is_moment(text.name):
            self.differs(text, f"has the time {text.name!r}")
        elif not fits(text.name, kind):
            why = f"{text.name!r} is no {kind}, so that the first row stops the query"
            self.add(text, f"{said.format(repr(text.name))}: {why}")

    def differs(self, node: exp.Expr, said: str, *, by_chance: bool = False) -> None:
        """Note what has another value each time."""
        if by_chance or not self.may_ask_clock:
            instead = "compute it from columns, as with sha2()" if by_chance else "use a column of the row instead"
            self.add(node, f"{said}, whose value differs each time; {instead}", CLOCK)

    # What is wrong with one part

    def _judge_one(self, node: exp.Expr) -> None:
        for one, other, refused, verb in self._pairs(node):
            self._meet(node, (one, other), refused, verb)
        if isinstance(node, _COMPARISONS) and (known := _beside_null(node)) is not None:
            instead = f"{_plain(known)} is {'not ' if isinstance(node, exp.NEQ) else ''}null"
            self.add(node, f"compares {_plain(known)} with null, which is never true; write {instead}", DOUBTFUL)
        if isinstance(node, _LOGIC):
            self._logic(node)
        elif isinstance(node, exp.If):
            self._branch(node)
        elif isinstance(node, exp.Dot | exp.Bracket | exp.Column):
            self._step(node)
        elif isinstance(node, exp.Cast):
            self._cast(node)
        elif isinstance(node, exp.Interval):
            self._interval(node)
        elif isinstance(node, exp.Subquery):
            self._query(node)
        elif isinstance(node, exp.Extract) and (fault := unit_fault("extract", node.name)):
            self.add(node, f"has no {node.name.lower()!r} to extract; {fault}")
        elif (name := called(node)) is not None:
            self._call(node, name)

    def _meet(self, node: exp.Expr, both: tuple[exp.Expr, exp.Expr], refused: Pairs, verb: str) -> None:
        """Judge two expressions whose types meet."""
        types = [self.type_of(each) for each in both]
        kinds = [kind_of(each) for each in types]
        elements = [kind_of(each.nested[0]) for each in types if each.kind == "array"]
        are_unlike = refused is UNCOMPARED and len(elements) == 2 and elements[0] != elements[1] and all(elements)  # noqa: PLR2004
        if (kinds[0], kinds[1]) in refused or are_unlike:
            shown = " and ".join(map(self.shown, both))
            self.add(node, f"{verb} {shown}, which Spark refuses; cast one of them")
            return
        is_sum = refused is NOT_ADDED
        for text, other in (0, 1), (1, 0):
            read_as = {"number", "text"} if is_sum else _READ_AS
            if kinds[text] == "text" and kinds[other] in read_as:
                kind = "number" if is_sum else kinds[other]
                said = f"{verb} {{}} and {self.shown(both[other])}"
                self.read_as(both[text], kind, said, types[other].type)

    def _pairs(self, node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, Pairs, str]]:
        """The expressions whose types meet in a node, the kinds that must not, and what the node does."""
        if isinstance(node, (*_COMPARISONS, *_NULL_SAFE, exp.Is)):
            yield node.this, node.expression, UNCOMPARED, "compares"
        elif isinstance(node, _CALCULATIONS):
            yield node.this, node.expression, NOT_ADDED, "calculates with"
        elif isinstance(node, exp.In):
            yield from ((node.this, each, UNCOMPARED, "compares") for each in node.expressions)
        elif isinstance(node, exp.Between):
            bounds = (node.args["low"], node.args["high"])
            yield from ((node.this, each, UNCOMPARED, "compares") for each in bounds)
        elif isinstance(node, exp.Case):
            if node.this is not None:
                yield from ((node.this, each.this, UNCOMPARED, "compares") for each in node.args["ifs"])
            yield from self._mixed(_branches(node), UNMIXED, "case")
        elif (name := called(node)) == "nullif" and len(given := arguments(node)) == 2:  # noqa: PLR2004
            yield given[0], given[1], UNCOMPARED, "compares"
        elif name in _MIXED:
            refused = UNLIKE if name in {"greatest", "least"} else UNMIXED
            yield from self._mixed(arguments(node)[_MIXED[name] :], refused, name)

    def _mixed(
        self, nodes: Sequence[exp.Expr], refused: Pairs, name: str
    ) -> Iterator[tuple[exp.Expr, exp.Expr, Pairs, str]]:
        """The first expression of a known kind with each other one."""
        known = [each for each in nodes if kind_of(self.type_of(each))]
        yield from ((known[0], each, refused, f"has in one {name}") for each in known[1:])

    def _logic(self, node: exp.Expr) -> None:
        for side in node.iter_expressions():
            kind = kind_of(self.type_of(side))
            if kind in CONDITION:
                self.add(side, f"has {self.shown(side)} as a condition; write a comparison")
            elif kind == "text":
                self.read_as(side, "boolean", "has {} as a condition", "boolean")

    def _branch(self, node: exp.If) -> None:
        is_value = isinstance(node.parent, exp.Case) and node.parent.this is not None  # CASE x WHEN value
        if not is_value and kind_of(self.type_of(node.this)) in CONDITION | {"text"}:
            self.add(node.this, f"has {self.shown(node.this)} as a condition; write a comparison")

    def _query(self, node: exp.Subquery) -> None:
        """Judge the columns of a query that stands for a value, or for the values of ``in``."""
        found, around = self.queries.get(id(node)), node.parent
        if found is None or isinstance(around, exp.Exists):
            return
        is_in = isinstance(around, exp.In)
        one = around.this if is_in and around is not None else None
        wanted = len(one.expressions) if isinstance(one, exp.Tuple) else 1
        if len(found) != wanted:
            what = f"compares {wanted} with" if is_in else "has as one value"
            self.add(node, f"{what} a query of {len(found)} columns; it needs {wanted}")
        elif one is not None and wanted == 1 and (kind_of(self.type_of(one)), kind_of(found[0])) in UNCOMPARED:
            self.add(node, f"compares {self.shown(one)} with {a(found[0])}, which Spark refuses; cast one of them")

    def _step(self, node: exp.Expr) -> None:
        """Judge a step into a column: a field, an element, the value of a key."""
        if isinstance(node, exp.Column):
            inside, steps = self.resolve([part.name for part in node.parts])
            if inside is UNKNOWN and len(node.parts) == 1 and node.name.lower() in WITHOUT_BRACKETS:
                self.differs(node, f"has {node.name.lower()}")
            for step in steps:
                self._field(node, inside, step)
                inside = into(inside, step)
        elif not self.tells_fields and _is_path(node):
            return
        elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            self._field(node.expression, self.type_of(node.this), node.expression.name)
        elif isinstance(node, exp.Bracket) and len(node.expressions) == 1:
            self._element(node, self.type_of(node.this), node.expressions[0])

    def _field(self, node: exp.Expr, inside: Field, step: str) -> None:
        """Judge a field that a value of a known type may not have."""
        of = struct_of(inside)
        if not self.tells_fields and _is_path(node):
            return
        if not kind_of(inside) or inside.kind == "map" or (of is not None and named(of.nested, step)):
            return
        whose = inside.name or "its struct"
        if of is None:
            text = f"names {step!r} of {whose}, which is {inside.type} and has no fields"
        else:
            text = f"names {step!r}, which is no field of {whose}; {nearest(step, [f.name for f in of.nested])}"
        part = next((each for each in node.find_all(exp.Identifier) if each.name == step), node)
        self.add(part, text, "MED-1202")

    def _element(self, node: exp.Bracket, inside: Field, index: exp.Expr) -> None:
        kind, by = kind_of(inside), kind_of(self.type_of(index))
        if kind and kind not in NESTED:
            self.add(node, f"takes an element of {self.shown(node.this)}, which is no array, map or struct")
        elif kind == "array" and by and by != "number":
            self.add(index, f"takes an element of {self.shown(node.this)} by {a_kind(by)}; write a number")
        elif kind == "struct" and by and by != "text":
            self.add(index, f"takes a field of {self.shown(node.this)} by {a_kind(by)}; write its name")

    def _cast(self, node: exp.Cast) -> None:
        inner, to = node.this, _parsed(_type_text(node))
        kinds = kind_of(self.type_of(inner)), kind_of(to)
        if kinds in UNCAST:
            self.add(node, f"casts {self.shown(inner)} to {to.type}, which Spark refuses")
        elif isinstance(inner, exp.Literal) and inner.is_string and kinds[1] in _READ_AS:
            is_tried = node.args.get("safe") and not is_moment(inner.name)
            if not is_tried:
                self.read_as(inner, kinds[1], f"casts {{}} to {to.type}", to.type)

    def _interval(self, node: exp.Interval) -> None:
        for unit in _units(node):
            if fault := unit_fault("interval", unit):
                self.add(node, f"has an interval of {unit.lower()!r}, which is no unit; {fault}")
        if isinstance(node.this, exp.Expr) and not isinstance(node.this, exp.Literal | exp.Neg):
            self.add(node, "has an interval of an expression; write its number as a factor: n * interval 1 day")

    def _call(self, node: exp.Expr, name: str) -> None:
        function = FUNCTIONS.get(name)
        given = arguments(node)
        if function is None:
            self.faults.append(SqlError(f"calls {name}()", name, at=offset_of(node), code=NO_FUNCTION))
        elif name in NON_DETERMINISTIC or (name == "unix_timestamp" and not given):
            self.differs(node, f"calls {name}()", by_chance=name in BY_CHANCE)
        if function is None or any(isinstance(each, exp.Star | exp.Kwarg | exp.Query) for each in given):
            return
        if (fault := count_fault(node)) is not None:
            self.faults.append(fault)
            return
        if name in _COMPARING and holds(self.type_of(given[0]), ("map", "variant")):
            self.add(node, f"calls {name}() with {self.shown(given[0])}, whose values have no order; use a field of it")
            return
        unit = counted_unit(node)
        for place, each in enumerate(given):
            if each is not unit:
                self._argument(node, function, place, each)
        if unit is not None and (fault := unit_fault("date_add", unit.name)):
            self.add(unit, f"calls {name}() with {unit.name!r}, which is no unit; {fault}")
        if (place := UNIT_PLACES.get(name)) is not None and (unit_ := _text_of(given, place)) is not None:
            if fault := unit_fault(name, unit_.name):
                self.add(unit_, f"calls {name}() with {unit_.name!r}, which is no unit: it gives null; {fault}", DOUBTFUL)
        if name in PATTERNS and (pattern := _text_of(given, 1)) is not None:
            for text in pattern_faults(pattern.name, is_read=name not in WRITTEN_BY_PATTERN):
                self.add(pattern, f"calls {name}() with {pattern.name!r}: {text}")
            for text in pattern_doubts(pattern.name):
                self.add(pattern, f"calls {name}() with {pattern.name!r}: {text}", DOUBTFUL)

    def _argument(self, node: exp.Expr, function: Function, place: int, given: exp.Expr) -> None:
        takes = function.takes[place] if place < len(function.takes) else None
        kind = kind_of(self.type_of(given))
        if takes is None or not kind:
            return
        where = "" if place == 0 else f" as argument {place + 1}"
        said = f"calls {function.name}() with {{}}{where}"
        if kind not in takes:
            self.add(node, f"{said.format(self.shown(given))}; it {_taken(takes, kind)}")
        elif kind == "text" and takes <= {"number", "text"}:
            self.read_as(given, "number", said, "double")
        elif kind == "text" and takes <= {"date", "timestamp", "text"} and function.name not in READS_TEXTS:
            self.read_as(given, "timestamp", said, "timestamp")

    # Types

    def shown(self, node: exp.Expr) -> str:
        node = node.unnest() if isinstance(node, exp.Paren) else node
        found = self.type_of(node)
        if isinstance(node, exp.Column | exp.Dot):
            return f"{node.name} ({found.type})"
        return a(found)

    def _type(self, node: exp.Expr) -> Field:  # noqa: C901, PLR0911  # a return per form
        if isinstance(node, _AROUND):
            return self.type_of(node.this)
        if isinstance(node, exp.Column):
            inside, steps = self.resolve([part.name for part in node.parts])
            return reduce(into, steps, inside)
        if isinstance(node, exp.Dot):
            return into(self.type_of(node.this), node.expression.name)
        if isinstance(node, exp.Bracket):
            return element_of(self.type_of(node.this), node.expressions)
        if isinstance(node, exp.Identifier):
            return self._parameter(node)
        if isinstance(node, exp.Literal):
            return Field("", "string") if node.is_string else _number(node.name)
        if isinstance(node, exp.Null):
            return NULL
        if isinstance(node, (exp.Boolean, *_CONDITIONS)):
            return Field("", "boolean")
        if isinstance(node, exp.Cast):
            return _parsed(_type_text(node))
        if isinstance(node, exp.DPipe):
            return _joined([self.type_of(node.this), self.type_of(node.expression)])
        if isinstance(node, _CALCULATIONS):
            kinds = {kind_of(self.type_of(side)) for side in (node.this, node.expression)}
            return Field("", NUMBER) if "number" in kinds and kinds <= {"number", "text"} else UNKNOWN
        if isinstance(node, exp.Neg):
            found = self.type_of(node.this)
            return found if kind_of(found) == "number" else UNKNOWN
        if isinstance(node, exp.Case):
            return self.together(_branches(node))
        if isinstance(node, exp.Extract):
            return Field("", NUMBER)
        if isinstance(node, exp.Subquery):
            columns = self.queries.get(id(node)) or ()
            return columns[0] if len(columns) == 1 else UNKNOWN
        return self._result(node)

    def _result(self, node: exp.Expr) -> Field:
        """The type of what a call returns."""
        name, given = called(node) or "", arguments(node)
        if counted_unit(node) is not None:
            return UNKNOWN
        if name in _MIXED:
            found = self.together(given[_MIXED[name] :])
            return _parsed(f"array<{found.type}>") if name == "array" else found
        if name == "concat":
            return _joined(list(map(self.type_of, given)))
        if name in {"element_at", "try_element_at", "get"} and len(given) == 2:  # noqa: PLR2004
            return element_of(self.type_of(given[0]), given[1:])
        function = FUNCTIONS.get(name)
        if function is None:
            return UNKNOWN
        if function.result == NUMBER:
            return Field("", NUMBER)
        if "{" not in function.result:
            return _parsed(function.result)
        types = [self.type_of(each).type for each in given]
        if not types or types[0] in {"", NUMBER}:
            return UNKNOWN
        return _parsed(function.result.format(*types))

    def _parameter(self, node: exp.Identifier) -> Field:
        """The type of a lambda's parameter: of those over one array it is known."""
        around = node.find_ancestor(exp.Lambda)
        while around is not None and node.name not in {each.name for each in around.expressions}:
            around = around.find_ancestor(exp.Lambda)
        call = around.parent if around is not None else None
        if around is None or call is None or called(call) not in _OVER_ELEMENTS:
            return UNKNOWN
        is_first = around.expressions[0].name == node.name
        return element_of(self.type_of(arguments(call)[0]), ()) if is_first else Field("", "int")


def into(inside: Field, step: str) -> Field:
    """The type of a field of a value: of an array of structs it is an array."""
    if inside.kind == "map":
        return inside.nested[1]
    if inside.kind == "struct":
        return named(inside.nested, step) or UNKNOWN
    if inside.kind == "array" and (of := struct_of(inside)) is not None:
        found = into(inside.nested[0], step)
        return Field(step, f"array<{found.type}>", (found,)) if of and found.type else UNKNOWN
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
    if inside.kind == "array":
        return inside.nested[0]
    if inside.kind == "map":
        return inside.nested[1]
    if inside.kind == "struct" and index and isinstance(index[0], exp.Literal):
        return into(inside, index[0].name)
    return UNKNOWN


def common_type(one: Field, other: Field) -> Field:
    """The type that Spark gives to two expressions of one column."""
    kinds = {kind_of(one), kind_of(other)}
    if NULL in (one, other):
        return other if one == NULL else one
    if one.type == other.type:
        return one
    return Field("", NUMBER) if "number" in kinds and kinds <= {"number", "text"} else UNKNOWN


def _joined(types: Sequence[Field]) -> Field:
    kinds = {kind_of(each) for each in types}
    if len({each.type for each in types}) == 1 and kinds <= {"text", "array"}:
        return types[0]
    return Field("", "string") if kinds <= _IN_A_TEXT else UNKNOWN


def _branches(node: exp.Case) -> list[exp.Expr]:
    """What a ``case`` may give."""
    given = [each.args["true"] for each in node.args["ifs"]]
    return [*given, node.args.get("default") or exp.null()]


def _beside_null(node: exp.Expr) -> exp.Expr | None:
    """The expression that is compared with the word ``null``."""
    sides = [node.this, node.expression]
    return next((sides[1 - at] for at, each in enumerate(sides) if isinstance(each, exp.Null)), None)


def _plain(node: exp.Expr) -> str:
    """A column as it is named; of another expression only what it is."""
    if isinstance(node, exp.Column):
        return ".".join(part.name for part in node.parts)
    return "the value"


def _is_path(node: exp.Expr) -> bool:
    """Whether a node is a column, or a step of one."""
    while isinstance(node, exp.Dot | exp.Bracket | exp.Paren):
        node = node.this
    return isinstance(node, exp.Column)


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def _text_of(given: Sequence[exp.Expr], place: int) -> exp.Literal | None:
    """The text that an argument is, where it is one."""
    found = given[place] if place < len(given) else None
    return found if isinstance(found, exp.Literal) and found.is_string else None


def _units(node: exp.Interval) -> Iterator[str]:
    """The words for units of an interval."""
    unit = node.args.get("unit")
    if unit is None and isinstance(node.this, exp.Literal):
        yield from re.findall(r"[A-Za-z]+", node.this.name)
    elif isinstance(unit, exp.Var):
        yield unit.name


def _number(digits: str) -> Field:
    if digits.isdigit() and int(digits) < 2**63:
        return Field("", "int" if int(digits) < 2**31 else "bigint")
    return Field("", NUMBER)


def _type_text(node: exp.Cast) -> str:
    text: str = node.args["to"].sql(dialect="spark")
    return text


def _parsed(text: str) -> Field:
    try:
        (found,) = parse(f"a {text}")
    except (DdlError, ValueError):
        return UNKNOWN
    return Field("", found.type, found.nested)


def a(found: Field) -> str:
    return a_kind(kind_of(found))


def a_kind(kind: str) -> str:
    return _WORDS.get(kind, f"a {kind}")


def _taken(takes: frozenset[str], kind: str) -> str:
    """What an argument may be, or, where that is nearly all, that it is not of a kind."""
    if len(takes) > _FEW:
        return f"takes no {kind}"
    return "takes " + " or ".join(a_kind(each) for each in KINDS if each in takes)
