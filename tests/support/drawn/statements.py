"""Drawn statements over the tables of ``tests.support.drawn.tables``: every clause, form and scope that Spark reads.

An alias is drawn from few names, so that scopes share them; a name is written in each way that it may be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.support.drawn.expressions import EQUAL, TEXT_AND, THROWING, Column, Drawer, letter_of
from tests.support.drawn.parts import Part, joined, optional, part
from tests.support.drawn.tables import COLUMNS

_ALIASES = ("a", "b", "o", "q1", "q2", "k", "t", "orders", "st", "x", "e__f")
_NAMES = ("c0", "c1", "c2", "c3", "k", "v", "n", "id", "x", "order", "a__b", "day", "a__k", "o__v")
_JOINS = (
    "join",
    "inner join",
    "left join",
    "right outer join",
    "full join",
    "left semi join",
    "left anti join",
)
_WIDER = {"i": "ildp", "l": "lipd", "d": "dil", "p": "pil", "D": "Dt", "t": "tD", "s": "ss"}
"""What stands below a column of a type in a union."""
_OF_ROWS = "iilldppssssbDtSImx"
_OF_GROUPS = "llliiiddpssbDtS"


@dataclass(frozen=True)
class Query:
    """A drawn query: its text, and its columns with the letters of their types."""

    text: Part
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Source:
    """A table of FROM, and its columns as they may be written; none of a table that is only looked up."""

    text: Part
    alias: str
    columns: tuple[Column, ...]


@dataclass
class Statements:
    """Draws statements.

    Attributes:
        random: Where chance comes from.
        constants: Expressions without a column by their type's letter.
    """

    random: Random
    constants: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._values = Drawer(self.random, self.constants)

    def statement(self) -> Part:
        """A statement."""
        found = self._query(self.random.choice([0, 0, 1, 1, 2]), {}).text
        if self._chance(0.1):
            return part(found, self.random.choice([";", " ;\n", "\n-- the end", " /* the end */", "\n"]))
        return found

    # Queries

    def _query(self, depth: int, named: Mapping[str, Query], kinds: str = "") -> Query:
        chance = self.random.random()
        if depth > 0 and chance < 0.14:
            return self._with(depth, named, kinds)
        if depth > 0 and chance < 0.28:
            return self._set(depth, named, kinds)
        if depth > 0 and chance < 0.34:
            return self._best(self._block(depth - 1, named, kinds))
        return self._block(depth, named, kinds)

    def _best(self, inner: Query) -> Query:
        """The first rows of each value of a column."""
        ordered = [_quoted(name) for name, kind in inner.columns if kind != "m"] or ["1"]
        place = f"rank() over (partition by {self.random.choice(ordered)} order by {', '.join(ordered)})"
        listed = ", ".join(_quoted(name) for name, _ in inner.columns)
        text = part(
            f"select {listed} from (select *, {place} as place from (",
            inner.text,
            ") t) where place <= 2",
            instead=(inner.text,),
        )
        return Query(text, inner.columns)

    def _with(self, depth: int, named: Mapping[str, Query], kinds: str) -> Query:
        name = self.random.choice(["t", "a", "q1", "q2", "base", "orders"])
        inner = self._query(depth - 1, named)
        head = name
        if self._chance(0.2):
            names = [f"w{place}" for place in range(len(inner.columns))]
            head = f"{name}({', '.join(names)})"
            inner = Query(
                inner.text, tuple((new, kind) for new, (_, kind) in zip(names, inner.columns, strict=True))
            )
        further, known = part(""), {**named, name: inner}
        if self._chance(0.25):
            second = self._query(depth - 1, known)
            other = self.random.choice([each for each in ("u", "b", "q3") if each != name])
            known = {**known, other: second}
            further = part(f", {other} as (", second.text, ")")
        query = self._block(depth - 1, known, kinds, first=name if self._chance(0.8) else "")
        return Query(
            part(f"with {head} as (", inner.text, ")", further, self._gap(), query.text), query.columns
        )

    def _set(self, depth: int, named: Mapping[str, Query], kinds: str) -> Query:
        first = self._block(depth - 1, named, kinds)
        below = "".join(self.random.choice(_WIDER.get(kind, kind)) for _, kind in first.columns)
        second = self._query(depth - 1, named, below)
        word = self.random.choice(
            ["union all"] * 4 + ["union", "union distinct", "except", "intersect", "except all"]
        )
        own, other = first.text, second.text
        if self._chance(0.2):
            own, other = part("(", own, ")"), part("(", other, ")")
        kinds_ = tuple((name, kind) for name, kind in first.columns)
        return Query(part(own, self._gap(), word, self._gap(), other, instead=(own, other)), kinds_)

    def _block(self, depth: int, named: Mapping[str, Query], kinds: str, first: str = "") -> Query:
        sources, from_ = self._from(depth, named, first)
        columns = [column for each in sources for column in each.columns]
        where = self._where(depth, named, sources, columns)
        chance = self.random.random()
        if not kinds and chance < 0.1:
            listed, shown, rest = self._starred(sources, columns)
        elif chance < 0.42:
            listed, shown, rest = self._grouped(columns, kinds)
        elif chance < 0.55:
            listed, shown, rest = self._windowed(columns, kinds)
        elif not kinds and chance < 0.62 and (made := self._generated(columns)) is not None:
            listed, shown, rest = made
        else:
            listed, shown, rest = self._listed(columns, kinds)
        distinct = optional("distinct ") if self._chance(0.1) else part("")
        word = self.random.choice(["select", "SELECT", "select", "Select"])
        hint = self.random.choice(["/*+ broadcast(a) */ ", "/* a 'comment */ "]) if self._chance(0.04) else ""
        text = part(word, self._gap(), hint, distinct, listed, self._gap(), from_, where, rest)
        return Query(text, shown)

    # FROM

    def _from(self, depth: int, named: Mapping[str, Query], first: str) -> tuple[list[Source], Part]:
        taken: set[str] = set()
        sources = [self._source(depth, named, taken, first)]
        text, was_using = sources[0].text, False
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 1, 2])):
            other = self._source(depth, named, taken)
            if (
                not was_using
                and self._chance(0.15)
                and (made := self._using(text, sources, other)) is not None
            ):
                was_using, (text, sources) = True, made
                continue
            text, is_shown = self._join(text, sources, other)
            if is_shown:
                sources.append(other)
        word = self.random.choice(["from", "FROM"])
        if self._chance(0.05):
            text = part("(", text, ")")
        lateral, more = self._lateral(sources, taken)
        return sources + more, part(word, self._gap(), text, lateral)

    def _join(self, text: Part, sources: Sequence[Source], other: Source) -> tuple[Part, bool]:
        ours = [column for each in sources for column in each.columns]
        kind = self.random.choice(_JOINS)
        if self._chance(0.06):
            kind = self.random.choice(["cross join", ","])
            return part(text, f" {kind} " if kind != "," else ", ", other.text, instead=(text,)), True
        equal = self._values.equal(ours, other.columns)
        if equal is None:
            return part(text, " cross join ", other.text, instead=(text,)), True
        more: list[str | Part] = []
        if self._chance(0.25):
            more += [
                optional(
                    " and ",
                    self._values.condition([*other.columns, *ours] if kind == "join" else other.columns),
                )
            ]
        if self._chance(0.1) and (second := self._values.equal(ours, other.columns)) is not None:
            more += [optional(" and ", second)]
        on = part(equal, *more)
        if self._chance(0.1):
            on = part("(", on, ")")
        is_shown = " semi " not in kind and " anti " not in kind
        joined_ = part(text, self._gap(), kind, " ", other.text, " on ", on, instead=(text,))
        return joined_, is_shown

    def _using(
        self, text: Part, sources: Sequence[Source], other: Source
    ) -> tuple[Part, list[Source]] | None:
        """A join by a column of both sides, with which the star of each side's table then begins."""
        ours = [column.name for each in sources for column in each.columns]
        kinds = {column.name: column.kind for each in sources for column in each.columns}
        names = [
            each.name
            for each in other.columns
            if ours.count(each.name) == 1
            and (kinds[each.name], each.kind) in EQUAL
            and each.name not in TEXT_AND
        ]
        if not names:
            return None
        name, kind = self.random.choice(names), self.random.choice(_JOINS)
        is_shown = " semi " not in kind and " anti " not in kind
        first = [
            replace(each, columns=tuple(sorted(each.columns, key=lambda column: column.name != name)))
            for each in (*sources, *([other] if is_shown else []))
        ]
        return part(
            text, self._gap(), kind, " ", other.text, f" using ({_quoted(name)})", instead=(text,)
        ), first

    def _source(self, depth: int, named: Mapping[str, Query], taken: set[str], first: str = "") -> Source:
        chance = self.random.random()
        free = [each for each in _ALIASES if each not in taken]
        alias = self.random.choice(free)
        if first or (named and chance < 0.35):
            name = first or self.random.choice(list(named))
            return self._named(
                part(name),
                named[name].columns,
                alias if name in taken or self._chance(0.5) else name,
                name,
                taken,
            )
        if depth > 0 and chance < 0.5:
            inner = self._query(depth - 1, named)
            columns = inner.columns
            head = alias
            if self._chance(0.2):
                columns = tuple((f"d{place}", kind) for place, (_, kind) in enumerate(columns))
                head = f"{alias}({', '.join(name for name, _ in columns)})"
            word = self.random.choice(["", "as "])
            taken.add(alias)
            return Source(part("(", inner.text, f") {word}{head}"), alias, self._columns(alias, columns))
        table = self.random.choice(["silver.orders", "silver.orders", "gold.orders", "silver.q1"])
        kinds = tuple((name, letter_of(kind)) for name, kind in COLUMNS[table].items())
        beside = {"silver.orders": "gold.orders", "gold.orders": "silver.orders"}.get(table, "")
        if taken in (set(), {beside, "orders"}) and self._chance(0.12 + 0.3 * len(taken)):
            taken |= {table, table.partition(".")[2]}
            return Source(part(table), table, self._columns(table, kinds))
        return self._named(part(table), kinds, alias, "", taken)

    def _named(
        self, text: Part, columns: Sequence[tuple[str, str]], alias: str, own: str, taken: set[str]
    ) -> Source:
        taken.add(alias)
        shown = part(text) if alias == own else part(text, self.random.choice([" ", " as ", " AS "]), alias)
        return Source(shown, alias, self._columns(alias, columns))

    def _columns(self, alias: str, columns: Sequence[tuple[str, str]]) -> tuple[Column, ...]:
        write = str.upper if self._chance(0.05) else str
        return tuple(Column(f"{alias}.{write(_quoted(name))}", kind, name) for name, kind in columns)

    def _lateral(self, sources: list[Source], taken: set[str]) -> tuple[Part, list[Source]]:
        columns = [column for each in sources for column in each.columns]
        arrays = [each.text for each in columns if each.kind == "S"]
        if not arrays or not self._chance(0.1):
            return part(""), []
        alias = next(each for each in ("w", "lv") if each not in taken)
        outer = self.random.choice(["", "outer "])
        if self._chance(0.5):
            text, names = (
                f" lateral view {outer}explode({self.random.choice(arrays)}) {alias} as word",
                (("word", "s"),),
            )
        else:
            text = f" lateral view {outer}posexplode({self.random.choice(arrays)}) {alias} as place, word"
            names = (("place", "i"), ("word", "s"))
        return part(text), [Source(part(""), alias, self._columns(alias, names))]

    # WHERE

    def _where(
        self, depth: int, named: Mapping[str, Query], sources: Sequence[Source], columns: Sequence[Column]
    ) -> Part:
        parts: list[Part] = []
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            if depth > 0 and self._chance(0.35):
                parts.append(self._with_query(depth, named, columns))
            else:
                parts.append(self._values.condition(columns))
        mixed = [each for each in columns if each.name == "mixed"]
        if mixed and self._chance(0.08):
            expression, guard, _ = self.random.choice(THROWING)
            guarded = f"{guard} and {expression} > 1" if self._chance(0.3) else guard
            parts.insert(0, part(guarded.replace("{c}", mixed[0].text), instead=("true",)))
        if not parts:
            return part("")
        words = joined(parts, self.random.choice([" and ", " and ", "\n  AND ", " or "]))
        return part(self._gap(), part(self.random.choice(["where", "WHERE"]), " ", words, instead=("",)))

    def _with_query(self, depth: int, named: Mapping[str, Query], columns: Sequence[Column]) -> Part:
        """A condition that has a query inside."""
        random = self.random
        inner, outer = (
            self._source(
                depth - 1, named, set() if self._chance(0.4) else {c.text.split(".")[0] for c in columns}
            ),
            columns,
        )
        form = random.choice(["in", "in", "not in", "exists", "exists", "not exists", "scalar", "pair"])
        own_alias = inner.alias in {c.text.rpartition(".")[0] for c in columns}
        link = None if own_alias else self._values.equal(outer, inner.columns)
        more = (
            part(" and ", self._values.condition(inner.columns), instead=("",))
            if self._chance(0.4)
            else part("")
        )
        if form in {"in", "not in"}:
            pairs = [(a, b) for a in outer for b in inner.columns if _compared(a, b)]
            if not pairs:
                return self._values.condition(columns)
            ours, theirs = random.choice(pairs)
            where = part(
                " where ", link if link is not None and self._chance(0.4) else "true", more, instead=("",)
            )
            return part(
                f"{ours.text} {form} (select {theirs.text} from ", inner.text, where, ")", instead=("true",)
            )
        if form == "scalar":
            what = self._values.filled(
                random.choice(["avg({i})", "max({i})", "count(*)", "min({i}) + 1"]), inner.columns
            )
            side = self._values.value("i", columns, 1)
            where = (
                part(" where ", link, instead=("",)) if link is not None and self._chance(0.4) else part("")
            )
            return part(side, " > (select ", what, " from ", inner.text, where, ")", instead=("true",))
        if link is None:
            return self._values.condition(columns)
        shown = random.choice(["1", "*", "max({i})", "count(*)", "explode({S})", "{i}", "mean({i})"])
        having = random.choice(["", "", "", " having count(*) > 1", " limit 1"])
        listed = self._values.filled(shown, inner.columns).parts[1] if "{" in shown else part(shown)
        return part(
            f"{'not ' if form == 'not exists' else ''}exists (select ", listed, " from ", inner.text, " where ", link, more, having, ")",
            instead=("true",),
        )  # fmt: skip

    # SELECT

    def _listed(
        self, columns: Sequence[Column], kinds: str
    ) -> tuple[Part, tuple[tuple[str, str], ...], Part]:
        wanted = kinds or "".join(self.random.choices(_OF_ROWS, k=self.random.randint(1, 4)))
        names = self._names(len(wanted))
        items, seen = [], list(columns)
        for place, (name, kind) in enumerate(zip(names, wanted, strict=True)):
            looked = self._looked_up(kind, columns) if self._chance(0.12) else None
            value = self._values.value(kind, seen, 2) if looked is None else looked
            items.append(self._item(value, name, is_last=place == len(wanted) - 1))
            is_new = name not in {each.name for each in columns}
            if is_new and self._chance(0.3):  # a name of the list, in the rest of the list
                seen = [*seen, Column(_quoted(name), kind, name)]
        return joined(items, ", "), tuple(zip(names, wanted, strict=True)), part("")

    def _item(self, value: Part, name: str, *, is_last: bool = False) -> Part:
        word = self.random.choice([" as ", " AS ", " "])
        return part(value, word, _quoted(name))

    def _names(self, count: int) -> list[str]:
        pool = [f"c{place}" for place in range(count)]
        if self._chance(0.25):
            pool = self.random.sample(_NAMES, max(count, 1)) if count <= len(_NAMES) else pool
        return pool[:count]

    def _starred(
        self, sources: Sequence[Source], columns: Sequence[Column]
    ) -> tuple[Part, tuple[tuple[str, str], ...], Part]:
        """A list with a star."""
        names, alias = [each.name for each in columns], self.random.choice(sources)
        shown = tuple((each.name, each.kind) for each in columns)
        own = tuple((each.name, each.kind) for each in alias.columns)
        one = next((each for each in columns if each.kind in "is"), None)
        head, first = (f"{one.text} as c0, ", (("c0", one.kind),)) if one is not None else ("", ())
        forms: list[tuple[str | Part, tuple[tuple[str, str], ...]]] = [
            (f"{alias.alias}.*", own),
            (f"{head}to_json(struct(*)) as j", (*first, ("j", "s"))),
        ]
        forms += [
            (f"{head}{each.text}.*", (*first, ("a", "i"), ("b", "s"))) for each in columns if each.kind == "x"
        ][:1]
        if "m" not in {each.kind for each in columns}:  # of which Spark makes no hash
            forms.append((f"{head}xxhash64(*) as h", (*first, ("h", "l"))))
            forms.append((f"{head}hash(*) as h", (*first, ("h", "i"))))
            forms.append((f"count({alias.alias}.*) as n", (("n", "l"),)))
        if len(set(names)) == len(names) > 1:
            left = self.random.choice(names)
            forms += [("*", shown)] * 2
            forms.append((f"* except ({_quoted(left)})", tuple(each for each in shown if each[0] != left)))
            if "c9" not in names:
                more = part("*, ", self._values.value("i", columns), " as c9")
                forms.append((more, (*shown, ("c9", "i"))))
        listed, found = self.random.choice(forms)
        return part(listed), found, part("")

    def _grouped(
        self, columns: Sequence[Column], kinds: str
    ) -> tuple[Part, tuple[tuple[str, str], ...], Part]:
        random = self.random
        wanted = kinds or "".join(random.choices(_OF_GROUPS, k=random.randint(1, 3)))
        keys = random.choice([0, 1, 1, 1, 2])
        if not kinds:
            wanted = "".join(random.choices("ssibDt", k=keys)) + wanted
        keys = min(keys, len(wanted) - (0 if kinds else 1))
        is_windowed = not kinds and self._chance(0.15)
        wanted += "l" * is_windowed
        names = self._names(len(wanted))
        items, texts = [], []
        for place, (name, kind) in enumerate(zip(names, wanted, strict=True)):
            if is_windowed and place == len(wanted) - 1:
                value = self._over_groups([text for _, text in texts], columns)
            elif place < keys or kind in "Imx":
                value = self._values.value(kind, columns, 1)
                if place < keys and kind == "t" and self._chance(0.4):
                    value = self._values.filled("window({t}, '1 hour').start", columns, 1)
                texts.append((place, str(value)))
            else:
                value = self._values.aggregate(kind, columns)
            items.append(self._item(value, name))
        ways = {
            "text": [text for _, text in texts],
            "place": [str(place + 1) for place, _ in texts],
            "alias": [_quoted(names[place]) for place, _ in texts],
        }
        way = random.choice(["text", "text", "place", "alias"])
        group = ""
        if texts:
            listed = ", ".join(ways[way])
            group = random.choice([f"group by {listed}"] * 8 + [f"group by rollup({listed})", f"group by cube({listed})",
                                  "group by all", f"group by grouping sets (({listed}), ())", f"GROUP BY {listed} with rollup"])  # fmt: skip
        rest: list[str | Part] = [self._gap(), group] if group else []
        if self._chance(0.2 if texts else 0.15):
            having_ = self._values.filled(
                random.choice(
                    [
                        "count(*) > 1",
                        "max({i}) > 1",
                        "count(*) > 3",
                        "min({s}) is not null",
                        "count(*) >= (select min(zz.v) from silver.orders zz)",
                    ]
                ),
                columns,
            )
            rest.append(optional(" having ", having_))
        return joined(items, ", "), tuple(zip(names, wanted, strict=True)), Part(tuple(rest))

    def _over_groups(self, keys: Sequence[str], columns: Sequence[Column]) -> Part:
        """A window function over groups."""
        random = self.random
        by = ""
        if keys and self._chance(0.8):
            key = random.choice(keys).replace("{", "{{").replace("}", "}}")  # the key may have JSON in it
            by = f"partition by {key}"
        given = random.choice(["count(*)", "max({i})", "count(distinct {s})"])
        forms = [f"count({given}) over ({by})", f"sum({given}) over ({by})"]
        forms += [f"cast(rank() over ({by} order by {given}) as bigint)"]
        return self._values.filled(random.choice(forms), columns, 1)

    def _looked_up(self, kind: str, columns: Sequence[Column]) -> Part | None:
        """A subquery that stands for a value."""
        keys = [each.text for each in columns if each.kind == "s" and each.name == "k"]
        what = {
            "i": ["max(zz.v)", "min(zz.v) * 2", "max(zz.id) - min(zz.v)"],
            "l": ["count(*)", "sum(zz.v)", "count(zz.v)", "coalesce(sum(zz.v), 0)"],
        }.get(kind)
        if what is None:
            return None
        link = f" where zz.k = {self.random.choice(keys)}" if keys and self._chance(0.6) else ""
        link += f"{' and' if link else ' where'} zz.v > 1" if self._chance(0.4) else ""
        return part(f"(select {self.random.choice(what)} from silver.orders zz{link})")

    def _windowed(
        self, columns: Sequence[Column], kinds: str
    ) -> tuple[Part, tuple[tuple[str, str], ...], Part]:
        wanted = kinds or "".join(
            self.random.choices("sib", k=self.random.randint(0, 2))
        ) + self.random.choice("ilds")
        names, last = self._names(len(wanted)), len(wanted) - 1
        items = [
            self._item(
                self._values.window(kind, columns)
                if place == last and kind in "ilds"
                else self._values.value(kind, columns, 1),
                name,
            )
            for place, (name, kind) in enumerate(zip(names, wanted, strict=True))
        ]
        return joined(items, ", "), tuple(zip(names, wanted, strict=True)), part("")

    def _generated(self, columns: Sequence[Column]) -> tuple[Part, tuple[tuple[str, str], ...], Part] | None:
        template, made = self.random.choice(
            [
                ("explode({S}) as e0", (("e0", "s"),)),
                ("explode_outer({I}) e0", (("e0", "i"),)),
                ("posexplode({S}) as (e0, e1)", (("e0", "i"), ("e1", "s"))),
                ("inline(array({x}, {x})) as (e0, e1)", (("e0", "i"), ("e1", "s"))),
                ("stack(2, {i}, {s}, 7, 'z') as (e0, e1)", (("e0", "i"), ("e1", "s"))),
                ("explode({m}) as (e0, e1)", (("e0", "s"), ("e1", "i"))),
            ]
        )
        text, _, alias = template.rpartition(") ")
        call = self._values.filled(f"{text})", columns, 1).parts[1]
        kind = self.random.choice("isD")
        listed = part(self._values.value(kind, columns, 1), " as c0, ", call, f" {alias}")
        return listed, (("c0", kind), *made), part("")

    # Text

    def _gap(self) -> str:
        if self._chance(0.85):
            return " "
        return self.random.choice(
            ["\n", "  ", "\t", " /* it's */ ", ' -- it\'s "one"\n', "\n    ", " /* a\nb */ "]
        )

    def _chance(self, share: float) -> bool:
        return self.random.random() < share


def _compared(ours: Column, theirs: Column) -> bool:
    if theirs.name in TEXT_AND or ours.name in TEXT_AND:
        return any(
            one.name in TEXT_AND and other.kind in TEXT_AND[one.name]
            for one, other in ((ours, theirs), (theirs, ours))
        )
    return (ours.kind, theirs.kind) in EQUAL


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[a-z_]\w*", name) and name != "order" else f"`{name}`"
