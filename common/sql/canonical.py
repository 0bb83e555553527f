"""The canonical text of a statement: two statements that share it have the same meaning.

White space, comments, the order of ``and``, and the names of tables inside the statement are no part of it.
The names of columns are: those of the result are the columns of a table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce

from sqlglot import exp

from common.sql.statement import parse_statement

_DIALECT = "spark"
_ALIAS = re.compile(r"__table_\d+")

_Names = Mapping[str, str]
"""Names of tables that a part of a statement may use, lower-case, and the canonical name of each."""


def canonical(sql: str) -> str:
    """The text that all statements share which differ in nothing but words without a meaning.

    These are white space, comments, the order of conditions joined by ``and``, and the names that a statement
    gives to tables: their aliases, and the names of a ``WITH`` and of a lateral view.

    Raises:
        SqlError: The text is not one SELECT statement.
    """
    root = parse_statement(sql)
    if root.find(exp.Pivot) is None:  # the name behind a PIVOT is another one than its table's
        tables: dict[str, str] = {}
        _rename(root, {}, {}, tables)
        # The order of conditions must not follow from names that follow from the order of conditions.
        _sort_conditions(root, tables)
        _number(root)
    _sort_conditions(root, {})
    return _shown(root)


def _shown(node: exp.Expr) -> str:
    return node.sql(dialect=_DIALECT, comments=False)


def _sort_conditions(root: exp.Query, tables: Mapping[str, str]) -> None:
    """Sort what ``and`` joins by its text, with these aliases written as the tables that they name."""

    def key(part: exp.Expr) -> str:
        return _ALIAS.sub(lambda alias: tables.get(alias[0], alias[0]), _shown(part))

    chains = [each for each in root.find_all(exp.And) if not isinstance(each.parent, exp.And)]
    for chain in reversed(chains):  # the inner ones first
        parts = sorted(chain.flatten(), key=key)
        chain.replace(reduce(lambda one, other: exp.And(this=one, expression=other), parts))


def _rename(query: exp.Expr, outer: _Names, queries: _Names, tables: dict[str, str]) -> None:
    """Give every table of a query an alias of its own, and name it in the query's columns.

    Args:
        query: The query.
        outer: Aliases of the queries around it.
        queries: Names of ``WITH`` that it may read.
        tables: Aliases that are given, each with the table that it names; added to.
    """
    with_ = query.args.get("with_")
    for cte in with_.expressions if with_ is not None else ():
        _rename(cte.this, outer, queries, tables)
        queries = {**queries, cte.alias.lower(): _renamed(cte.args["alias"], tables, "")}
    own = dict(outer)
    sources = _sources(query) if isinstance(query, exp.Select) else []
    for source in sources:
        _name_source(source, own, queries, tables)
    inner = []
    for node in query.walk(prune=lambda each: each is not query and isinstance(each, exp.Query | exp.With)):
        if isinstance(node, exp.Column) and len(node.parts) > 1:
            first = node.parts[0]
            if first.name.lower() in own:
                first.replace(exp.to_identifier(own[first.name.lower()]))
        elif isinstance(node, exp.Query) and node is not query:
            inner.append(node)
    for each in inner:
        # A derived table does not see the tables beside it.
        _rename(each, outer if any(each is source for source in sources) else own, queries, tables)


def _sources(query: exp.Select) -> list[exp.Expr]:
    """Tables, derived tables and lateral views of a query's FROM, in the order of the text."""
    found: list[exp.Expr] = []
    from_ = query.args.get("from_")
    waiting = [from_.this] if from_ is not None else []
    waiting += [join.this for join in query.args.get("joins") or ()]
    waiting += query.args.get("laterals") or ()
    while waiting:
        source = waiting.pop(0)
        found.append(source)
        waiting += [join.this for join in source.args.get("joins") or ()]
        waiting += source.args.get("laterals") or ()
    return found


def _name_source(source: exp.Expr, own: dict[str, str], queries: _Names, tables: dict[str, str]) -> None:
    name, table = source.alias, ""
    if isinstance(source, exp.Table):
        name, own_query = name or source.name, "" if source.db else queries.get(source.name.lower(), "")
        if own_query:
            source.set("this", exp.to_identifier(own_query))
        else:
            table = _shown(exp.Table(this=source.this.copy(), db=source.args.get("db")))
    if source.args.get("alias") is None:
        source.set("alias", exp.TableAlias())
    given = _renamed(source.args["alias"], tables, table)
    if name:
        own[name.lower()] = given


def _renamed(alias: exp.TableAlias, tables: dict[str, str], table: str) -> str:
    given = f"__table_{len(tables)}"
    tables[given] = table
    alias.set("this", exp.to_identifier(given))
    return given


def _number(root: exp.Query) -> None:
    """Number the aliases in the order in which the tables stand in the tree."""
    order = (each.name for each in root.find_all(exp.TableAlias, bfs=False))
    numbers = {name: f"__table_{place}" for place, name in enumerate(order)}
    for name in root.find_all(exp.Identifier):
        if name.name in numbers:
            name.set("this", numbers[name.name])
