"""Forms of other dialects that sqlglot reads and Spark does not, each with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from sqlglot import exp

from common.errors import SqlError
from common.sql.syntax import arguments, called, has_query, offset_of, text_of
from common.typed.foreign_tokens import foreign_tokens

_QUOTES = ("'", '"')
_PLAIN = re.compile(r"\w+", re.ASCII)
_IGNORING = frozenset({"first", "last", "any_value"})
"""Functions that take ``ignore nulls`` in their brackets."""
_EXCEPT = re.compile(r"\*\s*(exclude\b|except\b(?!\s*\())", re.IGNORECASE)
_FILTER = re.compile(r"\bfilter\s*\(\s*where\b", re.IGNORECASE)
_FOR = re.compile(r"\w+\s*\(((?!\bfrom\b)[^(),])*\bfor\b", re.IGNORECASE)
_IN = "write in (…), or array_contains(array, x)"
_JSON = "write a.b for a field, get_json_object(a, '$.b') for a text of JSON"
_STAR = "write * except (…)"
_NEAREST = (
    "join on b.at <= a.at, group by the columns of a, and take max_by(b.x, struct(b.at, b._kafka_offset))"
)
_RANKED = "compute row_number() over (…) as place in an inner query, and keep its rows where place = 1"


def _is_text(node: Any) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _has_column(node: Any) -> bool:
    return isinstance(node, exp.Expr) and node.find(exp.Column) is not None


def _has_odd_bounds(frame: exp.Expr) -> bool:
    bounds = [frame.args.get(name) for name in ("start", "end")]
    return any(map(_has_column, bounds)) or (frame.args.get("kind") != "range" and any(map(_is_text, bounds)))


def _is_said(node: exp.Expr, part: str) -> bool:
    return node.args.get(part) is not None


def _has_own_query(node: exp.Expr) -> bool:
    return any(isinstance(each, exp.Select | exp.SetOperation) for each in node.expressions)


def _counts_table(node: exp.Expr) -> bool:
    given = arguments(node) if called(node) == "count" else []
    return len(given) == 1 and isinstance(given[0], exp.Column) and bool(given[0].is_star)


_Test = Callable[[Any, str], Any] | str | None
_Rule = tuple[Any, _Test, str, str]
_RULES: Sequence[_Rule] = (
    (exp.Select, "kind", "select as struct", "write struct(…)"),
    (exp.Select, "connect", "connect by", "write with recursive …"),
    (exp.Select, "match", "match_recognize", "compare rows by lag() and lead() over (…)"),
    (exp.Select, "prewhere", "prewhere", "write where"),
    (exp.Select, "locks", "for update", "leave it out"),
    (exp.Select, "into", "into", "leave it out: a view writes its own table"),
    (exp.Select, "sample", "using sample", "choose rows by a condition"),
    (exp.Distinct, "on", "distinct on", _RANKED),
    (exp.CTE, lambda node, _: _is_said(node, "materialized"), "as materialized", "write as (select …)"),
    (exp.CTE, "key_expressions", "using key", "write with recursive t as (…)"),
    (exp.Star, "replace", "* replace", "list the columns"),
    (exp.Star, "rename", "* rename", "list the columns"),
    (exp.Join, "match_condition", "match_condition", "write on"),
    (exp.SetOperation, "by_name", "by name", "list the columns of both sides in one order"),
    (exp.SetOperation, "side", "a join of unions", "list the columns of both sides in one order"),
    (exp.Limit, "expressions", "limit … by", _RANKED),
    (exp.Limit, "limit_options", "limit with percent or ties", "limit takes a number of rows"),
    (exp.Table, "ordinality", "with ordinality", "write lateral view posexplode(…)"),
    (exp.Table, "only", "only", "leave it out"),
    (exp.Table, "when", "at (…) behind a table", "a view follows the newest version, so leave it out"),
    (exp.Table, "hints", "with (…) behind a table", "leave it out"),
    (exp.Group, "totals", "with totals", "write with rollup"),
    (exp.WindowSpec, "exclude", "exclude in the frame of a window", "leave it out"),
    (exp.Lateral, "ordinality", "with ordinality", "write lateral view posexplode(…)"),
    (exp.TryCast, "format", "cast … format", "write to_timestamp(x, pattern) or date_format(x, pattern)"),
    (exp.Between, "symmetric", "between symmetric", "write between least(a, b) and greatest(a, b)"),
    (exp.Fetch, None, "fetch first", "write limit"),
    (exp.Unnest, None, "unnest(…)", "write lateral view explode(…)"),
    (exp.Array, None, "[…] as an array", "write array(…)"),
    (exp.Struct, None, "{{…}} as a struct", "write struct(…), named_struct(…) or map(…)"),
    (exp.PropertyEQ, None, "a := b", "write => for the name of an argument, b as a for a field of struct(…)"),
    (exp.JSONExtractScalar, None, "a ->> b", _JSON),
    (exp.Coalesce, None, "a ?? b", "write coalesce(a, b)"),
    (exp.AtTimeZone, None, "at time zone", "write from_utc_timestamp(at, zone) or convert_timezone(…)"),
    (exp.SimilarTo, None, "similar to", "write rlike"),
    (exp.Glob, None, "glob", "write rlike"),
    (exp.RegexpILike, None, "~*", "write rlike '(?i)…'"),
    (exp.Parameter, None, "@ or $ before a name", "write the value"),
    (exp.Placeholder, None, "a parameter", "write its value"),
    (exp.Overlaps, None, "overlaps", "compare the beginnings and ends"),
    (exp.JSON, None, "is json", "write get_json_object(a, '$') is not null"),
    (exp.National, None, "n'…'", "leave n out"),
    (exp.Any, None, "any (select …)", "write in (select …)"),
    (exp.All, None, "all (select …)", "compare with (select max(…) …) or (select min(…) …)"),
    (exp.Join, lambda node, _: node.method == "ASOF", "asof join", _NEAREST),
    (exp.Limit, lambda node, _: node.meta.get("top"), "top", "write limit"),
    (exp.JSONExtract, lambda node, _: not node.args.get("variant_extract"), "a -> b", _JSON),
    (
        (exp.IgnoreNulls, exp.RespectNulls),
        lambda node, _: isinstance(node.parent, exp.Anonymous) and called(node.parent) not in _IGNORING,
        "ignore nulls or respect nulls inside of brackets",
        "write it behind them, as in last_value(x) ignore nulls over (…)",
    ),
    (
        exp.Anonymous,
        lambda node, _: called(node) is None and has_query(node),
        "{name} (select …)",
        "write in (select …), or compare with (select max(…) …)",
    ),
    (
        exp.Anonymous,
        lambda node, _: called(node) is not None and _has_own_query(node),
        "{name}(select …)",
        "give the query brackets of its own, {name}((select …)); of several rows write array_agg(x) in it",
    ),
    (
        exp.Group,
        lambda node, _: any(
            isinstance(each, exp.Tuple) and not each.expressions for each in node.expressions
        ),
        "group by ()",
        "leave () out, or write grouping sets ((a), ())",
    ),
    (
        (exp.CTE, exp.Subquery),
        lambda node, _: not isinstance(node.this, exp.Query | exp.Table | exp.Values | exp.Lateral),
        "a command as a query",
        "write a select",
    ),
    (
        exp.Pivot,
        lambda node, _: node.args.get("alias") and not node.args.get("unpivot"),
        "a name behind pivot (…)",
        "write from (select … pivot (…)) as name",
    ),
    (
        exp.Escape,
        lambda node, _: not _is_text(node.expression) or len(node.expression.name) != 1,
        "escape without one letter in quotes",
        "write escape '!'",
    ),
    (
        exp.WindowSpec,
        lambda node, _: _has_odd_bounds(node),
        "a frame whose bounds are no number",
        "write one",
    ),
    (
        exp.WindowSpec,
        lambda node, _: str(node.args.get("kind")).lower() == "groups",
        "a frame of groups",
        "write rows or range",
    ),
    (
        exp.Window,
        lambda node, _: node.args.get("alias") and (node.args.get("order") or node.args.get("partition_by")),
        "over (w …)",
        "write over w, or the whole of the window",
    ),
    (exp.In, lambda node, _: node.args.get("field"), "in without brackets", _IN),
    (exp.Anonymous, lambda node, _: _counts_table(node), "count(t.*)", "write count(*), or count(a, b)"),
    (exp.Filter, lambda _, text: not _FILTER.search(text), "filter without where", "write filter (where …)"),
    (
        exp.Substring,
        lambda _, text: _FOR.match(text),
        "substring(… for …) without from",
        "write substring(x from 1 for 3)",
    ),
    (
        exp.Table,
        lambda node, _: isinstance(node.this, exp.Anonymous) and _has_column(node.this),
        "a function in from that names columns",
        "write lateral before it",
    ),
    (exp.Lateral, lambda node, _: node.args.get("cross_apply") is not None, "apply", "write join lateral …"),
    (
        exp.HexString,
        lambda _, text: text[:2].lower() == "0x",
        "a number of 0x…",
        "write it with the digits 0 to 9",
    ),
    (
        exp.Identifier,
        lambda node, text: text[:1] in _QUOTES or (not node.quoted and text and not _PLAIN.fullmatch(text)),
        "the name {text}",
        "a name stands in backquotes: `{name}`",
    ),
    (
        exp.Column,
        lambda node, _: isinstance(node.this, exp.Literal),
        "the name {text}",
        "a name stands in backquotes",
    ),
    (exp.Dot, lambda node, _: _is_text(node.expression), "the name {text}", "a name stands in backquotes"),
    (exp.Star, lambda _, text: _EXCEPT.match(text), "* exclude, or * except without brackets", _STAR),
)
"""Forms that Spark has not: the kind of a node; where it is one, by its name a part that the node
has, or what is so of the node or its text; what it is; what to write instead."""


def foreign_forms(root: exp.Expr, sql: str) -> Iterator[SqlError]:
    """The forms of a text that Spark's grammar does not have.

    Args:
        root: The tree of the text, as it is written.
    """
    for node in root.walk():
        if (order := _order(node)) is not None:
            yield _told(node, *order)
        for _, test, what, instead in _rules_of(type(node)):  # type: ignore[arg-type]  # classes have a hash
            text = text_of(sql, node)
            if test is None or (node.args.get(test) if isinstance(test, str) else test(node, text)):
                yield _told(node, *(each.format(name=node.name, text=text) for each in (what, instead)))
    yield from foreign_tokens(sql)


@cache
def _rules_of(kind: type[exp.Expr]) -> Sequence[_Rule]:
    return [rule for rule in _RULES if (kind is rule[0] if rule[1] is None else issubclass(kind, rule[0]))]


def _order(node: exp.Expr) -> tuple[str, str] | None:
    """What stands for an order inside of the brackets of an aggregate."""
    if not isinstance(node, exp.Order) or not isinstance(node.parent, exp.Anonymous):
        return None
    name = called(node.parent)
    instead = "write over (order by …), or max_by(x, y) and min_by(x, y)"
    if name in {"listagg", "string_agg"}:
        instead = f"write {name}(…) within group (order by …)"
    elif name in {"array_agg", "collect_list"}:
        instead = f"write sort_array({name}(struct(y, x)))"
    return f"order by inside of {name}(…)", instead


def _told(node: exp.Expr, what: str, instead: str) -> SqlError:
    return SqlError(f"has {what}, which Spark's SQL does not have; {instead}", at=offset_of(node))
