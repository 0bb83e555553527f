"""Static analysis of a Spark SQL expression: its columns and functions, without Spark and without data.

Names are not resolved: whether a column exists is checked by ``orchestration.author.check.visible_columns``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import TokenType, exp
from sqlglot.errors import TokenError

from common.errors import SqlError
from common.sql.functions import (
    AGGREGATES,
    BY_ORDER,
    GENERATORS,
    NON_DETERMINISTIC,
    OF_TIME,
    WINDOWS,
    WITHOUT_BRACKETS,
)
from common.sql.reading import expression
from common.sql.syntax import (
    arguments,
    called,
    calls_of,
    counted_unit,
    fields_in,
    in_depth,
    inner_call,
    is_over,
    replaced,
    span_of,
    text_of,
    tokens_of,
)

Path = tuple[str, ...]
"""A column and the fields accessed in it: ``properties.time`` is ``("properties", "time")``."""

ELEMENT = "[]"
"""The step of a path into an array or map by an index that is no string literal."""

_PLAIN = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", re.ASCII)
_CLOCKS = WITHOUT_BRACKETS - {"user"}
"""Functions by their names alone; ``user`` is a usual name of a column."""
_LITERALS = {"true", "false", "null"} | _CLOCKS


@dataclass(frozen=True, slots=True)
class Facts:
    """Columns, functions and properties of a SQL expression; names in the order of the text, each once."""

    columns: tuple[Path, ...] = ()  # every column it refers to
    outside_aggregates: tuple[Path, ...] = ()  # columns that are referred to outside of all aggregates
    path: Path | None = None  # the column, where the expression is nothing but a column
    functions: tuple[str, ...] = ()  # names of functions, lower-case
    aggregates: tuple[str, ...] = ()  # aggregate functions without ``over``
    nested: tuple[str, ...] = ()  # aggregates inside aggregates
    distinct: tuple[str, ...] = ()  # aggregates over ``distinct``
    windows: tuple[str, ...] = ()  # functions with ``over``, and window functions without it
    generators: tuple[str, ...] = ()  # functions that return any number of rows, such as ``explode``
    non_deterministic: tuple[str, ...] = ()  # functions whose value differs when a row is read again
    subquery: bool = False  # whether the expression contains a ``select``
    star: bool = False  # whether the expression is ``*`` or ``a.*``
    alias: str | None = None  # the name after a final ``as``


def analyze(sql: str) -> Facts:
    """The facts of one SQL expression.

    Raises:
        SqlError: The text is not one expression; names the word at which parsing fails.
    """
    text = sql.strip()
    if _PLAIN.match(text) and text.lower() not in _LITERALS:
        # Spark lets nearly every keyword be a column; the parser below does not.
        plain = tuple(text.split("."))
        return Facts(columns=(plain,), outside_aggregates=(plain,), path=plain)
    root = expression(sql)
    alias = root.alias if isinstance(root, exp.Alias) else None
    root = root.this if isinstance(root, exp.Alias) else root
    reader = _Reader()
    with in_depth():
        reader.visit(root)
        column = path_of(root)
    found = {
        name: tuple(dict.fromkeys(getattr(reader, name))) for name in _Reader.__slots__ if name != "subquery"
    }
    star = bool(root.is_star)
    path = None if star or reader.non_deterministic else column
    return Facts(**found, subquery=reader.subquery, path=path, star=star, alias=alias)


def differs_each_time(name: str, given: Sequence[exp.Expr]) -> bool:
    """Whether a call may have another value when its row is read again."""
    if name == "aes_encrypt":
        mode, vector = ([*given, *[None] * 5][place] for place in (2, 4))
        is_without = mode is not None and mode.name.upper() == "ECB"
        return not is_without and (vector is None or (isinstance(vector, exp.Literal) and not vector.name))
    return name in NON_DETERMINISTIC or (name == "unix_timestamp" and not given)


def non_deterministic_in(sql: str) -> frozenset[str]:
    """The names of the functions in an expression that may have another value when its row is read again."""
    try:
        return frozenset(analyze(sql).non_deterministic)
    except SqlError:
        return frozenset()


def called_in(sql: str) -> frozenset[str]:
    """The names of all functions that an expression calls; none of one that cannot be read."""
    try:
        found = analyze(sql)
    except SqlError:
        return frozenset()
    return frozenset((*found.functions, *found.aggregates, *found.windows, *found.non_deterministic))


def window_times(sql: str) -> tuple[str, ...]:
    """SQL texts of the times of which an expression makes windows: the first argument of ``window(…)``.

    Raises:
        SqlError: The text is not one expression.
    """
    return tuple(dict.fromkeys(text_of(sql, arguments(call)[0]) for call in windows_of(sql)))


def has_sliding_window(sql: str) -> bool:
    """Whether an expression has ``window(…)`` with a slide, which gives several rows for one.

    Raises:
        SqlError: The text is not one expression.
    """
    given = ([text_of(sql, each) for each in arguments(call)] for call in windows_of(sql))
    return any(len(texts) > 2 and texts[1] != texts[2] for texts in given)  # noqa: PLR2004


def null_for_null_times(sql: str) -> str:
    """The same expression, but null where the time of one of its windows is null.

    Spark leaves out a row whose ``window(time, …)`` has no time. Here the window is made of another time,
    and the result is null.
    """
    try:
        times = [
            span
            for call in windows_of(sql)
            if called(call) == "window" and (span := span_of(arguments(call)[0])) is not None
        ]
    except SqlError:
        return sql
    if not times:
        return sql
    # A date becomes a timestamp of the time's own type, with or without a zone.
    pieces = {start: (end, f"coalesce({sql[start:end]}, date'1970-01-01')") for start, end in times}
    known = " and ".join(f"({sql[start:end]}) is not null" for start, end in sorted(times))
    return f"case when {known} then {replaced(sql, pieces)} end"


def with_names(sql: str, names: Mapping[str, str], *, is_quoted: bool = False) -> str:
    """The same expression with other texts in the place of plain columns, by their names in small letters.

    A field of that name, as in ``a.name``, and a function stay as they are; with ``is_quoted`` every word
    that has no backquotes.
    """
    if not any(name in sql.lower() for name in names):
        return sql
    try:
        tokens = tokens_of(sql)
    except TokenError:
        return sql
    pieces, fields = {}, fields_in(tokens)
    kinds = {TokenType.IDENTIFIER} if is_quoted else {TokenType.VAR, TokenType.IDENTIFIER}
    for place, token in enumerate(tokens):
        is_call = place + 1 < len(tokens) and tokens[place + 1].token_type == TokenType.L_PAREN
        is_name = token.token_type in kinds and token.start not in fields
        if is_name and not is_call and token.text.lower() in names:
            pieces[token.start] = (token.end + 1, names[token.text.lower()])
    return replaced(sql, pieces)


_BY_ARRIVAL = BY_ORDER & (AGGREGATES - {"collect_set", "max_by", "min_by", "mode"})
_IGNORES_ORDER = frozenset(
    {"array_contains", "array_max", "array_min", "array_sort", "sort_array"}
    | {"array_size", "cardinality", "size"}
)


def aggregates_by_arrival(sql: str) -> tuple[str, ...]:
    """Aggregates whose value depends on the order in which Spark reads the rows: ``first``, ``collect_list``.

    Not one that is sorted or only measured around it, such as ``sort_array(collect_list(x))``, nor one with
    ``within group (order by …)``.

    Raises:
        SqlError: The text is not one expression.
    """
    found = (
        name for name, call in calls_of(expression(sql)) if name in _BY_ARRIVAL and not _is_ordered(call)
    )
    return tuple(dict.fromkeys(found))


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an expression calls an aggregate over groups; a query inside has groups of its own."""
    parts = node.walk(prune=lambda one: isinstance(one, exp.Query))
    return any(called(each) in AGGREGATES and not is_over(each) for each in parts)


def _is_ordered(call: exp.Expr) -> bool:
    around = call.parent
    while around is not None:
        if isinstance(around, exp.WithinGroup) or called(around) in _IGNORES_ORDER:
            return True
        around = around.parent
    return False


def windows_of(sql: str) -> list[exp.Expr]:
    """The calls of ``window(…)`` and ``session_window(…)`` in an expression.

    Raises:
        SqlError: The text is not one expression.
    """
    if "window" not in sql.lower():
        return []
    return [call for name, call in calls_of(expression(sql)) if name in OF_TIME and arguments(call)]


@dataclass(slots=True)
class _Reader:
    columns: list[Path] = field(default_factory=list)
    outside_aggregates: list[Path] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    aggregates: list[str] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    distinct: list[str] = field(default_factory=list)
    windows: list[str] = field(default_factory=list)
    generators: list[str] = field(default_factory=list)
    non_deterministic: list[str] = field(default_factory=list)
    subquery: bool = False

    def visit(self, node: exp.Expr, bound: frozenset[str] = frozenset(), inside: str | None = None) -> None:
        """Collect facts from a node and its descendants, inside of an aggregate.

        Parameters of the enclosing lambdas, ``bound``, lower-case, are no columns.
        """
        if isinstance(node, exp.Query):
            self.subquery = True
            return
        path = path_of(node)
        if path is not None:
            self._column(node, path, bound, inside)
            return
        if isinstance(node, exp.Lambda):
            bound |= {variable.name.lower() for variable in node.expressions}
        if isinstance(node, exp.Window):
            self._window(node, bound, inside)
            return
        inside = self._function(node, inside)
        unit = counted_unit(node)
        for child in node.iter_expressions():
            is_of_call = child is not node.this and isinstance(node, exp.Filter | exp.WithinGroup)
            if child is not unit:
                self.visit(child, bound, called(inner_call(node)) if is_of_call else inside)

    def _column(self, node: exp.Expr, path: Path, bound: frozenset[str], inside: str | None) -> None:
        if len(path) == 1 and path[0].lower() in _CLOCKS and not getattr(node.this, "quoted", True):
            self.functions.append(path[0].lower())
            self.non_deterministic.append(path[0].lower())
        elif path[0].lower() not in bound:
            self.columns.append(path)
            if inside is None:
                self.outside_aggregates.append(path)
        for each in node.walk():
            for index in (_element(each) or ())[1:]:
                self.visit(index, bound, inside)

    def _window(self, node: exp.Window, bound: frozenset[str], inside: str | None) -> None:
        around: exp.Expr = node
        self.windows.append(called(call := inner_call(node)) or call.key)
        while around is not call:
            for part in around.iter_expressions():
                if part is not around.this:
                    self.visit(part, bound, inside)
            around = around.this
        for part in call.iter_expressions():
            self.visit(part, bound, inside)

    def _function(self, node: exp.Expr, inside: str | None) -> str | None:
        """Record the function that a node calls; returns the enclosing aggregate of its children."""
        name = called(node)
        if isinstance(node, exp.Distinct) and inside is not None:
            self.distinct.append(inside)
        if name is None:
            return inside
        self.functions.append(name)
        if differs_each_time(name, arguments(node)):
            self.non_deterministic.append(name)
        if name in GENERATORS:
            self.generators.append(name)
        if name in WINDOWS:
            self.windows.append(name)
        elif name in AGGREGATES:
            self.aggregates.append(name)
            if inside is not None:
                self.nested.append(name)
            return name
        return inside


def path_of(node: exp.Expr) -> Path | None:
    """The path of a node that is nothing but a column or a field of one; ``None`` for other nodes."""
    if isinstance(node, exp.Column):
        return tuple(part.name for part in node.parts if not isinstance(part, exp.Star))
    if isinstance(node, exp.Paren):
        return path_of(node.this)
    if isinstance(node, exp.Dot):
        left = path_of(node.this)
        is_field = left is not None and isinstance(node.expression, exp.Identifier)
        return (*left, node.expression.name) if left is not None and is_field else None
    of, *indexes = _element(node) or (None,)
    left = None if of is None or len(indexes) != 1 else path_of(of)
    if left is None:
        return None
    (index,) = indexes
    is_name = isinstance(index, exp.Literal) and index.is_string
    return (*left, index.name if is_name else ELEMENT)


def _element(node: exp.Expr) -> list[exp.Expr] | None:
    """What an element is taken of, and by what; None of a node that takes none."""
    if isinstance(node, exp.Bracket):
        return [node.this, *node.expressions]
    return arguments(node) if called(node) in {"element_at", "try_element_at"} else None
