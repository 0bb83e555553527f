"""The rows of its tables that a view's rows are made of, and the view's rows that follow from a table's rows.

Both go through the relations of the statement, from the one end to the other, by DuckDB. A relation in which
rows of different keys never meet (groups, windows, distinct rows) is passed by its keys alone; a join by the
columns of its sides. At no place more than ``_MOST_ROWS`` rows are followed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from common.errors import SqlError
from common.sql.duckdb.text import columns_of, expression, statement
from common.sql.quoting import double_quoted
from common.sql.relations import Joined, Keyed, Relation, RowWise, Scan, UnionAll

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MOST_ROWS = 1_000
_INPUT = "__in0__"
_JOIN = {"left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "semi": "SEMI JOIN"}
_JOIN |= {"inner": "JOIN", "cross": "CROSS JOIN", "anti": "ANTI JOIN"}
_FLOATS = {"FLOAT", "DOUBLE"}


@dataclass(frozen=True, slots=True)
class Found:
    """Rows as a table or view of the database; ``columns`` may be some of the relation's alone."""

    name: str
    columns: tuple[str, ...]


@dataclass
class ViewRows:
    """Rows of one view and of its tables."""

    connection: DuckDBPyConnection  # the database; temporary tables and views are created in it
    relation: Relation  # the relations of the statement
    sources: Mapping[str, str]  # by table of the statement, its rows in a FROM clause
    _numbers: Iterator[int] = field(default_factory=count)
    _views: dict[int, str] = field(default_factory=dict)

    def behind(self, rows: str) -> dict[str, list[str]]:
        """Queries for the rows that some rows of the view are made of, by table; of each, one per place.

        Args:
            rows: A query for the view's rows.

        Raises:
            SqlError: The statement is none that DuckDB computes as Spark does.
            duckdb.Error: A table cannot be read.
        """
        wanted = self._kept(f"SELECT DISTINCT {_listed(self.relation.columns)} FROM ({rows})")
        found: dict[str, list[str]] = {}
        for scan, sql in self._behind(self.relation, Found(wanted, self.relation.columns), exact=False):
            found.setdefault(scan.table, []).append(sql)
        return found

    def following(self, table: str, rows: str) -> Found:
        """The view's rows that rows of a table are in, by the columns that tell them apart.

        Other tables count at the versions that ``sources`` has. Without columns, the view has one row for
        all rows.

        Raises:
            SqlError: No column of the view tells, or DuckDB may compute the statement otherwise than Spark.
            duckdb.Error: A table cannot be read.
        """
        found = self._following(self.relation, table, rows)
        if found is None:
            raise SqlError(f"does not read {table}")
        return found

    # From the view to its tables

    def _behind(self, relation: Relation, wanted: Found, *, exact: bool) -> Iterator[tuple[Scan, str]]:
        """The rows of each table; ``exact`` where rows may have come from another part of a union."""
        match relation:
            case Scan():
                there = {name: column for column, name in relation.read}
                yield relation, self._of_table(relation, wanted, there)
            case RowWise():
                yield from self._behind(
                    relation.input, self._behind_rows(relation, wanted, exact), exact=exact
                )
            case UnionAll():
                for each in relation.inputs:
                    pairs = zip(relation.columns, each.columns, strict=True)
                    listed = ", ".join(f"{double_quoted(n)} AS {double_quoted(own)}" for n, own in pairs)
                    part = self._kept(f"SELECT {listed} FROM {wanted.name}")
                    yield from self._behind(each, Found(part, each.columns), exact=True)
            case Keyed():
                yield from self._behind(relation.input, self._behind_keys(relation, wanted), exact=exact)
            case Joined():
                left = tuple(name for name in wanted.columns if name in relation.left.columns)
                yield from self._behind(relation.left, Found(wanted.name, left), exact=exact)
                if relation.kind == "anti":
                    return
                if relation.kind == "semi":
                    matches = (
                        f"{wanted.name} AS l JOIN {self._rows(relation.right)} AS r ON {self._on(relation)}"
                    )
                    right = self._kept(f"SELECT DISTINCT r.* FROM {matches} LIMIT {_MOST_ROWS}")
                    yield from self._behind(relation.right, Found(right, relation.right.columns), exact=exact)
                    return
                other = tuple(name for name in wanted.columns if name in relation.right.columns)
                yield from self._behind(relation.right, Found(wanted.name, other), exact=exact)

    def _of_table(self, scan: Scan, wanted: Found, there: Mapping[str, str]) -> str:
        same = [
            f"t.{double_quoted(there[n])} IS NOT DISTINCT FROM w.{double_quoted(n)}" for n in wanted.columns
        ]
        if not same:
            return f"SELECT * FROM {self.sources[scan.table]}"
        return f"SELECT t.* FROM {self.sources[scan.table]} AS t SEMI JOIN {wanted.name} AS w ON {_all(same)}"

    def _behind_rows(self, relation: RowWise, wanted: Found, exact: bool) -> Found:  # noqa: FBT001
        own = {there: here for here, there in relation.kept if here in wanted.columns}
        if not exact and _determines(relation.input, own):
            listed = ", ".join(f"{double_quoted(h)} AS {double_quoted(t)}" for t, h in own.items())
            name = self._kept(f"SELECT DISTINCT {listed} FROM {wanted.name}") if own else wanted.name
            return Found(name, tuple(own))
        columns = relation.input.columns
        if relation.select is None:
            named = {name: name for name in columns}
            text = relation.text()
        else:
            named = {f"__i{place}": name for place, name in enumerate(columns)}
            text = relation.text(*(f"`{name}` AS `{alias}`" for alias, name in named.items()))
        view = self._view(self._over(text, self._rows(relation.input)))
        listed = ", ".join(f"v.{double_quoted(alias)} AS {double_quoted(n)}" for alias, n in named.items())
        found = f"SELECT DISTINCT {listed or '1'} FROM {view} AS v SEMI JOIN {wanted.name} AS w"
        return Found(self._kept(f"{found} ON {self._same('v', wanted)} LIMIT {_MOST_ROWS}"), columns)

    def _behind_keys(self, relation: Keyed, wanted: Found) -> Found:
        shown = {place: name for name, place in relation.shown if name in wanted.columns}
        keys = [f"__k{place}" for place in range(len(relation.keys))]
        types = self._types(self._rows(relation.input))
        listed = [f"{_written(sql, types)} AS {key}" for sql, key in zip(relation.keys, keys, strict=True)]
        if len(shown) == len(keys):
            texts = (f"{double_quoted(shown[place])} AS {key}" for place, key in enumerate(keys))
            of = self._kept(f"SELECT DISTINCT {', '.join(texts) or '1'} FROM {wanted.name}")
        else:
            hidden = ", ".join(f"{sql} AS `{key}`" for sql, key in zip(relation.keys, keys, strict=True))
            text = relation.text.replace("SELECT ", f"SELECT {hidden}, ", 1)
            view = self._view(self._over(text, self._rows(relation.input)))
            found = f"SELECT DISTINCT {', '.join(keys)} FROM {view} AS v SEMI JOIN {wanted.name} AS w"
            of = self._kept(f"{found} ON {self._same('v', wanted)} LIMIT {_MOST_ROWS}")
        columns = relation.input.columns
        rows = f"(SELECT {', '.join(['*', *listed])} FROM {self._rows(relation.input)}) AS i"
        same = _all([f"i.{key} IS NOT DISTINCT FROM w.{key}" for key in keys])
        if relation.made_of:
            same += f" AND i.{double_quoted(relation.made_of)}"
        found = f"SELECT DISTINCT {_listed(columns) or '1'} FROM {rows} SEMI JOIN {of} AS w ON {same}"
        return Found(self._kept(f"{found} LIMIT {_MOST_ROWS}"), columns)

    def _same(self, one: str, wanted: Found) -> str:
        """The condition that a row is a wanted one; sums of floating-point numbers are not compared."""
        types = self._types(wanted.name)
        names = [double_quoted(name) for name in wanted.columns if types.get(name) not in _FLOATS]
        return _all([f"{one}.{name} IS NOT DISTINCT FROM w.{name}" for name in names])

    # From a table to the view

    def _following(self, relation: Relation, table: str, rows: str) -> Found | None:
        """The relation's rows that follow from rows of the table; None where it does not read the table."""
        match relation:
            case Scan():
                if relation.table != table:
                    return None
                return Found(self._view(_scanned(relation, f"({rows})")), relation.columns)
            case UnionAll():
                return self._of_union(relation, table, rows)
            case Joined():
                return self._of_join(relation, table, rows)
        below = self._following(relation.input, table, rows)
        if below is None:
            return None
        return (
            self._of_rows(relation, below)
            if isinstance(relation, RowWise)
            else _of_keys(self, relation, below)
        )

    def _of_rows(self, relation: RowWise, below: Found) -> Found:
        if below.columns == relation.input.columns:
            return Found(self._view(self._over(relation.text(), below.name)), relation.columns)
        kept = {here: there for here, there in relation.kept if there in below.columns}
        if len(set(kept.values())) < len(below.columns):
            raise SqlError("leaves out columns that tell its rows apart")
        listed = ", ".join(f"{double_quoted(t)} AS {double_quoted(h)}" for h, t in kept.items()) or "1"
        return Found(self._view(f"SELECT DISTINCT {listed} FROM {below.name}"), tuple(kept))

    def _of_union(self, relation: UnionAll, table: str, rows: str) -> Found | None:
        found = [(each, self._following(each, table, rows)) for each in relation.inputs]
        there = [(each, below) for each, below in found if below is not None]
        places = [{each.columns.index(n) for n in below.columns} for each, below in there]
        if not there:
            return None
        if any(each != places[0] for each in places):
            raise SqlError("has a UNION of parts whose rows are told apart by other columns")
        names = tuple(relation.columns[place] for place in sorted(places[0]))
        parts = []
        for each, below in there:
            pairs = zip(sorted(places[0]), names, strict=True)
            listed = ", ".join(f"{double_quoted(each.columns[p])} AS {double_quoted(n)}" for p, n in pairs)
            parts.append(f"SELECT {listed or '1'} FROM {below.name}")
        return Found(self._view(" UNION ALL ".join(parts)), names)

    def _of_join(self, relation: Joined, table: str, rows: str) -> Found | None:
        left = self._following(relation.left, table, rows)
        right = self._following(relation.right, table, rows)
        if left is None and right is None:
            return None
        parts = []
        if left is not None:
            self._refuse_partial(left, relation.left)
            kind = {"right": "JOIN", "full": "LEFT JOIN"}.get(relation.kind, _JOIN[relation.kind])
            parts.append(f"{left.name} AS l {kind} {self._rows(relation.right)} AS r")
        if right is not None:
            self._refuse_partial(right, relation.right)
            kind = "SEMI JOIN" if relation.kind in {"semi", "anti"} else _JOIN["inner"]
            kind = "CROSS JOIN" if relation.on is None else kind
            parts.append(f"{self._rows(relation.left)} AS l {kind} {right.name} AS r")
        on = "" if relation.on is None else f" ON {self._on(relation)}"
        listed = _listed(relation.columns) or "1"
        return Found(
            self._view(" UNION ALL ".join(f"SELECT {listed} FROM {each}{on}" for each in parts)),
            relation.columns,
        )

    @staticmethod
    def _refuse_partial(found: Found, relation: Relation) -> None:
        if found.columns != relation.columns:
            raise SqlError("joins groups or windows, whose other columns are not computed here")

    # Relations as views

    def _rows(self, relation: Relation) -> str:
        """The view of all rows of a relation."""
        if id(relation) not in self._views:
            self._views[id(relation)] = self._view(self._text(relation))
        return self._views[id(relation)]

    def _text(self, relation: Relation) -> str:
        match relation:
            case Scan():
                return _scanned(relation, self.sources[relation.table])
            case RowWise():
                return self._over(relation.text(), self._rows(relation.input))
            case Keyed():
                return self._over(relation.text, self._rows(relation.input))
            case UnionAll():
                first, *others = (self._rows(each) for each in relation.inputs)
                names = _listed(relation.columns)
                parts = [f"SELECT {names} FROM {first}", *(f"SELECT * FROM {each}" for each in others)]
                return " UNION ALL ".join(parts)
            case Joined():
                on = "" if relation.on is None else f" ON {self._on(relation)}"
                left, right = self._rows(relation.left), self._rows(relation.right)
                return f"SELECT * FROM {left} AS l {_JOIN[relation.kind]} {right} AS r{on}"

    def _over(self, text: str, rows: str) -> str:
        """A statement over one input in DuckDB's SQL."""
        return statement(text, {_INPUT: (rows, self._types(rows))}, written=True)

    def _on(self, relation: Joined) -> str:
        if relation.on is None:
            return "true"
        sides = self._types(self._rows(relation.left)), self._types(self._rows(relation.right))
        return _written(relation.on, sides[0] | sides[1])

    def _types(self, rows: str) -> dict[str, str]:
        found = self.connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
        return {str(row[0]): str(row[1]) for row in found}

    def _view(self, sql: str) -> str:
        name = f"__view_{next(self._numbers)}"
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {sql}")
        return name

    def _kept(self, sql: str) -> str:
        name = f"__kept_{next(self._numbers)}"
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")
        return name


def _of_keys(rows: ViewRows, relation: Keyed, below: Found) -> Found:
    """The groups of some rows, by those of their keys that are columns."""
    has_all = below.columns == relation.input.columns
    known = {f"`{name}`" for name in below.columns}
    shown = {name: relation.keys[place] for name, place in relation.shown}
    shown = {name: sql for name, sql in shown.items() if has_all or sql in known}
    if relation.keys and not shown:
        raise SqlError("has no key of its groups among its columns")
    types = rows._types(below.name)  # noqa: SLF001
    listed = ", ".join(f"{_written(sql, types)} AS {double_quoted(name)}" for name, sql in shown.items())
    return Found(rows._view(f"SELECT DISTINCT {listed or '1'} FROM {below.name}"), tuple(shown))  # noqa: SLF001


def _determines(relation: Relation, columns: Collection[str]) -> bool:
    """Whether these columns of a relation's rows tell from which rows of its tables they come."""
    match relation:
        case Scan():
            return set(relation.columns) <= set(columns)
        case RowWise():
            return _determines(relation.input, {there for here, there in relation.kept if here in columns})
        case UnionAll():
            return False
        case Keyed():
            shown = {place for name, place in relation.shown if name in columns}
            return len(shown) == len(relation.keys)
        case Joined(kind="semi" | "anti"):
            return set(relation.columns) <= set(columns)
        case Joined():
            return _determines(relation.left, columns) and _determines(relation.right, columns)


def _scanned(scan: Scan, source: str) -> str:
    listed = ", ".join(f"{double_quoted(column)} AS {double_quoted(name)}" for column, name in scan.read)
    return f"SELECT {listed or '1'} FROM {source}"


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(double_quoted, columns))


def _written(sql: str, types: Mapping[str, str]) -> str:
    return expression(sql, columns_of(types), written=True).sql


def _all(conditions: Sequence[str]) -> str:
    return " AND ".join(conditions) or "true"
