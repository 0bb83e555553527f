"""What stands in the wrong clause of a query: aggregates, window functions, generators, names of the list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from common.sql.expression import has_aggregate
from common.sql.functions import AGGREGATES, FUNCTIONS, GENERATORS, WINDOWS
from common.sql.names import OPEN_STAR, Names, Reference, Scope
from common.sql.syntax import called, counted_unit, inner_call, is_over
from common.typed.expression import Judge
from common.typed.kinds import holds

_OF_SETS = frozenset({"grouping", "grouping_id"})
_INNER = "compute it in an inner query, as in from (select …, {} over (…) as place …) where place = 1"
_NAME, _CALL = "MED-1202", "MED-1204"
_Key = tuple[int, str]
"""A part of FROM, by its identity, and a column of it."""


@dataclass
class Clauses:
    """The clauses of one query."""

    query: exp.Select
    names: Names  # what the names of the statement mean
    scope: Scope  # what those of the query mean
    judge: Judge  # takes what is found, and knows the types

    def look(self) -> None:
        """Note what stands in the wrong clause."""
        for word, condition in self._row_clauses:
            if word != "group by":
                self.judge.condition(condition, word)
            self._of_rows(condition, word)
        if (having := self._having) is not None:
            self._no_windows(having, "having")
        for each in self._expressions:
            for call in _parts(each):
                self._call(call)
        self._unordered()
        if self._positions():
            self._beside_aggregates()

    @cached_property
    def _having(self) -> exp.Expr | None:
        found = self.query.args.get("having")
        return None if found is None else found.this

    @cached_property
    def _row_clauses(self) -> Sequence[tuple[str, exp.Expr]]:
        """What is evaluated row by row, before there are groups."""
        where = self.query.args.get("where")
        found = [("where", where.this)] if where is not None else []
        for join in self.query.args.get("joins") or ():
            found += [("on", join.args["on"])] if isinstance(join.args.get("on"), exp.Expr) else []
        return [*found, *(("group by", each) for each in self._grouped)]

    @cached_property
    def _expressions(self) -> Sequence[exp.Expr]:
        having = [] if self._having is None else [self._having]
        order = self.query.args.get("order")
        ordered = [each.this for each in order.expressions] if order is not None else []
        return [*self.query.selects, *(each for _, each in self._row_clauses), *having, *ordered]

    @cached_property
    def _grouped(self) -> Sequence[exp.Expr]:
        """The expressions of GROUP BY; a place or a name of the SELECT list is its expression."""
        group = self.query.args.get("group")
        flat = list(_flat(group)) if group is not None else []
        items = [self.names.meant(each, self.scope) for each in flat]
        found = [each if item is None else item.node for each, item in zip(flat, items, strict=True)]
        return [each for each in found if each is not None and not isinstance(each, exp.Literal)]

    def _of_rows(self, node: exp.Expr, word: str) -> None:
        """What is no value of one row, in a clause that is evaluated row by row."""
        for part in _parts(node):
            name = called(part)
            if name in AGGREGATES and not is_over(part) and not self._is_of_outer(part):
                instead = (
                    "a condition on groups stands in having" if word != "group by" else "group by columns"
                )
                self.judge.add(part, f"calls {name}() in {word}, which has no groups yet; {instead}", _CALL)
            elif name in GENERATORS:
                self.judge.add(
                    part, f"calls {name}() in {word}; write it behind from, as lateral view", _CALL
                )
        self._no_windows(node, word)

    def _no_windows(self, node: exp.Expr, word: str) -> None:
        for part in _parts(node):
            if isinstance(part, exp.Window):
                name = called(inner_call(part)) or "a function"
                instead = _INNER.format(f"{name}()")
                self.judge.add(
                    part, f"calls {name}() over (…) in {word}, where Spark has none; {instead}", _CALL
                )

    def _is_of_outer(self, call: exp.Expr) -> bool:
        """Whether an aggregate is one of the query around: all of its columns are."""
        found = [self.names.reference(each) for each in _parts(call) if isinstance(each, exp.Column)]
        return bool(found) and not any(each is None or self._is_own(each) for each in found)

    def _is_own(self, found: Reference) -> bool:
        """Whether a column is one of the query's own FROM."""
        return any(found.source is each for each in self.scope.sources)

    def _call(self, node: exp.Expr) -> None:
        """A call that lacks ``over (…)``, its order, or a grouping that it is about."""
        name, inner = called(node), called(inner_call(node))
        if isinstance(node, exp.Window):
            self._window(node)
        elif isinstance(node, exp.Filter) and inner in FUNCTIONS and inner not in AGGREGATES:
            self.judge.add(node, f"calls {inner}() with filter (…), which aggregates alone have", _CALL)
        elif name in GENERATORS and not isinstance(node.parent, (exp.Select, exp.Alias, exp.Aliases)):
            self.judge.add(
                node, f"calls {name}() inside of an expression; write it behind from, as lateral view", _CALL
            )
        elif name in WINDOWS and not is_over(node):
            self.judge.add(node, f"calls {name}() without over (…); write {name}() over (order by …)", _CALL)
        elif name in _OF_SETS and not self._has_sets:
            text = f"calls {name}(), and its group by has no grouping sets, cube or rollup; leave it out"
            self.judge.add(node, text, "MED-1206")
        elif name in AGGREGATES and not is_over(node):
            for part in (each for each in _parts(node) if each is not node):
                if called(part) in AGGREGATES and not is_over(part):
                    text = f"calls {called(part)}() inside of {name}(); aggregate once, or in an inner query"
                    self.judge.add(part, text, "MED-1206")

    @cached_property
    def _has_sets(self) -> bool:
        group = self.query.args.get("group")
        return group is not None and group.find(exp.Cube, exp.Rollup, exp.GroupingSets) is not None

    def _window(self, window: exp.Window) -> None:
        inner = inner_call(window)
        name = called(inner)
        over = self._over(window)
        if name is None or over is None:
            return
        if name in FUNCTIONS and name not in AGGREGATES | WINDOWS:
            self.judge.add(window, f"calls {name}() over (…), which is no window function", _CALL)
        elif name in WINDOWS and not over.args.get("order"):
            text = f"calls {name}() over rows without an order; add order by inside of over (…)"
            self.judge.add(window, text, _CALL)
        elif any(isinstance(each, exp.Distinct) for each in inner.expressions):
            text = f"calls {name}(distinct …) over (…), which Spark does not have; count in an inner query"
            self.judge.add(window, text, _CALL)

    def _over(self, window: exp.Window) -> exp.Expr | None:
        """The window that a call is over: its own, or one of the clause WINDOW."""
        alias = window.args.get("alias")
        if alias is None:
            return window
        known = {each.this.name.lower(): each for each in self.query.args.get("windows") or ()}
        found: exp.Expr | None = known.get(alias.name.lower())
        if found is None:
            self.judge.add(alias, f"names the window {alias.name!r}, and has no such window", _NAME)
        return found

    def _positions(self) -> bool:
        """Note places of the SELECT list, in GROUP BY and ORDER BY, that it has not; whether none are."""
        count = len(self.query.selects)
        if any(each.is_star for each in self.query.selects):
            return True
        group, order = self.query.args.get("group"), self.query.args.get("order")
        found = [("group by", each) for each in (group.expressions if group is not None else ())]
        found += [("order by", each.this) for each in (order.expressions if order is not None else ())]
        wrong = [
            (word, each)
            for word, each in found
            if isinstance(each, exp.Literal) and each.name.isdigit() and not 0 < int(each.name) <= count
        ]
        for word, each in wrong:
            self.judge.add(each, f"has {word} {each.name}, and its SELECT list has {count}", _NAME)
        return not wrong

    def _beside_aggregates(self) -> None:
        """Columns outside of aggregates that have several values in a group."""
        if self.scope.problem == OPEN_STAR:
            return
        group = self.query.args.get("group")
        whole = [each for each in (*self.query.selects, self._having) if each is not None]
        aggregates = any(map(has_aggregate, whole))
        if group is None and self._having is not None and not aggregates:
            text = "has having without group by and without an aggregate; a condition on rows stands in where"
            self.judge.add(self._having, text, _CALL)
            return
        if not (group is not None or aggregates) or (group is not None and group.args.get("all")):
            return
        keys, inside = self._keys()
        for each in whole:
            if each.is_star and group is None:
                self.judge.add(
                    each, "has * beside an aggregate; group by the columns that it is to have", _CALL
                )
            known = keys if isinstance(each.unalias(), exp.Column) else keys | inside
            for column in _outside(each):
                self._beside(column, known, grouped=group is not None)

    def _unordered(self) -> None:
        """Values without an order that are sorted, ranked or told apart."""
        order, group = self.query.args.get("order"), self.query.args.get("group")
        found = [(each.this, "orders by") for each in (order.expressions if order is not None else ())]
        found += [(each, "groups by") for each in (self._grouped if group is not None else ())]
        found += [
            (each, "tells rows apart by") for each in self.query.selects if self.query.args.get("distinct")
        ]
        for window in (each for part in self._expressions for each in part.find_all(exp.Window)):
            parts = [
                *window.args.get("partition_by", ()),
                *(window.args.get("order") or exp.Order()).expressions,
            ]
            found += [(each.this if isinstance(each, exp.Ordered) else each, "orders by") for each in parts]
        for each, what in found:
            lacking = ("variant",) if what == "groups by" else ("map", "variant")
            if holds(self.judge.type_of(each), lacking):
                self.judge.add(
                    each, f"{what} {self.judge.shown(each)}, which has no order; take a field of it"
                )

    def _keys(self) -> tuple[set[_Key], set[_Key]]:
        """The columns of GROUP BY, and those inside of its expressions."""
        keys: set[_Key] = set()
        inside: set[_Key] = set()
        for each in self._grouped:
            for column in (part for part in _parts(each) if isinstance(part, exp.Column)):
                if (found := self.names.reference(column)) is not None:
                    (keys if column is each else inside).add(_key(found))
        return keys, inside

    def _beside(self, column: exp.Column, known: set[_Key], *, grouped: bool) -> None:
        found = self.names.reference(column)
        if found is None or not self._is_own(found) or _key(found) in known:
            return
        name = column.name
        what = (
            "which group by does not have; add it there"
            if grouped
            else f"beside an aggregate; group by {name}"
        )
        comma = ", " if grouped else " "
        self.judge.add(column, f"names {name!r}{comma}{what}, or write any_value({name})", _CALL)


def _key(found: Reference) -> _Key:
    return id(found.source), found.column


def _flat(group: exp.Expr) -> Iterator[exp.Expr]:
    """The expressions of a GROUP BY, with those of its grouping sets."""
    waiting = [each for part in group.args.values() if isinstance(part, list) for each in part]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, exp.Cube | exp.Rollup | exp.GroupingSets | exp.Tuple | exp.Paren):
            waiting += [*each.expressions, *([each.this] if isinstance(each.this, exp.Expr) else [])]
        elif isinstance(each, exp.Expr):
            yield each


def _parts(node: exp.Expr) -> Iterator[exp.Expr]:
    """A node and its parts, but those of queries inside, and no unit that looks like a column."""
    for each in node.walk(prune=lambda one: isinstance(one, exp.Query)):
        if each.parent is None or counted_unit(each.parent) is not each:
            yield each


def _outside(node: exp.Expr) -> Iterator[exp.Column]:
    """The columns of an expression that are inside of no aggregate."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        call = inner_call(each)
        if isinstance(each, exp.Query) or (called(call) in AGGREGATES and not is_over(call)):
            continue
        if isinstance(each, exp.Column):
            yield each
            continue
        unit = counted_unit(each)
        waiting += [child for child in each.iter_expressions(reverse=True) if child is not unit]
