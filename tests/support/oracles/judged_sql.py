"""Statements with what ``check`` says of them; Spark is asked of the same ones.

A ``|`` stands before the word that is told. The tables have one row each, of the values of ``ROW``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TABLES: Mapping[str, str] = {
    "silver.orders": (
        "id string, n int, big bigint, price decimal(10,2), x double, ok boolean, d date, at timestamp, "
        "tags array<string>, nums array<int>, m map<string,int>, s struct<a:int,t:string>, b binary, "
        "odd variant, lines array<struct<sku:string,n:int>>"
    ),
    "silver.days": "day date, score int, id string",
}
ROW: Mapping[str, str] = {
    "string": "'x1'",
    "int": "7",
    "bigint": "7",
    "decimal(10,2)": "7.5",
    "double": "7.5",
    "boolean": "true",
    "date": "date'2026-01-01'",
    "timestamp": "timestamp'2026-01-01 12:00:00'",
    "array<string>": "array('a')",
    "array<int>": "array(1)",
    "map<string,int>": "map('a', 1)",
    "struct<a:int,t:string>": "named_struct('a', 1, 't', 'b')",
    "binary": "x'1F'",
    "variant": "parse_json('{}')",
    "array<struct<sku:string,n:int>>": "array(named_struct('sku', 'a', 'n', 1))",
}
"""A value of each type."""

T, D = "silver.orders", "silver.days"

REFUSED: Sequence[tuple[str, str, str]] = (
    # Clauses
    (
        f"select id from {T} where |count(*) > 1",
        "calls count() in where, which has no groups yet",
        "MED-1204",
    ),
    (
        f"select o.id from {T} o join {D} d on o.id = d.id and |max(score) > 1",
        "calls max() in on",
        "MED-1204",
    ),
    (f"select count(*) as c from {T} group by |sum(n)", "calls sum() in group by", "MED-1204"),
    (
        f"select id from {T} where |row_number() over (order by n) = 1",
        "over (…) in where, where Spark",
        "MED-1204",
    ),
    (
        f"select id from {T} group by id having |rank() over (order by id) = 1",
        "calls rank() over (…) in having",
        "MED-1204",
    ),
    (f"select n from {T} group by |dense_rank() over (order by n), n", "over (…) in group by", "MED-1204"),
    (f"select id from {T} where |explode(tags) = 'a'", "write it behind from, as lateral view", "MED-1204"),
    (f"select |explode(nums) + 1 as x from {T}", "calls explode() inside of an expression", "MED-1204"),
    (f"select |id, count(*) as c from {T}", "names 'id' beside an aggregate; group by id", "MED-1204"),
    (f"select |*, count(*) as c from {T}", "has * beside an aggregate", "MED-1204"),
    (
        f"select id, |n, count(*) as c from {T} group by id",
        "names 'n', which group by does not have",
        "MED-1204",
    ),
    (
        f"select id, rank() over (order by |n) as c from {T} group by id",
        "which group by does not have",
        "MED-1204",
    ),
    (
        f"select upper(id) as u, |id as i from {T} group by u",
        "names 'id', which group by does not",
        "MED-1204",
    ),
    (f"select id from {T} group by id having |n > 1", "names 'n', which group by does not have", "MED-1204"),
    (f"select id from {T} having |n > 1", "has having without group by and without an aggregate", "MED-1204"),
    (f"select sum(|max(n)) as x from {T}", "calls max() inside of sum(); aggregate once", "MED-1206"),
    (f"select |grouping(id) as g from {T} group by id", "has no grouping sets, cube or rollup", "MED-1206"),
    (f"select id from {T} group by |3", "has group by 3, and its SELECT list has 1", "MED-1202"),
    (f"select id from {T} order by |2", "has order by 2, and its SELECT list has 1", "MED-1202"),
    # Window functions
    (f"select |row_number() over (partition by id) as r from {T}", "over rows without an order", "MED-1204"),
    (f"select |lag(n) over () as r from {T}", "calls lag() over rows without an order", "MED-1204"),
    (
        f"select |rank() over w as r from {T} window w as (partition by id)",
        "calls rank() over rows without an order",
        "MED-1204",
    ),
    (f"select sum(n) over |w as r from {T}", "names the window 'w', and has no such window", "MED-1202"),
    (f"select |rank() as r from {T}", "calls rank() without over (…)", "MED-1204"),
    (f"select |upper(id) over (order by n) as r from {T}", "which is no window function", "MED-1204"),
    (f"select |count(distinct n) over () as r from {T}", "calls count(distinct …) over (…)", "MED-1204"),
    (f"select |upper(id) filter (where ok) as r from {T}", "which aggregates alone have", "MED-1204"),
    # Calls and types
    (
        f"select |count() as c from {T}",
        "with 0 arguments; it takes 1 or more; count(*) counts rows",
        "MED-1207",
    ),
    (f"select |ifnull(id) as x from {T}", "calls ifnull() with 1 argument; it takes 2", "MED-1207"),
    (f"select |strftime(at, '%Y') as x from {T}", "calls strftime(), which Spark does not have", "MED-1203"),
    (
        f"select |array_join(n, ',') as x from {T}",
        "calls array_join() with n (int); it takes an array",
        "MED-1207",
    ),
    (f"select |date_add(d, tags) as x from {T}", "with tags (array<string>) as argument 2", "MED-1207"),
    (f"select |max(odd) as x from {T}", "with odd (variant), whose values have no order", "MED-1207"),
    (
        f"select |greatest(n, id) as x from {T}",
        "has in one greatest n (int) and id (string), which",
        "MED-1207",
    ),
    (
        f"select |if(ok, d, n) as x from {T}",
        "has in one if d (date) and n (int), which Spark refuses",
        "MED-1207",
    ),
    (
        f"select |case when ok then d else n end as x from {T}",
        "has in one case d (date) and n (int)",
        "MED-1207",
    ),
    (f"select case when |id then 1 end as x from {T}", "has id (string) as a condition", "MED-1207"),
    (f"select id from {T} where ok and |n", "has n (int) as a condition; write a comparison", "MED-1207"),
    (f"select id from {T} where not |n", "has n (int) as a condition", "MED-1207"),
    (
        f"select |cast(tags as int) as x from {T}",
        "casts tags (array<string>) to int, which Spark",
        "MED-1207",
    ),
    (f"select |d::int as x from {T}", "casts d (date) to int, which Spark refuses", "MED-1207"),
    (f"select |tags = nums as x from {T}", "compares tags (array<string>) and nums (array<int>)", "MED-1207"),
    (f"select id.|name as x from {T}", "names 'name' of id, which is string and has no fields", "MED-1202"),
    (
        f"select lines.|skuu as x from {T}",
        "names 'skuu', which is no field of lines; did you mean",
        "MED-1202",
    ),
    (f"select |id[0] as x from {T}", "takes an element of id (string), which is no array", "MED-1207"),
    (f"select tags[|'a'] as x from {T}", "takes an element of tags (array<string>) by a string", "MED-1207"),
    (f"select id from {T} where n in (|select score, id from {D})", "with a query of 2 columns", "MED-1207"),
    (
        f"select |(select score, id from {D}) as x from {T}",
        "has as one value a query of 2 columns",
        "MED-1207",
    ),
    (
        f"select id from {T} where d in (|select score from {D})",
        "compares d (date) with a number",
        "MED-1207",
    ),
    (f"select id from {T} order by |m", "orders by m (map<string,int>), which has no order", "MED-1207"),
    (f"select distinct |m from {T}", "tells rows apart by m (map<string,int>)", "MED-1207"),
    (
        f"select odd, count(*) as c from {T} group by |odd",
        "groups by odd (variant), which has no order",
        "MED-1207",
    ),
    # Words
    (
        f"select |interval 1 dya as x from {T}",
        "has an interval of 'dya', which is no unit; did you",
        "MED-1207",
    ),
    (f"select at + |interval '2' fortnights as x from {T}", "which is no unit; known: ", "MED-1207"),
    (f"select |interval n day as x from {T}", "has an interval of an expression", "MED-1207"),
    (
        f"select |extract(weak from at) as x from {T}",
        "has no 'weak' to extract; did you mean 'week'?",
        "MED-1207",
    ),
    (
        f"select date_part(|'weak', at) as x from {T}",
        "with 'weak', which is no unit; did you mean",
        "MED-1207",
    ),
    (
        f"select dateadd(|wek, 1, at) as x from {T}",
        "with 'wek', which is no unit; did you mean 'week'?",
        "MED-1207",
    ),
    (
        f"select window(at, |'1 huor').start as x, count(*) as c from {T} group by 1",
        "where 'huor' is no",
        "MED-1207",
    ),
    (
        f"select window(at, |'1 month').start as x, count(*) as c from {T} group by 1",
        "differ in length",
        "MED-1207",
    ),
    (f"select timestamp|'yesterdays' as x from {T}", "'yesterdays' is no timestamp", "MED-1207"),
    # Forms of other dialects
    (
        f"select o.id from {T} o |asof join {D} d on o.id = d.id",
        "has asof join, which Spark's SQL",
        "MED-1201",
    ),
    (f"select first_value(|n order by at) as x from {T}", "order by inside of first_value(…)", "MED-1201"),
    (f"with |c as materialized (select id from {T}) select id from c", "has as materialized", "MED-1201"),
    (f"select id from {T} |limit 20 percent", "limit takes a number of rows", "MED-1201"),
    (
        f"select distinct on |(id) id, n from {T}",
        "has distinct on, which Spark's SQL does not have",
        "MED-1201",
    ),
    (f"select |* replace (1 as n) from {T}", "has * replace, which Spark's SQL does not have", "MED-1201"),
    (f"select |at at time zone 'UTC' as x from {T}", "has at time zone", "MED-1201"),
    (
        f"select |id similar to 'a' as x from {T}",
        "has similar to, which Spark's SQL does not have",
        "MED-1201",
    ),
    (f"select |[1, 2] as x from {T}", "has […] as an array", "MED-1201"),
    (f"select id from {T} where n = |any (select score from {D})", "has any (select …)", "MED-1201"),
    (f"|select id from {T} union by name select id from {D}", "has by name", "MED-1201"),
    (f"select id from {T} |fetch first 3 rows only", "has fetch first", "MED-1201"),
)
"""What Spark refuses too: statement, a part of the message, code."""

STOPPED: Sequence[tuple[str, str]] = (
    (f"select n = |'abc' as x from {T}", "'abc' is no number, so that the first row stops the query"),
    (f"select d > |'abc' as x from {T}", "'abc' is no date, so that the first row stops"),
    (f"select case when n > 5 then |'big' else 0 end as x from {T}", "'big' is no number"),
    (f"select cast(|'2026-13-45' as date) as x from {T}", "'2026-13-45' is no date"),
    (f"select date_format(at, |'yyyy-MM-dd HH:mm foo') as x from {T}", "'f' is no letter of a pattern"),
    (f"select date_format(at, |'YYYY') as x from {T}", "'Y' counts years by weeks"),
    (f"select date_format(at, |'yyyy-MM-ddTHH') as x from {T}", "'T' is no letter of a pattern"),
    (f"select to_date(id, |'E') as x from {T}", "'E' is written and not read"),
)
"""What Spark takes, and what ends the query at the first row."""

AT_SOME_VALUES: Sequence[tuple[str, str]] = (
    (f"select |id > 0 as x from {T}", "each text is read as a number, and one that is none stops the query"),
    (f"select |id + 1 as x from {T}", "write try_cast(… as int)"),
    (f"select sum(|id) as x from {T}", "write try_cast(… as double)"),
    (f"select coalesce(|id, 0) as x from {T}", "has in one coalesce id (string) and a number"),
    (f"select id from {T} where |id in (1, 2)", "compares id (string) and a number"),
    (
        f"select id from {T} where ok and |id",
        "has id (string) as a condition: each text is read as a boolean",
    ),
    (f"select |id > at as x from {T}", "each text is read as a timestamp"),
    (f"select o.id from {T} o join {D} d on |o.id = d.score", "compares id (string) and score (int)"),
    (f"select year(|id) as x from {T}", "each text is read as a date"),
)
"""What Spark takes, and what ends the query at a text such as that of the row."""

NEVER_TRUE: Sequence[tuple[str, str]] = (
    (f"select |id <> null as x from {T}", "compares id with null, which is never true; write id is not null"),
    (f"select |n = null as x from {T}", "compares n with null, which is never true; write n is null"),
    (f"select |null = s.a as x from {T}", "compares s.a with null"),
    (f"select not |n in (8, null) as x from {T}", "compares n with null in a list"),
    (
        f"select date_trunc(|'weak', at) as x from {T}",
        "which is no unit: it gives null; did you mean 'week'?",
    ),
    (f"select trunc(d, |'hour') as x from {T}", "which is no unit: it gives null"),
)
"""What Spark takes, and what is null whatever the row has."""

OF_THE_MOMENT: Sequence[str] = (
    f"select |now() as x from {T}",
    f"select |current_date as x from {T}",
    f"select |current_user() as x from {T}",
    f"select |user as x from {T}",
    f"select |current_timezone() as x from {T}",
    f"select |version() as x from {T}",
    f"select |unix_timestamp() as x from {T}",
    f"select |rand() as x from {T}",
    f"select timestamp|'now' as x from {T}",
    f"select date|'today' as x from {T}",
    f"select cast(|'now' as timestamp) as x from {T}",
    f"select try_cast(|' Tomorrow ' as date) as x from {T}",
    f"select to_timestamp(|'now') as x from {T}",
    f"select to_date(|'yesterday') as x from {T}",
    f"select at > |'now' as x from {T}",
    f"select id from {T} where d in (|'today')",
    f"select coalesce(at, |'now UTC') as x from {T}",
    f"select year(|'now') as x from {T}",
)
"""What Spark takes, and what has another value each time."""

ACCEPTED: Sequence[str] = (
    f"select * from {T}",
    f"select * except (odd) from {T}",
    f"select o.* from {T} o where exists (select 1 from {D} d where d.id = o.id and d.score > o.n)",
    f"select n + 1 as a, a + 1 as c from {T}",
    f"select n + 1 as n from {T} where n > 1",
    f"select upper(id) as u, count(*) as c from {T} group by u having c > 1 order by u",
    f"select upper(id) as u, count(*) as c from {T} group by id",
    f"select n + 1 + 1 as z, 1 + n as y, count(*) as c from {T} group by n + 1",
    f"select o.id, max(n) as x from {T} o group by 1 having max(n) > 1 and id <> 'a'",
    f"select id, count(*) as c from {T} group by all",
    f"select id, n, grouping(id) as g, grouping_id() as h from {T} group by cube(id, n)",
    f"select id, n, count(*) as c from {T} group by grouping sets ((id), (id, n))",
    f"select id, count(*) as c from {T} group by id with rollup",
    f"select max(n) as x from {T} having count(*) > 3",
    f"select 1 as x from {T} having count(*) > 3",
    f"select id, sum(count(*)) over () as r, rank() over (order by sum(n)) as p from {T} group by id",
    f"select *, count(*) over () as c from {T}",
    f"select id, (select max(score) from {D}) as r, count(*) as c from {T} group by id",
    f"select row_number() over w as r, sum(n) over (partition by id) as s from {T} window w as (order by n)",
    f"select lag(n, 1, 0) over (partition by id order by at) as r from {T}",
    f"select first_value(n) over (partition by id) as r, nth_value(n, 2) over (order by n) as s from {T}",
    f"select first(n ignore nulls) as r, last(n, true) as s, any_value(id) as t from {T}",
    f"select sum(distinct n) filter (where ok) as r, count(distinct id, n) as s from {T}",
    f"select percentile_cont(0.5) within group (order by n desc) as r from {T}",
    f"select mode() within group (order by n) as r from {T}",
    f"select listagg(id, ',') within group (order by n) as r, string_agg(id) as s from {T}",
    f"select id from {T} where n > (select avg(score) from {D}) or n in (select score from {D})",
    f"select id from {T} where (n, id) in (select score, id from {D})",
    f"select x.k, x.v from {T} lateral view explode(m) x as k, v where k = 'a' and v > 1",
    f"select p, c.sku from {T} lateral view outer posexplode(lines) q as p, c",
    f"select explode(nums) as x, id from {T}",
    f"select inline(lines) from {T}",
    f"select o.id, e.x from {T} o, lateral explode(o.nums) as e(x) where x > 1",
    f"select r.id + 1 as x from range(3) r join {T} o on o.n = r.id",
    f"select z.q from {D} z(p, q, r) where z.p > date'2026-01-01'",
    f"with c as (select id, n from {T}) select q.p from c q(p, r) where r > 1",
    f"with t as (select max(at) as m from {T}) select m > '2026-01-01' as x from t",
    f"select case n when 1 then 'one' else 'many' end as x, case when ok then n else price end as y from {T}",
    f"select case when n > 5 then 'big' else 'small' end as x, if(ok, '5', 0) as y, n = '5' as z from {T}",
    f"select d > '2026-01-01' as x, at between '2026-01-01' and '2026-01-02 10:00:00' as y from {T}",
    f"select timestamp'epoch' as x, cast('epoch' as timestamp) as y, id = 'now' as z, 'today' as w from {T}",
    f"select to_timestamp(id) as x, to_date(id, 'dd.MM.yyyy') as y, unix_timestamp(at) as z from {T}",
    f"select date_trunc('WEEK', at) as x, trunc(d, 'mm') as y, date_trunc(id, at) as z from {T}",
    f"select extract(doy from d) as x, date_part('dow_iso', at) as y, extract(seconds from at) as z from {T}",
    f"select date_add(day, 1, at) as x, date_add(d, 1) as y, timestampdiff(month, at, at) as z from {T}",
    f"select at + interval 1 day 2 hours as x, at - n * interval '1' minute as y, d - d as z from {T}",
    f"select interval '1-2' year to month as x, interval '1 day 2 hours' as y, interval 3 weeks from {T}",
    f"select date_format(at, 'yyyy-MM-dd''T''HH:mm:ss.SSS') as x, date_format(d, 'E d LLL') as y from {T}",
    f"select window(at, '1 hour', '30 minutes').start as w, count(*) as c from {T} group by 1",
    f"select n >>> 1 as x, n >> 1 as y, n << 1 as z, ~n as w, n div 2 as v, n % 2 as u from {T}",
    f"select id <=> null as x, id is not distinct from null as y, n in (1, null) as z from {T}",
    f"select id || n as x, concat(id, n, d) as y, tags || tags as z, concat(nums, nums) as w from {T}",
    f"select id like 'a%' as x, id ilike any ('a', 'b') as y, id rlike '^a' as z from {T}",
    f"select n like '5' as x, upper(n) as y, length(n) as z, array(1, n, price) as w from {T}",
    f"select s.a, s['t'] as b, lines.sku as c, lines[0].n as e, m['a'] as f, tags[n] as g, m.a as z from {T}",
    f"select transform(lines, l -> l.sku || l.n) as x, filter(nums, (v, i) -> v > i) as y from {T}",
    f"select cast(n as string) as x, id::int as y, try_cast(id as date) as z, cast(m as string) from {T}",
    f"select count(*) as c, count(1) as e, count(n, id) as f, approx_count_distinct(s) as g from {T}",
    f"select greatest(n, price, x) as y, least(d, d) as z, nullif(n, 0) as w, nvl2(id, 1, 2) as v from {T}",
    f"select struct(n, id as k) as x, named_struct('a', 1) as y, map('a', 1, 'b', 2) as z from {T}",
    f"select substring(id from 1 for 2) as x, trim(both 'a' from id) as y, position('a' in id) as z from {T}",
    f"select overlay(id placing 'a' from 1) as x, left(id, 1) as y, id collate UTF8_LCASE as z from {T}",
    f"select id from {T} union all select id from {D} union select cast(score as string) from {D}",
    f"select n from {T} intersect select score from {D} except select score from {D}",
    f"select o.id from {T} o left semi join {D} d on o.id = d.id where o.n > 1",
    f"select id, d.score from {T} o full join {D} d using (id) where id is not null",
    f"select try_variant_get(odd, '$.a', 'int') as y from {T}",
    f"select xxhash64(*) as x, struct(*) as y from {D}",
    f"select id from {T} order by n, 1 limit 3 offset 2",
    "select x from values (1, 'a'), (2, 'b') as t(x, y) where x > 1",
    f"select 'O''Brien' as x, 'a' 'b' as y, r'\\d' as z, x'1F' as w, 1.5BD as v, 1L as u, -n as s from {T}",
)
"""What Spark takes, and what check says nothing of but by a warning."""
