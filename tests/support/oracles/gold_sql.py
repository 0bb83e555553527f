"""The expected rows of gold tables, as SQL for DuckDB over one version of silver.

Times are compared as microseconds since 1970, so that the engines' time zones do not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = 60_000_000
_ARRIVAL = "_kafka_timestamp desc, _kafka_topic desc, _kafka_partition desc, _kafka_offset desc"
_MEASURES = """
    count(*) as orders, sum(amount) as total, min(seen_at) as first_at, count(distinct customer) as customers,
    quantile_cont(amount, 0.5)::double as middle
"""
_ONE_BY_ONE = "count(*) as orders, sum(amount) as total, min(seen_at) as first_at"
_PLACE = "_kafka_timestamp, _kafka_topic, _kafka_partition, _kafka_offset"


def _grouped(columns: str, rows: str, measures: str) -> str:
    return f"select {columns}, {measures} from {rows} group by {columns}"


def _windows(size: int, slide: int, offset: int) -> str:
    """Each order once per window that contains it; all in minutes."""
    long, step, later = size * _MINUTE, slide * _MINUTE, offset * _MINUTE
    starts = f"range((seen_at - {later}) // {step} * {step} + {later}, seen_at - {long}, {-step})"
    return f"""(select *, window_start + {long} as window_end
                from (select *, unnest({starts}) as window_start from orders where seen_at is not null))"""


_LARGE = "(select *, status = 'paid' as is_paid from orders where amount > 2)"
_OVERLAPPING = _windows(50, 20, -7)

LARGE, SPARKS_LARGE = (
    _grouped("country, is_paid", _LARGE, measures) for measures in (_MEASURES, _ONE_BY_ONE)
)
SLIDING, SPARKS_SLIDING = (
    _grouped("country, window_start, window_end", _OVERLAPPING, measures)
    for measures in (_MEASURES, _ONE_BY_ONE)
)


def _sessions(gap: int, measures: str) -> str:
    return f"""
        with apart as (
            select *, coalesce(seen_at - lag(seen_at) over one > {gap * _MINUTE}, true) as begins
            from orders where seen_at is not null
            window one as (partition by k order by seen_at, _kafka_offset)),
        numbered as (
            select *, sum(begins::int) over one as session
            from apart window one as (partition by k order by seen_at, _kafka_offset))
        select k, min(seen_at) as window_start, max(seen_at) + {gap * _MINUTE} as window_end, {measures}
        from numbered group by k, session
    """


SESSIONS, SPARKS_SESSIONS = _sessions(10, _MEASURES), _sessions(10, _ONE_BY_ONE)


_NEWEST = f"""
    select * exclude (place) from (
        select *, row_number() over (partition by k order by version desc nulls last, {_ARRIVAL}) as place
        from orders) where place = 1
"""
LATEST = f"select * from ({_NEWEST}) where (status = 'gone') is not true"
DELETED = f"select k, version, {_PLACE} from ({_NEWEST}) where status = 'gone'"

_SENT = ("country", "amount", "status", "seen_at", "customer")
_FILLED = ", ".join(
    f"last_value(case when not ends then {name} end ignore nulls) over so_far as {name}" for name in _SENT
)
FILLED = f"""
    with ordered as (
        select *, (status = 'gone') is true as ends, row_number() over (
            partition by k order by version nulls first, {_PLACE}) as step
        from orders),
    lives as (select *, sum(ends::int) over (partition by k order by step) as life from ordered),
    filled as (
        select * replace ({_FILLED}), max(step) over (partition by k) as newest from lives
        window so_far as (partition by k, life order by step rows unbounded preceding))
    select * exclude (ends, step, life, newest) from filled where step = newest and not ends
"""


def _intervals(versions: str, more: str = "", added: str = "") -> str:
    """The intervals of each key, from one version per key and time; with more columns."""
    return f"""{versions},
    steps as (
        select *, row_number() over one = 1 or ends <> lag(ends) over one
            or status is distinct from lag(status) over one
            or country is distinct from lag(country) over one as begins
        from versions window one as (partition by k order by seen_at)),
    numbered as (select *, sum(begins::int) over (partition by k order by seen_at) as run from steps),
    runs as (
        select k, first(status order by seen_at) as status, first(country order by seen_at) as country,
            {more} min(seen_at) as valid_from, count(*) as versions, max(seen_at) as last_at,
            bool_or(ends) as ends,
            first(_kafka_timestamp order by seen_at) as _kafka_timestamp,
            first(_kafka_topic order by seen_at) as _kafka_topic,
            first(_kafka_partition order by seen_at) as _kafka_partition,
            first(_kafka_offset order by seen_at) as _kafka_offset
        from numbered group by k, run),
    followed as (select *, lead(valid_from) over (partition by k order by valid_from) as valid_to from runs)
    select * exclude (ends), valid_to is null as is_current {added} from followed where not ends
"""


HISTORY = _intervals(f"""
    with versions as (
        select *, (status = 'gone') is true as ends from (
            select *, row_number() over (partition by k, seen_at order by {_ARRIVAL}) as place
            from orders where seen_at is not null) where place = 1)""")

_OF_SNAPSHOTS = """
    own as (
        select * from (
            select *, row_number() over (partition by k, seen_at order by {order}) as place
            from orders where seen_at is not null) where place = 1),
    snapshots as (select distinct seen_at as taken_at from own),
    absent as (
        select k, taken_at as seen_at, true as ends from (select distinct k from own) keys, snapshots
        where taken_at {complete} (select max(taken_at) from snapshots)
            and not exists (from own where own.k is not distinct from keys.k and own.seen_at = taken_at))
"""
"""Of each key, the complete snapshots that lack it, as versions that end it."""

_LATEST_FIRST = f"version desc nulls last, {_ARRIVAL}"
ARRIVED_HISTORY = _intervals(f"""
    with {_OF_SNAPSHOTS.format(order=_ARRIVAL, complete="<=")},
    versions as (select *, false as ends from own union all by name from absent)""")

_STATE = ("status", "country", "amount")
_FILLED_STATE = ", ".join(
    f"last_value(case when not ends then {name} end ignore nulls) over so_far as {name}" for name in _STATE
)
_IN_ORDER = f"row_number() over (partition by k order by seen_at, version nulls first, {_PLACE}) as step"


def _filled_history(ordered: str) -> str:
    """The intervals of partial updates, from the versions of each key in order, and where they end."""
    return _intervals(
        f"""
    with {ordered},
    lives as (select *, sum(ends::int) over (partition by k order by step) as life from ordered),
    filled as (
        select * replace ({_FILLED_STATE}), lead(seen_at) over (partition by k order by step) as next_at
        from lives window so_far as (partition by k, life order by step rows unbounded preceding)),
    versions as (select * from filled where seen_at is distinct from next_at)""",
        more="last(amount order by seen_at) as amount,",
        added=", sha256(to_json([k::varchar, valid_from::varchar])::varchar) as state_id",
    )


FILLED_HISTORY = _filled_history(f"""
    ordered as (
        select *, (status = 'gone') is true as ends, {_IN_ORDER} from orders where seen_at is not null)""")
FOLLOWED_HISTORY = _filled_history(f"""
    {_OF_SNAPSHOTS.format(order=_LATEST_FIRST, complete="<")},
    ordered as (
        select *, {_IN_ORDER} from (
            select *, false as ends from orders where seen_at is not null union all by name from absent))""")

JOINED = """
    select k, amount, name, orders._kafka_topic, orders._kafka_partition, orders._kafka_offset,
        orders._kafka_timestamp,
        row_number() over (
            partition by orders._kafka_topic, orders._kafka_partition, orders._kafka_offset
            order by k nulls first, amount nulls first, name nulls first) as _match
    from orders left join customers on customers.id = orders.customer
"""
MET = f"select k, amount, {_PLACE} from orders where abs(customer) in (select id from customers)"


def of_some(sql: str) -> str:
    """A statement over the orders with an amount above 2 and a country."""
    return f"""
        with all_orders as (from orders),
        some_orders as (from all_orders where amount > 2 and country is not null)
        select * from ({sql.replace("from orders", "from some_orders as orders")})
    """


Row = tuple[tuple[str, Any], ...]


def answer(sql: str, tables: Mapping[str, pa.Table]) -> Counter[Row]:
    """Rows of a query as a multiset; times are microseconds."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, _whole(table))
        cursor = connection.execute(sql)
        names = [each[0] for each in cursor.description or ()]
        return multiset(dict(zip(names, row, strict=True)) for row in cursor.fetchall())


def multiset(rows: Iterable[Mapping[str, Any]]) -> Counter[Row]:
    """Rows as a multiset; the order of columns does not matter, times are microseconds."""
    return Counter(tuple(sorted((name, _plain(value)) for name, value in row.items())) for row in rows)


def _plain(value: Any) -> Any:
    return (value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


def _whole(table: pa.Table) -> pa.Table:
    """The table with its times as microseconds, the form in which they are compared."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            whole = table.column(place).cast(pa.timestamp("us", field.type.tz)).cast(pa.int64())
            table = table.set_column(place, field.name, whole)
    return table
