"""Which columns of a view are columns of its tables: their floats have no last digits that may differ."""

from __future__ import annotations

import pytest

from common.sql.statement import read_statement
from gold.view.copied import copied_columns

COLUMNS = {"silver.orders": ["k", "price", "n"], "gold.latest": ["k", "price"]}


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("select k, price as p, price * 2 as twice, -n as less from silver.orders where n > 1", {"k", "p"}),
        ("select o.k, l.price from silver.orders o left join gold.latest l on l.k = o.k", {"k", "price"}),
        ("select a.p, a.q from (select price as p, price / 3 as q from silver.orders) a", {"p"}),
        ("with a as (select price as p, abs(n) as q from silver.orders) select q as p, p as q from a", {"q"}),
        ("select price, n from silver.orders union all select price, n + 1 from silver.orders", {"price"}),
        ("select price, sum(n) as n from silver.orders group by price", {"price"}),
        ("select price / 2 as half, sum(n) as n from silver.orders group by price / 2", set()),
        ("select distinct price, n * 2 as n from silver.orders", {"price"}),
        ("select k, price, sum(price) over (partition by k) as s from silver.orders", {"k"}),
        ("select price from silver.orders order by price limit 3", set()),
    ],
)
def test_a_column_is_copied_where_no_expression_has_made_it(sql: str, columns: set[str]) -> None:
    assert copied_columns(read_statement(sql, COLUMNS)) == columns
