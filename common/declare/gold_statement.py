"""Each kind of gold table as one statement: a SELECT over its sources whose rows are the table's. Pure.

Its expressions are the author's, character by character. What a statement does not say, ``unsaid`` says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from common.declare import Aggregate, ChangeFeed, Custom, Gold, History, Join, Session, Stateful, Upsert, View
from common.declare.declared import is_in_catalog, is_outside
from common.declare.field_types import named
from common.declare.row_order import COORDINATES, total_order
from common.sql.expression import non_deterministic_in, null_for_null_times, with_names
from common.sql.quoting import backquoted, spark_text

Columns = Mapping[str, Collection[str]]
"""The columns of tables, as far as they are known."""

_JOINS = {"inner": "INNER JOIN", "left": "LEFT OUTER JOIN", "semi": "LEFT SEMI JOIN"}
_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def statement_of(gold: Gold, columns: Columns) -> str | None:
    """The statement of a gold table; None where code of the pipeline makes its rows.

    Args:
        columns: The columns of its sources. Where they are not known, a measure that names ``window_start``
            means the window's, and a joined table has the columns that it has.
    """
    match gold:
        case View():
            return gold.statement
        case Aggregate():
            return _groups(gold, columns.get(gold.reads, ()))
        case Upsert() | ChangeFeed():
            return _newest(gold)
        case History():
            return _intervals(gold)
        case Join():
            return _joined(gold, columns.get(gold.joins, ()))
    return None


def why_undefined(gold: Gold) -> str:  # noqa: PLR0911  # one return per reason
    """Why the rows of a gold table do not follow from versions of its sources, in words; empty if they do."""
    if isinstance(gold, Custom):
        return "a function of the pipeline writes it"
    if isinstance(gold, Stateful):
        return "a processor of the pipeline emits its rows"
    if isinstance(gold, Join) and gold.mode == "lookup":
        return "each row has the match of the time when it came"
    if isinstance(gold, Join) and gold.mode == "stream" and gold.how == "left":
        return "a row without a match comes when the watermark has passed"
    if gold.reading.has_start:
        return "it begins at a later version of its source"
    if found := sorted({name for sql in _deciding(gold) for name in non_deterministic_in(sql)}):
        return f"{_list(found)} decides which rows it has"
    return ""


def unsaid(gold: Gold) -> Sequence[str]:
    """What the rows of a gold table have besides its statement, in words."""
    why, unchanged = why_undefined(gold), getattr(gold, "unchanged", None)
    parts, surrogate = gold.storage.partition_by, getattr(gold, "surrogate_key", None)
    told = {
        why: bool(why),
        "leaves rows out that are later than its watermark": (
            isinstance(gold, Aggregate) and gold.watermark is not None
        ),
        "leaves rows out that are later than their watermark": (
            isinstance(gold, Join) and gold.mode == "stream"
        ),
        f"takes values from older rows (unchanged), where one is {unchanged!r}": unchanged is not None,
        "takes values from older rows (ignore_nulls), where one is null": getattr(
            gold, "ignore_nulls", False
        ),
        "ends a key at the first complete snapshot that lacks it": (
            isinstance(gold, History) and gold.snapshots is not None
        ),
        f"makes {surrogate} of the microseconds of times, and of bytes as hexadecimal digits": (
            surrogate is not None
        ),
        f"has null for an empty text in {_list(parts or ())}": bool(parts),
    }
    return [text for text, holds in told.items() if holds]


def _deciding(gold: Gold) -> Iterator[str]:
    """The texts of a declaration that decide which rows there are."""
    for attribute in ("where", "delete_when", "operation", "truncates"):
        if (sql := getattr(gold, attribute, None)) is not None:
            yield sql
    if isinstance(gold, Aggregate):
        yield from named(gold.by or ()).values()
    on = getattr(gold, "on", None)
    if isinstance(on, Mapping):
        yield from on.values()


# Aggregate


def _groups(gold: Aggregate, known: Collection[str]) -> str:
    by, measures, window = named(gold.by or ()), named(gold.measures), gold.window
    rows, keys, bounds = _from(gold.reads, gold.where), [*map(str, range(1, len(by) + 1))], list[str]()
    if window is not None:
        on = backquoted(window.on)
        made = f"session_window({on}, {spark_text(window.gap)})" if isinstance(window, Session) else ""
        if not isinstance(window, Session):
            lengths = (window.size, window.slide or window.size, window.offset or "0 seconds")
            made = f"window({on}, {_list(map(spark_text, lengths))})"
        timed = _from(gold.reads, gold.where, f"{on} IS NOT NULL")
        rows = f"FROM {_nested(f'SELECT *, {made} AS `__window`', timed, gold.reads)}"
        keys.append("`__window`")
        texts = {"window_start": "`__window`.`start`", "window_end": "`__window`.`end`"}
        bounds = [f"{sql} AS `{name}`" for name, sql in texts.items()]
        free = {name: texts[name] for name in texts if name not in {each.lower() for each in known}}
        measures = {name: with_names(sql, free) for name, sql in measures.items()}
    return f"SELECT {_list([*_as(by), *bounds, *_as(measures)])}\n{rows}\nGROUP BY {_list(keys)}"


# Upsert and ChangeFeed


def _newest(gold: Upsert | ChangeFeed) -> str:
    """The newest row per key that is no delete."""
    counts, marks = [gold.where], dict[str, str]()
    if isinstance(gold, ChangeFeed):
        marks["__ends"] = _one_of(gold.operation, gold.deletes)
        if gold.ignores:
            counts.append(f"NOT {_one_of(gold.operation, gold.ignores)}")
        if gold.truncates is not None:
            changes = _one_of(gold.operation, (*gold.upserts, *gold.deletes))
            marks |= _truncations(gold.truncates, *counts, f"{changes} OR NOT {_is(gold.truncates)}")
            counts = []
    elif gold.delete_when is not None:
        marks["__ends"] = _is(gold.delete_when)
    rows, made, order = _from(gold.reads, *counts), ["*"], total_order(gold.newest_by)
    if gold.columns is not None:
        own = named(gold.columns)
        made = [*_as(own), *(name for name in COORDINATES if name not in own)]
    if marks or made != ["*"]:
        rows = f"FROM {_nested(f'SELECT {_list([*made, *_as(marks)])}', rows, gold.reads)}"
    beside = ["`__place`", *map(backquoted, marks)]
    if gold.truncates is not None:
        newest = f"max(CASE WHEN `__empties` THEN {_end(gold.newest_by)} END) OVER () AS `__newest`"
        since = f"coalesce({_place(order)} >= `__newest`, true)"
        rows = f"FROM {_nested(f'SELECT *, {newest}', rows, gold.reads)}\nWHERE `__counts` AND {since}"
        beside.append("`__newest`")
    place = f"row_number() OVER ({_by(gold.key)} ORDER BY {_descending(order)}) AS `__place`"
    found = _nested(f"SELECT *, {place}", rows, gold.reads)
    alive = f"`__place` = 1{' AND NOT `__ends`' if '__ends' in marks else ''}"
    return f"SELECT * EXCEPT ({_list(beside)})\nFROM {found}\nWHERE {alive}"


def _one_of(sql: str, values: Iterable[str]) -> str:
    """Whether an expression is one of some texts; null is not."""
    listed = _list(map(spark_text, values))
    return f"coalesce(cast({sql} AS STRING) IN ({listed}), false)" if listed else "false"


# Truncations


def _truncations(empties: str, *counts: str | None) -> dict[str, str]:
    """What says of a row whether it is a truncation, and whether it is a row of its key; it may be both."""
    return {"__empties": _is(empties), "__counts": _is(_all(counts))}


def _place(order: Iterable[str]) -> str:
    return f"struct({_list(map(backquoted, order))})"


def _end(declared: Sequence[str]) -> str:
    """The place of a truncation; of one that is a row too, before all equal in the declared order."""
    ties = (backquoted(name) for name in total_order(declared)[len(declared) :])
    stands = (f"CASE WHEN NOT `__counts` THEN {name} END AS {name}" for name in ties)
    return f"struct({_list([*map(backquoted, declared), *stands])})"


# History


def _intervals(gold: History) -> str:
    """The first version of each run of equal ones, with what the whole run and the next one say."""
    kept, more = named(gold.columns), named(gold.untracked or ())
    by, values = _by(gold.key), {**kept, **more}
    of_run, in_time = f"({by}, `__run`", f"({by} ORDER BY `valid_from`)"
    of_runs = [f"count(*) OVER {of_run}) AS `versions`", f"max(`valid_from`) OVER {of_run}) AS `last_at`"]
    of_runs += [
        f"last_value({name}) OVER {of_run} ORDER BY `valid_from` {_WHOLE}) AS {name}"
        for name in map(backquoted, more)
    ]
    valid_to = f"lead(`valid_from`) OVER {in_time} AS `valid_to`"
    without = f" EXCEPT ({_list(map(backquoted, more))})" if more else ""
    state = f"CASE WHEN NOT `__ends` THEN struct({_list(map(backquoted, kept))}) END"
    steps = {
        **_placed(gold, values),
        "states": f"SELECT *, {state} AS `__state`\nFROM placed WHERE `__place` = 1",
        "changes": f"SELECT *, NOT (`__state` <=> lag(`__state`) OVER {in_time}) AS `__begins`\nFROM states",
        "runs": f"SELECT *, count_if(`__begins`) OVER {in_time} AS `__run`\nFROM changes",
        "measured": f"SELECT *{without}, {_list(of_runs)}\nFROM runs",
        "bounded": f"SELECT *, {valid_to}\nFROM measured WHERE `__begins`",
    }
    surrogate = []
    if gold.surrogate_key is not None:
        texts = _list(f"cast({name} AS STRING)" for name in map(backquoted, (*gold.key, "valid_from")))
        surrogate = [f"sha2(to_json(array({texts})), 256) AS {backquoted(gold.surrogate_key)}"]
    listed = [
        *map(backquoted, (*gold.key, *kept, *more)), *surrogate, "`valid_from`", "`valid_to`",
        "`valid_to` IS NULL AS `is_current`", "`versions`", "`last_at`", *COORDINATES,
    ]  # fmt: skip
    texts = ",\n".join(f"{name} AS ({text})" for name, text in steps.items())
    return f"WITH {texts}\nSELECT {_list(listed)}\nFROM bounded WHERE NOT `__ends`"


def _placed(gold: History, values: Mapping[str, str]) -> dict[str, str]:
    """The versions, and the ends by truncations, each with its place among those of its key and time."""
    key, at = [*map(backquoted, gold.key)], backquoted(gold.valid_by)
    order, ends = total_order(gold.sequence_by or ()), gold.delete_when
    versions = [*key, *_as(values), f"{at} AS `valid_from`", *COORDINATES]
    versions.append(f"{'false' if ends is None else _is(ends)} AS `__ends`")
    if gold.truncates is None:
        place = f"row_number() OVER ({_by(gold.key)}, {at} ORDER BY {_descending(order)}) AS `__place`"
        rows = _from(gold.reads, gold.where, f"{at} IS NOT NULL")
        return {"placed": f"SELECT {_list([*versions, place])}\n{rows}"}
    has_key = " OR ".join(f"{name} IS NOT NULL" for name in key)
    marks = _truncations(gold.truncates, gold.where, f"NOT {_is(gold.truncates)} OR {has_key}")
    rows = _nested(f"SELECT *, {_list(_as(marks))}", _from(gold.reads, f"{at} IS NOT NULL"), gold.reads)
    places = [f"{_place(order)} AS `__order`", f"{_end(gold.sequence_by or ())} AS `__end`"]
    of_row = [*map(backquoted, values), *COORDINATES]
    rest = ["`valid_from`", "`__ends`", "`__order`"]
    named_rows = f"SELECT {_list([*key, *of_row, *rest])}\nFROM events WHERE `__counts`"
    nulls = [
        *(f"NULL AS {name}" for name in of_row),
        "`valid_from`",
        "true AS `__ends`",
        "`__end` AS `__order`",
    ]
    in_order = f"({_by((*gold.key, 'valid_from'))} ORDER BY `__order` DESC)"
    return {
        "events": f"SELECT {_list([*versions, *map(backquoted, marks), *places])}\nFROM {rows}",
        "keys": f"SELECT DISTINCT {_list(key)}\nFROM events WHERE `__counts`",
        "truncations": "SELECT `valid_from`, `__end` FROM events WHERE `__empties`",
        "ends": f"SELECT {_list([*key, *nulls])}\nFROM keys CROSS JOIN truncations",
        "told": f"{named_rows}\nUNION ALL SELECT *\nFROM ends",
        "placed": f"SELECT *, row_number() OVER {in_order} AS `__place`\nFROM told",
    }


# Join


def _joined(gold: Join, known: Collection[str]) -> str:
    """Each row with the other table's row as one struct, the expressions of ``on`` computed first."""
    on, where = named(gold.on), []
    texts = [null_for_null_times(sql) if gold.how == "left" else sql for sql in on.values()]
    left = [f"{sql} AS `__on{place}`" for place, sql in enumerate(texts)]
    right = [f"struct({_list(map(backquoted, known)) or '*'}) AS {backquoted(gold.joined)}"]
    right += [f"{backquoted(name)} AS `__key{place}`" for place, name in enumerate(on)]
    same = [f"`__on{place}` = `__key{place}`" for place in range(len(on))]
    of_other: tuple[str, ...] = ()
    if gold.within is not None:
        here, there = backquoted(gold.within.on), backquoted(gold.within.joins_on)
        left.append(f"{here} AS `__at`")
        right.append(f"{there} AS `__other_at`")
        where, of_other = [f"{here} IS NOT NULL"], (f"{there} IS NOT NULL",)
        same += [
            f"`__other_at` {sign} `__at` + interval {spark_text(text)}"
            for sign, text in ((">=", gold.within.after), ("<=", gold.within.before))
        ]
    name = ".rows" if gold.reads.endswith(f".{gold.joined}") else gold.reads  # the other's row has that name
    rows = _nested(f"SELECT *, {_list(left)}", _from(gold.reads, gold.where, *where), name)
    other = _nested(f"SELECT {_list(right)}", _from(gold.joins, *of_other), ".other")
    select = f"SELECT {_list([*_as(named(gold.columns)), *COORDINATES])}"
    pairs = f"FROM {rows}\n{_JOINS[gold.how]} {other} ON {' AND '.join(same)}"
    if gold.mode != "recompute" or gold.how == "semi":
        return f"{select}\n{pairs}"
    order = _list(map(backquoted, named(gold.columns)))
    number = f"row_number() OVER ({_by(COORDINATES[1:])} ORDER BY {order}) AS `_match`"
    return f"SELECT *, {number}\nFROM {_nested(select, pairs, gold.reads)}"


# Texts


def _from(table: str, *conditions: str | None) -> str:
    """The rows of a table that meet some conditions."""
    source = table
    if is_in_catalog(table):
        source = ".".join(map(backquoted, table.split(".")))
    elif is_outside(table):
        source = f"delta.{backquoted(table)}"
    where = _all(conditions)
    return f"FROM {source}\nWHERE {where}" if where else f"FROM {source}"


def _all(conditions: Iterable[str | None]) -> str:
    given = [each for each in conditions if each is not None]
    return given[0] if len(given) == 1 else " AND ".join(f"({each})" for each in given)


def _is(condition: str) -> str:
    """Whether a condition is true; null is not."""
    return f"coalesce({condition}, false)"


def _nested(select: str, rows: str, table: str) -> str:
    """A query in FROM, by the name of the table whose rows it gives; no line of an author is indented."""
    return f"({select}\n{rows}) AS {backquoted(table.partition('.')[2])}"


def _as(expressions: Mapping[str, str]) -> list[str]:
    """Expressions by their names; a column of its own name is only named."""
    return [
        backquoted(name) if sql.strip("` ") == name else f"{sql} AS {backquoted(name)}"
        for name, sql in expressions.items()
    ]


def _list(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _by(names: Iterable[str]) -> str:
    return f"PARTITION BY {_list(map(backquoted, names))}"


def _descending(names: Iterable[str]) -> str:
    return _list(f"{backquoted(name)} DESC" for name in names)
