"""The proof of healthy tables never says that they differ, however legal messages spell their values.

What differs in a column whose bytes DuckDB can read is seen, whatever the record's other columns are.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import AnalysisException
from pyspark.sql.types import NullType

from common.declare import Json, Pipeline, Rule, Silver, Topic
from tests.runs.shards import in_turn
from tests.support.bronze_batches import EVENING, append_batch
from tests.support.drawn.drawn_sql import FORMS, drawn, rows
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
    found = checks(PIPELINE, engine.layout)
    assert different(found) == {}
    (account,) = [one for one in found if one.check.startswith("offsets of")]
    assert account.expected == f"each of {messages} offsets from 0 in one place, of bronze.orders@1 of 1"
    (said,) = [one for one in found if one.check.startswith("values of silver")]
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
    there, harmed = table.to_pylist(), list[int]()
    for row in draw.sample(there, len(there)):
        readable = [name for name in _readable(values[row["_kafka_offset"]]) if row[name] is not None]
        name = draw.choice(readable)
        if len(harmed) < 5 and (other := _other(row[name], draw)) != row[name]:
            row[name] = other
            harmed.append(row["_kafka_offset"])
    write_deltalake(path, pa.Table.from_pylist(there, table.schema), mode="overwrite")
    (said,) = [one for one in checks(PIPELINE, engine.layout) if one.check.startswith("values of silver")]
    assert said.verdict == "different"
    assert said.first_differing == ", ".join(f"t/0/{offset}" for offset in sorted(harmed))


# Any declaration: columns, conditions and keys in SQL of a grammar, over fields of all types.

MANY_TYPES = (
    "id string, other string, at timestamp, s string, r string, b boolean, c boolean, y tinyint, h smallint, "
    "i int, j int, n int, w int, k bigint, l bigint, f float, x double, z double, m decimal(12,2), "
    "o decimal(5,2), p decimal(38,10), u decimal(38,0), d date, e date, v date, far date, t timestamp, "
    "q timestamp, far_t timestamp, a array<int>, g struct<n: int, s: string>"
)
COLUMNS = 60
"""Columns of a drawn table that are computed."""


def _spelled(draw: Random, value: Any) -> str:
    """A value in one of the spellings that the reader takes."""
    if isinstance(value, datetime):
        zone = draw.choice(("Z", "+00:00", "+00", "-0000"))
        text = value.astimezone(UTC).isoformat().replace("+00:00", zone)
        return f'"{text.replace(":00Z", "Z") if value.second == value.microsecond == 0 else text}"'
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    if isinstance(value, Decimal):
        return f"{value:f}" + (draw.choice(("", "0", "000")) if value.as_tuple().exponent else "")
    if isinstance(value, dict):
        fields = (f'"{name}" : {_spelled(draw, one)}' for name, one in value.items())
        return "{" + ",".join(fields) + "}"
    if isinstance(value, list):
        return f"[ {', '.join(_spelled(draw, one) for one in value)}]"
    is_number = not isinstance(value, float) or abs(value) < float("inf")  # JSON has no infinity, no NaN
    return json.dumps(value if is_number else None, ensure_ascii=draw.random() < 0.5)


def draw_records(draw: Random, number: int) -> list[bytes | None]:
    """Documents with values at which engines differ; some come again, late or without a value."""
    table = rows(number, draw.randrange(1_000)).drop_columns(["far", "far_t"]).to_pylist()
    found: list[bytes | None] = []
    for place, row in enumerate(table):
        own = row | {"far": row["e"], "far_t": row["q"], "other": row["s"]}
        own |= {"id": f"k{draw.choice((place, place, draw.randrange(place + 1)))}"}
        own |= {"at": EVENING - timedelta(minutes=draw.choice((0, 1, 30, 600)))}
        fields = [f'"{name}":{_spelled(draw, one)}' for name, one in own.items() if draw.random() > 0.03]
        draw.shuffle(fields)
        unknown = draw.choice(("", f',"unknown":{_any(draw)}', ',"unknown":-1e999'))
        found.append(None if draw.random() < 0.03 else ("{" + ",".join(fields) + unknown + "}").encode())
    return found


def draw_sql(spark: Any, draw: Random, kind: str) -> str:
    """An expression that Spark takes as a column; a drawn one may be of no type, or of two."""
    table = spark.createDataFrame([], MANY_TYPES)
    while True:
        sql = drawn(draw, kind, draw.randrange(1, 4))
        try:
            (type_,) = (one.dataType for one in table.selectExpr(sql).schema)
        except AnalysisException:
            continue
        if not isinstance(type_, NullType):
            return sql


def draw_silver(spark: Any, draw: Random, number: int) -> Silver:
    """A declaration; it may be one of which the script compares little."""
    columns = {f"c{place}": draw_sql(spark, draw, draw.choice([*FORMS])) for place in range(COLUMNS)}
    keys = [["id"], ["id"], ["id", "other"], ["k2"], ["id", "seen"]]
    dedupe = draw.choice(("exact", "exact", "within_watermark", "event_time"))
    strict = draw.choice((True, True, True, False))
    more: dict[str, Any] = {
        "where": draw.choice((None, draw_sql(spark, draw, "bool"))),
        "rules": [Rule("odd", "id <> 'k3'", on_fail=draw.choice(("warn", "drop", "quarantine")))],
        "tombstones": draw.choice(("count", "count", "keep")),
        "unknown_fields": draw.choice(("ignore", "rescue")) if strict else "ignore",
        "late": draw.choice(("merge", "keep")),
        "keep": draw.choice(("first", "newest")) if dedupe == "exact" else "first",
    }
    return Silver(
        f"t{number}",
        reads="bronze.orders",
        value=Json(MANY_TYPES, strict=strict),
        columns={
            "id": "id",
            "other": "other",
            "k2": "concat(id, '-', coalesce(s, ''))",
            "seen": "coalesce(at, _kafka.timestamp)",
            **columns,
        },
        key=draw.choice(keys),
        event_time="seen",
        watermark="1 hour",
        dedupe=dedupe,
        **more,
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", in_turn([*range(1, 7)], 6))
def test_a_healthy_table_of_any_declaration_is_equal_or_not_compared(
    spark: Any, tmp_path: Path, seed: int
) -> None:
    draw = Random(f"declarations {SEED} {seed}")  # noqa: S311  # as above
    silvers = [draw_silver(spark, draw, number) for number in range(4)]
    pipeline = Pipeline(name="shop", bronze=[Topic("orders", topics=["t"])], silver=silvers)
    engine, ends = Engine(spark, pipeline, settings_of(tmp_path)), {0: 0}
    for number in range(2):
        append_batch(engine, number, {0: draw_records(draw, 150)}, ends)
        engine.run("silver")
    found = checks(pipeline, engine.layout)
    assert different(found) == {}
    for number, silver in enumerate(silvers):
        assert engine.faults(number) == ()
        said = [one.check for one in found if one.about == silver.table]
        compared = [name for one in said if one.startswith("values of silver: ") for name in one.split(", ")]
        is_read = isinstance(silver.value, Json) and silver.value.strict
        assert len(compared) >= COLUMNS / 2 if is_read else not compared
