"""How a statement is read without Spark: its tables and columns, the way in which it is kept, and faults."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from common.errors import SqlError
from common.schema.ddl import Field
from common.sql.relations import Keyed, RowWise, below
from common.sql.statement import read_statement, tables_of
from common.sql.way import decided, in_words, note, noted, way_of, whole
from common.typed.statement import argument_types
from tests.support.documents import chapters

COLUMNS = {
    "silver.orders": ["order_id", "customer", "amount", "text"],
    "gold.customers": ["customer", "country"],
    "gold.orders": ["customer", "country"],
}
CHAPTER = Path(__file__).parents[3] / "spec" / "views" / "statements.md"
ROWS = list(chapters.rows(CHAPTER))
KEPT = {row.place: row for row in ROWS if row.head[1] == "kept"}
WRONG = {row.place: row for row in ROWS if row.head[1] == "says"}


@pytest.mark.parametrize("place", KEPT)
def test_a_statement_is_kept_by_row_or_by_key_or_says_why_it_is_not(place: str) -> None:
    """``WRITE_CHAPTERS=1`` writes the way of today."""
    row = KEPT[place]
    way = way_of(read_statement(chapters.text(row.cells[0]), COLUMNS))
    found = (way.kept, way.why if way.kept == "whole" else ", ".join(way.keys) or "-")
    if "WRITE_CHAPTERS" in os.environ:
        row.write({1: found[0], 2: found[1]})
    else:
        assert found == row.cells[1:]


def test_keys_in_brackets_have_no_names_of_their_own() -> None:
    """As fields of a struct have: ``GROUP BY a AS k`` is no SQL."""
    sql = "select customer, country, count(*) as n from gold.orders group by rollup ((customer, country))"
    relation = read_statement(sql, COLUMNS).relation
    assert relation is not None
    own = [each.text.partition(" FROM ")[2] for each in below(relation) if isinstance(each, Keyed)]
    keys = "`orders__customer`, `orders__country`"
    assert own == [f"__in0__ GROUP BY {keys} GROUPING SETS (({each}))" for each in (keys, "")]


TYPES = {"": "by key", "decimal(10,2)": "by key", "smallint": "by key", "int": "whole", "double": "whole"}


@pytest.mark.parametrize("kind", TYPES)
def test_a_mean_below_the_last_step_is_exact_where_its_type_is(kind: str) -> None:
    sql = (
        "with t as (select customer, avg(amount) as mean from silver.orders group by customer) "
        "select mean, count(*) as n from t group by mean"
    )
    way = way_of(read_statement(sql, COLUMNS))
    (call,) = way.unsure
    assert (way.kept, call.shown, sql[call.at :][:6]) == ("by key", "avg(amount)", "amount")
    found = decided(way, {call.at: kind})
    assert found.kept == TYPES[kind]
    assert bool(found.unsure) == (not kind)
    assert ("avg(amount) is of decimals, which a start finds out" in in_words(found)) == (not kind)
    assert ("avg(amount) below the last step may differ" in found.why) == (found.kept == "whole")
    types = argument_types(
        sql, {"silver.orders": [Field(name, kind or "") for name in COLUMNS["silver.orders"]]}
    )
    assert types[call.at] == kind


def test_what_the_page_says_instead_of_a_kind_is_never_kept_whole() -> None:
    page = Path("docs/author/gold.md").read_text(encoding="utf-8")
    part = page.partition("### What a kind does not say, a view does")[2].partition("\n## ")[0]
    columns = {
        "silver.orders": ["order_id", "customer_id", "product_id", "amount", "ordered_at"],
        "gold.customers": ["customer_id", "country"],
        "gold.order_status": ["order_id", "status"],
        "gold.prices": ["product_id", "price", "valid_from", "valid_to"],
    }
    kept = [way_of(read_statement(sql, columns)).kept for sql in re.findall(r"`(select [^`]+)`", part)]
    assert kept == ["by row", "by key", "by row", "by row", "by row", "by row", "by key", "by key"]


def test_tables_columns_and_functions_are_read() -> None:
    sql = "with t as (select * from silver.orders) select upper(t.text) as T, c.* from t, gold.customers c"
    assert tables_of(sql) == ("silver.orders", "gold.customers")
    assert read_statement(sql, COLUMNS).columns == ("T", "customer", "country")
    assert tables_of("select a from delta.`s3a://lake/people`") == ("s3a://lake/people",)


def test_a_place_an_alias_and_the_whole_name_of_a_table_mean_a_column() -> None:
    sql = (
        "select /*+ broadcast(silver.orders) */ silver.orders.customer as who, "
        "silver.orders.amount * 2 as twice, twice + 1 as more, count(*) as n "
        "from silver.orders group by 1, silver.orders.amount"
    )
    statement = read_statement(sql, COLUMNS)
    assert statement.tables == ("silver.orders",)
    assert way_of(statement).keys == {"who": 0}


@pytest.mark.parametrize("place", WRONG)
def test_a_mistake_is_told_with_its_place(place: str) -> None:
    row = WRONG[place]
    marked = chapters.text(row.cells[0])
    with pytest.raises(SqlError) as error:
        read_statement(marked.replace("|", ""), COLUMNS)
    if "WRITE_CHAPTERS" in os.environ:
        row.write({1: str(error.value)})
    else:
        assert str(error.value) == row.cells[1]
    assert error.value.at == marked.index("|")


def test_all_wrong_names_of_a_statement_are_told_at_once() -> None:
    sql = "select tex, o.`no such`, upper(custmer) as c from silver.orders o where z.a = amunt"
    with pytest.raises(SqlError) as error:
        read_statement(sql, COLUMNS)
    found = [error.value, *error.value.also]
    words = ["tex", "`no such`", "custmer", "z.a", "amunt"]
    assert [each.at for each in found] == [sql.index(word) for word in words]
    assert {each.code for each in found} == {"MED-1202"}


def test_a_name_like_that_of_an_input_is_not_read_as_one() -> None:
    sql = (
        "with __in1__ as (select order_id as __in0__ from silver.orders) select __in1__.__in0__ from __in1__"
    )
    assert read_statement(sql, COLUMNS).over_inputs == (
        "with `__in1__` as (select order_id as `__in0__` from __in0__ AS `orders`) "
        "select `__in1__`.`__in0__` from `__in1__`"
    )


def test_a_statement_ends_before_its_semicolon_and_the_comments_behind_it() -> None:
    statement = read_statement(" select order_id -- a\n from silver.orders ; -- ; end\n", COLUMNS)
    assert statement.text == "select order_id -- a\n from silver.orders"
    assert statement.over_inputs == "select order_id -- a\n from __in0__ AS `orders`"


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ("sum(amount) for customer in ('a' as x, 'b', 'c d')", ("text", "x", "b", "c d")),
        (
            "sum(amount) as s, max(text) m for customer in ('a' as x, 7)",
            ("x_s", "x_m", "7_s", "7_m"),
        ),
        ("sum(amount) for (customer, text) in (('a', 'b') as x)", ("x",)),
        ("sum(amount), max(text) as m for customer in ('a')", ()),
        ("sum(amount) for customer in ('it''s')", ()),
        ("sum(amount) for customer in (r'a', 'x' as y)", ()),
        ("sum(amount) for customer in ('a' as x, 'b' as X)", ()),
        ("sum(amount) for customer in (1.50)", ()),
    ],
)
def test_the_columns_of_a_pivot_are_those_that_spark_makes(columns: str, found: tuple[str, ...]) -> None:
    sql = f"select * from (select customer, amount, text from silver.orders) pivot ({columns})"
    assert read_statement(sql, COLUMNS).columns == found


def test_no_column_of_a_query_without_an_alias_has_the_name_of_a_weight() -> None:
    sql = "select weight, key0 from (select 1 as weight, order_id as key0 from silver.orders)"
    relation = read_statement(sql, COLUMNS).relation
    assert relation is not None
    assert {name for each in below(relation) for name in each.columns} == {
        *("weight", "key0", "subquery__weight", "subquery__key0", "orders__order_id")
    }


@pytest.mark.parametrize(
    ("sql", "select"),
    [
        (
            "to_json(struct(amount, o.text as t, -amount)) as j, struct(o.customer.name).name as n",
            (
                "to_json(struct(`o__amount` AS `amount`, `o__text` as t, -`o__amount`)) AS `j`, "
                "struct(`o__customer`.name).name AS `n`"
            ),
        ),
        (
            "(amount, O.Text) as r, struct((AMOUNT), ((text))) as s",
            (
                "(`o__amount` AS `amount`, `o__text` AS `Text`) AS `r`, "
                "struct((`o__amount` AS `AMOUNT`), ((`o__text` AS `text`))) AS `s`"
            ),
        ),
        (
            "transform(text, Amount -> amount || o.text) as t",
            "transform(`o__text`, Amount -> amount || `o__text`) AS `t`",
        ),
        (
            "transform(text, o__text -> o__text || o.text) as t",
            "transform(`o__text_2`, o__text -> o__text || `o__text_2`) AS `t`",
        ),
        (
            "o.amount + 1 as o__amount, o__amount * 2 as z",
            "`o__amount_2` + 1 AS `o__amount`, o__amount * 2 AS `z`",
        ),
    ],
)
def test_expressions_are_the_authors_characters_but_for_columns(sql: str, select: str) -> None:
    """Whose names would else get into values, as fields do, or mean something else, as parameters do."""
    relation = read_statement(f"select {sql} from silver.orders o", COLUMNS).relation
    assert isinstance(relation, RowWise)
    assert relation.select == select


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (
            "select o.* from silver.orders o join gold.customers c using (customer)",
            "customer order_id amount text",
        ),
        (
            "select * from silver.orders o left semi join gold.customers c using (customer)",
            "customer order_id amount text",
        ),
        (
            "select c.*, o.text from silver.orders o full join gold.customers c using (customer)",
            "customer country text",
        ),
    ],
)
def test_the_star_of_a_table_begins_with_the_columns_of_using(sql: str, columns: str) -> None:
    assert read_statement(sql, COLUMNS).columns == tuple(columns.split())


def test_a_condition_that_is_one_column_is_no_alias() -> None:
    """Spark reads ``FROM t WHERE (a)`` as the table t under the name WHERE, with one column a."""
    relation = read_statement(
        "select order_id from silver.orders where is_open", {"silver.orders": ["order_id", "is_open"]}
    ).relation
    assert relation is not None
    (filtered,) = relation.inputs
    assert isinstance(filtered, RowWise)
    assert filtered.text().endswith(" WHERE ((`orders__is_open`))")


def test_why_a_job_keeps_a_view_whole_is_read_from_its_commits_until_the_statement_is_another() -> None:
    statement, other = (
        read_statement(f"select customer from silver.orders where amount > {least}", COLUMNS)
        for least in (1, 2)
    )
    counts = {"inserted": 1, **note(statement, whole("its key is a map"))}
    assert noted(statement, counts) == "its key is a map"
    assert [noted(other, counts), noted(statement, {"inserted": 1})] == ["", ""]
