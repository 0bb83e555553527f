"""What a micro-batch of a view is about to cost, and the way that it takes."""

from __future__ import annotations

import pytest

from common.sql.cost import Sizes, chosen
from common.sql.statement import read_statement
from common.sql.way import Way, way_of

COLUMNS = {"silver.orders": ["order_id", "customer", "amount"], "silver.customers": ["customer", "country"]}
BY_KEY = "select customer, count(*) as n from silver.orders group by customer"
BY_ROW = (
    "select o.order_id, c.country from silver.orders o join silver.customers c on c.customer = o.customer"
)
ALL = "select count(*) as n, sum(amount) as total from silver.orders where amount > 10"
WINDOW = "select customer, rank() over (partition by customer order by amount) as place from silver.orders"


def taken(sql: str, rows: int | None, changed: int | None, made: int | None) -> Way:
    statement = read_statement(sql, COLUMNS)
    sizes = dict.fromkeys(statement.tables, rows)
    of_change = dict.fromkeys(statement.tables, 0) | {"silver.orders": changed}
    return chosen(statement, way_of(statement), Sizes(sizes, of_change, made))


@pytest.mark.parametrize(
    ("sql", "rows", "changed", "made", "kept"),
    [
        (BY_KEY, 10_000, 1, 1_000, "whole"),
        (BY_KEY, 100_000_000, 1_000, 10_000_000, "by key"),
        (BY_KEY, 100_000_000, 100_000_000, 10_000_000, "whole"),
        (BY_KEY, 100_000_000, 1_000, 10, "whole"),
        (ALL, 10_000, 10, 1, "whole"),
        (ALL, 100_000_000, 10, 1, "by key"),
        (BY_ROW, 10_000, 10, 10_000, "by row"),
        (BY_ROW, 100_000, 10_000, 100_000, "by row"),
        (BY_ROW, 100_000, 100_000, 100_000, "whole"),
        (BY_ROW, 100_000_000, 10, 100_000_000, "by row"),
        (BY_ROW, 100_000_000, 100_000_000, 100_000_000, "whole"),
        (WINDOW, 100_000_000, 1_000, 100_000_000, "by key"),
        (WINDOW, 100_000_000, 100_000_000, 100_000_000, "whole"),
    ],
)
def test_a_micro_batch_takes_the_cheaper_way(sql: str, rows: int, changed: int, made: int, kept: str) -> None:
    way = taken(sql, rows, changed, made)
    assert way.kept == kept
    assert f"reads {rows * (2 if sql == BY_ROW else 1):,} and compares {made:,}" in way.why


def test_a_changed_row_that_many_rows_meet_is_as_many_rows_of_the_view() -> None:
    statement = read_statement(BY_ROW, COLUMNS)
    rows = {"silver.orders": 1_000_000, "silver.customers": 10}
    ways = [
        chosen(statement, way_of(statement), Sizes(rows, {"silver.customers": count}, 1_000_000)).kept
        for count in (1, 5)
    ]
    assert ways == ["by row", "whole"]


@pytest.mark.parametrize("unknown", [(None, 1, 1), (1, None, 1), (1, 1, None)])
def test_where_a_log_does_not_say_how_many_rows_there_are_it_is_that_of_the_statement(
    unknown: tuple[int | None, int | None, int | None],
) -> None:
    assert taken(BY_KEY, *unknown) == way_of(read_statement(BY_KEY, COLUMNS))
