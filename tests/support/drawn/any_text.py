"""Texts of every kind that an author may hand over as a statement or as an expression, most of them wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

from tests.support.drawn.expressions import LITERALS, PLAIN
from tests.support.drawn.statements import Statements

_TOKEN = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"[^\"]*\"|`[^`]*`|--[^\n]*\n|/\*.*?\*/|\w+|\s+|[<>=!|&]+|.", re.DOTALL
)

_FOREIGN = (
    *(
        "(",
        ")",
        "'",
        '"',
        "`",
        ",",
        ".",
        ";",
        "*",
        "--",
        "/*",
        "\\",
        "::",
        "->",
        "=>",
        "@",
        "$",
        "[",
        "]",
        "{",
        "}",
    ),
    *("#", " select ", " from ", " over ", " as ", " by ", " in ", "1", " null ", "é"),
)

OTHER_DIALECTS = (
    "select top 3 id from silver.orders",
    "select id from silver.orders limit 3 offset 1",
    "select id from silver.orders fetch first 3 rows only",
    "select [id] from [silver].[orders]",
    "select id from silver.orders where k ~ '^a'",
    "select id from silver.orders where k similar to 'a%'",
    "select $1 from silver.orders",
    "select :p, @v, ? from silver.orders",
    "select id from silver.orders where id = {id}",
    "select id from {{ ref('orders') }}",
    "select distinct on (k) id from silver.orders",
    "with recursive t as (select 1 as n union all select n + 1 from t where n < 3) select n from t, silver.orders",
    "with t as materialized (select id from silver.orders) select id from t",
    "select * from silver.orders pivot (sum(v) for k in ('a', 'b'))",
    "select * from silver.orders unpivot (x for y in (v, n))",
    "select * from silver.orders tablesample (10 percent)",
    "select * from silver.orders version as of 3",
    "select * from silver.orders for system_time as of timestamp'2026-01-01'",
    "select * from silver.orders match_recognize (partition by k order by at measures 1 as m pattern (a) define a as true)",
    "select level from silver.orders connect by prior id = n",
    "from silver.orders |> where v > 1 |> select id",
    "from silver.orders select id",
    "table silver.orders",
    "values (1, 2), (3, 4)",
    "select id from silver.orders where (k, v) in ((1, 2), (3, 4))",
    "select a.id from silver.orders a, silver.q1 b where a.k = b.k(+)",
    "select a.id from silver.orders a asof join silver.q1 b on a.k = b.k",
    "select a.id from silver.orders a cross apply explode(tags) t",
    "select m:a.b[0]::int from silver.orders",
    "select parse_json(k):a from silver.orders",
    "select $$text$$ from silver.orders",
    "select q'[it's]' from silver.orders",
    "select e'a\\n' , N'x', U&'\\0041', b'01', X'1F' from silver.orders",
    "select id from silver.orders qualify row_number() over (order by id) = 1",
    "select array_agg(id order by v) from silver.orders",
    "select string_agg(k, ',' order by v) from silver.orders",
    "select count(*) filter (where v > 1) within group (order by v) from silver.orders",
    "select first_value(v ignore nulls) over (order by id) from silver.orders",
    "select first_value(v) ignore nulls over (order by id) from silver.orders",
    "select nth_value(v, 2) from first over (order by id) from silver.orders",
    "select id from silver.orders order by all",
    "select * exclude (m) from silver.orders",
    "select * replace (v + 1 as v) from silver.orders",
    "select columns('v.*') from silver.orders",
    "select id, from silver.orders",
    "select id from silver.orders, ",
    "select id from silver.orders where",
    "select if(v > 1, 'a', 'b') from silver.orders group",
    "select case when v then from silver.orders",
    "select a >>> 1, a <<< 2, a ** 2, a ^^ b, a // b from silver.orders",
    "select not not not v from silver.orders",
    "select - - - v, + + v, ~~v from silver.orders",
    "select id from delta.`relative`",
    "select id from delta.`/lake/orders`@v3",
    "select id from silver.orders@v3",
    "select id from `silver.orders`",
    "select id from a.b.c.d.e",
    "select id from silver.orders.x.y",
    "select id from silver.`orders`, `silver`.orders o",
    "insert into silver.orders select 1",
    "merge into silver.orders using t on a = b when matched then delete",
    "create table t as select id from silver.orders",
    "drop table silver.orders",
    "set x = 1",
    "explain select id from silver.orders",
    "begin select id from silver.orders; end",
    "execute immediate 'select 1'",
    "select id from silver.orders; select id from silver.orders",
    "select transform(id) using 'cat' as (x) from silver.orders",
    "select id from silver.orders cluster by id",
    "select id from silver.orders sort by id distribute by k",
    "select id from json.`/a/b`",
    "select id from range(3), stream(silver.orders), table(silver.orders)",
    "select identifier('id') from identifier('silver.orders')",
    "select id from silver.orders lateral view explode(tags)",
    "select id from silver.orders lateral join explode(tags)",
    "select id from silver.orders left outer",
    "select id from silver.orders natural left anti join silver.q1",
    "select id from silver.orders join silver.q1 using",
    "select id from silver.orders join silver.q1 using (k, )",
    "(select id from silver.orders",
    "select id from silver.orders)",
    "((select id from silver.orders))",
    "select 'open from silver.orders",
    'select "open from silver.orders',
    "select `open from silver.orders",
    "select id /* open from silver.orders",
    "select id from silver.orders -- ",
    "select id from silver.orders /* a /* b */ c */",
    "select id from silver.orders where k = 'a' 'b' \"c\"",
    "select r'\\' from silver.orders",
    "select '\\' from silver.orders",
    "select 1e999, 1e-999, 99999999999999999999999999999999999999999, 1BD, 1x, 0x1F, 1_000 from silver.orders",
    "select interval, interval 1, interval '1' fortnight, interval -1 day -2 hours from silver.orders",
    "select cast(v as), cast(v as foo), cast(v as array<), v::, v::decimal(99,99) from silver.orders",
    "select date'x', timestamp'y', timestamp_ntz'2026-01-01', time'12:00' from silver.orders",
    "select x -> x + 1, (x, y) -> x, transform(tags, () -> 1) from silver.orders",
    "select f(a => 1), f(1, b => 2), f(distinct), f(*) from silver.orders",
    "select sum(v) over, sum(v) over (), sum(v) over w, sum(v) over (w rows 1) from silver.orders",
    "select struct(*), struct(o.*), * from silver.orders o group by *",
    "select id from silver.orders group by ()",
    "select id from silver.orders group by grouping sets ()",
    "select id from silver.orders group by cube, rollup",
    "select id as select, from as from from silver.orders",
    "select from from from",
    "select select select",
    "with",
    "with t",
    "with t as",
    "with t as ()",
    "with t as (select id from t) select id from t",
    "with t as (select 1 as id from silver.orders), t as (select 2 as id from t) select id from t",
    "with a as (select id from b), b as (select id from a) select id from a, silver.orders",
    "select id from (with t as (select id from t) select id from t)",
    "select (select (select (select id from silver.orders)))",
    "union all",
    "select id from silver.orders union",
    "select id from silver.orders union all by name select k from silver.q1",
    "select id, v from silver.orders union select k from silver.q1",
    "",
    " ",
    ";",
    ";;;",
    "--",
    "/*",
    "*",
    "'",
    '"',
    "`",
    "\\",
    "\0",
    "select \0 from silver.orders",
    "select '\0' from silver.orders",
    "\ufeffselect id from silver.orders",
    "select\u00a0id from\u2003silver.orders",
    "select id from silver.orders where k = '\ud800'",
    "select \u202eid from silver.orders",
    "select größe, 名前, 😀 from silver.orders",
    "SELECT\r\nid\rFROM silver.orders\r\n",
    "select id\x0b\x0cfrom silver.orders",
    "select __in0__, __weight, `__in1__` from silver.orders",
    "select id as `` from silver.orders",
    "select id as `a``b`, id as \"x y\", id as 'z' from silver.orders",
    "select `silver.orders`.id from silver.orders",
    "select orders.orders.orders from silver.orders orders",
    "select st.st.st, m.m, tags.x, k[0], m[m], st['a'] from silver.orders",
    "select id from silver.orders where exists (select)",
    "select id from silver.orders where id in ()",
    "select id from silver.orders where id in (select * from silver.q1)",
    "select id from silver.orders where (select 1, 2) = 1",
    "select current_date, current_timestamp, current_user, now from silver.orders",
)
"""Forms of other engines, and texts that end or begin in the middle."""


def nested(depth: int) -> tuple[str, ...]:
    """Texts that are nested so deeply, each in another way."""
    return (
        f"select {'(' * depth}v{')' * depth} as x from silver.orders",
        f"select {'(' * depth}v as x from silver.orders",
        f"select {'abs(' * depth}v{')' * depth} as x from silver.orders",
        f"select {'array(' * depth}v{')' * depth} as x from silver.orders",
        f"select {'struct(' * depth}v{')' * depth} as x from silver.orders",
        f"select {'coalesce(v, ' * depth}v{')' * depth} as x from silver.orders",
        f"select {'transform(tags, x -> ' * depth}v{')' * depth} as x from silver.orders",
        f"select v{' + v' * depth} as x from silver.orders",
        f"select k{' || k' * depth} as x from silver.orders",
        f"select {'not ' * depth}flag as x from silver.orders",
        f"select {'- ' * depth}v as x from silver.orders",
        f"select {'case when flag then ' * depth}1{' end' * depth} as x from silver.orders",
        f"select v as x from silver.orders where flag{' and flag' * depth}",
        f"select v as x from silver.orders where flag{' or flag' * depth}",
        f"select v as x from silver.orders where {'(flag and ' * depth}flag{')' * depth}",
        f"select v as x from silver.orders where v in ({', '.join(map(str, range(depth)))})",
        f"{'select * from (' * depth}select v from silver.orders{')' * depth}",
        f"select v from silver.orders{' union all select v from silver.orders' * (depth // 4)}",
        f"select v from silver.orders where {'exists (select 1 from silver.q1 where ' * (depth // 4)}true{')' * (depth // 4)}",
        f"select st{'.a' * depth} as x from silver.orders",
        f"select tags{'[0]' * depth} as x from silver.orders",
        f"select cast(null as {'array<' * depth}int{'>' * depth}) as x from silver.orders",
        f"select {', '.join(f'v as c{place}' for place in range(depth))} from silver.orders",
        f"{'with t as (' * (depth // 4)}select v from silver.orders{') select v from t' * (depth // 4)}",
        f"select a0.v from silver.orders a0 {' '.join(f'join silver.q1 b{n} on b{n}.k = a0.k' for n in range(depth // 8))}",
        f"select v as x from silver.orders {'/* ' * depth}",
        f"select v as {'x' * depth} from silver.orders",
        f"select '{'x' * depth * 10}' as x from silver.orders",
    )


def chains(count: int) -> tuple[str, ...]:
    """Statements with so many operators in a row."""
    return (
        f"select v{' + v' * count} as x from silver.orders",
        f"select v as x from silver.orders where {' or '.join(f'k = {number!r}' for number in map(str, range(count)))}",
    )


def as_view(example: str) -> tuple[str, ...]:
    """A documented statement as statements over a table."""
    found = re.match(r"select\s+(.*)", example, re.IGNORECASE | re.DOTALL)
    inner = f"select o.id, t.* from silver.orders o cross join ({example}\n) t"
    if found is None or re.search(r"\bfrom\b", example, re.IGNORECASE):
        return (example, inner)
    return (f"select {found[1]} as c0 from silver.orders", inner)


def draw_text(random: Random, documented: Sequence[str]) -> str:
    """A statement, or a text that was one."""
    chance = random.random()
    if chance < 0.2:
        return random.choice(as_view(random.choice(documented)))
    if chance < 0.3:
        return str(Statements(random).statement())
    if chance < 0.4:
        return _changed(random, random.choice(OTHER_DIALECTS))
    if chance < 0.5:
        return _salad(random, documented)
    text = (
        str(Statements(random).statement())
        if chance < 0.6
        else random.choice(as_view(random.choice(documented)))
    )
    return _changed(random, text)


def draw_expression(random: Random, documented: Sequence[str]) -> str:
    """An expression of a column, or a text that was one."""
    template = random.choice([text for texts in PLAIN.values() for text in texts])
    kinds = [*LITERALS]
    text = re.sub(
        r"\{(\w+)\}", lambda word: random.choice(LITERALS.get(word[1], LITERALS[kinds[0]])), template
    )
    if random.random() < 0.4:
        text = re.sub(r"^select ", "", random.choice(documented), flags=re.IGNORECASE)
    return text if random.random() < 0.4 else _changed(random, text)


def _changed(random: Random, text: str) -> str:
    """A text with some of its words missing, doubled, exchanged, or foreign."""
    words = _TOKEN.findall(text)
    for _ in range(random.choice([1, 1, 2, 4])):
        if not words:
            break
        at, other = random.randrange(len(words)), random.randrange(len(words))
        word = words[at]
        inside = random.randrange(len(word))
        odd = chr(random.choice([0, 32, 39, 45, 95, 120, 0x2014, 0x1F600]))
        words = random.choice(
            (
                words[:at],
                words[at:],
                [*words[:at], *words[at + 1 :]],
                [*words[:at], word, *words[at:]],
                [*words[:at], words[other], *words[at + 1 :]],
                [*words[:at], random.choice(_FOREIGN), *words[at:]],
                [*words, random.choice([" ", ";", "\n", ", "]), *words],
                [*words[:at], word[:inside] + odd + word[inside:], *words[at + 1 :]],
            )
        )
    return "".join(words)


def _salad(random: Random, documented: Sequence[str]) -> str:
    """Words of several texts in any order."""
    pool = _TOKEN.findall(random.choice(documented)) + _TOKEN.findall(str(Statements(random).statement()))
    words = [word for word in pool if not word.isspace()]
    chosen = random.choices(words, k=random.randint(1, 25))
    return random.choice(["", "select "]) + random.choice([" ", "", "\n"]).join(chosen)
