"""The SQL text of a relation's columns, and of what decides about its rows, over its inputs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from common.sql.relations import Joined, Keyed, RowWise
from common.sql.syntax import parse_text, text_of


@dataclass(frozen=True, slots=True)
class Texts:
    """What a relation computes from the columns of its inputs.

    Attributes:
        columns: The text of each column that is not a column of an input under its own name.
        conditions: Conditions of WHERE, HAVING and ON.
        groups: Expressions of GROUP BY, PARTITION BY and DISTINCT.
        orders: Expressions of ORDER BY inside of window functions.
    """

    columns: Mapping[str, str]
    conditions: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()


def texts_of(relation: RowWise | Joined | Keyed) -> Texts:
    """The texts of one relation; those of the relations below it are not among them."""
    if isinstance(relation, Joined):
        return Texts({}, relation.conditions)
    text = relation.text() if isinstance(relation, RowWise) else relation.text
    (select,) = parse_text(text)
    assert isinstance(select, exp.Select)  # written so by the statement's reader  # noqa: S101
    columns = {
        each.alias_or_name: text_of(text, each.unalias())
        for each in select.selects
        if not isinstance(each, exp.Star | exp.Aliases)
    }
    for each in select.expressions:
        if isinstance(each, exp.Aliases):
            columns |= {name.name: text_of(text, each.this) for name in each.expressions}
    for lateral in select.args.get("laterals") or ():
        columns |= {column.name: text_of(text, lateral.this) for column in lateral.args["alias"].columns}
    conditions = (select.args.get("where"), select.args.get("having"))
    windows = [each.args["order"] for each in select.find_all(exp.Window) if each.args.get("order")]
    return Texts(
        columns,
        tuple(text_of(text, each.this) for each in conditions if each is not None),
        relation.keys if isinstance(relation, Keyed) else (),
        tuple(text_of(text, each.this) for order in windows for each in order.expressions),
    )
