"""A real PostgreSQL and a real MariaDB, followed by Debezium's connectors: gold is what the databases are.

Both databases live the same story: a snapshot, changes, keys that move, large values that an update leaves
alone, truncations, an added column, a connector that is killed, one that has lost its offsets and takes a new
snapshot. ``make connectors`` installs what the machine lacks, and runs this file.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from common.declare import ChangeFeed, Debezium, History, Pipeline, Silver, Topic
from orchestration.records.reconcile.reconcile import Wanted, reconcile
from tests.conftest import make_settings
from tests.support.connectors.kafka_connect import Connect
from tests.support.connectors.mariadb import MariaDb, mariadb
from tests.support.engine import Engine
from tests.support.servers.postgres import PASSWORD, Postgres, postgres

pytestmark = [
    pytest.mark.long,
    # Two servers and a worker of Connect, beside broker and Spark: too much for a shard with three workers.
    pytest.mark.skipif("CONNECTORS" not in os.environ, reason="run by: make connectors"),
]
pytest.importorskip("duckdb_extension_postgres_scanner", reason="the extra reconcile is not installed")

PAGE = (Path(__file__).parents[3] / "docs" / "author" / "debezium.md").read_text(encoding="utf-8")
DRAW = random.Random(17)  # noqa: S311  # no secret
ARRIVAL_SECONDS = 120


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


def pipeline(*, is_altered: bool) -> Pipeline:
    found = [feed(database, table, is_altered=is_altered) for database in DATABASES for table in TABLES]
    types = [types_feed(database) for database in DATABASES]
    return Pipeline(
        name="shops",
        bronze=[topic for topic, *_ in (*found, *types)],
        silver=[silver for _, silver, *_ in (*found, *types)],
        gold=[gold for *_, golds in (*found, *types) for gold in golds],
    )


def feed(database: str, table: str, *, is_altered: bool) -> tuple[Topic, Silver, list[ChangeFeed | History]]:
    """The tables of a table of a database, as the page has them."""
    key, name = TABLES[table][0], f"{database}_{table}"
    columns = columns_of(table, is_altered=is_altered)
    changed = ", ".join(f"cast(coalesce(after.{each}, before.{each}) as string)" for each in key)
    silver = Silver(
        name,
        reads=f"bronze.{name}",
        value=Debezium(
            ", ".join(f"{each} {kind.declared_for(database)}" for each, kind in columns.items()),
            decimals="text",
        ),
        columns={
            each: kind.silver.format(f"if(op = 'd', before.{each}, after.{each})")
            for each, kind in columns.items()
        }
        | {"changed": f"coalesce(concat_ws('/', {changed}), '')", "op": "op", "snapshot": "source.snapshot"}
        | DATABASES[database].order
        | {"at": "timestamp_millis(source.ts_ms)"},
        key=["changed", *DATABASES[database].order],
        event_time="at",
        watermark="1 day",
    )
    common: dict[str, Any] = {
        "reads": f"silver.{name}",
        "key": key,
        "sequence_by": [*DATABASES[database].order],
        "truncates": TRUNCATES,
    }
    feed = ChangeFeed(name, **common)  # with all columns, it gets those that silver gets later
    values = [each for each in TABLES[table][1] if each not in key]
    in_time = History(f"{name}_in_time", valid_by="at", columns=values, delete_when="op = 'd'", **common)
    return Topic(name, topics=[topic_of(database, table)]), silver, [feed, in_time]


def types_feed(database: str) -> tuple[Topic, Silver, list[ChangeFeed]]:
    """The table with a column of each type, each as the page declares it."""
    rows = {f"f{n}": typed.row for n, typed in enumerate(DATABASES[database].types)}
    name = f"{database}_types"
    silver = Silver(
        name,
        reads=f"bronze.{name}",
        value=Debezium(
            ", ".join(["id bigint", *(f"{each} {row[2][0]}" for each, row in rows.items())]), decimals="text"
        ),
        columns={"id": "coalesce(after.id, before.id)"}
        | {
            each: f"cast({row[3][0].replace('after.v', f'after.{each}')} as string)"
            for each, row in rows.items()
        }
        | DATABASES[database].order
        | {"at": "timestamp_millis(source.ts_ms)", "op": "op"},
        key=["id", *DATABASES[database].order],
        event_time="at",
        watermark="1 day",
    )
    feed = ChangeFeed(name, reads=f"silver.{name}", key=["id"], sequence_by=[*DATABASES[database].order])
    return Topic(name, topics=[topic_of(database, "types")]), silver, [feed]


def topic_of(database: str, table: str) -> str:
    return f"{database}.{DATABASES[database].schema}.{table}"


@dataclass
class Shops:
    """Both databases, the worker that follows them, and how far its messages are known to be in Kafka."""

    servers: Mapping[str, Postgres | MariaDb]
    connect: Connect
    marks: int = 0

    def run(self, *statements: str) -> None:
        """The same statements in both."""
        for database in self.servers:
            self.run_in(database, *statements)

    def run_in(self, database: str, *statements: str) -> None:
        for at in range(0, len(statements), 50):
            self.servers[database].run("".join(f"{each};\n" for each in statements[at : at + 50]))

    def create(self) -> None:
        """The tables, and rows in them."""
        for name, database in DATABASES.items():
            fields = "".join(f", f{n} {typed.of}" for n, typed in enumerate(database.types))
            self.run_in(
                name,
                *database.begins,
                *(created(name, table) for table in TABLES),
                "CREATE TABLE marks (id bigint PRIMARY KEY)",
                f"CREATE TABLE types (id bigint PRIMARY KEY{fields})",
                *typed_rows(name, 0),
                *(document(name, number) for number in range(5)),
            )
        self.run_in("pg", "ALTER TABLE papers REPLICA IDENTITY FULL")
        self.run(
            "INSERT INTO marks VALUES (0)",
            *(customer(number) for number in range(40)),
            *(
                f"INSERT INTO items VALUES ({order}, {line}, 'sku')"
                for order in range(8)
                for line in range(3)
            ),
            *(f"INSERT INTO events VALUES ({number}, 'e{number}')" for number in range(10)),
            *(f"INSERT INTO papers VALUES ({number}, 't{number}', '{large()}')" for number in range(5)),
        )

    def settle(self) -> None:
        """Wait until each connector has sent what its database has by now."""
        self.marks += 1
        self.run(f"INSERT INTO marks VALUES ({self.marks})")
        for database in self.servers:
            self.await_mark(database, self.marks)

    def await_mark(self, database: str, mark: int, *, begin: int = 0) -> None:
        """Wait for a mark's message, from an offset on."""
        consumer = Consumer({"bootstrap.servers": self.connect.broker, "group.id": "marks"})
        consumer.assign([TopicPartition(topic_of(database, "marks"), 0, begin)])
        deadline = time.monotonic() + ARRIVAL_SECONDS
        try:
            while time.monotonic() < deadline and not self.connect.has_failed:
                message = consumer.poll(1.0)
                value = message.value() if message is not None and message.error() is None else None
                if value is not None and (json.loads(value)["after"] or {}).get("id") == mark:
                    time.sleep(1)  # what was sent beside it to other topics has been answered, too
                    return
        finally:
            consumer.close()
        raise AssertionError(f"{database}: mark {mark} has not come:\n{self.connect.log.read_text()[-9000:]}")

    def sent(self, database: str) -> int:
        """The number of messages with marks."""
        consumer = Consumer({"bootstrap.servers": self.connect.broker, "group.id": "marks"})
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic_of(database, "marks"), 0))[1])
        finally:
            consumer.close()

    def rows(self, database: str, table: str, columns: Mapping[str, Kind]) -> list[list[str | None]]:
        """The rows of a table, each value as its text."""
        shown = ", ".join(kind.shown_by(database, name) for name, kind in columns.items())
        said = self.servers[database].run(f"SELECT {DATABASES[database].row}({shown}) FROM {table}")
        return sorted((json.loads(line) for line in said.splitlines()), key=str)


def created(database: str, table: str) -> str:
    key, columns = TABLES[table]
    fields = ", ".join(f"{name} {kind.of_in(database)}" for name, kind in columns.items())
    return f"CREATE TABLE {table} ({fields}, PRIMARY KEY ({', '.join(key)}))"


def typed_rows(database: str, first: int) -> Iterator[str]:
    """Rows in which each column has its values one after the other, then nulls."""
    values = [list(typed.values) for typed in DATABASES[database].types]
    for turn in range(3):
        given = [each[turn] if turn < len(each) else "null" for each in values]
        yield f"INSERT INTO types VALUES ({first + turn}, {', '.join(given)})"


def customer(number: int) -> str:
    born = date(1990, 1, 1 + number % 28)
    return (
        f"INSERT INTO customers (id, name, vip, credit, changed_at, born) VALUES ({number}, 'n{number}', "
        f"{'null' if number % 5 == 0 else number % 2 == 0}, {number}.25, "
        f"'2026-03-29 02:30:00.{number:06d}', '{born}')"
    )


def document(database: str, number: int) -> str:
    numbers = DATABASES[database].array.format(",".join(str(DRAW.randrange(2**31)) for _ in range(900)))
    return f"INSERT INTO docs VALUES ({number}, 't{number}', '{large()}', '{numbers}')"


def large() -> str:
    """A text that PostgreSQL keeps outside of the row."""
    return DRAW.randbytes(4000).hex()


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


class Copy:
    """Gold of both databases, by the engine."""

    def __init__(self, spark: Any, shops: Shops, folder: Path) -> None:
        self.shops, self.spark = shops, spark
        self.settings = make_settings(folder, shops.connect.broker)
        self.is_altered = False

    @property
    def engine(self) -> Engine:
        """A start, by today's declaration."""
        declared = pipeline(is_altered=self.is_altered)
        return Engine(self.spark, declared, self.settings, self.shops.connect.broker)

    def is_the_databases(self, phase: str) -> None:
        """Process what has come; then each table of gold has the rows of its database."""
        self.shops.settle()
        engine = self.engine
        engine.run()
        wrong = []
        for database in DATABASES:
            for table in TABLES:
                name, columns = f"{database}_{table}", columns_of(table, is_altered=self.is_altered)
                assert engine.rows(f"silver.{name}__quarantine") == [], (phase, name)
                now = [row for row in engine.rows(f"gold.{name}_in_time") if row["is_current"]]
                for rows, shown in ((engine.rows(f"gold.{name}"), columns), (now, TABLES[table][1])):
                    wanted = self.shops.rows(database, table, shown)
                    found = sorted(([text(row[each]) for each in shown] for row in rows), key=str)
                    if found != wanted:
                        wrong.append((name, rows is now, *differences(found, wanted)))
        assert not wrong, (phase, wrong)
        for table in TABLES:
            shops = self.shops.servers["pg"]
            assert isinstance(shops, Postgres)
            asked = Wanted(f"gold.pg_{table}", shops.url(f"public.{table}"))
            compared = reconcile(engine.pipeline, engine.layout, asked).result
            assert (compared.wrong, phase, table) == (0, phase, table)


def differences(found: list[Any], wanted: list[Any]) -> tuple[list[str], list[str]]:
    """Rows of gold that the database lacks, and the reverse; cut, as texts are large."""
    extra = [str(row)[:120] for row in found if row not in wanted]
    return extra[:5], [str(row)[:120] for row in wanted if row not in found][:5]


def connector(name: str, port: int) -> dict[str, str]:
    """A connector's settings, as the page's list has them."""
    common = {
        "tasks.max": "1",
        "topic.prefix": name,
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "shop",
        "database.password": PASSWORD,
        "decimal.handling.mode": "string",
        "skipped.operations": "none",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }
    return common | dict(DATABASES[name].connector)


@pytest.fixture
def shops(broker: str, tmp_path: Path) -> Iterator[Shops]:
    """Both databases with their tables, and a worker that has not begun."""
    parameters = ("wal_level=logical", "max_wal_senders=4", "max_replication_slots=4")
    with mariadb() as maria, postgres(*parameters) as server:
        servers: dict[str, Postgres | MariaDb] = {"pg": server, "my": maria}
        given = {name: connector(name, each.port) for name, each in servers.items()}
        worker = Connect(tmp_path / "connect", broker, given)
        found = Shops(servers, worker)
        found.create()
        try:
            yield found
        finally:
            worker.kill()


def test_gold_is_what_the_databases_are_in_each_phase_of_their_story(
    spark: Any, shops: Shops, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    copy = Copy(spark, shops, tmp_path)
    shops.connect.start()
    for database in shops.servers:
        shops.await_mark(database, 0)
        shops.run_in(database, *typed_rows(database, 10))
    copy.is_the_databases("a snapshot")
    types_are_the_pages(copy)
    changes(copy)
    mishaps(copy)


def changes(copy: Copy) -> None:
    """What a database does, in the order of its days."""
    shops = copy.shops
    shops.run(
        *(customer(number) for number in range(40, 60)),
        "UPDATE customers SET name = concat(name, '!'), credit = null WHERE id % 3 = 0",
        "UPDATE customers SET vip = not vip WHERE id % 4 = 0",
        "DELETE FROM customers WHERE id % 7 = 0",
        "UPDATE items SET sku = 'other' WHERE line_no = 1",
    )
    copy.is_the_databases("inserts, updates, deletes")

    shops.run(
        # Each key is free when it is taken, as databases demand it: from the highest on.
        "BEGIN",
        *(
            f"UPDATE items SET line_no = {line + 1} WHERE order_id = 1 AND line_no = {line}"
            for line in (2, 1, 0)
        ),
        "COMMIT",
        "UPDATE items SET order_id = 100 WHERE order_id = 2",
        "BEGIN",
        "UPDATE customers SET id = -1 WHERE id = 1",
        "UPDATE customers SET id = 1 WHERE id = 2",
        "UPDATE customers SET id = 2 WHERE id = -1",
        "COMMIT",
        "UPDATE papers SET id = 77 WHERE id = 3",
    )
    copy.is_the_databases("keys that move")

    shops.run(
        "UPDATE docs SET title = concat(title, ' new')",
        "UPDATE papers SET title = concat(title, ' new')",
        f"UPDATE docs SET body = '{large()}' WHERE id = 2",
        "UPDATE docs SET body = null WHERE id = 3",
        "UPDATE docs SET title = 'last' WHERE id IN (2, 3)",
    )
    copy.is_the_databases("large values that an update leaves alone")

    shops.run(
        "INSERT INTO events VALUES (50, 'lost')",
        "TRUNCATE TABLE events",
        "INSERT INTO events VALUES (3, 'after')",
        "INSERT INTO events VALUES (51, 'after')",
    )
    copy.is_the_databases("a truncation")


def mishaps(copy: Copy) -> None:
    """A table gets a column; the connector is killed, and loses its place."""
    shops = copy.shops
    copy.is_altered = True
    shops.run(
        "ALTER TABLE customers ADD COLUMN phone text",
        "UPDATE customers SET phone = concat('0', id) WHERE id % 2 = 0",
        "INSERT INTO customers (id, name, phone) VALUES (900, 'with phone', '0900')",
    )
    copy.is_the_databases("an added column")

    shops.connect.kill()
    shops.run(
        "UPDATE customers SET name = 'while it was down' WHERE id % 5 = 1",
        "DELETE FROM items WHERE order_id = 4",
        "INSERT INTO events VALUES (52, 'while it was down')",
    )
    shops.connect.start()
    copy.is_the_databases("a connector that was killed")

    lose_offsets(shops)
    copy.is_the_databases("a new snapshot")
    shops.run("UPDATE items SET sku = 'last' WHERE line_no = 2", "DELETE FROM customers WHERE id = 900")
    copy.is_the_databases("changes after it")


def lose_offsets(shops: Shops) -> None:
    """The connectors forget where they were; rows go, come and move without a message."""
    shops.connect.kill()
    shops.connect.forget()
    begin = {database: shops.sent(database) for database in shops.servers}
    deadline = time.monotonic() + ARRIVAL_SECONDS
    dropped = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"
    while time.monotonic() < deadline:  # the server notices after a moment that its reader is gone
        shops.run_in("pg", dropped)
        if shops.servers["pg"].run("SELECT count(*) FROM pg_replication_slots").strip() == "0":
            break
        time.sleep(0.5)
    shops.run(
        "DELETE FROM customers WHERE id BETWEEN 10 AND 20",
        "UPDATE items SET line_no = line_no + 10 WHERE order_id = 5",
        "UPDATE papers SET id = 78 WHERE id = 77",
        "INSERT INTO docs (id, title) VALUES (70, 'without a message')",
        "DELETE FROM docs WHERE id = 0",
        "DELETE FROM events WHERE id = 3",
    )
    shops.connect.start()
    for database, place in begin.items():
        shops.await_mark(database, 0, begin=place)


def types_are_the_pages(copy: Copy) -> None:
    """Each type's values, from the snapshot and from the log, are what the page's declaration gives."""
    wrong = []
    for name, database in DATABASES.items():
        assert copy.engine.rows(f"silver.{name}_types__quarantine") == []
        rows = {row["id"]: row for row in copy.engine.rows(f"gold.{name}_types")}
        for n, typed in enumerate(database.types):
            for first in (0, 10):
                values = [rows[first + turn][f"f{n}"] for turn in range(3)]
                wanted = [*typed.values.values(), "null", "null", "null"][:3]
                found = ["null" if each is None else each for each in values]
                if found != wanted:
                    wrong.append((name, typed.of, "log" if first else "snapshot", found, wanted))
    assert not wrong, wrong
