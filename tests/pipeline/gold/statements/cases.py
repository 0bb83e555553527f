"""Statements that once gave other rows than Spark gives for their text, or ended in something else than rows.

Each is a view over small tables that change three times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal

from tests.support.drawn.tables import Life, Row


@dataclass(frozen=True)
class Gone:
    """A row that a version takes away."""

    row: Row


def life(tables: Mapping[str, tuple[str, Sequence[Sequence[Row | Gone]]]]) -> Life:
    """A life: each table's columns, divided by commas, and what each version adds and takes away."""
    columns = {
        table: dict(one.strip().replace("`", "").split(" ", 1) for one in text.split(";"))
        for table, (text, _) in tables.items()
    }
    changes = {
        table: [
            [(-1, row.row) if isinstance(row, Gone) else (1, row) for row in version] for version in versions
        ]
        for table, (_, versions) in tables.items()
    }
    return Life(columns, changes)


def _at(day: int, hour: int = 0) -> datetime:
    return datetime(2026, 1, day, hour, tzinfo=UTC)


_NAN = float("nan")

SHARED = life(
    {
        "silver.a": (
            "id int; k string; v int; d double; p decimal(10,2); day date; at timestamp; name string; unit string; json string; arr array<string>; m map<string,int>; st struct<a:int,b:string>; big bigint; s string; flag boolean",
            [
                [
                    (1, "a", 1, 0.5, Decimal("1.50"), date(2026, 1, 5), _at(5, 1), "O'Brien", "MONTH",
                     '{"a": 1, "a b": "x"}', ["x", "y"], {"a": 1}, {"a": 1, "b": "x"}, 1, "1", True),
                    (2, "b", 2, -0.0, Decimal("20.00"), date(2026, 1, 9), _at(9, 13), 'say "hi"', "DAY",
                     '{"a": 2}', [], {}, {"a": None, "b": None}, 2, "2", False),
                ],
                [
                    (3, "a", 9, _NAN, None, date(2026, 1, 10), _at(10), "OBrien", "YEAR",
                     '{"b": {"a": 3}}', None, None, None, 9, "9", None),
                    (4, None, 10, 1000.0, Decimal("1234.50"), None, None, "", "HOUR",
                     None, ["y", None], {"b": None}, {"a": 4, "b": "y"}, 10, "10", True),
                    Gone((2, "b", 2, -0.0, Decimal("20.00"), date(2026, 1, 9), _at(9, 13), 'say "hi"', "DAY",
                          '{"a": 2}', [], {}, {"a": None, "b": None}, 2, "2", False)),
                ],
                [
                    (5, "c", 7, -0.0, Decimal("0.25"), date(2026, 1, 9), _at(9, 13), 'say "hi"', None,
                     '{"a": 5}', ["x"], {"a": 1}, {"a": 5, "b": "x"}, 7, "x", None),
                    (6, "c", 7, -0.0, Decimal("0.25"), date(2026, 1, 9), _at(9, 13), "O'Brien", "DAY",
                     "[1]", ["x"], {"a": 1}, {"a": 5, "b": "x"}, 7, "09", False),
                ],
            ],
        ),
        "silver.b": (
            "k string; w int; d double; x string; arr array<string>; q decimal(20,5); at timestamp; n bigint",
            [
                [("a", 1, 7.0, "1", ["x"], Decimal("7.00000"), _at(5, 1), 1)],
                [("b", 5, 2.5, "9", [], Decimal("2.50000"), _at(9, 13), 9)],
                [
                    ("a", 3, 7.0, "10", None, Decimal("7.00000"), _at(10), 10),
                    ("c", 9, -0.0, "09", ["y", "z"], None, None, 9),
                ],
            ],
        ),
        "silver.c": (
            "id int; score int; big bigint; price decimal(10,2); day date; at timestamp; ok boolean; customer string; k string; credit_limit int",
            [
                [
                    (1, 9, 9, Decimal("9.50"), date(2026, 1, 9), _at(9), True, "k", "a", 1),
                    (2, 10, 10, Decimal("10.50"), date(2026, 1, 10), _at(10), False, "m", "b", 2),
                    (3, 2, 2, Decimal(2), date(2026, 1, 2), _at(2), True, "n", "c", 3),
                ],
                [],
                [(4, 100, 100, Decimal(100), date(2026, 1, 11), _at(11), None, "o", None, 4)],
            ],
        ),
        "silver.t": (
            "id int; number string; day string; at string; price string; yes string",
            [
                [(1, "2", "2026-01-02", "2026-01-02", "2", "true")],
                [
                    (2, "9", "2026-1-9", "2026-01-09 00:00", "9.5", "true"),
                    (3, "10", "2026-1-10", "2026-01-10 00:00", "10.5", "f"),
                ],
                [
                    (4, "09", "2026-01-09", "2026-01-09", "9.50", "t"),
                    (5, "100", "2026-01-11", "2026-01-11", "100", "false"),
                    Gone((2, "9", "2026-1-9", "2026-01-09 00:00", "9.5", "true")),
                ],
            ],
        ),
        "silver.orders": (
            "id int; customer string; qty int",
            [[(1, "k", 1)], [(2, "m", 2), (3, "k", 3)], [(4, None, 4), (5, "k", 5)]],
        ),
        "gold.orders": (
            "id int; status string; credit_limit int",
            [[(1, "new", 1)], [(2, "paid", 3)], [(3, "new", 4)]],
        ),
        "silver.q1": ("id int; k string; a int", [[(1, "a", 1)], [(2, "b", 2)], [(3, "a", 3)]]),
        "silver.letters": (
            "k string; s string",
            [
                [("a", "X"), ("b", "y")],
                [Gone(("a", "X")), ("a", "x"), ("c", "q")],
                [Gone(("b", "y")), ("b", "Y"), Gone(("c", "q"))],
            ],
        ),
        "silver.odd": (
            "id int; `@timestamp` string; `$id` string; `y--1` int; `order` int",
            [[(1, "t1", "i1", 1, 1)], [(2, "t2", "i2", 2, 2)], [(3, "t3", "i3", 3, 3)]],
        ),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A view.

    Attributes:
        name: What is special about it.
        sql: Its statement.
        last: The last version that is read: 0 where the first load shows the fault.
        want: Its rows at the last version, where they were written by hand; None: those that Spark gives.
        is_refused: Whether it must be refused in words.
    """

    name: str
    sql: str
    last: int = 2
    want: Sequence[Row] | None = None
    is_refused: bool = False
    over: Life = field(default=SHARED, repr=False)


def _written(name: str, expression: str, *, last: int = 1) -> Case:
    return Case(name, f"select id, {expression} as x from silver.a", last)


def _all(name: str, expression: str, rest: str = "from silver.a") -> Case:
    return Case(name, f"select {expression} as x {rest}")


WRITTEN = (
    Case("A where with a doubled quote", "select id from silver.a where name = 'O''Brien'", 2, [(1,), (6,)]),
    Case(
        "A where with doubled double quotes", 'select id from silver.a where name = "say ""hi"""', 2, [(5,)]
    ),
    Case("A adjacent texts", "select id from silver.a where name = 'O\\'' 'Brien'"),
    _written("A doubled quote in a text", "'O''Brien'"),
    _written("A doubled quotes of a pattern", "date_format(at, 'yyyy-MM-dd''T''HH')"),
    _written("A raw text", r"concat(r'a\d', 'a\\d', 'a\td')"),
    _written("A a text with blanks and comments", "'a  b -- c /* d */'"),
    _written("A a comment at a line's end", "-- 'one\n k || ' -- ' -- two\n"),
    _written("A interval of two units, subtracted", "at - interval 1 day 2 hours"),
    _written("A interval of two units, added", "at + interval 1 day 2 hours 3 minutes"),
    _written("A interval multiplied", "at - 2 * interval 1 day 2 hours"),
    _written("A interval negated", "at + (- interval 1 day 2 hours)"),
    _written("A interval in quotes", "at + interval '1 02:03:04' day to second"),
    _all("A percentile_cont", "percentile_cont(0.5) within group (order by v)"),
    _all("A percentile_cont of few", "percentile_cont(0.25) within group (order by v desc)"),
    _all("A percentile_disc from the top", "percentile_disc(0.25) within group (order by v desc)"),
    _all("A percentile with weights", "percentile(v, 0.5, id)"),
    _all("A percentile of several", "percentile(v, array(0.25, 0.5))"),
    Case("A listagg without a separator", "select k, listagg(k) as x from silver.a group by k"),
    Case("A string_agg without a separator", "select k, string_agg(k) as x from silver.a group by k"),
    _all("A listagg in order", "listagg(name, '|') within group (order by id desc)"),
    _written("A to_char", "to_char(p, '9G999D99')"),
    _written("A to_number", "to_number('12,454', '99,999') + id"),
    _written("A to_varchar", "to_varchar(p, '0000.00')"),
    _written("A log10 floored", "floor(log10(d))", last=2),
    _written("A parse_json", "variant_get(parse_json(json), '$.a', 'int')"),
    _written("A date_format with one letter", "date_format(day, 'y')"),
    _written("A to_date with short parts", "to_date('26-1-5', 'y-M-d')"),
    _written("A to_date with a pattern", "to_date('2026-01-05', 'yyyy-MM-dd')"),
    _written("A date_trunc by a column", "date_trunc(unit, at)"),
    _written("A trunc by a column", "trunc(day, unit)"),
    _written("A JSON path with blanks", """get_json_object(json, '$["a b"]')"""),
    _written("A JSON path with a star", "get_json_object(json, '$.*.a')"),
    _written("A JSON path in brackets", "get_json_object(json, \"$['a b']\")"),
    _written("A type of unix_date", "typeof(unix_date(day))"),
    _written("A type of a percentile", "typeof(v / 2)"),
    _written("A named_struct with a computed name", "named_struct(concat('a', 'b'), v).ab"),
    _written("A hexadecimal digits behind a blank", "bitmap_count(X '1010') + length(x  'ABCD')"),
    _written("A between as a function", "between(v, 1, 9) and v between (1) and (9)"),
    _written("A like as a function", "like(name, k) is null"),
    _written("A try_to_number", "try_to_number(s, '99')"),
    _written("A double literals", "1e1 + 1.5BD + 2L + 3S + 4Y + 1.5D + 2.5F + .5"),
    _written("A hexadecimal", "hex(X'1F')"),
    _written("A names of a lambda", "transform(arr, x -> x || k)"),
    _written("G3 a lambda's parameter in other letters", "transform(arr, K -> k || coalesce(s, ''))", last=2),
    _written("G3 a parameter that is no column, in other letters", "exists(arr, Z -> z > 'x')", last=2),
    _written(
        "G3 the second parameter in other letters",
        "aggregate(arr, '', (acc, K) -> Acc || coalesce(k, '?'))",
        last=2,
    ),
    _written("G3 a parameter in backquotes", "transform(arr, `K` -> k || a.k)", last=2),
    Case(
        "G3 a condition with a parameter in other letters",
        "select id from silver.a where exists(arr, K -> k = 'x')",
    ),
    Case(
        "G3 two parameters of the names of columns",
        "select w, zip_with(arr, arr, (X, K) -> x || k) as z from silver.b",
    ),
    _written(
        "G4 a parameter of the name of a relation's column", "transform(arr, a__k -> a__k || a.k)", last=2
    ),
    _written("G5 fields of a row", "to_json((k, v))", last=2),
    _written("G5 fields in other letters", "to_json(struct(K, a.V, st.A))", last=2),
    _written("G5 fields in brackets", "to_json(struct((k), ((v))))", last=2),
    _written("G5 fields of a row in a lambda", "to_json(transform(arr, e -> (E, k, id)))", last=2),
    _written("G5 fields of lists in brackets", "to_json(arrays_zip((arr), (map_keys(m))))", last=2),
    _written("A lambda of two", "aggregate(arr, '', (acc, each) -> acc || coalesce(each, '?'))"),
    _written("A map_filter", "map_filter(m, (key, value) -> value > 0)"),
    _written("A shift", "big >>> 1"),
    _written("A bits", "big & 3 | 4 ^ 1"),
    _written("A div and mod", "big div 2 + mod(big, 3)"),
    _written("A colon of a variant", "cast(parse_json(json):a as string)"),
    _written("A overlay", "overlay(name placing 'X' from 2 for 1)"),
    _written("A position in", "position('i' in name)"),
    _written("A trim both", "trim(both 'O' from name)"),
    _written("A extract", "extract(week from at) + extract(dow from at)"),
    _written("A timestampdiff", "timestampdiff(hour, at, timestamp'2026-02-01')"),
    _written("A try_cast", "try_cast(s as int)"),
    _written("A a cast by colons", "s::string || k"),
    _written("A is distinct from", "k is distinct from s"),
    _written("A case without else", "case when v > 1 then 'x' end is null"),
    _written("A struct's fields by name", "struct(v as a, k).k"),
    _written("A decode", "decode(v, 1, 'one', 9, 'nine', 'other')"),
    _written("A collate", "k collate UTF8_LCASE = 'A'"),
    Case(
        "A nested WITH of a name used outside",
        "with t as (select id, k from silver.a) select y.id, t.k from (with t as (select id from silver.a "
        "where v > 1) select id from t) y join t on t.id = y.id",
    ),
    Case("A odd names under a star", "select * from silver.odd"),
    Case("A odd names in backquotes", "select o.`@timestamp` as t, `$id` as i from silver.odd o"),
    Case("A an odd name as the table has it", "select `@timestamp`, `$id` from silver.odd"),
    Case("N11 a name with two dashes", "select `y--1` as y from silver.odd n where n.`y--1` > 1"),
)
"""The text that Spark gets is the author's."""

RELATIONS = (
    Case("B having without groups over a constant", "select 1 as x from silver.a having count(*) > 3", 2, [(1,)]),
    Case("N2 having max without groups", "select 1 as x from silver.a o having max(o.v) > 100", 2, []),
    Case(
        "B having in a derived table",
        "select t.x, b.k from (select 1 as x from silver.a having count(*) > 3) t cross join silver.b b",
    ),
    Case(
        "B having in a WITH",
        "with t as (select 'y' as x from silver.a having count(*) > 2) select x from t union all select k "
        "from silver.b",
    ),
    Case(
        "B exists over an aggregate",
        "select a.id from silver.a a where exists (select max(b.w) from silver.b b where b.k = a.k)",
        2,
        [(1,), (3,), (4,), (5,), (6,)],
    ),
    Case(
        "B not exists over an aggregate",
        "select a.id from silver.a a where not exists (select count(*) from silver.b b where b.k = a.k)",
        2,
        [],
    ),
    Case(
        "B exists over a generator",
        "select a.id from silver.a a where exists (select explode(b.arr) from silver.b b where b.k = a.k)",
    ),
    Case(
        "B exists with having",
        "select a.id from silver.a a where exists (select 1 from silver.b b where b.k = a.k having "
        "count(*) > 1)",
    ),
    Case("B exists over a limit", "select id from silver.a a where exists (select 1 from silver.b b where "
         "b.k = a.k limit 0)"),
)  # fmt: skip
"""The relations are the statement."""

SCOPES = (
    Case(
        "C1 an alias in a WITH and outside",
        "with base as (select o.w from silver.b o) select o.id from silver.c o join base on base.w = o.id",
    ),
    Case("C1 an alias of a WITH that is not read", "with base as (select o.w from silver.b o) select o.id from "
         "silver.c o"),
    Case(
        "C1 an alias in a derived table and outside",
        "select a.id, q.n from silver.a a join (select a.k, count(*) as n from silver.b a where a.w > 1 "
        "group by a.k) q on q.k = a.k",
    ),
    Case("C1 an alias in a subquery and outside", "select a.id from silver.a a where a.k in (select a.k from "
         "silver.b a where a.w > 1)"),
    Case("C1 an alias in exists and outside", "select b.id from silver.a b where exists (select 1 from "
         "silver.b c where c.k = b.k and c.w in (select b.w from silver.b b))"),
    Case("C1 an alias in both parts of a union", "select a.id as x from silver.a a union all select a.w from "
         "silver.b a"),
    Case("C3 correlated IN", "select a.id from silver.a a where a.v in (select b.w from silver.b b where "
         "b.k = a.k)"),
    Case("C3 correlated NOT IN", "select a.id from silver.a a where a.v not in (select b.w from silver.b b "
         "where b.k = a.k)"),
    Case("C7 names by which the engine calls tables", "with __in1__ as (select id as __in0__, k from silver.a) select "
         "__in0__.k, '__in0__' as t, __in0__.__in0__ as i from __in1__ as __in0__ where __in0__ > 1"),
    Case("C7 such a name in a function", "select id, transform(arr, __in0__ -> __in0__ || k) as x from silver.a where v > 1"),
    Case("C4 a map among the columns", "select id, m from silver.a"),
    Case("C4 windows by keys of a map in other letters", "select id, count(*) over (partition by m.a) as x, "
         "count(*) over (partition by m.A) as y from silver.a"),
    Case("C4 grouped by a map", "select m, count(*) as n from silver.a group by m"),
    Case("C4 a map in a struct", "select id, named_struct('m', m) as s from silver.a where v > 1"),
    Case("C4 a map by key", "select k, max_by(m, id) as m from silver.a group by k"),
    Case("C5 names behind the alias of a WITH", "with c as (select k, v from silver.a) select q.p from c q(p, r)"),
    Case("C5 names of a WITH", "with c(p, r) as (select k, v from silver.a) select p from c where r > 1"),
    Case("C5 names behind a table's alias", "select t.x, t.y from silver.q1 t(x, y, z)"),
    Case("C5 names behind a derived table's alias", "select t.x from (select k, v from silver.a) t(x, y) where "
         "t.y > 1"),
    Case(
        "C6 an alias that is a column, anti",
        "select o.id from silver.orders o left anti join silver.c customer on customer.customer = o.customer",
    ),
    Case(
        "C6 an alias that is a column, semi",
        "select o.id from silver.orders o left semi join silver.c customer on customer.customer = o.customer",
    ),
    Case("C6 an alias that is a column", "select id.id, id.k from silver.a id where id.v > 1"),
    Case("C6 an alias that is a struct", "select st.a, a.st.a as b from silver.a a cross join (select 5 as a) st"),
    Case("N9 an alias q1 beside IN", "select q1.id from silver.orders q1 where q1.customer in (select c.customer "
         "from silver.c c)"),
    Case("C7 a table q1 beside IN", "select q1.id from silver.q1 where q1.k in (select k from silver.b)"),
    Case("C7 a WITH q2 beside two IN", "with q2 as (select id, k, v from silver.a) select id from q2 where k in "
         "(select k from silver.b) and v in (select w from silver.b)"),
    Case(
        "C7 names with two underscores",
        "select a.b__c as x, a__b.c as y from (select id as b__c, k from silver.a) a join (select w as c, k "
        "from silver.b) a__b on a.k = a__b.k",
    ),
    Case("C8 cube beside a key", "select k, flag, count(*) as n from silver.a group by cube(k), flag"),
    Case("C8 rollup behind a key", "select flag, k, count(*) as n from silver.a group by flag, rollup(k)"),
    Case("C8 grouping sets beside a key", "select k, flag, v, count(*) as n from silver.a group by grouping "
         "sets((k), (flag)), v"),
    Case("C8 with rollup", "select k, flag, sum(v) as n from silver.a group by k, flag with rollup"),
    Case("C8 cube in a derived table", "select t.k, b.w from (select k, count(*) as n from silver.a group by "
         "cube(k)) t join silver.b b on b.k = t.k"),
    Case("C9 fields of a struct", "select st.* from silver.a"),
    Case("C9 fields of a struct of an alias", "select o.id, o.st.* from silver.a o where o.v > 1"),
    Case("C9 fields of a struct behind a schema's name", "select id, SILVER.a.st.* from silver.a"),
    Case("C9 fields of a struct behind a catalog's name", "select spark_catalog.silver.a.id, spark_catalog.silver.a.st.* "
         "from spark_catalog.silver.a where silver.a.v > 1"),
    Case("C9 fields of a struct in a function", "select id, struct(silver.a.st.*) as s from silver.a"),
    Case("C9 fields of a struct in structs", "select q.id, q.w.x.st.* from (select id, named_struct('x', "
         "named_struct('st', st)) as w from silver.a) q"),
    Case("C10 posexplode with two names", "select k, posexplode(arr) as (p, c) from silver.a"),
    Case("C10 a generator over groups", "select k, explode(collect_set(v)) as v from silver.a group by k"),
    Case("C10 inline", "select id, inline(array(st, st)) as (x, y) from silver.a where st is not null"),
    Case("C10 stack", "select id, stack(2, v, 'v', id, 'id') as (x, what) from silver.a"),
    Case("C10 lateral view posexplode", "select id, place, c from silver.a lateral view posexplode(arr) w as place, c"),
    Case("C10 lateral view outer", "select id, c, e from silver.a lateral view outer explode(arr) w as c lateral "
         "view outer explode(m) u as e, f"),
    Case("C10 lateral view without names", "select id, col from silver.a lateral view explode(arr) w"),
    Case("C10 json_tuple", "select id, x.b from silver.a a lateral view json_tuple(a.json, 'a', 'b') x as a, b"),
    Case("C11 a window of a constant", "select 'x' as c, window(timestamp'2026-01-10', '1 hour').start as s "
         "from silver.a where true and trim(k) like '%a%'"),
    Case("C11 a window as the first key", "select window(at, '1 hour').start as starts_at, k, count(*) as n from "
         "silver.a group by window(at, '1 hour'), k"),
    Case("C11 a window's alias as the key", "select window(at, '1 hour') as w, count(*) as n from silver.a group "
         "by w"),
    Case("C13 an alias of the list in the list", "select v + 1 as x, x * 2 as y from silver.a"),
    Case("C13 an alias that shadows a column", "select id, v + 1 as v, v * 2 as y from silver.a"),
    Case("C13 groups by a place", "select k, v % 2 as odd, count(*) as n from silver.a group by 1, 2"),
    Case("C13 groups by an alias", "select coalesce(k, '?') as x, count(*) as n from silver.a group by x"),
    Case("C13 groups by all", "select k, flag, count(*) as n from silver.a group by all"),
    Case("C13 a scalar subquery in the list", "select id, (select max(w) from silver.b) as w from silver.a"),
    Case("C13 a correlated scalar", "select id, (select max(b.w) from silver.b b where b.k = a.k) as w from silver.a a"),
    Case("C13 a star but a column", "select * except (m, json) from silver.a where v > 1"),
    Case("C13 a named window", "select id, sum(v) over w as s from silver.a window w as (partition by k)"),
    Case("C13 a bracketed join", "select a.id, b.w from (silver.a a join silver.b b on a.k = b.k)"),
    Case("C13 a lateral subquery", "select a.id, t.n from silver.a a, lateral (select count(*) as n from silver.b b "
         "where b.k = a.k) t"),
    Case("C13 lateral explode", "select a.id, e.x from silver.a a, lateral explode(a.arr) e(x)"),
    Case("C13 values", "select a.id, t.y from silver.a a join (values ('a', 1), ('b', 2)) t(x, y) on t.x = a.k"),
    Case("C13 a subquery in the order of a union", "select id from silver.a union all select w from silver.b order by "
         "(select max(id) from silver.c), 1"),
    Case("C13 except", "select k from silver.a except select k from silver.b"),
    Case("C13 intersect all", "select k from silver.a intersect all select k from silver.b"),
    Case("C13 using", "select k, a.id, b.w from silver.a a left join silver.b b using (k)"),
    Case("C13 natural", "select * from silver.q1 natural join silver.orders"),
    Case("C13 null-safe", "select a.id, b.w from silver.a a left join silver.b b on a.k <=> b.k"),
    Case("C13 in with two columns", "select id from silver.a where (k, v) in (select k, w from silver.b)"),
    Case("G1 a table's star after USING", "select o.* from silver.orders o join silver.c c using (customer)"),
    Case("G1 the other table's star after USING", "select c.*, o.qty from silver.orders o left join silver.c c using (customer)"),
    Case("G1 a table's star after a right join by USING", "select o.*, c.score from silver.orders o right join silver.c c using (customer)"),
    Case("G1 a table's star after a full join by USING", "select o.*, c.score from silver.orders o full join silver.c c using (customer)"),
    Case("G1 the star of a semi join by USING", "select * from silver.orders o left semi join silver.c c using (customer)"),
    Case("G1 the star of an anti join by USING in a union", "select * from silver.orders left anti join silver.c using (customer) "
         "union all select k, id, a from silver.q1"),
    Case("G1 names of a star after USING", "select q.c1, q.c2 from (select o.* from silver.orders o join silver.c c using "
         "(customer)) q(c1, c2, c3)"),
    Case("G1 stars after two joins by USING", "select o.*, q.a, t.number from silver.orders o join silver.q1 q using (id) join "
         "silver.c c using (customer) join silver.t t on t.id = c.id"),
    Case("G1 a star of all after two joins by USING", "select * except (score, big, price, day, at, ok, credit_limit, c.id) from "
         "silver.orders o join silver.q1 q using (id) left join silver.c c using (customer, k)"),
    Case("G1 USING in brackets behind USING", "select a.id, b.w, c.score, k from silver.a a join (silver.b b join silver.c c "
         "using (k)) using (k)"),
    Case("G1 a star after NATURAL", "select g.* from silver.orders o natural join gold.orders g"),
    Case("G9 USING after a full join by USING", "select a.id, c.score from silver.a a full join silver.b b using (k) left join "
         "silver.c c using (k)"),
    Case("G9 USING after ON", "select a.id, b.w, c.score from silver.a a left join silver.b b on a.k = b.k join silver.c c using (k)"),
    Case("G9 the column of a full join by USING", "select k, a.id from silver.a a full join silver.b b using (k)"),
    Case("G9 a right join behind a comma", "select q.id, b.w, c.score from silver.q1 q, silver.b b right join silver.c c on b.k = c.k"),
    Case("G9 USING behind a comma", "select q.id, b.w, c.score from silver.q1 q, silver.b b join silver.c c using (k)"),
    Case("G10 NATURAL of other letters", "select t.s, u.a from (select id as Id, k as s from silver.q1) t natural join (select "
         "id, a from silver.q1) u"),
    Case("G10 USING of other letters", "select T.s, u.a, ID from (select id as Id, k as s from silver.q1) t join (select id, a "
         "from silver.q1) u using (iD)"),
    Case("G11 two tables that multiply rows", "select a.id, c.score from silver.a a cross join silver.q1 q cross join "
         "silver.orders o left join silver.c c on a.k = c.k"),
    Case("G2 a parameter of the name of a column below", "select q.n from (select k as n, arr from silver.a) q where "
         "exists(q.arr, n -> n > q.n)"),
    Case("G2 a parameter of a name two queries below", "select q.n from (select p.m as n, p.arr from (select k as m, arr from "
         "silver.a) p) q join silver.b b on b.k = q.n where exists(q.arr, m -> m > q.n)"),
    Case("G2 words of SQL that are columns below", "select q.id from (select id, at, id as day, id as year from silver.a) q "
         "where q.at > timestamp'2026-01-10' - interval 1 day and extract(year from q.at) > 1"),
    Case("G4 an alias of the name of a relation's column", "select substring(orders.customer, 2) as orders__customer, count(*) as "
         "n from silver.orders group by orders__customer"),
    Case("G4 such an alias in the list", "select o.id + 1 as o__id, o__id * 2 as z from silver.orders o"),
    Case("G5 the greatest row", "select k, max((v, id)).id as i, to_json(min((V, at))) as j from silver.a group by k"),
    Case("G5 a list of rows", "select k, to_json(array_sort(collect_list((v, id)))) as x from silver.a group by k"),
    Case("G5 rows that are joined", "select a.id, b.w from silver.a a left join silver.b b on (a.k, a.s) = (b.k, b.x)"),
    Case("G5 a row in a list of rows", "select id from silver.a where (k, v) in (('a', 1), ('c', 7))"),
    Case("G7 a collation below a left join", "select cast(q.c as string) as c, b.w from (select k, s collate utf8_lcase as c "
         "from silver.letters) q left join silver.b b on q.k = b.k"),
    Case("G7 a collation below a semi join", "select string(q.c) as c from (select k, collate(s, 'UNICODE_CI') as c from "
         "silver.letters) q left semi join silver.b b on q.k = b.k"),
    Case("G7 rows of a window over a collation", "select k, string(c[0]) as c, n from (select k, c, count(*) over "
         "(partition by k) as n from (select k, array(s collate utf8_lcase) as c from silver.letters))"),
    Case("G7 a collation that is passed on", "select cast(c as string) as c from (select s collate utf8_lcase as c from "
         "silver.letters)"),
    Case("G7 a join by a collation", "select a.k, b.s from silver.letters a left join silver.letters b on a.s collate "
         "utf8_lcase = b.s"),
    Case("G8 a short name of two tables", "select orders.qty, orders.status from silver.orders join gold.orders on "
         "silver.orders.id = gold.orders.id where orders.status = 'new'"),
    Case("G8 the star of two tables of one name", "select q.c2, q.c5 from (select orders.* from silver.orders join gold.orders on "
         "silver.orders.id = gold.orders.id) q(c1, c2, c3, c4, c5, c6)"),
    Case("G8 the star of two tables but a column", "select orders.* except (gold.orders.id) from silver.orders join "
         "gold.orders on silver.orders.id = gold.orders.id"),
    Case("G8 the star of two tables in a function", "select concat_ws('|', orders.*) as t from silver.orders left join gold.orders "
         "on silver.orders.id = gold.orders.id"),
    Case("G8 the star of a table with its schema", "select gold.orders.*, hash(silver.orders.*) as h from silver.orders join "
         "gold.orders on silver.orders.id = gold.orders.id"),
    Case("G12 groups by a column in brackets", "select k, count(*) as n from silver.a group by (k)"),
    Case("G12 groups by a place in brackets", "select (k) as x, v % 2 as odd, count(*) as n from silver.a group by ((1)), (odd)"),
    Case("E two tables of one name", "select silver.orders.id, gold.orders.status from silver.orders join "
         "gold.orders on silver.orders.id = gold.orders.id"),
    Case("E a WITH of the name of an alias elsewhere", "with c as (select k, w from silver.b) select a.id from "
         "silver.a a left semi join silver.c c on c.k = a.k where a.k in (select c.k from c)"),
    Case("E a generator in FROM", "select a.id, e.x from silver.a a, explode(array(1, 2)) e(x)"),
    Case("E a range", "select a.id, r.id as n from silver.a a join range(3) r on r.id = a.id"),
)  # fmt: skip
"""Names are those of their own scope; what has no relation is kept whole."""

_UNKNOWN = (
    "mean(v)", "std(v)", "try_sum(v)", "try_avg(v)", "any(flag)", "some(flag)", "every(flag)",
    "histogram_numeric(v, 5)", "hll_sketch_estimate(hll_sketch_agg(v))", "bitmap_and_agg(X'FF')",
    "hex(count_min_sketch(v, 0.5d, 0.5d, 1))", "theta_sketch_estimate(theta_sketch_agg(v))",
    "kll_sketch_get_n_bigint(kll_sketch_agg_bigint(v))", "schema_of_variant_agg(parse_json('{}'))",
    "median(v)", "mode(v, true)", "approx_top_k(v)", "regr_slope(v, id)", "count_if(flag)", "any_value(1)",
    "grouping_id()", "bit_xor(v)", "listagg(distinct k) within group (order by k)",
)  # fmt: skip

AGGREGATES = (
    *(_all(f"C2 {call} alone", call) for call in _UNKNOWN if call != "grouping_id()"),
    Case("N3 mean by key", "select k, mean(v) as m from silver.a group by k"),
    Case("C2 mean below the last step", "select max(m) as x from (select k, mean(v) as m from silver.a group by k)"),
    Case(
        "C2 std below a join",
        "select b.w, t.m from silver.b b join (select k, std(v) as m from silver.a group by k) t on t.k = b.k",
    ),
    Case("C2 an aggregate beside a filter", "select count(*) filter (where v > 1) as n from silver.a"),
    Case("C2 a distinct one", "select count(distinct k, flag) as n, sum(distinct v) as s from silver.a"),
)  # fmt: skip
"""Every aggregate is one, also those that a parser does not know."""

_CONDITIONS = {
    "int": "t.number = c.score",
    "bigint": "c.big = t.number",
    "decimal": "t.price = c.price",
    "date": "t.day = c.day",
    "timestamp": "t.at = c.at",
    "boolean": "t.yes = c.ok",
    "int by <=>": "t.number <=> c.score",
}
_KINDS = ("join", "left join", "right join", "full join", "left semi join", "left anti join")

TYPES = (
    Case(
        "N1 text and int",
        "select t.id, c.customer from silver.t t join silver.c c on t.number = c.score",
        1,
        [(1, "n"), (2, "k"), (3, "m")],
    ),
    *(
        Case(
            f"D3 {kind} of a text and {name}",
            f"select t.id{'' if ' semi' in kind or ' anti' in kind else ', c.customer'} from silver.t t "
            f"{kind} silver.c c on {condition}",
        )
        for name, condition in _CONDITIONS.items()
        for kind in (_KINDS if name in {"int", "date"} else ("join", "full join", "left anti join"))
    ),
    Case("D3 text IN int", "select t.id from silver.t t where t.number in (select c.score from silver.c c)"),
    Case("D3 text NOT IN int", "select t.id from silver.t t where t.number not in (select c.score from silver.c c)"),
    Case("D3 exists, int and text", "select c.id from silver.c c where exists (select 1 from silver.t t where "
         "t.number = c.score)"),
    Case("D3 not exists, date and text", "select c.id from silver.c c where not exists (select 1 from silver.t t "
         "where t.day = c.day)"),
    Case("D3 bigint and int", "select c.id, a.id as a from silver.c c full join silver.a a on a.v = c.big"),
    Case("D3 int and decimal", "select c.id, a.id as a from silver.c c left join silver.a a on a.v = c.price"),
    Case("D3 double and int", "select a.id, c.id as c from silver.a a full join silver.c c on a.d = c.score"),
    Case("D3 date and timestamp", "select a.id, c.id as c from silver.a a left join silver.c c on a.day = c.at"),
    Case("D1 a union of int and double", "select cast(v as string) as s from (select v from silver.a union all "
         "select d from silver.b)"),
    Case("D1 by key over a union of types", "select s, count(*) as n from (select cast(v as string) as s from "
         "(select v from silver.a union all select d from silver.b)) group by s"),
    Case("D1 a union of decimals", "select cast(v as string) as s from (select p as v from silver.a union all "
         "select q from silver.b)"),
    Case("D1 distinct over a union of types", "select cast(v as string) as s from (select v from silver.a union "
         "select d from silver.b)"),
    Case("D1 a union of date and timestamp", "select cast(v as string) as s from (select day as v from silver.a "
         "union all select at from silver.b)"),
    Case("D1 a union of text and int", "select cast(v as string) as s from (select number as v from silver.t union "
         "all select w from silver.b)"),
    Case("D2 zero with a sign as text", "select cast(d as string) as s from silver.a", 2,
         [("0.5",), ("NaN",), ("1000.0",), ("-0.0",), ("-0.0",)]),
    Case("D2 zero with a sign, in a struct", "select id, to_json(struct(d)) as s from silver.a"),
    Case("D2 zero with a sign below a join", "select b.k, cast(b.d as string) as s from silver.b b left join "
         "silver.c c on c.k = b.k"),
    Case("D2 groups of NaN and zero", "select d, count(*) as n from silver.a group by d"),
    Case("D4 semi by equal after a cast", "select c.id from silver.c c left semi join silver.t t on t.number = c.score"),
    Case("D4 full by equal after a cast", "select c.id, t.id as t from silver.c c full join silver.t t on "
         "c.score = t.number"),
    Case("H a full join of null-safe keys", "select a.id, b.w from silver.a a full join silver.b b on a.k <=> b.k and a.id > 1"),
    Case("H not exists of null-safe keys", "select a.id from silver.a a where not exists (select 1 from silver.b b where b.k <=> a.k and "
         "b.w > a.v)"),
    Case("H having by a key's name", "select k, count(*) as n from silver.a group by k having k is null or k in (select k from silver.b) "
         "or k > 'b'"),
    Case("H having by a key's name over sets", "select k, flag, grouping_id(k, flag) as g, count(*) as n from silver.a group by rollup(k, "
         "flag) having grouping(k) = 1 or flag is null"),
    Case("H a subquery's texts that are one number", "select c.id, (select count(*) from silver.b b where b.x = c.score) as n from "
         "silver.c c"),
    Case("H a match beside OR of texts that are one number", "select c.id from silver.c c where c.id > 3 or exists (select 1 from silver.b b "
         "where b.x = c.score)"),
    Case("H IN beside OR of texts that are one date", "select c.id from silver.c c where c.id > 3 or c.day in (select t.day from silver.t t)"),
    Case("H a subquery of whole numbers beside decimals", "select c.id, (select max(a.id) from silver.a a where a.v = c.price) as n from "
         "silver.c c"),
    Case("D5 a key behind a filter", "select a.id, c.id as c from silver.a a join silver.c c on cast(a.s as int) = "
         "c.score where a.s rlike '^[0-9]+$'"),
    Case("D5 a group's key behind a filter", "select cast(s as int) as n, count(*) as c from silver.a where s rlike "
         "'^[0-9]+$' group by cast(s as int)"),
)  # fmt: skip
"""Values meet in the type in which they are compared."""

STARS = (
    Case("N5 to_json of all columns", "select to_json(struct(*)) as j from silver.orders x where x.qty > 0"),
    Case("N5 a hash of all columns", "select x.id, xxhash64(*) as h from silver.orders x"),
    Case("N5 a text of all columns", "select concat_ws('|', *) as t from silver.orders"),
    Case("N5 md5 of a text of all columns", "select md5(concat_ws('|', *)) as t, qty from silver.orders"),
    Case("N5 a struct of a table's columns", "select id, struct(o.*) as s from silver.orders o"),
    Case("N5 a count of a table's columns", "select count(o.*) as n from silver.orders o", 0, is_refused=True),
    Case("N5 a count of two tables' columns", "select count(o.*, b.*) as n from silver.orders o join silver.b b on o.qty = b.w"),
    Case("N5 a hash of all columns of a join", "select a.id, xxhash64(*) as h from silver.orders a join silver.b b "
         "on a.qty = b.w"),
    Case("E a star without columns of one of two tables", "select * except (a.k, c.id, c.day, c.at, c.big, m) from silver.a a join "
         "silver.c c on a.v = c.score"),
    Case("E a star without a column by its table's name", "select * except (silver.orders.qty) from silver.orders"),
    Case("E a star without a field", "select * except (st.a) from (select id, v as a, st from silver.a)"),
    Case("E a join in brackets with an alias", "select j.id, j.w from (silver.a a left join silver.b b on a.k = b.k) as j "
         "where j.id > 1"),
    Case("E a join of a derived table in brackets", "select q.id, b.w from ((select id, k from silver.a where v > 1) q left join "
         "silver.b b on b.k = q.k)"),
    Case("E a join in brackets in brackets", "select a.id, b.w, c.score from ((silver.a a join silver.b b on a.k = b.k) left join "
         "silver.c c on c.score = b.w) join silver.q1 q on q.id = a.id"),
    Case("E a derived table's name in brackets", "select q.k, q.v from (((select k, v from silver.a) q)) where q.v > 1"),
    Case("E a table in brackets with an alias", "select j.id, j.k from (silver.q1) j"),
    Case("E the columns of a pivot", "select * from (select k, v, id from silver.a) pivot (max(v) for k in ('a' as x, 'b' as y))"),
    Case("E a pivot of a WITH", "with t as (select k, v, id from silver.a) select * from t pivot (max(v) for k in ('a' as x))"),
    Case("E a pivot of a join in brackets", "select * from (silver.q1 q join (select w from silver.b) b on q.a = b.w) "
         "pivot (max(w) for k in ('a' as x, 'b' as y))"),
    Case("H a pivot of two calls by two columns", "select * from (select k, flag, v, id % 2 as odd from silver.a) pivot (count(*) as n, "
         "max(v) m for (k, flag) in (('a', true) as x, ('c', null) as y, (null, true) as z))"),
    Case("H a pivot's columns without names", "select odd, `7`, `10` + 1 as ten from (select v, s, id % 2 as odd from silver.a) a pivot "
         "(count(s) for v in (7, '10', 1 as one)) where one is null or odd = 1"),
    Case("H a pivot of a table and a join", "select q1.id, silver.q1.a, b.w from silver.q1 pivot (max(k) for k in ('a' as x, 'b')) join silver.b b "
         "on q1.id = b.w"),
    Case("H a pivot over all rows", "select x, y from (select v, k from silver.a) pivot (sum(v) for k in ('a' as x, 'zz' as y))"),
    Case("H a pivot by zeros with signs", "select k, zero, nan from (select k, d, v from silver.a) pivot (max(v) for d in (0.0d as zero, "
         "double('NaN') as nan))"),
    Case("H groups over a pivot", "select x, count(*) as n from (select * from (select id, k, v from silver.a) pivot (max(v) for k in "
         "('c' as x))) group by x"),
    Case("H a pivot behind a join", "select x1, b.w from silver.q1 q join silver.b b on q.k = b.k pivot (max(a) for id in (1 as x1, 3 as x3))"),
    Case("E an unpivot with a name", "select u.id, what, n from (select id, v, id * 2 as w from silver.a) s unpivot "
         "(n for what in (v, w)) as u where u.n > 2"),
    Case("N5 a count of all columns by key", "select customer, count(*) as n, count(customer, qty) as m from "
         "silver.orders group by customer"),
)  # fmt: skip
"""A star inside of a function, or over columns that Spark alone knows."""

MOMENTS = tuple(
    Case(f"N7 {text}", f"select id, {text} as x from silver.a", 0, is_refused=True)
    for text in (
        "timestamp'now'", "date'today'", "cast('now' as timestamp)", "cast('tomorrow' as date)",
        "to_date('tomorrow')", "to_timestamp('now')", "unix_timestamp()", "date'Yesterday '",
        "'epoch'::date > date'today'", "cast(' NOW ' as timestamp)", "current_timezone()", "current_user()", "version()", "now()",
    )
)  # fmt: skip
"""Words of a moment: each evaluation gives another value."""

REFUSED = tuple(
    Case(name, sql, 0, is_refused=True)
    for name, sql in (
        ("C12 qualify over a star", "select *, row_number() over (partition by customer order by id) as place from silver.orders qualify place <= 3"),
        ("C12 qualify", "select id, k from silver.a qualify rank() over (partition by k order by v desc) <= 1"),
        ("A max_by of two", "select max_by(k, v, 2) as x from silver.a where k is not null"),
        ("A a cast to time", "select id, cast('12:30:00' as time) as x from silver.a"),
        ("E an alias of the list in WHERE", "select v + 1 as v2 from silver.a where v2 > 3"),
        ("E grouping without sets", "select k, grouping(k) as g from silver.a group by k"),
        ("E row_number without an order", "select row_number() over (partition by k) as n from silver.a"),
        ("E two WITH of one name", "with t as (select 1 as x from silver.a), t as (select 2 as x from silver.a) select x from t"),
        ("E a column beside an aggregate", "select k, count(*) as n from silver.a"),
        ("E having an unknown name", "select k from silver.a group by k having cnt > 1"),
        ("E a sum of a text", "select sum(arr) as s from silver.a"),
        ("E a window in WHERE", "select id from silver.a where row_number() over (order by id) = 1"),
        ("E asof join", "select a.id from silver.a a asof join silver.b b on a.k = b.k and a.at >= b.at"),
        ("C7 a column that the engine has beside a view's", "select id as __weight, k as `__Key0` from silver.a"),
        ("E a pipe", "from silver.a |> where v > 1 |> select id"),
        ("E an order in first_value", "select first_value(v order by id) as f from silver.a"),
        ("E a materialized WITH", "with c as materialized (select id from silver.a) select id from c"),
        ("E limit in percent", "select id from silver.a limit 20 percent"),
        ("E count of nothing", "select count() as n from silver.a"),
        ("E an unknown unit", "select extract(fortnight from at) as x from silver.a"),
        ("E an unknown function", "select foo(v) as x from silver.a"),
        ("E too many arguments", "select upper(k, k) as x from silver.a"),
        ("E an aggregate in WHERE", "select id from silver.a where count(*) > 1"),
        ("E an aggregate in an aggregate", "select max(count(*)) as x from silver.a group by k"),
        ("E another table's column", "select b.id from silver.a a join silver.b b on a.k = b.k"),
        ("E unions of other widths", "select id, k from silver.a union all select w from silver.b"),
    )
)  # fmt: skip
"""What Spark cannot read is a mistake that is told, not a failure of the job."""

CASES = (*WRITTEN, *RELATIONS, *SCOPES, *AGGREGATES, *TYPES, *STARS, *MOMENTS, *REFUSED)
