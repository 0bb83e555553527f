"""The rows that a view's rows are made of, and the view's rows that follow from a row of a table."""

from __future__ import annotations

from random import Random

import duckdb
import pytest

from common.errors import SqlError
from common.sql.duckdb.text import statement
from common.sql.relations import Joined, Relation, below, scans
from common.sql.statement import Statement, read_statement
from orchestration.records.trace.view_rows import ViewRows
from tests.support.oracles.view_statements import draw

TABLES = {"silver.orders": "orders", "silver.customers": "customers", "silver.products": "products"}
COLUMNS = {
    "silver.orders": ("order_id", "customer", "product", "amount", "price", "seen_at", "text"),
    "silver.customers": ("customer", "country", "score"),
    "silver.products": ("product", "kind", "cost"),
}


@pytest.fixture
def shop() -> duckdb.DuckDBPyConnection:
    """Three tables; some customers have no order, and some orders no customer."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        "CREATE TABLE orders AS SELECT * FROM (VALUES "
        "('o1', 'ann', 'tea', 1, 1.50::DECIMAL(10,2), TIMESTAMPTZ '2026-01-05 08:00:00Z', 'x'), "
        "('o2', 'ann', 'cup', 2, 2.50, TIMESTAMPTZ '2026-01-05 09:00:00Z', 'y'), "
        "('o3', 'bob', 'tea', 3, 3.50, TIMESTAMPTZ '2026-01-06 08:00:00Z', NULL), "
        "('o4', 'eve', 'tea', 4, NULL, TIMESTAMPTZ '2026-01-06 09:00:00Z', 'x'), "
        "('o5', NULL, 'pot', 5, 5.50, NULL, 'y')) "
        "AS t(order_id, customer, product, amount, price, seen_at, text)"
    )
    connection.execute(
        "CREATE TABLE customers AS SELECT * FROM (VALUES ('ann', 'DE', 1), ('bob', 'FR', 2), "
        "('cid', 'DE', 3), (NULL, 'IT', 4)) AS t(customer, country, score)"
    )
    connection.execute(
        "CREATE TABLE products AS SELECT * FROM (VALUES ('tea', 'food', 1), ('cup', 'ware', 2)) "
        "AS t(product, kind, cost)"
    )
    return connection


def read(sql: str) -> Statement:
    """The statement."""
    return read_statement(sql, {table: COLUMNS[table] for table in COLUMNS if table in sql})


def in_duckdb(connection: duckdb.DuckDBPyConnection, sql: str, part: str = "") -> str:
    """The statement in DuckDB's SQL, over the tables or parts of them."""
    tables = {}
    for table, name in TABLES.items():
        described = connection.execute(f"DESCRIBE {name}").fetchall()
        tables[table] = (f"{name}{part}", {row[0]: row[1] for row in described})
    return statement(sql, tables, written=True)


def rows_of(connection: duckdb.DuckDBPyConnection, sql: str) -> ViewRows:
    """The rows of a view over the shop."""
    relation = read(sql).relation
    assert relation is not None
    return ViewRows(connection, relation, TABLES)


def behind(connection: duckdb.DuckDBPyConnection, sql: str, where: str) -> dict[str, list[str]]:
    """By table, the first columns of the rows behind some rows of a view."""
    view = f"SELECT * FROM ({in_duckdb(connection, sql)}) WHERE {where}"
    found = rows_of(connection, sql).behind(view)
    return {
        table: sorted({str(row[0]) for query in queries for row in connection.execute(query).fetchall()})
        for table, queries in found.items()
    }


BY_COUNTRY = (
    "select c.country, count(*) as n from silver.orders o join silver.customers c "
    "on o.customer = c.customer group by c.country"
)


@pytest.mark.parametrize(
    ("sql", "where", "expected"),
    [
        ("select order_id, amount from silver.orders", "order_id = 'o3'", {"silver.orders": ["o3"]}),
        (
            "select order_id || '-' as id from silver.orders where amount > 1",
            "id = 'o2-'",
            {"silver.orders": ["o2"]},
        ),
        (
            "select customer, sum(amount) as total from silver.orders group by customer",
            "customer = 'ann'",
            {"silver.orders": ["o1", "o2"]},
        ),
        (
            "select customer, sum(amount) as total from silver.orders group by customer",
            "customer is null",
            {"silver.orders": ["o5"]},
        ),
        (
            "select sum(amount) as total from silver.orders group by customer",
            "total = 3 ",
            {"silver.orders": ["o1", "o2", "o3"]},  # two groups with this sum
        ),
        (
            "select count(*) as n from silver.orders",
            "true",
            {"silver.orders": ["o1", "o2", "o3", "o4", "o5"]},
        ),
        (BY_COUNTRY, "country = 'DE'", {"silver.orders": ["o1", "o2"], "silver.customers": ["ann"]}),
        (
            (
                "select c.customer, o.order_id from silver.customers c left join silver.orders o "
                "on o.customer = c.customer"
            ),
            "customer = 'cid'",
            {"silver.customers": ["cid"], "silver.orders": []},
        ),
        (
            (
                "select customer from silver.customers c where exists "
                "(select 1 from silver.orders o where o.customer = c.customer and o.amount > 1)"
            ),
            "customer = 'ann'",
            {"silver.customers": ["ann"], "silver.orders": ["o2"]},
        ),
        (
            (
                "select customer from silver.customers c where not exists "
                "(select 1 from silver.orders o where o.customer = c.customer)"
            ),
            "customer = 'cid'",
            {"silver.customers": ["cid"]},
        ),
        (
            "select order_id, rank() over (partition by product order by amount) as place from silver.orders",
            "order_id = 'o3'",
            {"silver.orders": ["o1", "o3", "o4"]},
        ),
        (
            (
                "select customer as name, 'a' as part from silver.customers where score < 3 "
                "union all select product as name, 'b' as part from silver.products"
            ),
            "name = 'tea'",
            {"silver.customers": [], "silver.products": ["tea"]},
        ),
        (
            "select customer from silver.orders except all select customer from silver.customers",
            "customer = 'ann'",
            {"silver.customers": [], "silver.orders": ["o1", "o2"]},
        ),
        (
            "select customer from silver.orders intersect all select customer from silver.customers",
            "customer = 'ann'",
            {"silver.customers": ["ann"], "silver.orders": ["o1", "o2"]},
        ),
        (
            (
                "with big as (select customer, sum(amount) as total from silver.orders group by customer) "
                "select c.country, b.total from big b join silver.customers c on c.customer = b.customer"
            ),
            "country = 'DE'",
            {"silver.orders": ["o1", "o2"], "silver.customers": ["ann"]},
        ),
    ],
)
def test_the_rows_behind_a_row(
    shop: duckdb.DuckDBPyConnection, sql: str, where: str, expected: dict[str, list[str]]
) -> None:
    assert behind(shop, sql, where) == expected


@pytest.mark.parametrize(
    ("sql", "table", "rows", "expected"),
    [
        ("select order_id, amount from silver.orders", "silver.orders", "order_id = 'o3'", [("o3", 3)]),
        (BY_COUNTRY, "silver.orders", "order_id = 'o3'", [("FR",)]),
        (BY_COUNTRY, "silver.customers", "customer = 'ann'", [("DE",)]),
        (BY_COUNTRY, "silver.orders", "order_id = 'o5'", []),
        ("select count(*) as n from silver.orders", "silver.orders", "order_id = 'o1'", [(1,)]),
        (
            (
                "select country, n * 2 as twice from (select c.country, count(*) as n "
                "from silver.customers c group by c.country)"
            ),
            "silver.customers",
            "customer = 'bob'",
            [("FR",)],
        ),
        (
            (
                "select c.customer, o.order_id from silver.customers c left join silver.orders o "
                "on o.customer = c.customer"
            ),
            "silver.orders",
            "order_id = 'o3'",
            [("bob", "o3")],
        ),
        (
            (
                "select customer as name from silver.customers union all select product as name "
                "from silver.products"
            ),
            "silver.products",
            "product = 'cup'",
            [("cup",)],
        ),
    ],
)
def test_the_rows_of_a_view_that_follow_from_a_row(
    shop: duckdb.DuckDBPyConnection, sql: str, table: str, rows: str, expected: list[tuple[object, ...]]
) -> None:
    found = rows_of(shop, sql).following(table, f"SELECT * FROM {TABLES[table]} WHERE {rows}")
    assert shop.execute(f"SELECT DISTINCT * FROM {found.name}").fetchall() == expected


def test_what_cannot_be_followed_says_why(shop: duckdb.DuckDBPyConnection) -> None:
    hidden = rows_of(shop, "select sum(amount) as total from silver.orders group by customer")
    with pytest.raises(SqlError, match="has no key of its groups"):
        hidden.following("silver.orders", "SELECT * FROM orders")


@pytest.mark.long
def test_the_rows_behind_a_row_are_enough_to_make_it(shop: duckdb.DuckDBPyConnection) -> None:
    """The statement over them alone has the row again, for drawn statements and each of their rows."""
    checked = 0
    for seed in range(120):
        sql = draw(Random(seed)).sql()  # noqa: S311  # a seeded case, no secret
        found = read(sql)
        if found.relation is None or _is_self_joined_by_absence(found.relation):
            continue
        try:
            text = in_duckdb(shop, sql)
        except SqlError:
            continue  # none that DuckDB is known to compute as Spark does
        shop.execute(
            f"CREATE OR REPLACE TEMP TABLE view AS SELECT *, row_number() OVER () AS __n FROM ({text})"
        )
        for (number,) in shop.execute("SELECT __n FROM view ORDER BY ALL LIMIT 4").fetchall():
            row = f"SELECT * EXCLUDE (__n) FROM view WHERE __n = {number}"
            parts = rows_of(shop, sql).behind(row)
            for table, queries in parts.items():
                shop.execute(
                    f"CREATE OR REPLACE TEMP TABLE {TABLES[table]}_part AS {' UNION '.join(queries)}"
                )
            again = in_duckdb(shop, sql, "_part")
            assert shop.execute(f"({row}) EXCEPT SELECT * FROM ({again})").fetchall() == [], (sql, parts)
            checked += 1
    assert checked > 60


def _is_self_joined_by_absence(relation: Relation) -> bool:
    """Whether a row that is behind another place of a statement could hide that one is absent."""
    tables = [scan.table for scan in scans(relation)]
    is_absence = any(
        isinstance(one, Joined) and one.kind not in {"inner", "cross"} for one in below(relation)
    )
    return len(tables) > len(set(tables)) and is_absence
