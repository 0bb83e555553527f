"""The proof of healthy tables never says that they differ, however legal messages spell their values.

What differs in a column whose bytes DuckDB can read is seen, whatever the record's other columns are.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from common.declare import Json, Pipeline, Silver, Topic
from tests.support.bronze_batches import append_batch
from tests.support.engine import Engine
from tests.support.oracles.proof import checks, different
from tests.support.stored_shop import settings_of

FIELDS = (
    "id string, name string, n int, big bigint, is_on boolean, f double, price decimal(9,2), "
    "amount decimal(20,2), sum decimal(38,10), at timestamp, day date"
)


def _text(draw: Random) -> str:
    shown = (
        "a",
        "Ä",
        "\\u00e9",
        "\\ud83d\\ude00",
        "😀",
        " ",
        "\\n",
        "\\t",
        '\\"',
        "\\/",
        "'",
        "{",
        "\\\\",
        "0",
        ".",
    )
    return f'"{"".join(draw.choice(shown) for _ in range(draw.randrange(6)))}"'


def _any(draw: Random) -> str:
    """A value of a text field: the reader keeps what is no text as it stands."""
    other = (
        "1.10",
        "1e3",
        "-0",
        "0",
        "-0.0",
        "12",
        "1E-7",
        "12345678901234567890123",
        "true",
        "false",
        "[1, 2]",
        "[ ]",
    )
    return draw.choice(
        (_text(draw), draw.choice((*other, '{"b": 1.0}', '{ "x" : [ null ] }', "null", '"null"')))
    )


def _whole(digits: int) -> Callable[[Random], str]:
    def one(draw: Random) -> str:
        return draw.choice(("", "-")) + str(draw.randrange(10 ** draw.randrange(1, digits)))

    return one


def _double(draw: Random) -> str:
    plain = repr(draw.uniform(-1e6, 1e6))
    return draw.choice(
        (plain, repr(draw.random() * 10 ** draw.randrange(-300, 300)), "1e308", "0.50", "1E+2", "-0", "7")
    )


def _decimal(digits: int, places: int) -> Callable[[Random], str]:
    def one(draw: Random) -> str:
        whole = str(draw.randrange(10 ** draw.randrange(1, digits - places)))
        behind = "".join(draw.choice("0123456789") for _ in range(draw.randrange(places + 1)))
        sign, zeros = draw.choice(("", "-")), draw.choice(("", "", "00"))
        return sign + whole + (f".{behind}{zeros}" if behind else draw.choice(("", ".0", "e0")))

    return one


def _time(draw: Random) -> str:
    day = f"{draw.randrange(1970, 2100):04}-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"
    clock = f"{draw.randrange(24):02}:{draw.randrange(60):02}"
    seconds = draw.choice(
        ("", f":{draw.randrange(60):02}", f":{draw.randrange(60):02}.{draw.randrange(10**6):06}")
    )
    zone = draw.choice(("Z", "+02:00", "-05:30", "+00:00"))
    return f'"{day}{draw.choice("T ")}{clock}{seconds}{zone}"'


def _day(draw: Random) -> str:
    return f'"{draw.randrange(1600, 2400):04}-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"'


_DRAWN: dict[str, Callable[[Random], str]] = {
    "name": _any,
    "n": _whole(9),
    "big": _whole(18),
    "is_on": lambda draw: draw.choice(("true", "false")),
    "f": _double,
    "price": _decimal(9, 2),
    "amount": _decimal(20, 2),
    "sum": _decimal(38, 10),
    "at": _time,
    "day": _day,
}


def draw_message(draw: Random, number: int) -> bytes:
    """A document of ``FIELDS``: some are null or absent, in any order, with any white space."""
    identity = draw.choice((f'"k{number}"', f'"k{draw.randrange(number + 1)}"', str(number), f"{number}.50"))
    fields = [("id", identity), *((name, one(draw)) for name, one in _DRAWN.items())]
    fields = [
        (name, "null" if draw.random() < 0.05 else text) for name, text in fields if draw.random() > 0.05
    ]
    draw.shuffle(fields)
    blank = draw.choice(("", " ", "\n  "))
    return (
        "{" + f",{blank}".join(f'{blank}"{name}"{blank}:{blank}{text}' for name, text in fields) + "}"
    ).encode()


NAMES = [
    text.split()[0]
    for text in FIELDS.replace("(9,2)", "").replace("(20,2)", "").replace("(38,10)", "").split(", ")
]
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders", topics=["t"])],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json(FIELDS),
            columns={name: name for name in NAMES}
            | {
                "half": "floor(f)",
                "twice": "n * 2L",
                "is_dear": "price > 10",
                "seen": "coalesce(at, _kafka.timestamp)",
            },
            key=["id"],
            event_time="seen",
            watermark="1 hour",
            dedupe="exact",
        )
    ],
)
SEED = int(os.environ.get("DRAWN_SEED", "1"))


@pytest.mark.parametrize("messages", [600, pytest.param(20_000, marks=pytest.mark.long)])
def test_a_healthy_table_is_equal_or_not_compared(spark: Any, tmp_path: Path, messages: int) -> None:
    draw = Random(f"messages {SEED}")  # noqa: S311  # a seed has to give the same messages again
    engine, ends = Engine(spark, PIPELINE, settings_of(tmp_path)), {0: 0}
    values = [draw_message(draw, number) for number in range(messages)]
    append_batch(engine, 0, {0: values}, ends)
    engine.run("silver")
    rows = checks(PIPELINE, engine.layout)
    assert different(rows) == {}
    (account,) = [one for one in rows if one.check.startswith("offsets of")]
    assert account.expected == f"each of {messages} offsets from 0 in one place, of bronze.orders@1 of 1"
    (said,) = [one for one in rows if one.check.startswith("values of silver")]
    assert said.verdict.endswith("otherwise than its bytes have it"), said
    assert engine.faults() == ()
    _see_what_is_planted(engine, values, draw)


class Written(str):
    """A number as it stands in a document."""

    __slots__ = ()


def _readable(message: bytes) -> Iterator[str]:
    """The columns of a message whose bytes DuckDB must read as they are."""
    document: Mapping[str, Any] = json.loads(message, parse_int=Written, parse_float=Written)
    for name in NAMES:
        value = document.get(name)
        if name in {"id", "name"}:
            is_readable = value is None or isinstance(value, bool) or type(value) is str
        elif name in {"amount", "sum"}:
            most = {"amount": 13, "sum": 5}[name]
            is_readable = value is None or abs(Decimal(value)) < Decimal(10) ** most
        elif name == "at":
            is_readable = value is None or re.search(r"\d\d:\d\d:\d\d", value) is not None
        else:
            is_readable = True
        if is_readable:
            yield name


def _other(value: Any, draw: Random) -> Any:
    """A value that differs as little as its type lets it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return draw.choice((f"{value} ", value[:-1] or "x", None))
    least = {datetime: timedelta(microseconds=1), date: timedelta(days=1)}
    if isinstance(value, Decimal):
        return value + Decimal(1).scaleb(int(value.as_tuple().exponent))
    return value + least.get(type(value), 1)


def _see_what_is_planted(engine: Engine, values: list[bytes], draw: Random) -> None:
    """Five rows have another value in a column that can be read: these are named, and no other one."""
    path = engine.layout.table_path("silver.orders")
    table = DeltaTable(path).to_pyarrow_table()
    rows, harmed = table.to_pylist(), list[int]()
    for row in draw.sample(rows, len(rows)):
        readable = [name for name in _readable(values[row["_kafka_offset"]]) if row[name] is not None]
        name = draw.choice(readable)
        if len(harmed) < 5 and (other := _other(row[name], draw)) != row[name]:
            row[name] = other
            harmed.append(row["_kafka_offset"])
    write_deltalake(path, pa.Table.from_pylist(rows, table.schema), mode="overwrite")
    (said,) = [one for one in checks(PIPELINE, engine.layout) if one.check.startswith("values of silver")]
    assert said.verdict == "different"
    assert said.first_differing == ", ".join(f"t/0/{offset}" for offset in sorted(harmed))
