"""Random statements of views, by a seed.

A statement reads one to three of the tables ``orders``, ``customers`` and ``products``, whose columns have
nulls and repeated values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

COLUMNS = {
    "silver.orders": (
        "order_id string, customer string, product string, amount int, price decimal(10,2), "
        "seen_at timestamp, text string"
    ),
    "silver.customers": "customer string, country string, score int",
    "silver.products": "product string, kind string, cost int",
}

_TABLES = {"o": "silver.orders", "c": "silver.customers", "p": "silver.products"}
_ALIASES = {"o": "o", "c": "c", "p": "p", "s": "o"}
"""Each alias, and the table whose columns it has: ``s`` is the orders once more."""
_TEXTS = {
    "o": ["o.order_id", "o.customer", "o.product", "o.text"],
    "c": ["c.customer", "c.country"],
    "p": ["p.product", "p.kind"],
    "s": ["s.customer", "s.product"],
}
_NUMBERS = {"o": ["o.amount", "o.price"], "c": ["c.score"], "p": ["p.cost"], "s": ["s.amount"]}
_JOINED_BY = {
    ("o", "c"): "o.customer = c.customer",
    ("o", "p"): "o.product = p.product",
    ("o", "s"): "o.customer = s.customer",
}
_KINDS = ["join", "join", "left join", "right join", "full join", "left semi join", "left anti join"]
_AGGREGATES = [
    "count(*)",
    "count({n})",
    "count(distinct {t})",
    "sum({n})",
    "sum(distinct {n})",
    "min({n})",
    "max({n})",
    "min({t})",
    "max({t})",
    "avg({i})",
    "sum(case when {n} > 3 then 1 else 0 end)",
    "count(case when {t} is null then 1 end)",
    "max(coalesce({n}, -1))",
    "sum({n}) - min({n})",
    "bool_or({n} > 5)",
]
_WINDOWS = [
    "row_number() over (partition by {k} order by {all})",
    "rank() over (partition by {k} order by {n})",
    "sum({n}) over (partition by {k} order by {all})",
    "count(*) over (partition by {k})",
    "lag({n}) over (partition by {k} order by {all})",
    "max({n}) over (partition by {k})",
]


@dataclass(frozen=True)
class Joined:
    """A further table of FROM: how it is joined, under which alias, and the condition."""

    kind: str
    alias: str
    on: str


@dataclass(frozen=True)
class Query:
    """A SELECT.

    Attributes:
        first: The alias of the first table.
        joins: The other tables.
        generator: A LATERAL VIEW, or nothing.
        where: Conditions; all must hold.
        select: The output columns: expressions, named c0, c1 and so on.
        keys: So many of them are the grouping keys; None: no groups.
        having: A condition on groups, or nothing.
        distinct: Whether equal rows are one.
        union: ``union`` or ``union all``, and the query that follows it.
        over: A statement around this one, which it names ``t``; or nothing.
    """

    first: str
    joins: tuple[Joined, ...] = ()
    generator: str = ""
    where: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    keys: int | None = None
    having: str = ""
    distinct: bool = False
    union: tuple[str, Query] | None = None
    over: str = ""

    def sql(self) -> str:
        """The statement's text."""
        listed = ", ".join(f"{text} as c{place}" for place, text in enumerate(self.select))
        parts = [f"select {'distinct ' if self.distinct else ''}{listed}"]
        parts += [f"from {_TABLES[_ALIASES[self.first]]} {self.first}"]
        parts += [f"{j.kind} {_TABLES[_ALIASES[j.alias]]} {j.alias} on {j.on}" for j in self.joins]
        parts += [self.generator] if self.generator else []
        parts += [f"where {' and '.join(self.where)}"] if self.where else []
        parts += [f"group by {', '.join(self.select[: self.keys])}"] if self.keys else []
        parts += [f"having {self.having}"] if self.having else []
        parts += [f"{self.union[0]} {self.union[1].sql()}"] if self.union else []
        text = " ".join(parts)
        return self.over.format(text) if self.over else text


def draw(random: Random) -> Query:
    """A statement."""
    query = _block(random)
    chance = random.random()
    if chance < 0.12:
        return replace(query, union=(random.choice(["union", "union all"]), _like(random, query)))
    if chance < 0.3:
        names = [f"c{place}" for place in range(len(query.select))]
        key = random.choice(names)
        shown, last = ", ".join(names), names[-1]
        place = f"row_number() over (partition by count(*) order by {key})"
        top = f"select {key} as k, count(*) as n, {place} as p from ({{}}) t group by {key}"
        overs = [
            f"with t as ({{}}) select {key} as k, count(*) as n from t group by {key}",
            f"select {shown} from ({{}}) t where {key} is not null",
            f"with t as ({{}}) select a.{key} as k, b.{last} as b from t a join t b on a.{key} = b.{key}",
            f"select k, n from ({top}) where p <= 2",
        ]
        return replace(query, over=random.choice(overs))
    return query


def _block(random: Random) -> Query:
    first, joins = _tables(random)
    shown = [first, *(j.alias for j in joins if "semi" not in j.kind and "anti" not in j.kind)]
    generator, texts = "", [text for alias in shown for text in _TEXTS[alias]]
    numbers = [number for alias in shown for number in _NUMBERS[alias]]
    if first == "o" and random.random() < 0.12:
        generator, texts = "lateral view explode(split(o.text, ' ')) w as word", [*texts, "word"]
    where = tuple(_condition(random, texts, numbers, first) for _ in range(random.choice([0, 0, 1, 1, 2])))
    query = Query(first, joins, generator, where)
    chance = random.random()
    if chance < 0.45:
        return _grouped(random, query, texts, numbers)
    if chance < 0.6:
        return _windowed(random, query, texts, numbers)
    listed = [_scalar(random, texts, numbers) for _ in range(random.randint(1, 4))]
    return replace(query, select=tuple(listed), distinct=random.random() < 0.25)


def _tables(random: Random) -> tuple[str, tuple[Joined, ...]]:
    chance = random.random()
    if chance < 0.3:
        return random.choice(["o", "o", "c", "p"]), ()
    kinds = [random.choice(_KINDS) for _ in range(2)]
    if chance < 0.75:
        alias = random.choice(["c", "c", "p", "s"])
        return "o", (Joined(kinds[0], alias, _on(random, "o", alias, kinds[0])),)
    aliases = random.sample(["c", "p", "s"], 2)
    joins = [
        Joined(kind, each, _on(random, "o", each, kind)) for kind, each in zip(kinds, aliases, strict=True)
    ]
    return "o", tuple(joins)


def _on(random: Random, left: str, right: str, kind: str) -> str:
    text = _JOINED_BY[left, right]
    if right == "s":
        return f"{text} and o.order_id < s.order_id"
    if random.random() < 0.25:
        text += f" and {_NUMBERS[right][0]} > {random.randint(0, 6)}"
    if kind == "join" and random.random() < 0.15:
        text += f" and {_NUMBERS[left][0]} >= {_NUMBERS[right][0]}"
    return text


def _condition(random: Random, texts: Sequence[str], numbers: Sequence[str], first: str) -> str:
    text, number, bound = random.choice(texts), random.choice(numbers), random.randint(0, 7)
    outer = random.choice(["in", "not exists", "exists"])
    own = f"{first}.customer" if first in {"o", "c"} else None
    found = [
        f"{number} > {bound}",
        f"{number} is not null",
        f"({number} < {bound} or {text} is null)",
        f"{text} <> 'b'",
        f"coalesce({number}, 0) between 1 and {bound}",
        f"{text} like '%a%'",
    ]
    if own is not None and outer == "in":
        found.append(f"{own} in (select x.customer from silver.customers x where x.score > {bound})")
    elif own is not None:
        found.append(f"{outer} (select 1 from silver.customers x where x.customer = {own})")
    return random.choice(found)


def _scalar(random: Random, texts: Sequence[str], numbers: Sequence[str]) -> str:
    text, number = random.choice(texts), random.choice(numbers)
    return random.choice(
        [
            text,
            text,
            number,
            f"{number} * 2 + 1",
            f"case when {number} > 3 then {text} else 'none' end",
            f"coalesce({text}, '?')",
            f"upper({text})",
            f"{number} % 3",
            f"{text} || '-'",
        ]
    )


def _grouped(random: Random, query: Query, texts: Sequence[str], numbers: Sequence[str]) -> Query:
    keys = list(
        dict.fromkeys(
            random.choice([*texts, f"coalesce({random.choice(numbers)}, 0) % 3"])
            for _ in range(random.choice([0, 1, 1, 1, 2]))
        )
    )
    measures = [
        random.choice(_AGGREGATES).format(n=random.choice(numbers), t=random.choice(texts), i=numbers[0])
        for _ in range(random.randint(1, 3))
    ]
    having = random.choice(["", "", "count(*) > 1", f"max({random.choice(numbers)}) > 4"]) if keys else ""
    return replace(query, select=(*keys, *measures), keys=len(keys), having=having)


def _windowed(random: Random, query: Query, texts: Sequence[str], numbers: Sequence[str]) -> Query:
    key, number = random.choice(texts), random.choice(numbers)
    every = ", ".join(dict.fromkeys([*numbers, *texts]))
    window = random.choice(_WINDOWS).format(k=key, n=number, all=every)
    return replace(query, select=(key, random.choice(texts), number, window))


def _like(random: Random, query: Query) -> Query:
    """A query whose columns can stand below those of another one: the same, filtered anew."""
    texts, numbers = _TEXTS[query.first], _NUMBERS[query.first]
    return replace(query, where=(_condition(random, texts, numbers, query.first),))
