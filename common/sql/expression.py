"""Static analysis of a Spark SQL expression: its columns and functions, without Spark and without data.

Names are not resolved: whether a column exists is checked by ``orchestration.author.check.visible_columns``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from common.errors import SqlError
from common.sql.functions import AGGREGATES, GENERATORS, NON_DETERMINISTIC, WINDOWS
from common.sql.syntax import name_of_aggregate, parse_text, text_of, tokens_of

Path = tuple[str, ...]
"""A column and the fields accessed in it: ``properties.time`` is ``("properties", "time")``."""

ELEMENT = "[]"
"""The step of a path into an array or map by an index that is no string literal."""

_PLAIN = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", re.ASCII)
_LITERALS = {"true", "false", "null", "current_user", "session_user"} | NON_DETERMINISTIC
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_CLOCKS: Mapping[type[exp.Expr], str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.Localtimestamp: "localtimestamp",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """Columns, functions and properties of a SQL expression; names in the order of the text, each once.

    Attributes:
        columns: Every column it refers to.
        outside_aggregates: Columns that are referred to outside of all aggregates.
        path: The column, where the expression is nothing but a column.
        functions: Names of functions, lower-case.
        aggregates: Aggregate functions without ``over``.
        nested: Aggregates inside aggregates.
        distinct: Aggregates over ``distinct``.
        windows: Functions with ``over``, and window functions without it.
        generators: Functions that return any number of rows, such as ``explode``.
        non_deterministic: Functions whose value differs when a row is read again.
        subquery: Whether the expression contains a ``select``.
        star: Whether the expression is ``*`` or ``a.*``.
        alias: The name after a final ``as``.
    """

    columns: tuple[Path, ...] = ()
    outside_aggregates: tuple[Path, ...] = ()
    path: Path | None = None
    functions: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    generators: tuple[str, ...] = ()
    non_deterministic: tuple[str, ...] = ()
    subquery: bool = False
    star: bool = False
    alias: str | None = None


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
    root = parse(sql)
    alias = root.alias if isinstance(root, exp.Alias) else None
    root = root.this if isinstance(root, exp.Alias) else root
    reader = _Reader()
    reader.visit(root)
    found = {
        name: tuple(dict.fromkeys(getattr(reader, name))) for name in _Reader.__slots__ if name != "subquery"
    }
    star = isinstance(root, exp.Star) or (isinstance(root, exp.Column) and isinstance(root.this, exp.Star))
    path = None if star else path_of(root)
    return Facts(**found, subquery=reader.subquery, path=path, star=star, alias=alias)


def window_times(sql: str) -> tuple[str, ...]:
    """SQL texts of the times of which an expression makes windows: the first argument of ``window(…)``.

    Raises:
        SqlError: The text is not one expression.
    """
    return tuple(dict.fromkeys(call[0] for call in _time_windows(sql)))


def has_sliding_window(sql: str) -> bool:
    """Whether an expression has ``window(…)`` with a slide, which gives several rows for one.

    Raises:
        SqlError: The text is not one expression.
    """
    return any(len(call) > 2 and call[1] != call[2] for call in _time_windows(sql))  # noqa: PLR2004


def null_for_null_times(sql: str) -> str:
    """The same expression, but null where the time of one of its windows is null.

    Spark leaves out a row whose ``window(time, …)`` has no time. Here the window is made of another time,
    and the result is null.
    """
    try:
        tokens = tokens_of(sql) if "window" in sql.lower() else []
    except TokenError:
        return sql
    times = []
    for place, token in enumerate(tokens[:-1]):
        if token.text.lower() == "window" and tokens[place + 1].token_type == TokenType.L_PAREN:
            times.append((tokens[place + 1].end + 1, _end_of_argument(tokens, place + 2)))
    if not times:
        return sql
    texts, done = [], 0
    for start, end in times:
        # A date becomes a timestamp of the time's own type, with or without a zone.
        texts += [sql[done:start], f"coalesce({sql[start:end]}, date'1970-01-01')"]
        done = end
    known = " and ".join(f"({sql[start:end]}) is not null" for start, end in times)
    return f"case when {known} then {''.join(texts)}{sql[done:]} end"


def with_names(sql: str, names: Mapping[str, str]) -> str:
    """The same expression with other texts in the place of plain columns.

    Args:
        sql: The expression.
        names: Names of columns, lower-case, and the text of each. A field of that name, as in ``a.name``, and
            a function stay as they are.
    """
    if not any(name in sql.lower() for name in names):
        return sql
    try:
        tokens = tokens_of(sql)
    except TokenError:
        return sql
    texts, done = [], 0
    for place, token in enumerate(tokens):
        is_field = place > 0 and tokens[place - 1].token_type == TokenType.DOT
        is_call = place + 1 < len(tokens) and tokens[place + 1].token_type == TokenType.L_PAREN
        is_name = token.token_type in {TokenType.VAR, TokenType.IDENTIFIER}
        if is_name and not is_field and not is_call and token.text.lower() in names:
            texts += [sql[done : token.start], names[token.text.lower()]]
            done = token.end + 1
    return "".join([*texts, sql[done:]])


def _end_of_argument(tokens: Sequence[Token], first: int) -> int:
    """Where the argument ends that begins with a token: at a comma, or at the closing parenthesis."""
    depth = 0
    for token in tokens[first:]:
        if depth == 0 and token.token_type in {TokenType.COMMA, TokenType.R_PAREN}:
            return int(token.start)
        depth += token.token_type in _OPENING
        depth -= token.token_type in _CLOSING
    return int(tokens[-1].end) + 1


_BY_ARRIVAL = frozenset(
    {"any_value", "first", "first_value", "last", "last_value"}
    | {"array_agg", "collect_list", "listagg", "string_agg"}
)
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
    found = []
    for node in parse(sql).find_all(exp.Func):
        name = function_name(node)
        if name in _BY_ARRIVAL and not _is_ordered(node):
            found.append(name)
    return tuple(dict.fromkeys(found))


def _is_ordered(node: exp.Expr) -> bool:
    if isinstance(node.this, exp.Order):
        return True
    around = node.parent
    while around is not None:
        if isinstance(around, exp.WithinGroup) or (function_name(around) or "") in _IGNORES_ORDER:
            return True
        around = around.parent
    return False


def makes_windows(sql: str) -> bool:
    """Whether an expression has ``window(…)`` or ``session_window(…)``.

    Raises:
        SqlError: The text is not one expression.
    """
    return bool(_time_windows(sql))


def _time_windows(sql: str) -> list[list[str]]:
    """The texts of the arguments of each ``window(…)`` and ``session_window(…)``."""
    if "window" not in sql.lower():
        return []
    found = [
        node for node in parse(sql).find_all(exp.Func) if function_name(node) in {"window", "session_window"}
    ]
    return [[text_of(f"({sql}", argument) for argument in _children(node)] for node in found]


def parse(sql: str) -> exp.Expr:
    """The syntax tree of one SQL expression.

    Raises:
        SqlError: As ``read``.
    """
    if not sql.strip():
        raise SqlError("is empty; write a SQL expression")
    if any("\ud800" <= letter <= "\udfff" for letter in sql):
        raise SqlError("has a lone surrogate, which is no character; leave it out")
    try:
        # Parenthesised, the text cannot be a statement; the new line ends a comment.
        (root,) = parse_text(f"({sql}\n)")
    except TokenError as error:
        raise SqlError("a quote is opened and never closed; the pairs are '…', \"…\" and `…`") from error
    except ParseError as error:
        raise _explained(error, sql) from error
    except ValueError as error:
        raise SqlError("is more than one expression; write one") from error
    if isinstance(root, exp.Subquery):
        return root
    if not isinstance(root, exp.Paren):
        raise SqlError("is a list of expressions; write one, or struct(…) of them")
    _refuse_odd_names(root, sql)
    if "--" in sql:
        _refuse_last_comment(sql)
    inner: exp.Expr = root.this
    return inner


def _refuse_odd_names(root: exp.Expr, sql: str) -> None:
    for name in root.find_all(exp.Identifier):
        if not name.quoted and not name.name.isascii():
            raise SqlError(f"has the name {name.name}; one with other letters than a to z needs backquotes")
    strange = root.find(exp.Parameter, exp.Placeholder, exp.Command)
    if strange is not None:
        shown = text_of(f"({sql}", strange)
        raise SqlError(f"cannot be read at {shown!r}; write a name with odd letters in backquotes")


def _refuse_last_comment(sql: str) -> None:
    try:
        parse_text(f"({sql})")
    except (ParseError, TokenError) as error:
        # The engine also puts the text in parentheses, on one line
        raise SqlError("ends in a comment (--), which would hide what follows; leave it out") from error


def _explained(error: ParseError, sql: str) -> SqlError:
    fault = error.errors[0] if error.errors else {}
    line, end, word = fault.get("line", 1), fault.get("col", 1), str(fault.get("highlight", ""))
    reason = str(fault.get("description", ""))
    if line > sql.count("\n") + 1:
        if reason.startswith("Invalid expression"):
            return SqlError("has a ')' too many")
        missing = "a ')' is missing" if reason.startswith("Expecting )") else "something is missing"
        return SqlError(f"ends too early: {missing} at its end")
    if str(fault.get("end_context", "")).lstrip().startswith(";"):
        return SqlError("has a ';' in it; write one expression and leave it out")
    column = end - len(word) + (0 if line == 1 else 1)
    where = f"line {line}, column {column}" if "\n" in sql else f"column {column}"
    hint = "an operator, a comma or a bracket is missing there, or a name needs backquotes: `…`"
    if reason.startswith("Expected TYPE"):
        hint = "it is no type of Spark's"
    elif reason.startswith("Expected END"):
        hint = "a case ends with 'end'"
    return SqlError(f"cannot be read at {word!r} ({where}); {hint}", word)


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
        """Collect facts from a node and its descendants.

        Args:
            node: The node.
            bound: Parameters of the enclosing lambdas, lower-case; they are no columns.
            inside: The enclosing aggregate.
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
        if isinstance(node, (exp.Filter, exp.WithinGroup)):
            aggregate = function_name(node.this) or node.this.key
            self.visit(node.this, bound, inside)
            for child in _children(node, but="this"):
                self.visit(child, bound, aggregate)
            return
        for child in _children(node):
            self.visit(child, bound, inside)

    def _column(self, node: exp.Expr, path: Path, bound: frozenset[str], inside: str | None) -> None:
        if path[0].lower() not in bound:
            self.columns.append(path)
            if inside is None:
                self.outside_aggregates.append(path)
        for bracket in node.find_all(exp.Bracket):
            for index in bracket.expressions:
                self.visit(index, bound, inside)

    def _window(self, node: exp.Window, bound: frozenset[str], inside: str | None) -> None:
        name = next((found for part in node.this.walk() if (found := function_name(part))), node.this.key)
        self.windows.append(name)
        for part in _children(node, but="this"):
            self.visit(part, bound, inside)
        for part in _children(node.this):
            self.visit(part, bound, inside)

    def _function(self, node: exp.Expr, inside: str | None) -> str | None:
        """Record the function that a node calls; returns the enclosing aggregate of its children."""
        name = function_name(node)
        if isinstance(node, exp.Distinct) and inside is not None:
            self.distinct.append(inside)
        if name is None:
            return inside
        self.functions.append(name)
        if name in NON_DETERMINISTIC or isinstance(node, tuple(_CLOCKS)):
            self.non_deterministic.append(name)
        if name in GENERATORS:
            self.generators.append(name)
        if name in WINDOWS:
            self.windows.append(name)
        elif name in AGGREGATES or isinstance(node, exp.AggFunc):
            self.aggregates.append(name)
            if inside is not None:
                self.nested.append(name)
            return name
        return inside


def function_name(node: exp.Expr) -> str | None:
    """The name of the function that a node calls, lower-case; ``None`` where it calls none."""
    written = node.meta.get("name")
    if written is not None:
        return str(written).lower()
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return str(node.name).lower()
    if isinstance(node, exp.Any):
        # ``a like any (…)`` is a comparison
        return None if isinstance(node.parent, (exp.Like, exp.ILike)) else "any"
    if isinstance(node, tuple(_CLOCKS)):
        # sqlglot parses ``unix_timestamp()`` as a clock inside a conversion
        return (function_name(node.parent) if node.parent is not None else None) or _CLOCKS[type(node)]
    if isinstance(node, exp.AggFunc):
        # sqlglot parses ``first(a, true)`` as an aggregate inside a modifier that has the name
        around = str(node.parent.meta.get("name", "")) if node.parent is not None else ""
        return None if around.lower() in AGGREGATES else name_of_aggregate(node)
    return None


def path_of(node: exp.Expr) -> Path | None:  # noqa: PLR0911  # one return per kind of step
    """The path of a node that is nothing but a column or a field of one; ``None`` for other nodes."""
    if isinstance(node, exp.Column):
        return tuple(part.name for part in node.parts if not isinstance(part, exp.Star))
    if isinstance(node, exp.Paren):
        return path_of(node.this)
    if isinstance(node, exp.Dot):
        left = path_of(node.this)
        if left is None or not isinstance(node.expression, exp.Identifier):
            return None
        return (*left, node.expression.name)
    if isinstance(node, exp.Bracket):
        left = path_of(node.this)
        if left is None or len(node.expressions) != 1:
            return None
        index = node.expressions[0]
        return (*left, index.name if isinstance(index, exp.Literal) and index.is_string else ELEMENT)
    return None


def _children(node: exp.Expr, but: str = "") -> list[exp.Expr]:
    kept = node.args.get(but) if but else None
    return [child for child in node.iter_expressions() if child is not kept]
