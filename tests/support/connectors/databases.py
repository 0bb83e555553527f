"""Two databases that connectors follow: their tables, how these are declared, and what was sent of them.

``SENT`` has messages of a real Debezium, of each phase and type: those of a few keys. ``make connectors``
writes it, where ``WRITE_MESSAGES=1`` is set.
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from common.declare import ChangeFeed, Debezium, History, Pipeline, Silver, Topic

PAGE = (Path(__file__).parents[3] / "docs" / "author" / "debezium.md").read_text(encoding="utf-8")
SENT = Path(__file__).parent / "sent.jsonl.xz"


@dataclass(frozen=True)
class Kind:
    """A column: its type in each database, how it is declared, and the SQL that shows it as text.

    Attributes:
        of: The type by database, or one for both.
        shown: The SQL by database, where it is not that of other columns.
    """

    of: Mapping[str, str] | str
    declared: str
    silver: str = "{}"
    shown: Mapping[str, str] = field(default_factory=dict)

    def of_in(self, database: str) -> str:
        return self.of if isinstance(self.of, str) else self.of[database]

    def declared_for(self, database: str) -> str:
        """MariaDB has no arrays: there it is a text of JSON."""
        return "string" if database == "my" and self.declared.startswith("array") else self.declared

    def shown_by(self, database: str, name: str) -> str:
        return self.shown.get(database, DATABASES[database].shown).format(name)


NUMBER = Kind("bigint", "bigint")
TEXT = Kind({"pg": "text", "my": "longtext"}, "string")
FLAG = Kind(
    {"pg": "boolean default false", "my": "bit(1) default b'0'"},
    "boolean",
    shown={"pg": "{}::int::text", "my": "cast({}+0 as char)"},
)
MONEY = Kind({"pg": "numeric(20,2)", "my": "decimal(20,2)"}, "decimal(20,2)")
STAMP = Kind(
    {"pg": "timestamp(6)", "my": "datetime(6)"},
    "bigint",
    "timestamp_micros({})",
    {"pg": "to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')", "my": "date_format({}, '%Y-%m-%d %H:%i:%s.%f')"},
)
DAY = Kind("date", "int", "date_add(date'1970-01-01', {})")
NUMBERS = Kind({"pg": "int[]", "my": "longtext"}, "array<int>", shown={"pg": "array_to_json({})::text"})
TABLES: dict[str, tuple[list[str], dict[str, Kind]]] = {
    "customers": (
        ["id"],
        {"id": NUMBER, "name": TEXT, "vip": FLAG, "credit": MONEY, "changed_at": STAMP, "born": DAY},
    ),
    "items": (["order_id", "line_no"], {"order_id": NUMBER, "line_no": NUMBER, "sku": TEXT}),
    "docs": (["id"], {"id": NUMBER, "title": TEXT, "body": TEXT, "numbers": NUMBERS}),
    "papers": (["id"], {"id": NUMBER, "title": TEXT, "body": TEXT}),
    "events": (["id"], {"id": NUMBER, "v": TEXT}),
}
ADDED = {"customers": {"phone": TEXT}}
KEPT: Mapping[str, Sequence[tuple[int, ...]]] = {
    "customers": [(0,), (1,), (2,), (7,), (11,), (15,), (21,), (40,), (900,)],
    "items": [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (100, 0), (4, 0), (5, 0), (5, 10), (5, 1)],
    "docs": [(2,), (3,), (70,)],
    "papers": [(3,), (77,), (78,)],
    "events": [(0,), (3,), (50,), (51,), (52,)],
    "types": [(number,) for number in (0, 1, 2, 10, 11, 12)],
}
"""The keys whose messages are kept."""
TRUNCATES = "op = 't' or op = 'r' and snapshot in ('last', 'last_in_data_collection')"


@dataclass(frozen=True)
class Typed:
    """A column of a type of the page: its declaration there, and values of it with what gold has to have.

    Attributes:
        kind: The type's first name on the page.
        of: The type in the database.
        values: Values as SQL, with what the page says that they give.
    """

    kind: str
    of: str
    values: Mapping[str, str]
    place: int = 0

    @property
    def row(self) -> list[list[str]]:
        """The pieces of code in each cell of the page's line."""
        table = PAGE[PAGE.index("## Values") : PAGE.index("## In Avro")]
        lines = [
            line for line in table.splitlines() if line.startswith((f"| `{self.kind}`", f"| {self.kind}"))
        ]
        return [re.findall("`(.*?)`", cell) for cell in lines[self.place].strip("| ").split(" | ")]


POSTGRES_TYPES = [
    Typed("boolean", "boolean", {"true": "true"}),
    Typed("smallint", "smallint", {"-32768": "-32768"}),
    Typed("integer", "int", {"2147483647": "2147483647"}),
    Typed("bigint", "bigint", {"-9223372036854775808": "-9223372036854775808"}),
    Typed("real", "real", {"1.1": "1.1", "'NaN'": "NaN", "'-Infinity'": "-Infinity"}),
    Typed("double precision", "double precision", {"5e-324": "4.9E-324", "'Infinity'": "Infinity"}),
    Typed("numeric(12,2)", "numeric(12,2)", {"-0.01": "-0.01"}),
    Typed("numeric", "numeric", {"12345678901234567.89": "12345678901234567.8900000000", "'NaN'": "null"}),
    Typed("money", "money", {"1234.56": "1234.56", "0": "0.00"}),
    Typed("date", "date", {"'2026-03-29'": "2026-03-29", "'infinity'": "null", "'-infinity'": "null"}),
    Typed("timestamp(0)", "timestamp(3)", {"'2026-03-29 02:30:00.123'": "2026-03-29 02:30:00.123"}),
    Typed(
        "timestamp",
        "timestamp",
        {"'2026-03-29 02:30:00.123456'": "2026-03-29 02:30:00.123456", "'infinity'": "null"},
    ),
    Typed("timestamptz", "timestamptz", {"'2026-07-01 12:00:00.000001+05:30'": "2026-07-01 06:30:00.000001"}),
    Typed(
        "timestamptz",
        "timestamptz",
        {
            "'infinity'": "null",
            "'0044-03-13 12:00:00+00 BC'": "null",
            "'2026-03-29 02:30:00.123456+02'": "2026-03-29 00:30:00.123456",
        },
        place=1,
    ),
    Typed("time(0)", "time(0)", {"'13:14:15'": "47655000000", "'23:59:59'": "86399000000"}),
    Typed("time", "time", {"'13:14:15.123456'": "47655123456", "'24:00:00'": "86400000000"}),
    Typed("timetz", "timetz", {"'14:00:00+02'": "12:00:00Z"}),
    Typed("interval", "interval", {"'1 mon'": "2629800000000"}),
    Typed("uuid", "inet", {"'192.168.0.1/24'": "192.168.0.1/24"}),
    Typed("uuid", "int4range", {"'[1,5)'": "[1,5)"}),
    Typed("uuid", "uuid", {"'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}),
    Typed("char(5)", "char(5)", {"'ab'": "ab"}),
    Typed("json", "jsonb", {"""'{"a": [1, 2.50, null]}'""": '{"a": [1, 2.50, null]}', "'null'": "null"}),
    Typed("hstore", "hstore", {"'a=>1,b=>NULL'": "1"}),
    Typed("bytea", "bytea", {"'\\xdeadbeef00'": "DEADBEEF00"}),
    Typed("bit(8)", "bit(8)", {"B'10110001'": "177", "B'00000000'": "0"}),
    Typed("arrays, as", "numeric(10,2)[]", {"'{1.25,2.5}'": "[1.25, 2.50]", "'{}'": "[]"}),
    Typed("arrays of `timestamptz`", "timestamptz[]", {"'{2026-01-01T00:00:00Z}'": "[2026-01-01 00:00:00]"}),
    Typed("point", "point", {"'(1.5,-2)'": "1.5"}),
]
MARIADB_TYPES = [
    Typed("boolean", "bit(1)", {"b'1'": "true"}),
    Typed("smallint", "smallint", {"-32768": "-32768"}),
    Typed("smallint", "year", {"2026": "2026"}),
    Typed("smallint", "tinyint", {"-128": "-128"}),
    Typed("integer", "int", {"2147483647": "2147483647"}),
    Typed("integer", "mediumint", {"-8388608": "-8388608"}),
    Typed("integer", "boolean", {"true": "1"}),
    Typed("bigint", "bigint", {"-9223372036854775808": "-9223372036854775808"}),
    Typed("bigint", "int unsigned", {"4000000000": "4000000000"}),
    Typed("bigint unsigned", "bigint unsigned", {"18446744073709551615": "18446744073709551615"}),
    Typed("real", "float", {"1.1": "1.1"}),
    Typed("double precision", "double", {"2.5e-300": "2.5E-300"}),
    Typed("numeric(12,2)", "decimal(12,2)", {"-0.01": "-0.01"}),
    Typed("date", "date", {"'2026-03-29'": "2026-03-29"}),
    Typed("timestamp(0)", "datetime(3)", {"'2026-03-29 02:30:00.123'": "2026-03-29 02:30:00.123"}),
    Typed("timestamp(0)", "datetime", {"'2026-03-29 02:30:01'": "2026-03-29 02:30:01"}),
    Typed("timestamp", "datetime(6)", {"'2026-03-29 02:30:00.123456'": "2026-03-29 02:30:00.123456"}),
    Typed("timestamptz", "timestamp(6) null", {"'2026-07-01 06:30:00.000001'": "2026-07-01 06:30:00.000001"}),
    Typed("time", "time(6)", {"'13:14:15.123456'": "47655123456"}),
    Typed("time", "time", {"'13:14:15'": "47655000000"}),
    Typed("uuid", "set('a','b','c')", {"'a,b'": "a,b"}),
    Typed("uuid", "enum('a','b')", {"'b'": "b"}),
    Typed("uuid", "uuid", {"'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}),
    Typed("json", "json", {"""'{"a": [1, 2.50, null]}'""": '{"a": [1, 2.50, null]}', "'null'": "null"}),
    Typed("bytea", "varbinary(9)", {"x'deadbeef00'": "DEADBEEF00"}),
    Typed("bytea", "blob", {"x'deadbeef00'": "DEADBEEF00"}),
    Typed("bit(8)", "bit(8)", {"b'10110001'": "177", "b'00000000'": "0"}),
    Typed("point", "point", {"ST_PointFromText('POINT(1.5 -2)')": "1.5"}),
]


@dataclass(frozen=True)
class Database:
    """What differs between the two.

    Attributes:
        schema: The part of a topic's name between prefix and table.
        order: The columns of silver that order changes.
        types: The types of the page, each a column of a table of its own.
        shown: A value as its text.
        row: The function that makes a text of JSON of a row.
        array: An array of numbers, of its elements with commas.
        begins: What is run before tables are made.
        connector: Settings that its connector alone has.
    """

    schema: str
    order: Mapping[str, str]
    types: Sequence[Typed]
    shown: str
    row: str
    array: str
    begins: Sequence[str]
    connector: Mapping[str, str]


DATABASES = {
    "pg": Database(
        "public",
        {"lsn": "coalesce(source.lsn, try_cast(get_json_object(source.sequence, '$[1]') as bigint))"},
        POSTGRES_TYPES,
        "{}::text",
        "json_build_array",
        "{{{}}}",
        ("CREATE EXTENSION hstore",),
        {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.dbname": "shop",
            "plugin.name": "pgoutput",
            "schema.include.list": "public",
        },
    ),
    "my": Database(
        "shop",
        {
            "file_number": "try_cast(substring_index(source.file, '.', -1) as bigint)",
            "pos": "source.pos",
            "row_in_event": "source.row",
        },
        MARIADB_TYPES,
        "cast({} as char)",
        "json_array",
        "[{}]",
        (),
        {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.server.id": "5401",
            "database.include.list": "shop",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": "history",
        },
    ),
}


def columns_of(table: str, *, is_altered: bool) -> dict[str, Kind]:
    return TABLES[table][1] | (ADDED.get(table, {}) if is_altered else {})


def typed_columns(database: str) -> dict[str, Kind]:
    """The columns of the table with one of each type, as the page declares them."""
    found = {"id": NUMBER}
    for n, typed in enumerate(DATABASES[database].types):
        (declared, *_), (sql, *_) = typed.row[2:4]
        found[f"f{n}"] = Kind(typed.of, declared, f"cast({sql.replace('after.v', f'after.f{n}')} as string)")
    return found


def pipeline(tables: Collection[str] = (*TABLES, "types"), *, is_altered: bool) -> Pipeline:
    found = [copied(*one, is_altered=is_altered) for one in followed(tables)]
    return Pipeline(
        name="shops",
        bronze=[topic for topic, *_ in found],
        silver=[silver for _, silver, *_ in found],
        gold=[gold for *_, golds in found for gold in golds],
    )


def followed(tables: Collection[str] = TABLES) -> list[tuple[str, str]]:
    """Each database with each of these tables."""
    return [(database, table) for database in DATABASES for table in tables]


def copied(
    database: str, table: str, *, is_altered: bool
) -> tuple[Topic, Silver, list[ChangeFeed | History]]:
    """The tables of a table of a database, as the page has them; of one with types no history."""
    name, order = f"{database}_{table}", DATABASES[database].order
    key, columns = ["id"], typed_columns(database)
    if table in TABLES:
        key, columns = TABLES[table][0], columns_of(table, is_altered=is_altered)
    changed = ", ".join(f"cast(coalesce(after.{each}, before.{each}) as string)" for each in key)
    silver = Silver(
        name,
        reads=f"bronze.{name}",
        value=Debezium(
            ", ".join(f"{each} {kind.declared_for(database)}" for each, kind in columns.items()),
            decimals="text",
        ),
        columns={
            each: kind.silver.replace("{}", f"if(op = 'd', before.{each}, after.{each})")
            for each, kind in columns.items()
        }
        | {"changed": f"coalesce(concat_ws('/', {changed}), '')", "op": "op", "snapshot": "source.snapshot"}
        | order
        | {"at": "timestamp_millis(source.ts_ms)"},
        key=["changed", *order],
        event_time="at",
        watermark="1 day",
    )
    common: dict[str, Any] = {
        "reads": f"silver.{name}",
        "key": key,
        "sequence_by": [*order],
        "truncates": TRUNCATES,
    }
    golds: list[ChangeFeed | History] = [ChangeFeed(name, **common)]  # it gets the columns that silver gets
    if table in TABLES:
        values = [each for each in TABLES[table][1] if each not in key]
        in_time = History(f"{name}_in_time", valid_by="at", columns=values, delete_when="op = 'd'", **common)
        golds.append(in_time)
    return Topic(name, topics=[topic_of(database, table)]), silver, golds


def topic_of(database: str, table: str) -> str:
    return f"{database}.{DATABASES[database].schema}.{table}"


def text(value: Any) -> str | None:
    """A value of gold as the databases show it."""
    match value:
        case None:
            return None
        case bool():
            return str(int(value))
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S.%f")
        case list():
            return json.dumps(value, separators=(",", ":"))
        case _:
            return str(value)


def not_of_the_page(database: str, rows: Mapping[int, Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Values of types, from the snapshot and from the log, that the page's declaration does not give."""
    wrong: list[tuple[Any, ...]] = []
    for n, typed in enumerate(DATABASES[database].types):
        for first in (0, 10):
            values = [rows[first + turn][f"f{n}"] for turn in range(3)]
            wanted = [*typed.values.values(), "null", "null", "null"][:3]
            found = ["null" if each is None else each for each in values]
            if found != wanted:
                wrong.append((database, typed.of, "log" if first else "snapshot", found, wanted))
    return wrong


@dataclass(frozen=True)
class Phase:
    """What connectors sent in a phase of the databases' story, and what the databases had at its end.

    Attributes:
        name: What happened.
        messages: By topic, the key and the value of each message, in order.
        rows: By database and table, as ``pg.items``, the rows: each value as its text, by its column.
    """

    name: str
    messages: Mapping[str, Sequence[tuple[str | None, str | None]]]
    rows: dict[str, Sequence[Mapping[str, str | None]]]


def read_sent() -> list[Phase]:
    """The phases, in order."""
    with lzma.open(SENT, "rt", encoding="utf-8") as file:
        return [Phase(**json.loads(line)) for line in file]


def write_sent(phases: Sequence[Phase]) -> None:
    """Keep the messages and rows of some keys: ``KEPT``, and those of rows that end a snapshot."""
    kept = {topic_of(database, table): {*keys} for database in DATABASES for table, keys in KEPT.items()}
    for phase in phases:
        for topic, messages in phase.messages.items():
            kept[topic] |= {_key(key) for key, value in messages if '"snapshot":"last' in (value or "")}
    lines = []
    for phase in phases:
        messages = {
            topic: [one for one in sent if not one[0] or _key(one[0]) in kept[topic]]
            for topic, sent in phase.messages.items()
        }
        rows = {
            name: list(_of(kept[topic_of(*name.split("."))], TABLES[name.split(".")[1]][0], found))
            for name, found in phase.rows.items()
        }
        lines.append(json.dumps(asdict(Phase(phase.name, messages, rows)), ensure_ascii=False) + "\n")
    SENT.write_bytes(lzma.compress("".join(lines).encode()))


def _key(key: str | None) -> tuple[int, ...]:
    return tuple(json.loads(key or "{}").values())


def _of(
    kept: Iterable[tuple[int, ...]], key: Sequence[str], rows: Iterable[Mapping[str, str | None]]
) -> Iterator[Mapping[str, str | None]]:
    """The rows with these keys."""
    wanted = {tuple(map(str, each)) for each in kept}
    return (row for row in rows if tuple(row[name] for name in key) in wanted)
