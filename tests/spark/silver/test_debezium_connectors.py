"""Change events as each connector encodes them: the page's conversions give what was in the table.

Rows are drawn, encoded as Debezium's documentation says, and read twice: by silver with the conversions and
the order of docs/author/debezium.md, and by DuckDB with conversions of its own.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from bronze.table import SCHEMA
from common.declare import Debezium, Json, Silver
from silver.query import rows as judged
from silver.read.column_names import META
from silver.read.declared_columns import parse_values
from silver.write.table_columns import accepted_frame
from tests.support.oracles.other_readers import same

pytestmark = pytest.mark.long

PAGE = (Path(__file__).parents[3] / "docs" / "author" / "debezium.md").read_text(encoding="utf-8")
CHANCE = random.Random(31)  # noqa: S311  # a repeatable one
EPOCH, DAY_0 = datetime(1970, 1, 1), date(1970, 1, 1)  # clock readings have no zone
DAY = datetime(2026, 3, 1, tzinfo=UTC)
ROWS = 300
WIDE = Context(prec=60)


def moment() -> datetime:
    return EPOCH + timedelta(
        seconds=CHANCE.randrange(-(9 * 10**9), 9 * 10**9), microseconds=CHANCE.randrange(10**6)
    )


def to_milli() -> datetime:
    at = moment()
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def micros(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def amount() -> Decimal:
    return Decimal(CHANCE.randrange(-(10**12) + 1, 10**12)).scaleb(-2)


def unscaled(value: Decimal) -> bytes:
    whole = int(value.scaleb(2, WIDE))
    return whole.to_bytes(whole.bit_length() // 8 + 1, "big", signed=True)


def text() -> str:
    return "".join(CHANCE.choice('a"\\\n\u00e9\u20ac\U0001f600') for _ in range(CHANCE.randrange(6)))


def base64_of(value: bytes) -> str:
    return base64.b64encode(value).decode()


def offset_text(at: datetime) -> str:
    """An instant, as an offset's clock shows it."""
    hours = CHANCE.choice([0, 2, -8])
    shown = at + timedelta(hours=hours)
    return shown.isoformat() + ("Z" if not hours else f"{hours:+03d}:00")


@dataclass(frozen=True)
class Kind:
    """A column: what the table has, how an event has it, and the conversions of the page and of DuckDB."""

    draw: Callable[[], Any]
    encode: Callable[[Any], Any]
    declared: str
    page: str = "{}"
    duck_type: str = "VARCHAR"
    duck: str = "{}"


KINDS: dict[str, Kind] = {
    "amount": Kind(amount, str, "decimal(12,2)", duck_type="VARCHAR", duck="cast({} AS DECIMAL(12,2))"),
    "precise": Kind(
        lambda: unscaled(amount()), base64_of, "binary", duck_type="VARCHAR", duck="from_base64({})"
    ),
    "day": Kind(
        lambda: moment().date(),
        lambda day: (day - DAY_0).days,
        "int",
        "date_add(date'1970-01-01', {})",
        "INTEGER",
        "DATE '1970-01-01' + {}",
    ),
    "ms": Kind(
        to_milli,
        lambda at: micros(at) // 1000,
        "bigint",
        "timestamp_millis({})",
        "BIGINT",
        "make_timestamp({} * 1000)",
    ),
    "us": Kind(moment, micros, "bigint", "timestamp_micros({})", "BIGINT", "make_timestamp({})"),
    "ns": Kind(
        moment,
        lambda at: micros(at) * 1000,
        "bigint",
        "timestamp_micros({} div 1000)",
        "BIGINT",
        "make_timestamp({} // 1000)",
    ),
    "at": Kind(moment, offset_text, "timestamp", "{}", "TIMESTAMPTZ"),
    "clock": Kind(lambda: CHANCE.randrange(86_400_000_000), int, "bigint", "{}", "BIGINT"),
    "raw": Kind(lambda: CHANCE.randbytes(CHANCE.randrange(5)), base64_of, "binary", duck="from_base64({})"),
    "doc": Kind(lambda: json.dumps({"a": text()}), str, "string"),
    "flag": Kind(lambda: CHANCE.random() < 0.5, bool, "boolean", "{}", "BOOLEAN"),
    "ratio": Kind(lambda: CHANCE.gauss(0, 1e9), float, "double", "{}", "DOUBLE"),
}


@dataclass(frozen=True)
class Connector:
    """Its kinds of columns, what the n-th change's ``source`` has, and the page's order."""

    kinds: tuple[str, ...]
    source: Callable[[int], dict[str, Any]]
    order: tuple[str, ...]


def lsn(n: int) -> str:
    return f"{n >> 4:08x}:{n:08x}:0003"


CONNECTORS = {
    "postgresql": Connector(
        ("amount", "precise", "day", "ms", "us", "at", "clock", "raw", "doc", "flag", "ratio"),
        lambda n: {"lsn": 24_000_000 + 90 * n, "txId": n // 3, "sequence": f'["{n}","{n}"]'},
        ("source.lsn",),
    ),
    "mysql": Connector(
        ("amount", "precise", "day", "ms", "us", "at", "clock", "raw", "doc", "ratio"),
        lambda n: {
            "file": f"binlog.{999_996 + n // 40:06d}",
            "pos": 4 + n % 40 // 4 * 900,
            "row": n % 4,
            "gtid": None,
        },
        ("try_cast(substring_index(source.file, '.', -1) as bigint)", "source.pos", "source.row"),
    ),
    "oracle": Connector(
        ("amount", "precise", "ms", "us", "ns", "at", "raw", "doc", "ratio"),
        lambda n: {"scn": str(3 * n), "commit_scn": str(5 + n // 4 * 12)},
        ("try_cast(source.commit_scn as decimal(38,0))", "try_cast(source.scn as decimal(38,0))"),
    ),
    "sqlserver": Connector(
        ("amount", "precise", "day", "ms", "ns", "at", "raw", "doc", "flag", "ratio"),
        lambda n: {"commit_lsn": lsn(n // 9), "change_lsn": lsn(n // 2), "event_serial_no": n % 2 + 1},
        ("source.commit_lsn", "source.change_lsn", "source.event_serial_no"),
    ),
}


def event(name: str, connector: Connector, n: int, row: dict[str, Any]) -> bytes:
    """The n-th change, with or without the embedded schema."""
    encoded = {key: None if each is None else KINDS[key].encode(each) for key, each in row.items()}
    is_delete = n % 5 == 4
    envelope = {
        "before": encoded if is_delete else None,
        "after": None if is_delete else encoded,
        "op": "d" if is_delete else "crud"[n % 3],
        "ts_ms": 1_700_000_000_000 + n,
        "source": {"connector": name, "db": "d", "table": "t", "ts_ms": n} | connector.source(n),
        "transaction": {"id": f"{n // 4}", "total_order": n % 4 + 1, "data_collection_order": 1},
    }
    return json.dumps(envelope if n % 2 else {"schema": {"type": "struct"}, "payload": envelope}).encode()


def by_duckdb(kinds: tuple[str, ...], events: list[bytes]) -> list[tuple[Any, ...]]:
    """The rows, by DuckDB's reader of JSON."""
    structure = json.dumps({name: KINDS[name].duck_type for name in kinds})
    shown = ", ".join(f'{KINDS[name].duck.format(f"r.{name}")} AS "{name}"' for name in kinds)
    with duckdb.connect() as duck:
        duck.execute("SET timezone = 'UTC'")
        duck.register("sent", pa.table({"n": range(len(events)), "v": [each.decode() for each in events]}))
        query = (
            f"WITH e AS (SELECT n, coalesce(v->'payload', v::JSON) AS e FROM sent), "
            "s AS (SELECT n, CASE WHEN e->>'op' = 'd' THEN e->'before' ELSE e->'after' END AS s FROM e), "
            f"r AS (SELECT n, from_json(s, ?) AS r FROM s) SELECT {shown} FROM r ORDER BY n"
        )
        found = duck.execute(query, [structure]).fetchall()
    return [tuple(plain(value) for value in row) for row in found]


def plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize("name", CONNECTORS)
def test_each_encoding_is_what_was_in_the_table(spark: Any, name: str) -> None:
    connector = CONNECTORS[name]
    rows = [
        {kind: None if CHANCE.random() < 0.1 else KINDS[kind].draw() for kind in connector.kinds}
        for _ in range(ROWS)
    ]
    events = [event(name, connector, n, row) for n, row in enumerate(rows)]
    frame = parse_values(
        spark.createDataFrame(
            [("t", 0, n, None, 0, None, None, each, None) for n, each in enumerate(events)], SCHEMA
        ),
        Debezium(", ".join(f"{kind} {KINDS[kind].declared}" for kind in connector.kinds), decimals="text"),
    )
    columns = []
    for kind in connector.kinds:
        column = F.expr(KINDS[kind].page.format(f"coalesce(after.{kind}, before.{kind})"))
        columns.append(
            (column.cast("timestamp_ntz") if kind in {"ms", "us", "ns", "at"} else column).alias(kind)
        )
    order = [F.expr(each).alias(f"o{place}") for place, each in enumerate(connector.order)]
    told = (
        frame.orderBy(f"{META}.offset")
        .select(f"{META}.fault", "op", "transaction", *columns, *order)
        .collect()
    )
    assert {row["fault"] for row in told} == {None}
    assert [row["transaction"]["total_order"] for row in told] == [n % 4 + 1 for n in range(ROWS)]
    ours = [tuple(plain(row[kind]) for kind in connector.kinds) for row in told]
    for found in (ours, by_duckdb(connector.kinds, events)):
        for row, values in zip(rows, found, strict=True):
            for kind, value in zip(connector.kinds, values, strict=True):
                assert same(value, row[kind]), (kind, value, row[kind])
    keys = [tuple(row[f"o{place}"] for place in range(len(order))) for row in told]
    assert keys == sorted(keys)
    assert len(set(keys)) == ROWS
    for each in connector.order:
        assert f"`{each}`" in PAGE


def test_the_pages_conversions_are_those_that_are_tested() -> None:
    for kind in ("day", "ms", "us", "ns"):
        assert KINDS[kind].page.format("after.v") in PAGE


def types_of_the_page() -> list[list[list[str]]]:
    """Of each row of the page's table, the pieces of code in each cell."""
    table = PAGE[PAGE.index("## Values") : PAGE.index("## In Avro")]
    lines = [line for line in table.splitlines() if line.startswith("| ") and "`" in line]
    return [[re.findall("`(.*?)`", cell) for cell in line.strip("| ").split(" | ")] for line in lines]


@pytest.mark.parametrize("decimals", ["text", "base64"])
def test_each_type_of_the_page_gives_what_the_page_says(
    spark: Any, decimals: Literal["text", "base64"]
) -> None:
    """The values are those of a real connector, as far as PostgreSQL has the type."""
    is_text = decimals == "text"
    rows = [row for row in types_of_the_page() if is_text != ('decimals="base64"' in row[0])]
    assert len(rows) == (32 if is_text else 1)
    events = []
    for turn in range(max(len(row[1]) for row in rows)):
        sent = [f'"f{n}": {row[1][turn]}' for n, row in enumerate(rows) if turn < len(row[1])]
        events.append(f'{{"op": "c", "after": {{{", ".join(sent)}}}}}'.encode())
    bronze = [("t", 0, n, None, 0, DAY, None, each, None) for n, each in enumerate(events)]
    texts = {f"f{n}": row[3][0].replace("after.v", f"after.f{n}") for n, row in enumerate(rows)}
    silver = Silver(
        "types",
        reads="bronze.types",
        value=Debezium(", ".join(f"f{n} {row[2][0]}" for n, row in enumerate(rows)), decimals=decimals),
        columns={"n": "_kafka.offset", "at": "timestamp_millis(0)"}
        | {name: f"cast({sql} as string)" for name, sql in texts.items()},
        key=["n"],
        event_time="at",
        watermark="1 day",
        dedupe="exact",
    )
    found = accepted_frame(judged([spark.createDataFrame(bronze, SCHEMA)], silver)).orderBy("n").collect()
    assert len(found) == len(events)
    for n, row in enumerate(rows):
        assert len(row[1]) == len(row[4]), row
        given = ["null" if one[f"f{n}"] is None else one[f"f{n}"] for one in found[: len(row[4])]]
        assert given == row[4], row


def test_a_decimal_in_base64_has_the_value_of_the_table(spark: Any) -> None:
    """Both signs, each length up to sixteen bytes, with the declared scale and with one of its own."""
    edges = [sign * 2**bits + step for bits in range(127) for sign in (-1, 1) for step in (-1, 0, 1)]
    values = [amount() for _ in range(ROWS)] + [Decimal(each).scaleb(-2, WIDE) for each in edges]
    values = [each for each in values if abs(each) < Decimal("1E36")]
    rows = []
    for n, value in enumerate(values):
        written: Any = base64_of(unscaled(value))
        document = json.dumps({"n": n, "price": {"scale": 2, "value": written} if n % 2 else written})
        rows.append(("t", 0, n, None, 0, None, None, document.encode(), None))
    frame = parse_values(
        spark.createDataFrame(rows, SCHEMA), Json("n int, price decimal(38,2)", decimals="base64")
    )
    assert [row["price"] for row in frame.orderBy("n").collect()] == values
