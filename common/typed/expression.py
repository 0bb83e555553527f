"""What is wrong with the types, the words and the calls of one SQL expression, without Spark.

Of an expression whose type is not surely known nothing is said. The findings are told apart by their codes:
what Spark refuses; what has another value each time (``CLOCK``); what stops a query at some values
(``STOPS``); and what Spark takes, though it can hardly be meant (``DOUBTFUL``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isinf
from typing import Any

from sqlglot import exp

from common.errors import DOUBTFUL, SqlError, nearest
from common.schema.ddl import MOST_DIGITS, Field
from common.sql.expression import differs_each_time
from common.sql.functions import (
    BY_CHANCE,
    FUNCTIONS,
    MANY,
    OF_TIME,
    WITHOUT_BRACKETS,
    Function,
)
from common.sql.syntax import arguments, called, counted_unit, from_interval, offset_of, written_type
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
from common.typed.types import (
    CALCULATIONS,
    COMPARISONS,
    LOGIC,
    MIXED,
    NULL_SAFE,
    UNKNOWN,
    Types,
    a,
    a_kind,
    branches,
    cast_type,
    into,
    named,
    struct_of,
    type_faults,
)
from common.typed.words import (
    PATTERNS,
    READS_TIMES,
    UNIT_PLACES,
    WRITTEN_BY_PATTERN,
    fits,
    interval_faults,
    is_moment,
    length_fault,
    pattern_doubts,
    pattern_faults,
    unit_fault,
)

NO_FUNCTION, CLOCK, TYPE, STOPS = "MED-1203", "MED-1205", "MED-1207", "MED-1208"
READ_AS = frozenset({"number", "date", "timestamp", "boolean"})
"""Kinds as which Spark reads a text that meets one of them."""
_TIMES = frozenset({"date", "timestamp"})
_LITERALS = frozenset({"date", "time", "timestamp", "timestamp_ntz"})
"""Types of which a literal may be written as a text behind them."""
_COMPARING = frozenset({"collect_set", "max", "min", "mode", "approx_count_distinct"})
"""Aggregates that tell values apart, or order them."""
_PAIRED = frozenset({"map", "named_struct"})
"""Functions whose arguments come in pairs."""
_FEW = 4
"""More kinds than that are told by the one that is not among them."""
_Meeting = tuple[exp.Expr, exp.Expr, Pairs, str]


@dataclass
class Judge(Types):
    """Judges the expressions of one query."""

    tells_fields: bool = True  # whether a field of a column that there is not is told here
    may_ask_clock: bool = False  # whether an expression may depend on the moment at which it is evaluated
    faults: list[SqlError] = field(default_factory=list)  # what has been found

    def judge(self, node: exp.Expr) -> None:
        """Judge an expression and its parts, but not the queries inside."""
        for each in node.walk(prune=lambda one: isinstance(one, exp.Query)):
            for one, other, refused, verb in self._meetings(each):
                self._meet(each, (one, other), refused, verb)
            self._nulls(each)
            for form, look in _LOOKS:
                if isinstance(each, form):
                    look(self, each)
            if (name := called(each)) is not None:
                self._call(each, name)

    def condition(self, node: exp.Expr, word: str) -> None:
        """Judge what stands as a condition behind a word."""
        if self.kind(node) in CONDITION:
            self.add(node, f"has {a(self.type_of(node))} as the condition of {word}; write a comparison")

    def add(self, node: exp.Expr, text: str, code: str = TYPE) -> None:
        """Note a finding at the place of a node."""
        self.faults.append(SqlError(text, at=offset_of(node), code=code))

    # Where types meet

    def _meetings(self, node: exp.Expr) -> Iterator[_Meeting]:
        """The expressions whose types meet in a node, the kinds that must not, and what the node does."""
        if isinstance(node, (*COMPARISONS, *NULL_SAFE, exp.Is)):
            yield node.this, node.expression, UNCOMPARED, "compares"
        elif isinstance(node, CALCULATIONS):
            yield node.this, node.expression, NOT_ADDED, "calculates with"
        elif isinstance(node, exp.In):
            yield from ((node.this, each, UNCOMPARED, "compares") for each in node.expressions)
        elif isinstance(node, exp.Between):
            bounds = (node.args["low"], node.args["high"])
            yield from ((node.this, each, UNCOMPARED, "compares") for each in bounds)
        elif isinstance(node, exp.Case):
            values = [each.this for each in node.args["ifs"]] if node.this is not None else []
            yield from ((node.this, each, UNCOMPARED, "compares") for each in values)
            yield from self._mixed(branches(node), UNMIXED, "case")
        elif (name := called(node)) == "nullif":
            yield from ((arguments(node)[0], each, UNCOMPARED, "compares") for each in arguments(node)[1:])
        elif name in MIXED:
            refused = UNLIKE if name in {"greatest", "least"} else UNMIXED
            yield from self._mixed(arguments(node)[MIXED[name] :], refused, name)

    def _mixed(self, nodes: Sequence[exp.Expr], refused: Pairs, name: str) -> Iterator[_Meeting]:
        """The first expression of a known kind with each other one."""
        known = [each for each in nodes if self.kind(each)]
        yield from ((known[0], each, refused, f"has in one {name}") for each in known[1:])

    def _meet(self, node: exp.Expr, both: tuple[exp.Expr, exp.Expr], refused: Pairs, verb: str) -> None:
        """Judge two expressions whose types meet."""
        kinds = self.kind(both[0]), self.kind(both[1])
        if kinds in refused or (refused is UNCOMPARED and _have_unlike_elements(*map(self.type_of, both))):
            shown = " and ".join(map(self.shown, both))
            self.add(node, f"{verb} {shown}, which Spark refuses; cast one of them")
            return
        is_sum = refused is NOT_ADDED
        for text, other in (0, 1), (1, 0):
            if kinds[text] == "text" and kinds[other] in ({"number", "text"} if is_sum else READ_AS):
                said = f"{verb} {{}} and {self.shown(both[other])}"
                kind = "number" if is_sum else kinds[other]
                self.read_as(both[text], kind, said, self.type_of(both[other]).type)

    def read_as(self, text: exp.Expr, kind: str, said: str, to: str) -> None:
        """Judge a text that Spark reads as a value of another kind.

        Args:
            said: What is done with it, with ``{}`` in the place of the text.
        """
        text = text.unnest() if isinstance(text, exp.Paren) else text
        if not isinstance(text, exp.Literal):
            read = f"each text is read as {a_kind(kind)}, and one that is none stops the query"
            to = "double" if to in {"", NUMBER, "string"} else to
            self.add(text, f"{said.format(self.shown(text))}: {read}; write try_cast(… as {to})", STOPS)
        elif kind in _TIMES and is_moment(text.name):
            self._differs(text, f"has the time {text.name!r}")
        elif not fits(text.name, kind):
            why = f"{text.name!r} is no {kind}, so that the first row stops the query"
            self.add(text, f"{said.format(repr(text.name))}: {why}")

    def _nulls(self, node: exp.Expr) -> None:
        """Judge comparisons with the word ``null``, which are never true."""
        if isinstance(node, COMPARISONS):
            sides = node.this, node.expression
            for side, other in (sides, sides[::-1]):
                if isinstance(other, exp.Null) and not isinstance(side, exp.Null):
                    what = _plain(side)
                    instead = f"{what} is {'not ' if isinstance(node, exp.NEQ) else ''}null"
                    text = f"compares {what} with null, which is never true; write {instead}"
                    self.add(node, text, DOUBTFUL)
        elif isinstance(node, exp.In) and any(isinstance(each, exp.Null) for each in node.expressions):
            is_alone, is_not = len(node.expressions) == 1, isinstance(node.parent, exp.Not)
            if is_alone or is_not:
                text = (
                    f"compares {_plain(node.this)} with null in a list, which is never true; leave null out"
                )
                self.add(node, text, DOUBTFUL)

    def _differs(self, node: exp.Expr, said: str, *, by_chance: bool = False) -> None:
        """Note what has another value each time."""
        instead = "use a column of the row instead"
        if called(node) == "aes_encrypt":
            call = "aes_encrypt(value, key, 'GCM', 'DEFAULT', unhex(left(sha2(id, 256), 24)))"
            instead = f"give it an initialisation vector of the row: {call}"
        elif by_chance:
            instead = "compute it from columns, as with sha2()"
        if by_chance or not self.may_ask_clock:
            self.add(node, f"{said}, whose value differs each time; {instead}", CLOCK)

    # Conditions, fields, casts

    def _logic(self, node: exp.Expr) -> None:
        for side in node.iter_expressions():
            if self.kind(side) in CONDITION:
                self.add(side, f"has {self.shown(side)} as a condition; write a comparison")
            elif self.kind(side) == "text":
                self.read_as(side, "boolean", "has {} as a condition", "boolean")

    def _branch(self, node: exp.Expr) -> None:
        is_value = isinstance(node.parent, exp.Case) and node.parent.this is not None  # CASE x WHEN value
        if not is_value and self.kind(node.this) in CONDITION | {"text"}:
            self.add(node.this, f"has {self.shown(node.this)} as a condition; write a comparison")

    def _subquery(self, node: exp.Expr) -> None:
        """Judge the columns of a query that stands for a value, or for the values of ``in``."""
        found, around = self.outputs(node), node.parent
        if found is None or isinstance(around, exp.Exists):
            return
        one = around.this if isinstance(around, exp.In) else None
        wanted = len(one.expressions) if isinstance(one, exp.Tuple) else 1
        if len(found) != wanted:
            what = "has as one value" if one is None else f"compares {wanted} with"
            self.add(node, f"{what} a query of {len(found)} columns; it needs {wanted}")
        elif one is not None and wanted == 1 and (self.kind(one), kind_of(found[0])) in UNCOMPARED:
            both = f"{self.shown(one)} with {a(found[0])}"
            self.add(node, f"compares {both}, which Spark refuses; cast one of them")

    def _name(self, node: Any) -> None:
        inside, steps = self.resolve(node)
        if inside is UNKNOWN and len(node.parts) == 1 and node.name.lower() in WITHOUT_BRACKETS:
            self._differs(node, f"has {node.name.lower()}")
        for step in steps if self.tells_fields else ():
            self._field(node, inside, step)
            inside = into(inside, step)

    def _dot(self, node: exp.Expr) -> None:
        if isinstance(node.expression, exp.Identifier) and (self.tells_fields or not _is_path(node)):
            self._field(node.expression, self.type_of(node.this), node.expression.name)

    def _field(self, node: exp.Expr, inside: Field, step: str) -> None:
        """Judge a field that a value of a known type may not have."""
        of = struct_of(inside)
        if not kind_of(inside) or inside.kind == "map" or (of is not None and named(of.nested, step)):
            return
        whose = inside.name or "its struct"
        if of is None:
            text = f"names {step!r} of {whose}, which is {inside.type} and has no fields"
        else:
            advice = nearest(step, [each.name for each in of.nested])
            text = f"names {step!r}, which is no field of {whose}; {advice}"
        part = next((each for each in node.find_all(exp.Identifier) if each.name == step), node)
        self.add(part, text, "MED-1202")

    def _of_variant(self, node: exp.Expr) -> None:
        kind = self.type_of(node.this).kind
        is_part = bool(node.args.get("variant_extract")) and not isinstance(node.this, exp.Literal)
        if is_part and kind not in {"", "variant", NUMBER}:
            self.add(node, f"takes a part by a:b of {self.shown(node.this)}, which is no variant; write a.b")

    def _bracket(self, node: exp.Expr) -> None:
        if len(node.expressions) != 1 or not (self.tells_fields or not _is_path(node)):
            return
        (index,) = node.expressions
        kind, by, whose = self.kind(node.this), self.kind(index), self.shown(node.this)
        if kind and kind not in NESTED:
            self.add(node, f"takes an element of {whose}, which is no array, map or struct")
        elif kind == "array" and by not in {"", "number"}:
            self.add(index, f"takes an element of {whose} by {a_kind(by)}; write a number")
        elif kind == "struct" and by not in {"", "text"}:
            self.add(index, f"takes a field of {whose} by {a_kind(by)}; write its name")

    def _cast(self, node: exp.Expr) -> None:
        inner, to, shown = node.this, cast_type(node), written_type(node)
        kind = kind_of(to)
        for fault in type_faults(shown) if shown and to is UNKNOWN else ():
            self.add(node, f"casts to a type that Spark does not have: {fault}")
        is_literal = type(node) is exp.Cast and isinstance(inner, exp.Literal) and bool(shown)
        if is_literal and to is not UNKNOWN and to.kind not in _LITERALS:
            self.add(
                node, f"has a literal {shown} '…', which Spark does not have; write cast('…' as {shown})"
            )
        if (self.kind(inner), kind) in UNCAST:
            self.add(node, f"casts {self.shown(inner)} to {to.type}, which Spark refuses")
            return
        text = _text(inner)
        is_tried = text is not None and bool(node.args.get("safe")) and not is_moment(text)
        if text is not None and kind in READ_AS and not is_tried:
            self.read_as(inner, kind, f"casts {{}} to {to.type}", to.type)

    def _digits(self, node: exp.Expr) -> None:
        if node.is_string:
            return
        whole, _, part = node.name.lstrip("0").partition(".")
        if f"{whole}{part}".isdigit() and len(whole) + len(part) > MOST_DIGITS:
            self.add(node, f"has a number of more than {MOST_DIGITS} digits, which Spark does not have")
        elif not f"{whole}{part}".isdigit() and isinf(float(node.name)):
            self.add(node, f"has the number {node.name}, which is beyond those of a double")

    def _interval(self, node: exp.Expr) -> None:
        for fault in interval_faults(from_interval(node)):
            self.add(node, f"has an interval {fault}")
        if isinstance(node.this, exp.Expr) and not isinstance(node.this, exp.Literal | exp.Neg):
            text = "has an interval of an expression; write its number as a factor: n * interval 1 day"
            self.add(node, text)

    def _extract(self, node: exp.Expr) -> None:
        if advice := unit_fault("extract", node.name):
            self.add(node, f"has no {node.name.lower()!r} to extract; {advice}")

    # Calls

    def _call(self, node: exp.Expr, name: str) -> None:
        function, given = FUNCTIONS.get(name), arguments(node)
        if function is None:
            text = f"calls {name}(), which Spark does not have{_like(name, len(given))}"
            self.faults.append(SqlError(text, name, at=offset_of(node), code=NO_FUNCTION))
            return
        if differs_each_time(name, given):
            self._differs(node, f"calls {name}()", by_chance=name in BY_CHANCE)
        if (fault := _count_fault(function, given)) is not None:
            self.faults.append(SqlError(fault, name, at=offset_of(node), code=TYPE))
        elif name in _COMPARING and given and holds(self.type_of(given[0]), ("map", "variant")):
            shown = self.shown(given[0])
            self.add(node, f"calls {name}() with {shown}, whose values have no order; use a field of it")
        else:
            unit = counted_unit(node)
            for place, each in enumerate(given):
                if each is not unit:
                    self._argument(node, function, place, each)
            self._words_of(name, given, unit)

    def _argument(self, node: exp.Expr, function: Function, place: int, given: exp.Expr) -> None:
        takes, casts = function.argument(place)
        kind = self.kind(given)
        if takes is None or not kind:
            return
        said = f"calls {function.name}() with {{}}" + (f" as argument {place + 1}" if place else "")
        if kind not in takes:
            self.add(node, f"{said.format(self.shown(given))}; it {_taken(takes, kind)}")
        elif kind == "text" and casts:
            to = "double" if casts == "number" else casts
            self.read_as(given, casts, said, to)

    def _words_of(self, name: str, given: Sequence[exp.Expr], unit: exp.Expr | None) -> None:
        """Judge the words that a function reads in its texts: units, patterns, lengths, moments."""
        if unit is not None and (advice := unit_fault("date_add", unit.name)):
            self.add(unit, f"calls {name}() with {unit.name!r}, which is no unit; {advice}")
        for place, each in enumerate(given):
            if (text := _text(each)) is None:
                continue
            said = f"calls {name}() with {text!r}"
            if name in READS_TIMES and len(given) == 1 and is_moment(text):
                self._differs(each, f"has the time {text!r}")
            elif UNIT_PLACES.get(name, (-1,))[0] == place:
                self._unit(each, name, said)
            elif name in PATTERNS and place == 1:
                for why in pattern_faults(text, is_read=name not in WRITTEN_BY_PATTERN):
                    self.add(each, f"{said}: {why}")
                for why in pattern_doubts(text):
                    self.add(each, f"{said}: {why}", DOUBTFUL)
            elif name in OF_TIME and place and (fault := length_fault(text)):
                self.add(each, f"{said}, {fault}")

    def _unit(self, text: exp.Expr, name: str, said: str) -> None:
        """Judge a text that is a unit of time."""
        _, form, code = UNIT_PLACES[name]
        if advice := unit_fault(form, text.name):
            why = "which is no unit" + (": it gives null" if code else "")
            self.add(text, f"{said}, {why}; {advice}", code or TYPE)


_LOOKS = (
    (LOGIC, Judge._logic),  # noqa: SLF001  # of this module
    (exp.If, Judge._branch),  # noqa: SLF001
    (exp.Subquery, Judge._subquery),  # noqa: SLF001
    (exp.Column, Judge._name),  # noqa: SLF001
    (exp.Dot, Judge._dot),  # noqa: SLF001
    (exp.JSONExtract, Judge._of_variant),  # noqa: SLF001
    (exp.Bracket, Judge._bracket),  # noqa: SLF001
    (exp.Literal, Judge._digits),  # noqa: SLF001
    (exp.Cast, Judge._cast),  # noqa: SLF001
    (exp.Interval, Judge._interval),  # noqa: SLF001
    (exp.Extract, Judge._extract),  # noqa: SLF001
)
"""What is looked at in an expression, by its form."""


def _count_fault(function: Function, given: Sequence[exp.Expr]) -> str | None:
    """What is wrong with the number of arguments of a call; None where nothing is known to be."""
    least, most, number = function.least, function.most, len(given)
    is_paired = function.name in _PAIRED
    if any(isinstance(each, exp.Star | exp.Kwarg | exp.Query) for each in given) or (
        least <= number <= most and not (is_paired and number % 2)
    ):
        return None
    wanted = str(least) if least == most else f"{least} or more" if most == MANY else f"{least} to {most}"
    wanted = "pairs of a name or key and a value" if is_paired else wanted
    hint = "; count(*) counts rows" if function.name == "count" else ""
    return (
        f"calls {function.name}() with {number} argument{'' if number == 1 else 's'}; it takes {wanted}{hint}"
    )


def _like(name: str, given: int) -> str:
    """The function most like a name, of those that take so many arguments."""
    fitting = [each.name for each in FUNCTIONS.values() if each.least <= given <= each.most]
    near = get_close_matches(name, fitting, n=1, cutoff=0.8)
    return f"; did you mean {near[0]!r}?" if near else ""


def _have_unlike_elements(one: Field, other: Field) -> bool:
    """Whether two types are arrays whose elements are surely of two kinds."""
    if one.kind != "array" or other.kind != "array":
        return False
    kinds = {kind_of(one.nested[0]), kind_of(other.nested[0])}
    return len(kinds) == 2 and "" not in kinds  # noqa: PLR2004


def _plain(node: exp.Expr) -> str:
    """A column as it is named; of another expression only what it is."""
    return ".".join(part.name for part in node.parts) if isinstance(node, exp.Column) else "the value"


def _is_path(node: exp.Expr) -> bool:
    """Whether a node is a column, or a step of one."""
    while isinstance(node, exp.Dot | exp.Bracket | exp.Paren):
        node = node.this
    return isinstance(node, exp.Column)


def _text(node: exp.Expr) -> str | None:
    """The text that an expression is, where it is one."""
    return node.name if isinstance(node, exp.Literal) and node.is_string else None


def _taken(takes: frozenset[str], kind: str) -> str:
    """What an argument may be, or, where that is nearly all, that it is not of a kind."""
    if len(takes) > _FEW:
        return f"takes no {kind}"
    return "takes " + " or ".join(a_kind(each) for each in KINDS if each in takes)
