"""Which edits of a statement leave its meaning as it is, and which do not."""

from __future__ import annotations

import pytest

from common.sql.canonical import canonical

SAME = [
    (
        "select o.a, c.b from silver.orders o join gold.customers c on c.id = o.id and c.day = o.day",
        "select x.a, y.b from silver.orders as x join gold.customers as y on y.day = x.day and y.id = x.id",
    ),
    ("select a from silver.orders", "select a from silver.orders o"),
    ("select silver.orders.a from silver.orders", "select o.a from silver.orders as O"),
    ("select orders.a.b as c from silver.orders", "select o.a.b as c from silver.orders o"),
    ("select o.* from silver.orders o", "select k.* from silver.orders k"),
    (
        "with t as (select a from silver.orders o where o.b > 1) select t.a from t",
        "with recent as (select a from silver.orders where orders.b > 1) select r.a from recent r",
    ),
    (
        "select d.a from (select o.a from silver.orders o) d",
        "select e.a from (select d.a from silver.orders d) e",
    ),
    (
        """select o.a from silver.orders o where exists (select 1 from gold.x c where c.a = o.a and c.b > 2)
        and o.b in (select c.b from gold.y c)""",
        """select p.a from silver.orders p where p.b in (select k.b from gold.y k)
        and exists (select 1 from gold.x z where z.b > 2 and z.a = p.a)""",
    ),
    (
        "select w.word from silver.orders o lateral view explode(split(o.text, ' ')) w as word",
        "select word_.word from silver.orders p lateral view explode(split(p.text, ' ')) word_ as word",
    ),
    (
        "select s.a from silver.orders s join silver.orders t on s.a = t.b and s.c = 1 and t.c = 1",
        "select t.a from silver.orders t join silver.orders s on s.c = 1 and t.c = 1 and t.a = s.b",
    ),
    (
        "select a.x from silver.orders a union all select b.x from gold.y b",
        "select b.x from silver.orders b union all select a.x from gold.y a",
    ),
]

OTHER = [
    ("select o.a as x from silver.orders o", "select o.a as y from silver.orders o"),
    ("select o.a from silver.orders o", "select o.a from gold.orders o"),
    (
        "select one.a from silver.orders one join silver.orders two on one.a = two.b",
        "select two.a from silver.orders one join silver.orders two on one.a = two.b",
    ),
    (
        "select o.a from silver.orders o where exists (select 1 from gold.x c where c.a = o.a)",
        "select o.a from silver.orders o where exists (select 1 from gold.x c where c.a = c.a)",
    ),
    (  # a column with fields keeps its name
        "select place.city from silver.orders o",
        "select home.city from silver.orders o",
    ),
    (  # a derived table does not see the tables beside it: these are fields of columns of gold.x
        "select k.a from silver.orders o cross join (select o.a from gold.x) k",
        "select k.a from silver.orders p cross join (select p.a from gold.x) k",
    ),
    (
        "with t as (select a from silver.orders), u as (select a from gold.x) select a from t",
        "with t as (select a from silver.orders), u as (select a from gold.x) select a from u",
    ),
]


@pytest.mark.parametrize(("before", "now"), SAME)
def test_a_name_of_a_table_and_the_order_of_conditions_are_no_edit(before: str, now: str) -> None:
    assert canonical(before) == canonical(now)
    assert canonical(canonical(before).replace("__table_", "t")) == canonical(before)


@pytest.mark.parametrize(("before", "now"), OTHER)
def test_what_another_column_or_table_is_read_by_is_an_edit(before: str, now: str) -> None:
    assert canonical(before) != canonical(now)
