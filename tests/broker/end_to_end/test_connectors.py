"""A real PostgreSQL and a real MariaDB, followed by Debezium's connectors: gold is what the databases are.

Both databases live the same story: a snapshot, changes, keys that move, large values that an update leaves
alone, truncations, an added column, a connector that is killed, one that has lost its offsets and takes a new
snapshot. ``make connectors`` installs what the machine lacks, and runs this file; ``WRITE_MESSAGES=1`` keeps
some of the messages for the tests that have no connector.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from orchestration.records.reconcile.reconcile import Wanted, reconcile
from tests.conftest import make_settings
from tests.support.connectors.databases import (
    DATABASES,
    KEPT,
    TABLES,
    Kind,
    Phase,
    columns_of,
    followed,
    not_of_the_page,
    pipeline,
    topic_of,
    write_sent,
)
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

DRAW = random.Random(17)  # noqa: S311  # no secret
ARRIVAL_SECONDS = 600


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
        deadline = time.monotonic() + ARRIVAL_SECONDS
        with self.reader(topic_of(database, "marks"), begin) as consumer:
            while time.monotonic() < deadline and not self.connect.has_failed:
                message = consumer.poll(1.0)
                value = message.value() if message is not None and message.error() is None else None
                if value is not None and (json.loads(value)["after"] or {}).get("id") == mark:
                    time.sleep(1)  # what was sent beside it to other topics has been answered, too
                    return
        raise AssertionError(f"{database}: mark {mark} has not come:\n{self.connect.log.read_text()[-9000:]}")

    def sent(self, topic: str) -> int:
        """The number of messages in a topic."""
        with self.reader(topic) as consumer:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0))[1])

    def messages(self, topic: str, begin: int) -> Iterator[tuple[str | None, str | None]]:
        """Key and value of each message, from an offset to the topic's end."""
        end = self.sent(topic)
        with self.reader(topic, begin) as consumer:
            while begin < end:
                message = consumer.poll(ARRIVAL_SECONDS)
                assert message is not None, (topic, begin, end)
                assert message.error() is None, message.error()
                begin = (message.offset() or 0) + 1
                key, value = (part and part.decode() for part in (message.key(), message.value()))
                yield key, value

    @contextmanager
    def reader(self, topic: str, begin: int = 0) -> Iterator[Consumer]:
        consumer = Consumer({"bootstrap.servers": self.connect.broker, "group.id": "marks"})
        consumer.assign([TopicPartition(topic, 0, begin)])
        try:
            yield consumer
        finally:
            consumer.close()

    def rows(self, database: str, table: str, columns: Mapping[str, Kind]) -> list[dict[str, str | None]]:
        """The rows of a table, each value as its text."""
        shown = ", ".join(kind.shown_by(database, name) for name, kind in columns.items())
        said = self.servers[database].run(f"SELECT {DATABASES[database].row}({shown}) FROM {table}")
        return [dict(zip(columns, json.loads(line), strict=True)) for line in said.splitlines()]


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
    numbers = DATABASES[database].array.format(",".join(str(DRAW.randrange(2**31)) for _ in range(600)))
    return f"INSERT INTO docs VALUES ({number}, 't{number}', '{large()}', '{numbers}')"


def large() -> str:
    """A text that PostgreSQL keeps outside of the row."""
    return DRAW.randbytes(2000).hex()


class Copy:
    """Gold of both databases, by the engine, and what was sent in each phase."""

    def __init__(self, spark: Any, shops: Shops, folder: Path) -> None:
        self.shops, self.spark, self.folder = shops, spark, folder
        self.settings = make_settings(folder, shops.connect.broker)
        self.is_altered = False
        self.phases: list[Phase] = []

    @property
    def engine(self) -> Engine:
        """A start, by today's declaration."""
        declared = pipeline(is_altered=self.is_altered)
        return Engine(self.spark, declared, self.settings, self.shops.connect.broker)

    def is_the_databases(self, name: str) -> None:
        """Process what has come; then each table of gold has the rows of its database."""
        self.shops.settle()
        engine = self.engine
        engine.run()
        phase = Phase(name, self._came(), {})
        wrong = []
        for database, table in followed():
            (key, first), columns = TABLES[table], columns_of(table, is_altered=self.is_altered)
            rows = self.shops.rows(database, table, columns)
            against = self._against(database, table, rows)
            for gold, shown in ((f"{database}_{table}", columns), (f"{database}_{table}_in_time", first)):
                found = reconcile(engine.pipeline, engine.layout, Wanted(f"gold.{gold}", against))
                compared = found.result
                assert found.is_current == gold.endswith("_in_time")
                assert {*compared.columns} == {*shown} - {*key}, (name, gold)
                if compared.wrong or compared.equal != len(rows):
                    told = [(one.kind, one.key, one.columns) for one in compared.differences]
                    wrong.append((gold, len(rows), compared.equal, told))
            assert engine.rows(f"silver.{database}_{table}__quarantine") == [], (name, database, table)
            phase.rows[f"{database}.{table}"] = rows
        assert not wrong, (name, wrong)
        self.phases.append(phase)

    def _came(self) -> dict[str, list[tuple[str | None, str | None]]]:
        """The messages since the phase before."""
        before = {
            topic: sum(len(phase.messages[topic]) for phase in self.phases)
            for topic in (topic_of(database, table) for database in DATABASES for table in KEPT)
        }
        return {topic: list(self.shops.messages(topic, begin)) for topic, begin in before.items()}

    def _against(self, database: str, table: str, rows: list[dict[str, str | None]]) -> str:
        """The table as it can be compared: PostgreSQL's where it is, MariaDB's as a file of CSV."""
        server = self.shops.servers[database]
        if isinstance(server, Postgres):
            return server.url(f"public.{table}")
        file = self.folder / f"{table}.csv"
        lines = [",".join(rows[0]), *(",".join(map(quoted, row.values())) for row in rows)]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(file)


def quoted(value: str | None) -> str:
    """A value in CSV: of a null nothing at all."""
    return "" if value is None else '"' + value.replace('"', '""') + '"'


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
    for database in DATABASES:
        assert copy.engine.rows(f"silver.{database}_types__quarantine") == []
        types = {row["id"]: row for row in copy.engine.rows(f"gold.{database}_types")}
        assert not_of_the_page(database, types) == []
    changes(copy)
    mishaps(copy)
    if "WRITE_MESSAGES" in os.environ:
        write_sent(copy.phases)


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
    begin = {database: shops.sent(topic_of(database, "marks")) for database in shops.servers}
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
