"""A view's table is the multiset that Spark gives for its statement, after every micro-batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from common.declare import Json, Pipeline, Silver, Topic, View
from common.delta.log import LogReader
from common.errors import CheckpointMismatchError, TableMissingError, TableShapeError, UsageError
from common.sql.cost import Sizes
from common.sql.statement import Statement
from common.sql.way import Way, whole
from gold.view import query as view_query
from orchestration.author.check.explain import explain
from orchestration.records.audit.gold.content import ContentAudit, GoldProof
from tests.conftest import make_settings
from tests.support.engine import Engine

ORDERS = "order_id string, customer string, at timestamp, amount int, text string, tags array<string>"
CUSTOMERS = "customer string, country string, since timestamp"
AT = datetime(2026, 1, 1)

SHORT = {
    "equal rows": "select customer from silver.orders",
    "inner join": (
        "select o.order_id, c.country from silver.orders o join silver.customers c on o.customer = c.customer"
    ),
    "groups over a left join": (
        "select c.country, count(*) as n, sum(o.amount) as total from silver.orders o left join "
        "silver.customers c on o.customer = c.customer group by c.country having count(*) > 1"
    ),
}
LONG = {
    "word count": (
        "select word, count(*) as n from silver.orders lateral view explode(split(text, ' ')) w "
        "as word group by word"
    ),
    "join by an inequality": (
        "select o.order_id, c.country from silver.orders o join silver.customers c on o.amount > "
        "length(c.country)"
    ),
    "doubles": "select customer, amount / 2 as half from silver.orders where amount <> 2",
    "doubles by key": "select customer, sum(amount / 3) as third from silver.orders group by customer",
    "windows that slide": (
        "select customer, window(at, '10 minutes', '5 minutes').start as starts_at, count(*) as n "
        "from silver.orders group by customer, window(at, '10 minutes', '5 minutes')"
    ),
    "sessions": (
        "select customer, session_window(at, '10 minutes') as w, count(*) as n from silver.orders "
        "group by customer, session_window(at, '10 minutes')"
    ),
    "windows": (
        "select customer, window(at, '10 minutes') as w, count(*) as n from silver.orders "
        "group by customer, window(at, '10 minutes')"
    ),
    "left join over an interval": (
        "select o.order_id, c.country from silver.orders o left join silver.customers c on o.customer = "
        "c.customer and o.at >= c.since and (c.country is null or o.amount < length(c.country) * 3)"
    ),
}
"""What no drawn statement has; those are kept over Delta tables, too, in statements/test_drawn.py."""


def silver(name: str, columns: str, key: str, at: str) -> Silver:
    return Silver(
        name,
        reads=f"bronze.{name}",
        value=Json(columns),
        columns=[column.split()[0] for column in columns.split(", ")],
        key=[key],
        event_time=at,
        watermark="1 day",
    )


def order(number: int, customer: str | None, amount: int, text: str = "x y") -> tuple[Any, ...]:
    return (f"o{number}", customer, AT + timedelta(minutes=4 * number), amount, text, text.split())


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first increment of a view is computed whole, as is one of few rows; later ones by changes."""
    known = set[str]()

    def chosen(statement: Statement, way: Way, sizes: Sizes) -> Way:
        is_first = statement.text not in known
        known.add(statement.text)
        return whole("it is the first") if is_first else way

    monkeypatch.setattr(view_query, "chosen", chosen)


class Shop:
    """Two silver tables, and views over them."""

    def __init__(
        self,
        spark: Any,
        folder: Path,
        statements: Sequence[str],
        *more: View,
        kept: Sequence[Any] = (),
        settings: Sequence[str] = (),
    ) -> None:
        ways = [*kept, *[None] * len(statements)]
        self.views = [View(f"v{place}", sql=sql, kept=ways[place]) for place, sql in enumerate(statements)]
        tables = [
            silver("orders", ORDERS, "order_id", "at"),
            silver("customers", CUSTOMERS, "customer", "since"),
        ]
        topics = [Topic("orders"), Topic("customers")]
        pipeline = Pipeline("shop", bronze=topics, silver=tables, gold=[*self.views, *more])
        self.spark, self.engine = spark, Engine(spark, pipeline, make_settings(folder, "", *settings))
        for table, columns in (("silver.orders", ORDERS), ("silver.customers", CUSTOMERS)):
            spark.sql(
                f"create table delta.`{self.engine.path(table)}` ({columns}) using delta "
                "tblproperties (delta.enableChangeDataFeed = true)"
            )

    def orders(self, *rows: tuple[Any, ...]) -> None:
        self.engine.append("silver.orders", rows, ORDERS)

    def customers(self, **countries: str) -> None:
        rows = [(customer, country, AT) for customer, country in countries.items()]
        self.engine.append("silver.customers", rows, CUSTOMERS)

    def change(self, statement: str) -> None:
        for table in ("silver.orders", "silver.customers"):
            statement = statement.replace(table, f"delta.`{self.engine.path(table)}`")
        self.spark.sql(statement)

    def run_and_compare(self) -> None:
        """Each table has the rows of its statement over the sources, equal rows as often."""
        self.engine.run("gold")
        for view in self.views:
            sql = view.sql
            for table in (one for one in view.tables if "/" not in one):
                sql = sql.replace(table, f"delta.`{self.engine.path(table)}`")
            want, have = (
                Counter(str(tuple(row)) for row in frame.collect())
                for frame in (self.spark.sql(sql), self.read(view.table))
            )
            assert have == want, view.sql

    def read(self, table: str) -> Any:
        return self.spark.read.format("delta").load(self.engine.path(table))


def live(shop: Shop) -> None:
    """Loads, increments, rows of both sides that come later than their match, updates and deletes."""
    shop.orders(order(1, "a", 1), order(2, "a", 3, "x x z"), order(3, "b", 5), order(4, None, 2))
    shop.customers(a="DE", c="FR")
    shop.run_and_compare()
    shop.orders(order(5, "c", 7), order(6, "b", 5, "q"))
    shop.customers(b="DE")
    shop.run_and_compare()
    shop.change("update silver.orders set amount = amount + 1 where customer = 'a'")
    shop.change("delete from silver.customers where customer = 'c'")
    shop.orders(order(7, "c", 7), order(8, "c", 7))
    shop.run_and_compare()
    shop.change("delete from silver.orders where customer is null or amount > 6")
    shop.run_and_compare()


def test_after_each_micro_batch_the_table_is_the_statements_multiset(spark: Any, tmp_path: Path) -> None:
    live(Shop(spark, tmp_path, [*SHORT.values()]))


@pytest.mark.long
def test_so_is_each_kind_that_is_not_drawn(spark: Any, tmp_path: Path) -> None:
    live(Shop(spark, tmp_path, [*LONG.values()]))


ORDER = "struct(amount, order_id)"
NEWEST = [
    (
        f"select customer, max_by(text, {ORDER}) as text, min_by(tags, {ORDER}) as tags, "
        f"max_by(struct(order_id, at, tags), {ORDER}) as row from silver.orders group by customer"
    ),
    (
        f"select tags, max_by(struct(text, amount), {ORDER}) as row, min_by(order_id, {ORDER}) as first "
        "from silver.orders group by tags"
    ),
    (
        f"select text, count(*) as n from (select customer, max_by(text, {ORDER}) as text "
        "from silver.orders group by customer) group by text"
    ),
    (
        "select c.country, max_by(o.text, struct(o.amount, o.order_id)) as text, min_by(o.text, o.order_id) "
        "as t from silver.orders o join silver.customers c on c.customer = o.customer group by c.country"
    ),
]


@pytest.mark.long
@pytest.mark.parametrize("rows", [0, 10_000], ids=["by Spark", "in the driver"])
def test_newest_values_of_strings_lists_and_structs_are_sparks(spark: Any, tmp_path: Path, rows: int) -> None:
    """Rows that are persisted by Spark, and rows that are collected; groups that get another newest row."""
    shop = Shop(spark, tmp_path, NEWEST, settings=[f"driver.batch_rows={rows}"])
    live(shop)
    shop.orders(order(9, "a", 0, "first"), order(10, "a", 99, "last"), order(11, "n", 1, ""))
    shop.change("update silver.orders set text = null, tags = null where customer = 'b'")
    shop.run_and_compare()
    shop.change("delete from silver.orders where amount = 99 or customer = 'n'")
    shop.run_and_compare()


@pytest.mark.long
def test_a_view_of_a_view_follows_a_replayed_micro_batch_and_an_idle_start(
    spark: Any, tmp_path: Path
) -> None:
    """The view that is read keeps a change data feed by itself; what is there already is written once."""
    over = View("sizes", sql="select n, count(*) as words from gold.v0 group by n")
    shop = Shop(spark, tmp_path, [LONG["word count"]], over)
    shop.orders(order(1, "a", 1), order(2, "a", 3, "x x z"))
    shop.run_and_compare()
    shop.orders(order(3, "b", 5, "x"))
    shop.run_and_compare()
    for query in ("gold.v0", "gold.sizes"):
        shop.engine.undo_last_commit(query)
    shop.run_and_compare()
    shop.run_and_compare()
    assert {tuple(row) for row in shop.read("gold.sizes").collect()} == {(4, 1), (1, 2)}
    named = [one["counts"]["versions"] for one in shop.engine.commits("gold.v0")]
    assert named == [{"silver.orders": 1}, {"silver.orders": 2}]


class Lake(Shop):
    """A shop whose view joins a Delta table of another program by its path; and one over that table alone."""

    def __init__(self, spark: Any, folder: Path, *, feed: bool, kept: Any = (None, None)) -> None:
        folder.mkdir(exist_ok=True)
        self.lake = folder / "lake" / "people"
        of = f"delta.`{self.lake}`"
        joined = f"select o.order_id, p.country from silver.orders o join {of} p on p.customer = o.customer"
        alone = f"select country, count(*) as people from {of} group by country"
        super().__init__(spark, folder, [joined, alone], kept=kept)
        self.spark.sql(
            f"create table {of} (customer string, country string) using delta "
            f"tblproperties (delta.enableChangeDataFeed = {str(feed).lower()})"
        )

    def people(self, statement: str) -> None:
        self.spark.sql(statement.format(f"delta.`{self.lake}`"))

    def live(self) -> None:
        self.orders(order(1, "a", 1), order(2, "b", 3))
        self.people("insert into {} values ('a', 'DE'), ('b', 'DE'), ('c', 'FR')")
        self.run_and_compare()
        self.people("update {} set country = 'FR' where customer = 'b'")
        self.people("delete from {} where customer = 'c'")
        self.run_and_compare()
        self.people("insert into {} values ('a', 'IT')")
        self.orders(order(3, "a", 1))
        self.run_and_compare()
        self.people("optimize {}")
        self.run_and_compare()

    def faults(self) -> list[str]:
        """What an audit of the views' content finds, and what it does not compare."""
        proof = GoldProof(self.engine.settings)
        content = ContentAudit(self.spark, self.engine.pipeline, self.engine.layout, proof)
        return [
            str(fault or shown.why) for shown, fault in content.compared(self.views) if fault or shown.why
        ]


@pytest.mark.long
@pytest.mark.parametrize("feed", [True, False])
def test_a_delta_table_is_followed_by_its_path_with_a_change_feed_or_without(
    spark: Any, tmp_path: Path, *, feed: bool
) -> None:
    """Its commits are read, and nothing is written there; each commit of a view names its version."""
    shop = Lake(spark, tmp_path, feed=feed)
    shop.live()
    named = [one["counts"]["versions"] for one in shop.engine.commits("gold.v0")]
    assert named[-1] == {"silver.orders": 2, str(shop.lake): LogReader(str(shop.lake)).latest_version()}
    assert named[0] == {"silver.orders": 1, str(shop.lake): 1}
    assert shop.faults() == []


@pytest.mark.long
def test_a_table_by_its_path_that_cannot_be_followed_is_refused(spark: Any, tmp_path: Path) -> None:
    """Without a feed where the way needs one; not there; another one in its place, until a rebuild."""
    shop = Lake(spark, tmp_path / "kept", feed=False, kept=("by row", None))
    with pytest.raises(TableShapeError, match=r"and the table at .*people keeps none\. Have it keep one"):
        shop.engine.run("gold")
    shop = Lake(spark, tmp_path / "gone", feed=True)
    shop.engine.remove(shop.lake)
    with pytest.raises(TableMissingError, match=r"gold\.v0 reads it: create it first"):
        shop.engine.run("gold")
    shop = Lake(spark, tmp_path / "other", feed=True)
    shop.live()
    shop.engine.remove(shop.lake)
    shop.people(
        "create table {} (customer string, country string) using delta "
        "tblproperties (delta.enableChangeDataFeed = true)"
    )
    with pytest.raises(CheckpointMismatchError, match="people"):
        shop.engine.run("gold")


PEOPLE = "k int, c char(3), d date, m map<string,int>, z double, s string"
PLACES = "id int, c char(5), d date, z double, text string, n string"
OF_VALUES = {
    "select p.k, p.c, o.c as other from {people} p full join {places} o on p.c = o.c": "by row",
    "select c from {people} union all select text from {places}": "by row",
    "select d, count(*) as n from {people} group by d": "by key",
    "select p.k, o.id from {people} p left join {places} o on p.d = o.d": "by row",
    "select p.k, o.text from {people} p left join {places} o on p.k = o.n": "by row",
    "select k, m, z from {people}": "by row",
    "select z, cast(z as string) as t, k from {people} where s rlike '^[0-9]+$'": "by row",
    "select p.k from {people} p join {places} o on int(p.s) = o.id where p.s rlike '^[0-9]+$'": "by row",
    "select m, count(*) as n from {people} group by m": "whole",
}
"""Statements over values of all kinds, and how their views are kept."""

VALUES = [
    (
        "(1, 'a', date'1582-10-10', map('x', 1), double('-0.0'), 'x'), (2, 'b', null, null, 0.0d, '9')",
        "(9, 'a', date'1582-10-10', 0.0d, 'p', '2'), (10, 'b', null, null, 'too long for char', '010')",
    ),
    (
        "(9, 'b', date'1582-10-10', map('x', 1), 0.0d, '10'), (10, 'c', date'2026-01-01', map(), null, 'y')",
        "(11, 'c', date'1582-10-05', double('NaN'), 'q', '9'), (12, 'x', null, double('-0.0'), 'r', '10')",
    ),
]
"""Rows of people and of places, micro-batch by micro-batch."""


@pytest.mark.long
def test_values_of_every_kind_are_those_of_the_statement(spark: Any, tmp_path: Path) -> None:
    """Tables of another program; rows come, both zeros change places, and rows go again."""
    paths = {name: f"delta.`{tmp_path}/lake/{name}`" for name in ("people", "places")}
    views = [View(f"v{at}", sql=sql.format(**paths)) for at, sql in enumerate(OF_VALUES)]
    pipeline = Pipeline("shop", bronze=[Topic("orders")], gold=views)
    engine = Engine(spark, pipeline, make_settings(tmp_path, ""))
    for name, columns in (("people", PEOPLE), ("places", PLACES)):
        feed = "tblproperties (delta.enableChangeDataFeed = true)"
        spark.sql(f"create table {paths[name]} ({columns}) using delta {feed}")

    def changed(*changes: str) -> None:
        for change in changes:
            spark.sql(change.format(**paths))
        engine.run("gold")
        for view in views:
            frames = spark.sql(view.sql), spark.read.format("delta").load(engine.path(view.table))
            want, have = (Counter(str(tuple(row)) for row in frame.collect()) for frame in frames)
            assert have == want, view.sql

    for people, places in VALUES:
        changed(f"insert into {{people}} values {people}", f"insert into {{places}} values {places}")
    changed(
        "update {people} set z = if(cast(z as string) = '0.0', double('-0.0'), 0.0d) where k in (1, 2, 9)",
        "update {places} set d = date'1582-10-10' where id = 11",
    )
    changed("delete from {people} where k in (1, 9, 10)", "delete from {places} where id = 9")
    found = {view.table: explain(pipeline, view.table, engine.layout) for view in views}
    assert [each.kept for each in found.values()] == [*OF_VALUES.values()]
    assert "a key that is a map" in found["gold.v8"].why
    declared = replace(pipeline, gold=[replace(views[-1], kept="by key")])
    with pytest.raises(UsageError, match=r"^gold\.v8: kept='by key', but .* whole: Spark cannot .* a map"):
        Engine(spark, declared, engine.settings).run("gold")


@pytest.mark.long
def test_a_text_of_a_collation_is_no_column(spark: Any, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, ["select customer collate utf8_lcase as who from silver.orders"])
    told = (
        r"^gold\.v0: who \(string collate UTF8_LCASE\) would be a text of a collation, .* Cast it to string"
    )
    with pytest.raises(TableShapeError, match=told):
        shop.engine.run("gold")
