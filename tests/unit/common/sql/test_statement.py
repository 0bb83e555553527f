"""How a statement is read without Spark: its tables and columns, the way in which it is kept, and faults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from common.errors import SqlError
from common.schema.ddl import Field
from common.sql.relations import Keyed, RowWise, below
from common.sql.statement import read_statement, tables_of
from common.sql.way import decided, in_words, note, noted, way_of, whole
from common.typed.statement import argument_types

COLUMNS = {
    "silver.orders": ["order_id", "customer", "amount", "text"],
    "gold.customers": ["customer", "country"],
    "gold.orders": ["customer", "country"],
}
JOINED = "from silver.orders o left join gold.customers c on o.customer = c.customer"

WAYS: dict[str, tuple[str, list[str]]] = {
    "select order_id as id, amount from silver.orders where amount > 1": ("by row", []),
    "select o.order_id, c.country from silver.orders o join gold.customers c on o.customer = c.customer": (
        "by row",
        [],
    ),
    f"select o.order_id, c.country {JOINED}": ("by row", []),
    "select spark_catalog.silver.orders.amount from spark_catalog.silver.orders": ("by row", []),
    "select o.amount from silver.orders o join gold.customers c using (customer)": ("by row", []),
    "select o.amount from silver.orders o join gold.customers c on o.customer = c.customer "
    "join gold.customers d using (customer)": ("by row", []),
    "select exists(text, Z -> z > 1) as t from silver.orders": ("by row", []),
    "select customer, count(*) as n from silver.orders group by ((customer))": ("by key", ["customer"]),
    "select orders.amount, orders.country from silver.orders join gold.orders using (customer)": (
        "by row",
        [],
    ),
    "select o.amount from (((select amount, customer from silver.orders) o "
    "join gold.customers c using (customer)))": ("by row", []),
    f"select c.country as land, count(*) as n {JOINED} group by c.country": ("by key", ["land"]),
    "select distinct customer from silver.orders": ("by key", ["customer"]),
    "select customer from silver.orders union select customer from gold.customers": ("by key", ["customer"]),
    "select word, count(*) as n from silver.orders lateral view explode(split(text, ' ')) w as word "
    "group by word": ("by key", ["word"]),
    "select * from (select customer, amount, row_number() over (partition by customer order by amount) as p "
    "from silver.orders) where p < 3": ("by key", ["customer"]),
    "with t as (select customer, count(*) as n from silver.orders group by customer) "
    "select n, count(*) as customers from t group by n": ("by key", ["n"]),
    "select count(*) as n from silver.orders": ("by key", []),
    "select count(*) as n from silver.orders group by customer": ("by row", []),
    "select order_id, (select max(country) from gold.customers) as top from silver.orders": ("by row", []),
    "select o.order_id from silver.orders o where o.amount > "
    "(select 2 * avg(i.amount) from silver.orders i where i.customer = o.customer)": ("by row", []),
    "select customer, count(*) as n from silver.orders group by customer "
    "having count(*) > (select count(*) from gold.customers)": ("by row", []),
    "select customer, country, count(*) as n from gold.customers group by all": (
        "by key",
        ["customer", "country"],
    ),
    "select customer, country, count(*) as n from gold.customers group by country, rollup (customer)": (
        "by row",
        [],
    ),
    "select customer, sum(amount) over w as s from silver.orders window w as (partition by customer)": (
        "by key",
        ["customer"],
    ),
    "select customer, count(*) as n, rank() over w as place from silver.orders group by customer, amount "
    "window w as (partition by customer order by max(order_id), amount)": ("by key", ["customer"]),
    "select customer, amount, max(count(*)) over (partition by customer) as most "
    "from silver.orders group by customer, amount": ("by key", ["customer"]),
    "select order_id, country from silver.orders o full join gold.customers c on o.customer <=> c.customer": (
        "by row",
        [],
    ),
    "select customer, count(*) as n from silver.orders group by customer having customer is null or n > 1": (
        "by key",
        ["customer"],
    ),
    "select order_id, x from silver.orders pivot (max(text) for (customer, amount) in (('a', 1) as x))": (
        "by key",
        ["order_id"],
    ),
    "select b, n from (select b from (select amount, text from silver.orders) pivot (max(text) for amount in "
    "(1 as b))) cross join (select count(*) as n from gold.customers)": ("by row", []),
    "select customer from silver.orders except select customer from gold.customers": ("by row", []),
    "select customer from silver.orders intersect all select customer from gold.customers": (
        "by key",
        ["customer"],
    ),
    "select customer from silver.orders intersect select customer from gold.customers": ("by row", []),
    "select customer from silver.orders union select customer from gold.customers intersect "
    "select customer from gold.orders": ("by key", ["customer"]),
    "select order_id from silver.orders where customer not in (select customer from gold.customers)": (
        "by row",
        [],
    ),
    "select order_id from silver.orders o where amount > 3 or customer in (select customer from "
    "gold.customers) or not exists (select 1 from gold.orders g where g.customer = o.customer)": (
        "by row",
        [],
    ),
    "select o.order_id from silver.orders o left join gold.customers c on ((o.customer = c.customer))": (
        "by row",
        [],
    ),
    "select customer, country, count(*) as n from gold.orders group by grouping sets ((customer, country), "
    "(country), ()) having count(*) > 1": ("by row", []),
}
WHOLE = {
    "select rank() over (order by amount) as place from silver.orders": "a window without PARTITION BY",
    "select first(amount) as f from silver.orders group by customer": "add orders.customer to the SELECT",
    "select customer, sum(amount) over v as s from silver.orders "
    "window w as (partition by customer), v as (w order by amount)": "a named WINDOW",
    "select order_id from silver.orders o where amount > (select coalesce(max(i.amount), 0) from "
    "silver.orders i where i.customer = o.customer)": "(select coalesce(max(i.amount), 0)",
    "select order_id from silver.orders o where amount > (select max(i.amount) from silver.orders i "
    "where i.customer < o.customer)": "otherwise than by an equality",
    "select order_id from silver.orders o where amount > (select max(i.amount) from silver.orders i join "
    "gold.customers c on c.country = o.text where i.customer = o.customer)": "otherwise than in an equality",
    "select order_id from silver.orders where amount > 3 or customer = any (select customer from "
    "gold.customers)": "a subquery",
    "select order_id from silver.orders where not (amount > 3 and customer in "
    "(select customer from gold.customers))": "whose null is not that of its condition",
    "select order_id from silver.orders o where amount > 3 or exists (select 1 from gold.customers c "
    "where c.customer > o.customer)": "otherwise than by an equality",
    "select struct(max(amount)) as s, rank() over (partition by customer order by customer) as place "
    "from silver.orders group by customer": "max(amount) as a field; write named_struct",
    "select order_id from silver.orders order by amount limit 3": "LIMIT chooses among all rows",
    f"select o.order_id {JOINED.replace('=', '>')}": "no equality between columns of both sides",
    "select customer from silver.orders union all by name select customer from gold.customers": "BY NAME",
    "select o.amount from silver.orders o join (values ('a')) v(c) on v.c = o.customer": "VALUES has no",
    "select a from silver.orders pivot (sum(amount) for customer in (concat('a', 'b')))": "only Spark knows",
    "select a from silver.orders unpivot (a for b in (amount, order_id))": "only Spark knows",
    "select country, a from silver.orders o join gold.customers c on o.customer = c.customer pivot "
    "(sum(amount) for text in ('a'))": "only Spark knows",
    "select order_id, a from silver.orders o cross join gold.customers c pivot (max(country) for text in "
    "('a'))": "only Spark knows",
    f"select o.order_id {JOINED} and o.amount > (select max(amount) from silver.orders)": "a subquery in ON",
    "select o.order_id from silver.orders o where exists "
    "(select 1 from gold.customers o where o.customer = o.country)": "names no column of the outer",
    "select o.order_id from silver.orders o where exists (select 1 from gold.customers c join "
    "gold.customers d on d.country = o.text where c.customer = o.customer)": "joins by columns of an outer",
    "select order_id, text.* from silver.orders": "columns that only Spark knows",
    "select silver.orders.text.a.b.* from silver.orders": "columns that only Spark knows",
    "select * except (text.a) from silver.orders": "columns that only Spark knows",
    f"select j.text from ({JOINED.removeprefix('from ')}) j": "columns only Spark knows",
    "select m from (select customer, max(text) over (partition by customer order by amount rows between "
    "1 preceding and 1 following) as m from silver.orders) join gold.customers using (customer)": "max(text)",
    "select o.text from silver.orders o full join gold.customers c using (customer) left join "
    "gold.customers d using (customer)": "a column of a full join by USING",
    "with t as (select customer, any_value(amount) as some from silver.orders group by customer) "
    "select c.country, t.some from t join gold.customers c on c.customer = t.customer": "any_value(amount)",
    "with t as (select customer, max_by(order_id, amount) as best from silver.orders group by customer) "
    "select best, count(*) as n from t group by best": "max_by(order_id, amount)",
    "select customer, session_window(text, '10 minutes') as w, count(*) as n from silver.orders "
    "group by customer, session_window(text, '10 minutes')": "bounds of a session depend on other rows",
    "select w, count(*) as n from (select Session_Window(text, '10 minutes') as w from silver.orders) "
    "group by w": "bounds of a session depend on other rows",
    "with s as (select customer, session_window(text, '10 minutes') as w from silver.orders) "
    "select distinct w from s": "bounds of a session depend on other rows",
    "select customer, window(text, '10 minutes', '5 minutes').start as t, count(*) as n from silver.orders "
    "group by customer, window(text, '10 minutes', '5 minutes')": "in several windows that slide",
}


@pytest.mark.parametrize("sql", WAYS)
def test_a_statement_is_kept_by_row_or_by_key(sql: str) -> None:
    way = way_of(read_statement(sql, COLUMNS))
    assert (way.kept, [*way.keys]) == WAYS[sql]


@pytest.mark.parametrize("sql", WHOLE)
def test_what_has_no_key_is_kept_whole_and_says_why(sql: str) -> None:
    way = way_of(read_statement(sql, COLUMNS))
    assert way.kept == "whole"
    assert WHOLE[sql] in way.why


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


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("select |texte from silver.orders", "names 'texte', which is no column of its tables; did you"),
        (
            "select o.|Texte from silver.orders o",
            "names 'Texte', which is no column of o; did you mean 'text'",
        ),
        ("select |x.text from silver.orders o", "names 'x', which is no table of its FROM; known: o"),
        (
            "select |customer from silver.orders o join gold.customers c on c.customer = o.customer",
            "names 'customer', which o and c have; write o.customer",
        ),
        ("select order_id frm |silver.orders", "cannot be read at 'silver'"),
        ("|selec order_id from silver.orders", "cannot be read at 'selec'; did you mean 'select'?"),
        ("-- why\n\t|selct order_id from silver.orders", "did you mean 'select'?"),
        ("select order_id from silver.orders |where", "cannot be read at 'where'; something is missing"),
        ("select case when true then |text from silver.orders", "a case ends with 'end'"),
        (
            "select order_id from silver.orders where text = |'a",
            "has a quote that is opened and never closed",
        ),
        ("select |count(*) from silver.orders", "an output column without a name, count(*)"),
        (
            "select order_id as a, text as b, |customer as a from silver.orders",
            "two output columns of one name",
        ),
        (
            "select |amount as __weight from silver.orders",
            "has an output column __weight, a name of the engine's",
        ),
        ("|delete from silver.orders", "is no SELECT"),
        ("select order_id |-- all \\\n, text from silver.orders", "a comment (--) that ends with \\"),
        ("select 1 as a from silver.orders; |select 2", "is not one statement"),
        ("select order_id from |silver.orders tablesample (10 percent)", "which chooses rows by chance"),
        ("select order_id from |silver.orders version as of 3", "so leave it out"),
        (
            "select order_id from silver.orders |qualify row_number() over (order by amount) = 1",
            "has QUALIFY, which Spark does not know",
        ),
        ("select order_id from silver.orders where |later > 1", "names 'later', which is no column"),
        ("select amount * 2 as later from silver.orders where |later > 1", "an alias of the SELECT list"),
        ("select |txt.* from silver.orders", "names 'txt', which is no table of its FROM"),
        ("select |silver.orders.txt.* from silver.orders", "names 'silver', which is no table of its FROM"),
        (
            f"select |text.* {JOINED} join silver.orders p on p.amount = o.amount",
            "'text', which o and p have",
        ),
        (
            "select * except (|txt) from silver.orders",
            "leaves out 'txt', which is no column of its star; did you mean 'text'?",
        ),
        (f"select * except (|customer) {JOINED}", "names 'customer', which o and c have; write o.customer"),
        (
            "select j.text from (silver.orders o join gold.customers c on o.customer = c.|customers) j",
            "names 'customers', which is no column of c",
        ),
        ("with t as (select 1 as a), |t as (select 2 as a) select a from t", "two queries of WITH"),
        ("select t.x from silver.orders |t(x, y)", "names 2 columns of 4"),
    ],
)
def test_a_mistake_is_told_with_its_place(sql: str, told: str) -> None:
    with pytest.raises(SqlError) as error:
        read_statement(sql.replace("|", ""), COLUMNS)
    assert told in str(error.value)
    assert error.value.at == sql.index("|")


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
