"""Forms of other dialects that sqlglot reads and Spark does not, each with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import TokenType, exp

from common.errors import SqlError
from common.sql.as_written import called, has_query
from common.sql.places import offset_of
from common.sql.syntax import text_of, tokens_of

_QUOTES = ("'", '"')
_SELECT = re.compile(r"\bselect\b", re.IGNORECASE)
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_ENDS = frozenset(_CLOSES.values())
_CLAUSES = frozenset(
    {
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.LIMIT,
    }
)
_EXCEPT = re.compile(r"\*\s*(exclude\b|except\b(?!\s*\())", re.IGNORECASE)
_RANKED = "compute row_number() over (…) as place in an inner query, and keep its rows where place = 1"

_PARTS: Mapping[type[exp.Expr], Mapping[str, tuple[str, str]]] = {
    exp.Select: {
        "kind": ("select as struct", "write struct(…)"),
        "connect": ("connect by", "write with recursive …"),
        "match": ("match_recognize", "compare rows by lag() and lead() over (…)"),
        "prewhere": ("prewhere", "write where"),
        "locks": ("for update", "leave it out"),
        "into": ("into", "leave it out: a view writes its own table"),
        "sample": ("using sample", "write from t tablesample (10 percent)"),
    },
    exp.Distinct: {"on": ("distinct on", _RANKED)},
    exp.CTE: {
        "materialized": ("as materialized", "write as (select …)"),
        "key_expressions": ("using key", "write with recursive t as (…)"),
    },
    exp.Star: {
        "replace": ("* replace", "list the columns"),
        "rename": ("* rename", "list the columns"),
    },
    exp.Join: {"match_condition": ("match_condition", "write on")},
    exp.SetOperation: {
        "by_name": ("by name", "list the columns of both sides in one order"),
        "side": ("a join of unions", "list the columns of both sides in one order"),
    },
    exp.Limit: {"expressions": ("limit … by", _RANKED)},
    exp.Table: {
        "ordinality": ("with ordinality", "write lateral view posexplode(…)"),
        "only": ("only", "leave it out"),
    },
    exp.Group: {"totals": ("with totals", "write with rollup")},
    exp.WindowSpec: {"exclude": ("exclude in the frame of a window", "leave it out")},
    exp.Lateral: {"ordinality": ("with ordinality", "write lateral view posexplode(…)")},
    exp.TryCast: {"format": ("cast … format", "write to_timestamp(x, pattern) or date_format(x, pattern)")},
    exp.Between: {"symmetric": ("between symmetric", "write between least(a, b) and greatest(a, b)")},
}
"""Parts that Spark's grammar does not have, by the form that they are a part of."""

_FORMS: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.Fetch: ("fetch first", "write limit"),
    exp.Unnest: ("unnest(…)", "write lateral view explode(…)"),
    exp.Array: ("[…] as an array", "write array(…)"),
    exp.Struct: ("{…} as a struct", "write struct(…), named_struct(…) or map(…)"),
    exp.PropertyEQ: ("a := b", "write => for the name of an argument, b as a for a field of struct(…)"),
    exp.JSONExtract: ("a -> b", "write a.b for a field, get_json_object(a, '$.b') for a text of JSON"),
    exp.JSONExtractScalar: ("a ->> b", "write a.b for a field, get_json_object(a, '$.b') for a text of JSON"),
    exp.Coalesce: ("a ?? b", "write coalesce(a, b)"),
    exp.AtTimeZone: ("at time zone", "write from_utc_timestamp(at, 'Europe/Berlin') or convert_timezone(…)"),
    exp.SimilarTo: ("similar to", "write rlike"),
    exp.Glob: ("glob", "write rlike"),
    exp.RegexpILike: ("~*", "write rlike '(?i)…'"),
    exp.Parameter: ("a parameter @…", "write its value"),
    exp.Placeholder: ("a parameter", "write its value"),
    exp.Overlaps: ("overlaps", "compare the beginnings and ends"),
    exp.JSON: ("is json", "write get_json_object(a, '$') is not null"),
    exp.National: ("n'…'", "leave n out"),
    exp.Any: ("any (select …)", "write in (select …)"),
    exp.All: ("all (select …)", "compare with (select max(…) …) or (select min(…) …)"),
}
"""Forms that Spark's grammar does not have."""


def foreign_forms(root: exp.Expr, sql: str) -> Iterator[SqlError]:
    """The forms of a text that Spark's grammar does not have.

    Args:
        root: The tree of the text, as it is written.
        sql: The text.
    """
    for node in root.walk():
        found = _FORMS.get(type(node)) or _form(node) or _written(node, text_of(sql, node))
        if found is not None:
            yield _told(node, *found)
        for kind, parts in _PARTS.items():
            if isinstance(node, kind):
                yield from (_told(node, *parts[name]) for name in parts if node.args.get(name))
    yield from _beside(sql)


def _form(node: exp.Expr) -> tuple[str, str] | None:
    for forms, look in _LOOKS:
        if isinstance(node, forms):
            return look(node)
    return None


def _join(node: exp.Expr) -> tuple[str, str] | None:
    if node.args.get("method") != "ASOF":
        return None
    newest = "max_by(b.x, struct(b.at, b._kafka_offset))"
    return "asof join", f"join on b.at <= a.at, group by the columns of a, and take {newest}"


def _limit(node: exp.Expr) -> tuple[str, str] | None:
    if node.args.get("limit_options"):
        return "limit … percent", "limit takes a number of rows"
    return ("top", "write limit") if node.meta.get("top") else None


def _order(node: exp.Expr) -> tuple[str, str] | None:
    if not isinstance(node.parent, exp.Anonymous):
        return None
    name = called(node.parent)
    instead = "write over (order by …), or max_by(x, y) and min_by(x, y)"
    if name in {"listagg", "string_agg"}:
        instead = f"write {name}(…) within group (order by …)"
    elif name in {"array_agg", "collect_list"}:
        instead = f"write sort_array({name}(struct(y, x)))"
    return f"order by inside of {name}(…)", instead


def _nulls(node: exp.Expr) -> tuple[str, str] | None:
    if not isinstance(node.parent, exp.Anonymous):
        return None
    words = "ignore nulls" if isinstance(node, exp.IgnoreNulls) else "respect nulls"
    return f"{words} inside of the brackets", f"write it behind them: {called(node.parent)}(…) {words}"


def _call(node: exp.Expr) -> tuple[str, str] | None:
    if called(node) is None:
        instead = "write in (select …), or compare with (select max(…) …)"
        return (f"{node.name} (select …)", instead) if has_query(node) else None
    if any(isinstance(each, exp.Select | exp.SetOperation) for each in node.expressions):
        return f"{node.name}(select …)", f"give the query brackets of its own: {node.name}((select …))"
    return None


def _group(node: exp.Expr) -> tuple[str, str] | None:
    is_empty = any(isinstance(each, exp.Tuple) and not each.expressions for each in node.expressions)
    return ("group by ()", "leave () out, or write grouping sets ((a), ())") if is_empty else None


def _inner(node: exp.Expr) -> tuple[str, str] | None:
    if isinstance(node.this, exp.Query | exp.Table | exp.Values | exp.Lateral):
        return None
    return "a command as a query", "write a select"


def _pivot(node: exp.Expr) -> tuple[str, str] | None:
    is_named = node.args.get("alias") and not node.args.get("unpivot")
    return ("a name behind pivot (…)", "write from (select … pivot (…)) as name") if is_named else None


def _escape(node: exp.Expr) -> tuple[str, str] | None:
    given = node.expression
    is_letter = isinstance(given, exp.Literal) and given.is_string and len(given.name) == 1
    return None if is_letter else ("escape without one letter in quotes", "write escape '!'")


def _frame(node: exp.Expr) -> tuple[str, str] | None:
    bounds = (node.args.get(name) for name in ("start", "end"))
    is_of_row = any(isinstance(each, exp.Expr) and each.find(exp.Column) for each in bounds)
    return ("a frame whose bounds are of a column", "write a number") if is_of_row else None


_LOOKS: Sequence[tuple[Any, Callable[[exp.Expr], tuple[str, str] | None]]] = (
    (exp.Join, _join),
    (exp.Limit, _limit),
    (exp.Order, _order),
    ((exp.IgnoreNulls, exp.RespectNulls), _nulls),
    (exp.Anonymous, _call),
    (exp.Group, _group),
    ((exp.CTE, exp.Subquery), _inner),
    (exp.Pivot, _pivot),
    (exp.Escape, _escape),
    (exp.WindowSpec, _frame),
)


def _written(node: exp.Expr, text: str) -> tuple[str, str] | None:
    """A form that a tree does not tell from one of Spark's: the text does."""
    if isinstance(node, exp.Identifier) and text[:1] in _QUOTES:
        return f"the name {text}", f"a name stands in backquotes: `{node.name}`"
    if isinstance(node, exp.Column | exp.Dot) and any(isinstance(each, exp.Literal) for each in _names(node)):
        return f"the name {text}", "a name stands in backquotes"
    if isinstance(node, exp.Star) and (found := _EXCEPT.match(text)):
        return f"* {found[1].lower()}", "write * except (…)"
    is_from_first = isinstance(node, exp.Select) and text[:4].lower() == "from"
    if is_from_first and (node.args.get("where") or node.args.get("group")) and not _SELECT.search(text):
        return "from … without select", "write select * from …"
    return None


def _names(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a name."""
    if isinstance(node, exp.Column):
        yield node.this
    elif isinstance(node.expression, exp.Literal) and node.expression.is_string:
        yield node.expression


def _beside(sql: str) -> Iterator[SqlError]:
    """What no tree tells from a form of Spark's: tokens that Spark never has beside one another."""
    tokens = tokens_of(sql)
    around: list[str] = []
    for place, token in enumerate(tokens):
        before, after = (
            tokens[place - 1] if place else None,
            tokens[place + 1] if place + 1 < len(tokens) else None,
        )
        if token.text in _CLOSES:
            around.append(token.text)
        elif around and token.text == _CLOSES[around[-1]]:
            around.pop()
        following = "" if after is None else after.text
        text = ""
        if token.token_type == TokenType.COMMA and (
            after is None or following in _ENDS or after.token_type in _CLAUSES
        ):
            text = f"has a comma too many before {following or 'its end'}; leave it out"
        elif token.token_type == TokenType.IN and following == "[":
            text = "has in […], which Spark's SQL does not have; write in (…), or array_contains(x, value)"
        elif token.token_type == TokenType.COLON and around[-1:] == ["["]:
            is_number = after is not None and after.token_type == TokenType.NUMBER
            if is_number or following in {"]", "-"} or (before is not None and before.text == "["):
                text = "has a part of an array by [a:b], which Spark's SQL does not have; write slice(x, start, length)"
        if text:
            yield SqlError(text, at=token.start)


def _told(node: exp.Expr, what: str, instead: str) -> SqlError:
    return SqlError(f"has {what}, which Spark's SQL does not have; {instead}", at=offset_of(node))
