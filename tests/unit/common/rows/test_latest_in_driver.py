"""Keys compared in the driver: drawn rows, against plain Python."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.rows.latest_in_driver import (
    NotComparableError,
    is_plain,
    keys_not_in,
    latest_per_key,
    rank_against,
)

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-3, 3)),
    "text": (pa.string(), st.sampled_from(["", "a", "A", "ä", "b", "\U0001f600"])),
    "time": (
        pa.timestamp("us", "UTC"),
        st.integers(0, 3).map(lambda n: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=n)),
    ),
    "number": (pa.decimal128(12, 2), st.sampled_from([Decimal("-1.00"), Decimal("0.10"), Decimal("2.00")])),
    "flag": (pa.bool_(), st.booleans()),
}
KEY, ORDER = ["k0", "k1"], ["o0", "o1"]


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Table]:
    """Three tables of the same columns, any of whose values may be null."""
    kinds = {name: KINDS[draw(st.sampled_from([*KINDS]))] for name in (*KEY, *ORDER)}
    row = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in kinds.items()})
    schema = pa.schema({name: kind for name, (kind, _) in kinds.items()})
    return [
        pa.Table.from_pylist(draw(st.lists(row, min_size=least, max_size=12)), schema) for least in (1, 0, 0)
    ]


def place(row: dict[str, Any], names: list[str]) -> tuple[Any, ...]:
    """What Spark orders by: null is lowest."""
    return tuple((row[name] is not None, 0 if row[name] is None else row[name]) for name in names)


def by_key(table: pa.Table) -> dict[tuple[Any, ...], list[int]]:
    """Positions of rows per key."""
    found = defaultdict(list)
    for number, row in enumerate(table.to_pylist()):
        found[tuple(row[name] for name in KEY)].append(number)
    return found


@settings(max_examples=60, deadline=None)
@given(tables())
def test_the_newest_row_of_a_key_and_how_new_the_tables_are(drawn: list[pa.Table]) -> None:
    """The newest row is picked, and compares with those of tables as its order does."""
    rows, have = drawn[0].to_pylist(), [each.to_pylist() for each in drawn[1:]]
    found = rank_against(drawn[0], drawn[1:], key=KEY, order=ORDER).to_pylist()
    keys = by_key(drawn[0])
    assert len(found) == len(keys)
    for each in found:
        mine = rows[each["row"]]
        key = tuple(mine[name] for name in KEY)
        assert place(mine, ORDER) == max(place(rows[at], ORDER) for at in keys.pop(key))
        for number, theirs in enumerate(have):
            places = [place(r, ORDER) for r in theirs if tuple(r[name] for name in KEY) == key]
            rank = each[f"have{number}"]
            if not places:
                assert rank is None
            else:
                newer = (rank > each["new"]) - (rank < each["new"])
                assert newer == (max(places) > place(mine, ORDER)) - (max(places) < place(mine, ORDER))
    assert not keys


@settings(max_examples=30, deadline=None)
@given(tables(), st.booleans())
def test_one_row_per_key(drawn: list[pa.Table], oldest: bool) -> None:  # noqa: FBT001
    """The first or the last, of every key."""
    rows = drawn[0].to_pylist()
    keys = by_key(drawn[0])
    pick = min if oldest else max
    for at in latest_per_key(drawn[0], key=KEY, order=ORDER, earliest=oldest).to_pylist():
        key = tuple(rows[at][name] for name in KEY)
        assert place(rows[at], ORDER) == pick(place(rows[each], ORDER) for each in keys.pop(key))
    assert not keys


@settings(max_examples=30, deadline=None)
@given(tables())
def test_rows_whose_key_no_other_row_has(drawn: list[pa.Table]) -> None:
    """A row of a table that is the very row that is looked for is no other row."""
    others = [row for table in drawn[1:] for row in table.to_pylist()]
    want = [
        at
        for at, row in enumerate(drawn[0].to_pylist())
        if not any(
            all(other[n] == row[n] for n in KEY) and any(other[n] != row[n] for n in ORDER)
            for other in others
        )
    ]
    assert keys_not_in(drawn[0], drawn[1:], key=KEY, itself=ORDER).to_pylist() == want


def test_what_is_left_to_spark() -> None:
    """Floats, bytes and nested values are not compared here."""
    assert is_plain(pa.schema({name: kind for name, (kind, _) in KINDS.items()}), [*KINDS])
    for kind in (pa.float64(), pa.struct({"a": pa.int64()}), pa.list_(pa.int64()), pa.binary()):
        assert not is_plain(pa.schema({"k": kind}), ["k"])


def test_bytes_that_are_no_text_are_left_to_spark() -> None:
    """Bytes that were cast to text need not be any, and DuckDB orders such ones otherwise."""
    ends = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in range(3)))
    texts = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"\xfe\xff")])
    rows = pa.table({"k": texts, "o": pa.array([1, 1])})
    for key, order in (["k"], ["o"]), (["o"], ["k"]):
        with pytest.raises(NotComparableError):
            latest_per_key(rows, key=key, order=order)
