"""Where the conditions of a statement stand once its relations are narrowed: as low as its meaning allows."""

from __future__ import annotations

import pytest

from common.sql.narrowed import narrowed
from common.sql.relations import Joined, Keyed, Relation, RowWise, Scan, UnionAll, below
from common.sql.statement import read_statement

COLUMNS = {"silver.a": ["k", "s", "v"], "silver.b": ["k", "w"]}
A, B = "from silver.a a", "silver.b b on a.k = b.k"


def shown(relation: Relation) -> str:
    """The joins, unions, keys and conditions of a relation, from the top to its tables."""
    match relation:
        case Scan():
            return relation.table.partition(".")[2]
        case RowWise() if relation.where:
            conditions = " AND ".join(f"({each})" for each in relation.where)
            return f"{shown(relation.input)}[{conditions.replace('`', '').replace('__', '.')}]"
        case RowWise():
            return shown(relation.input)
        case UnionAll():
            return f"union({', '.join(map(shown, relation.inputs))})"
        case Joined():
            return f"{relation.kind}({shown(relation.left)}, {shown(relation.right)})"
        case Keyed():
            return f"{relation.kind}({shown(relation.input)})"


PLACES = {
    f"select a.k {A} join {B} where a.v > 1 and b.w > 2 and a.v < b.w": (
        "inner(a[(a.v > 1)], b[(b.w > 2)])[(a.v < b.w)]"
    ),
    f"select a.k {A} left join {B} where a.v > 1 and b.w > 2": "left(a[(a.v > 1)], b)[(b.w > 2)]",
    f"select a.k {A} right join {B} where a.v > 1 and b.w > 2": "right(a, b[(b.w > 2)])[(a.v > 1)]",
    f"select a.k {A} full join {B} where a.v > 1 and b.w > 2": "full(a, b)[(a.v > 1) AND (b.w > 2)]",
    f"select a.k {A} left semi join {B} where a.v > 1": "semi(a[(a.v > 1)], b)",
    f"select a.k {A} left anti join {B} where a.v > 1": "anti(a[(a.v > 1)], b)",
    f"select a.k {A} join {B} and a.v > 1 and b.w > 2": "inner(a[(a.v > 1)], b[(b.w > 2)])",
    f"select a.k {A} left join {B} and a.v > 1 and b.w > 2": "left(a, b[(b.w > 2)])",
    f"select a.k {A} right join {B} and a.v > 1 and b.w > 2": "right(a[(a.v > 1)], b)",
    f"select a.k {A} full join {B} and a.v > 1 and b.w > 2": "full(a, b)",
    f"select a.k {A} left anti join {B} and a.v > 1 and b.w > 2": "anti(a, b[(b.w > 2)])",
    f"select a.k {A} join {B} where a.v > 1 or b.w > 2": "inner(a, b)[(a.v > 1 or b.w > 2)]",
    f"select a.k {A} join {B} where a.v between 1 and 2 and case when a.s = 'x' and a.v = 1 then true end": (
        "inner(a[(a.v between 1 and 2) AND (case when a.s = 'x' and a.v = 1 then true end)], b)"
    ),
    "select q.n from (select k as n, cast(s as int) as i, s from silver.a) q join silver.b b on q.n = b.k "
    "where q.s rlike '^[0-9]+$' and q.i > 1": "inner(a[(a.s rlike '^[0-9]+$')][(i > 1)], b)",
    "select q.n from (select k as n from silver.a union all select k from silver.b) q where q.n > 1": (
        "union(a, b)[(n > 1)]"
    ),
    "select q.n from (select k, count(*) as n from silver.a where v > 1 group by k) q join silver.b b on "
    "q.k = b.k where q.n > 2": "inner(group(a[(a.v > 1)])[(n > 2)], b)",
    "select q.n from (select k as n, s from silver.a) q where exists(q.s, n -> n > q.n)": (
        "a[(exists(q.s, n -> n > q.n))]"
    ),
    "select q.n from (select k as n, s from silver.a) q where exists(q.s, x -> x > q.n)": (
        "a[(exists(a.s, x -> x > a.k))]"
    ),
    "select q.n from (select k as n, v from (select s as m, k, v from silver.a) p) q where q.v:m::int > 1": (
        "a[(a.v:m::int > 1)]"
    ),
    "select q.day from (select k as day, v from silver.a) q where q.v > date'2026-01-02' - interval 1 day": (
        "a[(a.v > date'2026-01-02' - interval 1 day)]"
    ),
    f"select e.w {A} lateral view explode(split(a.s, ' ')) e as w where a.v > 1 and e.w = 'x'": (
        "a[(a.v > 1)][(e.w = 'x')]"
    ),
}


@pytest.mark.parametrize("sql", PLACES)
def test_a_condition_stands_as_low_as_its_meaning_allows(sql: str) -> None:
    read = read_statement(sql, COLUMNS)
    assert read.relation is not None
    found = narrowed(read.relation)
    assert shown(found) == PLACES[sql]
    assert found.columns == read.relation.columns


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("a.s = 'x and y' -- and z\n and a.v > 1", ["`a__s` = 'x and y'", "`a__v` > 1"]),
        ("((a.k > 1 and (a.s > 1 and a.v > 1)))", ["`a__k` > 1", "`a__s` > 1", "`a__v` > 1"]),
        ("(a.k > 1 and a.s > 1) or a.v > 1", ["(`a__k` > 1 and `a__s` > 1) or `a__v` > 1"]),
        ("a.k > 1 and a.s > 1 or a.v > 1", ["`a__k` > 1 and `a__s` > 1 or `a__v` > 1"]),
        ("not a.k between 1 and 2 and a.s", ["not `a__k` between 1 and 2", "`a__s`"]),
        ("exists(a.v, x -> x > 1 and x < 3)", ["exists(`a__v`, x -> x > 1 and x < 3)"]),
    ],
)
def test_what_and_joins_is_cut_by_the_authors_characters(condition: str, parts: list[str]) -> None:
    read = read_statement(f"select a.k {A} where {condition}", COLUMNS)
    assert read.relation is not None
    (where,) = [each.where for each in below(read.relation) if isinstance(each, RowWise) and each.where]
    assert list(where) == parts


def test_a_field_of_the_name_of_a_column_is_not_renamed() -> None:
    sql = (
        "select q.n from (select k as n, s as k from silver.a) q join silver.b b on q.n = b.k where q.k.n > 1"
    )
    read = read_statement(sql, COLUMNS)
    assert read.relation is not None
    assert shown(narrowed(read.relation)) == "inner(a[(a.s.n > 1)], b)"
