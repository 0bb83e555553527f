"""Faults of one SQL expression of a pipeline.

Silver's columns and rules, and gold's groups and filters, are evaluated row by row: no aggregates, no access
to other rows, and the same result when a micro-batch is replayed.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from common.errors import DOUBTFUL, Fault, SqlError, nearest
from common.schema.ddl import Field
from common.sql.expression import Facts, analyze
from common.sql.functions import FUNCTIONS
from common.sql.reading import expression
from common.sql.syntax import in_depth
from common.typed.expression import NO_FUNCTION, STOPS, TYPE, Judge
from common.typed.foreign_forms import foreign_forms
from common.typed.kinds import NUMBER, holds
from common.typed.types import UNKNOWN
from orchestration.author.check.visible_columns import Scope, unknown

_EXTRA_FUNCTIONS: ContextVar[bool] = ContextVar("SQL may call functions that Spark lacks", default=False)
_ANSI: ContextVar[bool] = ContextVar("Spark converts types as ANSI says", default=True)


@contextmanager
def extra_functions(*, are_possible: bool, ansi: bool = True) -> Iterator[None]:
    """What the settings say of the SQL that is checked inside the block.

    Args:
        are_possible: Whether it may call functions that Spark does not have by itself.
        ansi: Whether Spark surely refuses what ANSI refuses (``spark.sql.ansi.enabled``).
    """
    token, other = _EXTRA_FUNCTIONS.set(are_possible), _ANSI.set(ansi)
    try:
        yield
    finally:
        _EXTRA_FUNCTIONS.reset(token)
        _ANSI.reset(other)


def ansi_is_on() -> bool:
    """Whether Spark surely refuses the types that ANSI refuses."""
    return _ANSI.get()


_OF_GROUPING_SETS = frozenset({"grouping", "grouping_id"})


def row_faults(
    sql: str,
    scope: Scope,
    siblings: Collection[str] = (),
    *,
    may_ask_clock: bool = False,
    may_stop: bool = True,
) -> Iterator[str]:
    """Faults of an expression that is evaluated row by row.

    Args:
        siblings: Columns declared in the same table, which it may not name.
        may_ask_clock: Whether it may depend on the time at which it is evaluated.
        may_stop: Whether a text that is read as a number, and is none, may stop the query: then it is a
            doubt, and else a mistake.
    """
    facts = yield from _readable(sql, scope)
    if facts is None:
        return
    for name in facts.aggregates:
        yield Fault(
            "MED-1204",
            f"{name}() is an aggregate, but this is evaluated row by row; put it in gold's measures",
        )
    yield from _common(facts, scope, siblings)
    yield from _judged(sql, scope, may_ask_clock=may_ask_clock, may_stop=may_stop)


def measure_faults(
    sql: str,
    scope: Scope,
    groups: Collection[str] | None,
    *,
    in_state: bool = True,
    bounds: Collection[str] = (),
) -> Iterator[str]:
    """Faults of a measure.

    Args:
        groups: Columns with one value per group; None if they are not known.
        in_state: Whether Spark keeps the measure in state, instead of recomputing it.
        bounds: The bounds of the group's window, of which alone a measure may be made.
    """
    facts = yield from _readable(sql, scope)
    if facts is None:
        return
    yield from _common(facts, scope, ())
    yield from _judged(sql, scope)
    is_known = all(
        name in FUNCTIONS for name in facts.functions
    )  # an unknown one may be a misspelt aggregate
    is_of_bounds = bool(facts.columns) and all(path[0].lower() in bounds for path in facts.columns)
    if is_known and not is_of_bounds and not (facts.aggregates or facts.windows or facts.subquery):
        yield Fault(
            "MED-1206", "has no aggregate; a measure is one value per group, such as count(*) or max(x)"
        )
        return
    for name in facts.distinct if in_state else ():
        yield Fault(
            "MED-1206",
            f"{name}(distinct …) cannot be kept up to date by a stream; write approx_count_distinct(x), "
            'or size(collect_set(x)) for an exact count of few values, or take mode="recompute"',
        )
    for name in facts.aggregates:
        if name in _OF_GROUPING_SETS:
            yield Fault(
                "MED-1206",
                f"{name}() is for grouping sets, which a table with one grouping has not; leave it out",
            )
    for name in facts.nested:
        yield Fault("MED-1206", f"{name}() is inside another aggregate; a measure aggregates once")
    for path in facts.outside_aggregates:
        if groups is not None and path[0].lower() not in groups and scope.missing(path) is None:
            shown = ".".join(path)
            yield Fault(
                "MED-1206", f"{shown!r} is outside of any aggregate; write max({shown}), or add it to by"
            )


def holds_uncomparable(field: Field, of: Collection[str] = ("map", "variant")) -> bool:
    """Whether a field is a map or a variant, or has one inside."""
    return holds(field, of)


def judge_of(scope: Scope, *, may_ask_clock: bool = False) -> Judge:
    """Judges expressions over columns; a field that there is not is told with the column."""
    fields = {field.name.lower(): field for field in scope.fields or ()}
    return Judge(
        lambda column: (
            fields.get(column.parts[0].name.lower(), UNKNOWN),
            [one.name for one in column.parts[1:]],
        ),
        tells_fields=False,
        may_ask_clock=may_ask_clock,
    )


def _judged(sql: str, scope: Scope, *, may_ask_clock: bool = False, may_stop: bool = True) -> Iterator[Fault]:
    """What is wrong with the types, the words and the calls of an expression."""
    root, judge = expression(sql), judge_of(scope, may_ask_clock=may_ask_clock)
    try:
        with in_depth():
            judge.judge(root)
    except SqlError as error:
        yield Fault(error.code, f"the SQL {error}")
    found = {str(each): each for each in told((*foreign_forms(root, sql), *judge.faults), may_stop=may_stop)}
    yield from (Fault(each.code, text) for text, each in found.items())


def told(mistakes: Iterable[SqlError], *, may_stop: bool = True) -> Iterator[SqlError]:
    """The mistakes of an SQL text, as far as the settings make them one.

    Args:
        mistakes: What is known of the text alone.
        may_stop: Whether what stops a query at some values is a doubt, and no mistake.
    """
    for each in mistakes:
        if each.code == NO_FUNCTION and "did you mean" not in str(each):
            if not _EXTRA_FUNCTIONS.get():
                instead = "write one of Spark's, or name the extension that adds it in the setting"
                text = f"{each}; {instead} spark.conf.spark.sql.extensions"
                yield SqlError(text, each.word, at=each.at, code=each.code)
        elif each.code == STOPS and may_stop and ansi_is_on():
            yield SqlError(str(each), each.word, at=each.at, code=DOUBTFUL)
        elif ansi_is_on() or each.code not in {TYPE, STOPS}:
            yield each


def result(sql: str, name: str, scope: Scope) -> Field:
    """The column that an expression defines; without a type where that is not surely known."""
    try:
        with in_depth():
            found = judge_of(scope).type_of(expression(sql))
    except SqlError:
        return unknown(name)
    return unknown(name) if found.type in {"void", NUMBER} else Field(name, found.type, found.nested)


def _readable(sql: str, scope: Scope) -> Generator[str, None, Facts | None]:
    """Yield the fault of an expression that cannot be parsed, or return its facts."""
    try:
        return analyze(sql)
    except SqlError as error:
        hint = ""
        if error.word and scope.fields is not None and error.word.isidentifier() and scope.has(error.word):
            hint = f"; {error.word} is a word of SQL: write `{error.word}` in backquotes for the column"
        yield Fault("MED-1201", f"the SQL {error}{hint}")
        return None


def _common(facts: Facts, scope: Scope, siblings: Collection[str]) -> Iterator[str]:
    if facts.alias is not None:
        yield Fault(
            "MED-1204",
            f"ends in a name of its own, {facts.alias!r}; leave it out (or is an operator missing?)",
        )
    if facts.star:
        yield Fault("MED-1204", "* is not one value; name a field")
    if facts.subquery:
        yield Fault("MED-1204", "has a subquery (select …); only the row's own columns can be used")
    for name in facts.windows:
        yield Fault("MED-1204", f"{name}() looks at other rows (over …), which a stream cannot")
    for name in facts.generators:
        yield Fault(
            "MED-1204", f"{name}() returns several rows for one; keep the array, or use transform() on it"
        )
    for path in facts.columns:
        yield from _column(path, scope, siblings)


def _column(path: tuple[str, ...], scope: Scope, siblings: Collection[str]) -> Iterator[str]:
    problem = scope.missing(path)
    if problem is None:
        return
    if not scope.has(path[0]) and path[0].lower() in {name.lower() for name in siblings}:
        near = nearest(path[0], scope.names)
        advice = f"; {near}" if near.startswith("did") else ""
        yield Fault(
            "MED-1209",
            f"{path[0]!r} is another column of this table; a column sees only {scope.what}{advice}",
        )
    else:
        yield Fault("MED-1202", problem)
