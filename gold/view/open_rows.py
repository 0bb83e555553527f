"""What a view's statement leaves open: which of several rows come, or which of several values a row has.

The parts of the statement say whether anything may be open. Whether something is, in these rows, is found by
computing the statement in the other ways that it allows: over rows in other orders, and with the least and
the greatest number that ``row_number()`` may give to rows of one place. What all of them have is not open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from sqlglot import Token, TokenType, exp

from common.declare import View
from common.errors import SqlError
from common.sql.functions import APPROXIMATE, BY_ORDER
from common.sql.reading import statement
from common.sql.syntax import calls_of, tokens_of

_SEEDS = range(4)


def leaves_open(view: View) -> bool:
    """Whether a part of a statement may leave rows or values open."""
    names, has_limit = _parts(view)
    return has_limit or bool(names & BY_ORDER)


def is_approximate(view: View) -> bool:
    """Whether two computations of a statement over the same rows may have other results in any case."""
    return bool(_parts(view)[0] & APPROXIMATE)


def _parts(view: View) -> tuple[frozenset[str], bool]:
    """The names of the functions that a statement calls, and whether it has a LIMIT."""
    try:
        root = statement(view.statement)
    except SqlError:
        return frozenset(), False
    return frozenset(name for name, _ in calls_of(root)), root.find(
        exp.Limit, exp.Fetch, exp.Offset, exp.TableSample
    ) is not None


def orders(frame: DataFrame) -> Iterator[DataFrame]:
    """The same rows in several orders, each of them and its reverse."""
    for seed in _SEEDS:
        place = F.xxhash64(F.to_json(F.struct(*frame.columns)), F.lit(seed))
        for order in (place.asc(), place.desc()):
            yield _in_order(frame, order)


def _in_order(frame: DataFrame, order: Column) -> DataFrame:
    # A condition that differs each time keeps the optimizer from taking the order away. One rand() is not
    # enough: the optimizer knows that it is at least 0.
    return frame.repartition(1).sortWithinPartitions(order).where(F.rand() + F.rand() >= 0)


def by_places(view: View) -> Sequence[View]:
    """The view with the least, and with the greatest number that ``row_number()`` may give a row."""
    text = view.statement
    calls = list(_row_numbers(text, tokens_of(text)))
    least, greatest = text, text
    for begin, end, window in reversed(calls):
        least = f"{least[:begin]}rank() over ({window}){least[end:]}"
        frame = "range between unbounded preceding and current row"
        greatest = f"{greatest[:begin]}cast(count(*) over ({window} {frame}) as int){greatest[end:]}"
    return [replace(view, sql=least), replace(view, sql=greatest)] if calls else []


def _row_numbers(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """Where each ``row_number() over (…)`` begins and ends in a text, and what its window is."""
    for place, token in enumerate(tokens):
        words = [each.text.lower() for each in tokens[place : place + 5]]
        if words != ["row_number", "(", ")", "over", "("]:
            continue
        depth, first = 1, tokens[place + 4]
        for each in tokens[place + 5 :]:
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(each.token_type, 0)
            if depth == 0:
                yield token.start, each.end + 1, text[first.end + 1 : each.start]
                break
