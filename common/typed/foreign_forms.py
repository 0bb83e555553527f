"""Forms of other dialects that sqlglot reads and Spark does not, each with what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from common.errors import SqlError
from common.sql.as_written import called, has_query
from common.sql.places import offset_of

_RANKED = "compute row_number() over (…) as place in an inner query, and keep its rows where place = 1"

_PARTS: Mapping[type[exp.Expr], Mapping[str, tuple[str, str]]] = {
    exp.Select: {
        "kind": ("select as struct", "write struct(…)"),
        "connect": ("connect by", "write with recursive …"),
        "match": ("match_recognize", "compare rows by lag() and lead() over (…)"),
        "prewhere": ("prewhere", "write where"),
        "locks": ("for update", "leave it out"),
        "into": ("into", "leave it out: a view writes its own table"),
    },
    exp.Distinct: {"on": ("distinct on", _RANKED)},
    exp.CTE: {"materialized": ("as materialized", "write as (select …)")},
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
    exp.Overlaps: ("overlaps", "compare the beginnings and ends"),
    exp.JSON: ("is json", "write get_json_object(a, '$') is not null"),
    exp.National: ("n'…'", "leave n out"),
    exp.Any: ("any (select …)", "write in (select …)"),
    exp.All: ("all (select …)", "compare with (select max(…) …) or (select min(…) …)"),
}
"""Forms that Spark's grammar does not have."""


def foreign_forms(root: exp.Expr) -> Iterator[SqlError]:
    """The forms of a text that Spark's grammar does not have."""
    for node in root.walk():
        found = _FORMS.get(type(node)) or _form(node)
        if found is not None:
            yield _told(node, *found)
        for kind, parts in _PARTS.items():
            if isinstance(node, kind):
                yield from (_told(node, *parts[name]) for name in parts if node.args.get(name))


def _form(node: exp.Expr) -> tuple[str, str] | None:
    if isinstance(node, exp.Join) and node.method == "ASOF":
        newest = "max_by(b.x, struct(b.at, b._kafka_offset))"
        return "asof join", f"join on b.at <= a.at, group by the columns of a, and take {newest}"
    if isinstance(node, exp.Limit) and node.args.get("limit_options"):
        return "limit … percent", "limit takes a number of rows"
    if isinstance(node, exp.Limit) and node.meta.get("top"):
        return "top", "write limit"
    if isinstance(node, exp.Order) and isinstance(node.parent, exp.Anonymous):
        name = called(node.parent)
        instead = "write over (order by …), or max_by(x, y) and min_by(x, y)"
        if name in {"listagg", "string_agg"}:
            instead = f"write {name}(…) within group (order by …)"
        elif name in {"array_agg", "collect_list"}:
            instead = f"write sort_array({name}(struct(y, x)))"
        return f"order by inside of {name}(…)", instead
    if isinstance(node, exp.Anonymous) and called(node) is None and has_query(node):
        return f"{node.name} (select …)", "write in (select …), or compare with (select max(…) …)"
    return None


def _told(node: exp.Expr, what: str, instead: str) -> SqlError:
    return SqlError(f"has {what}, which Spark's SQL does not have; {instead}", at=offset_of(node))
