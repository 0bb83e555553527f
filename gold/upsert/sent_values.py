"""A key's newest version with the values that it left unchanged, from the versions before it. Pure.

A value that the newest version does not have is that of the newest version before it that has one, unless a
delete lies between them: then nothing is known of it, and it is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from gold.table.unchanged import Unchanged

IS_PARTIAL = "__partial"
"""Marker: the row leaves a value as it was; never null."""

FIRST = "__first_place"
"""The place in the order of the oldest version of a key that came."""

IS_OPEN = "__open"
"""Whether no version of a key that came has a value that the newest leaves unchanged."""

_DELETED_AT = "__deleted_at"
_ROW = "__row"


def is_partial(unchanged: Unchanged, is_delete: Column) -> Column:
    """Whether a row leaves a value as it was; of a delete no value counts."""
    return ~is_delete & reduce(or_, (unchanged.is_in(name, F.col(f"`{name}`")) for name in unchanged.columns))


def aggregates(unchanged: Unchanged, *, came: Column, is_delete: Column, place: Column) -> Iterator[Column]:
    """For a grouping by key, beside ``max_by`` of the whole row: what ``value`` and ``marks`` need."""
    yield F.max(F.when(came & is_delete, place)).alias(_DELETED_AT)
    yield F.min(F.when(came, place)).alias(FIRST)
    for number, name in enumerate(unchanged.columns):
        value = F.col(f"`{name}`")
        is_sent = came & ~is_delete & ~unchanged.is_in(name, value)
        sent = F.struct(place.alias("at"), value.alias("value"))
        yield F.max_by(sent, F.when(is_sent, place)).alias(_sent(number))


def value(unchanged: Unchanged, name: str, newest: str) -> Column:
    """A column's value in the newest version; the placeholder stays where no version that came has one."""
    own = F.col(f"{newest}.`{name}`")
    if name not in unchanged.columns:
        return own
    sent = F.col(_sent(list(unchanged.columns).index(name)))
    deleted = F.col(_DELETED_AT)
    known = F.when(deleted.isNull() | (sent["at"] > deleted), sent["value"])
    is_open = deleted.isNull() & sent.isNull()
    return F.when(unchanged.is_in(name, own) & ~is_open, known).otherwise(own)


def marks(unchanged: Unchanged, newest: str) -> Iterator[Column]:
    """``IS_PARTIAL`` and ``IS_OPEN`` of the newest version, and ``FIRST``."""
    is_left = F.coalesce(F.col(f"{newest}.{IS_PARTIAL}"), F.lit(False))
    unknown = (
        unchanged.is_in(name, F.col(f"{newest}.`{name}`")) & F.col(_sent(number)).isNull()
        for number, name in enumerate(unchanged.columns)
    )
    yield is_left.alias(IS_PARTIAL)
    yield (is_left & F.col(_DELETED_AT).isNull() & reduce(or_, unknown)).alias(IS_OPEN)
    yield F.col(FIRST)


def newest_whole(
    rows: DataFrame, unchanged: Unchanged, *, is_delete: Column, key: Sequence[str], order: Sequence[str]
) -> DataFrame:
    """The newest version of each key among all that there are, with the values that it left unchanged.

    Grain: one row per key, with the columns of the rows. A value that no version has is null.
    """
    place = F.struct(*(F.col(f"`{name}`") for name in order))
    newest = F.max_by(F.struct(*(F.col(f"`{name}`") for name in rows.columns)), place).alias(_ROW)
    found = rows.groupBy(*(F.col(f"`{name}`").alias(f"__{at}") for at, name in enumerate(key))).agg(
        newest, *aggregates(unchanged, came=F.lit(True), is_delete=is_delete, place=place)
    )
    return found.select(*(known(unchanged, name, value(unchanged, name, _ROW)) for name in rows.columns))


def known(unchanged: Unchanged, name: str, found: Column) -> Column:
    """A column's value; null where that is the placeholder still."""
    if name in unchanged.columns:
        found = F.when(~unchanged.is_in(name, found), found)
    return found.alias(name)


def _sent(number: int) -> str:
    return f"__sent{number}"
