"""A table of PostgreSQL copied through Kafka, with kills on the way: ``medallion reconcile`` finds it equal.

PostgreSQL writes the change envelopes itself, by a trigger, as Debezium's outbox has them: what the copy is
compared with is the source, not what the test believes that it has sent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from common.declare import Message
from common.delta.log import latest_version
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.records.reconcile.reconcile import Reconciled, Wanted, reconcile
from tests.support.processes import Medallion, await_that, medallion
from tests.support.servers.postgres import PASSWORD, Postgres, postgres

pytestmark = pytest.mark.long
pytest.importorskip("duckdb_extension_postgres_scanner", reason="the extra reconcile is not installed")

FILE = """
from common.declare import ChangeFeed, Debezium, Pipeline, Silver, Topic

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("customers", topics=[{topic!r}], max_offsets_per_trigger=40)],
    silver=[
        Silver(
            "customers",
            reads="bronze.customers",
            value=Debezium("customer_id bigint, name string, city string"),
            columns={{
                "customer_id": "coalesce(after.customer_id, before.customer_id)",
                "name": "after.name",
                "city": "after.city",
                "op": "op",
                "log_position": "source.lsn",
                "changed_at": "timestamp_millis(ts_ms)",
            }},
            key=["customer_id", "log_position"],
            event_time="changed_at",
            watermark="1 day",
        )
    ],
    gold=[
        ChangeFeed(
            "customers",
            reads="silver.customers",
            key=["customer_id"],
            sequence_by=["log_position"],
            columns=["customer_id", "name", "city", "log_position"],
        )
    ],
)
"""
TABLES = """
CREATE TABLE customers (customer_id bigint PRIMARY KEY, name text, city text);
CREATE TABLE changes (lsn bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id bigint, op text,
    before jsonb, after jsonb, ts_ms bigint);
CREATE FUNCTION captured() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO changes (id, op, before, after, ts_ms) VALUES (
        CASE WHEN TG_OP = 'DELETE' THEN OLD.customer_id ELSE NEW.customer_id END,
        CASE TG_OP WHEN 'INSERT' THEN 'c' WHEN 'UPDATE' THEN 'u' ELSE 'd' END,
        CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END,
        CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END,
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint);
    RETURN NULL; END $$;
CREATE TRIGGER captured AFTER INSERT OR UPDATE OR DELETE ON customers
    FOR EACH ROW EXECUTE FUNCTION captured();
"""
IDS, PORTION = 60, 120


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A server with the table and its trigger."""
    with postgres() as started:
        started.run(TABLES)
        yield started


@dataclass
class Source:
    """The table, and how far its changes are in Kafka."""

    server: Postgres
    send: Callable[[list[Message]], None]
    draw: random.Random
    sent: int = 0

    def change(self) -> None:
        """Inserts, updates and deletes, some rows again and again, and their envelopes to Kafka."""
        statements = []
        for _ in range(PORTION):
            number, name = self.draw.randrange(IDS), f"name {self.draw.random()}"
            statements.append(
                f"DELETE FROM customers WHERE customer_id = {number}"
                if self.draw.random() < 0.2
                else f"INSERT INTO customers VALUES ({number}, '{name}', {self._city()}) "
                "ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name, city = excluded.city"
            )
        self.server.run("; ".join(statements))
        found = self.server.run(
            "SELECT json_build_object('op', op, 'before', before, 'after', after, 'ts_ms', ts_ms, "
            "'source', json_build_object('connector', 'postgresql', 'ts_ms', ts_ms, 'lsn', lsn)) "
            f"FROM changes WHERE lsn > {self.sent} ORDER BY lsn"
        )
        envelopes = [json.loads(line) for line in found.splitlines()]
        self.send([_message(each) for each in envelopes])
        self.sent = envelopes[-1]["source"]["lsn"]

    def _city(self) -> str:
        return self.draw.choice(["NULL", "'Köln'", "'Paris'"])


def _message(envelope: dict[str, dict[str, int]]) -> Message:
    row = envelope["after"] or envelope["before"]
    return Message(str(row["customer_id"]).encode(), json.dumps(envelope).encode())


def kill_once_written(commands: Medallion, table: str) -> None:
    """Start a backfill and kill it, Python and JVM at once, when it has written a micro-batch of a table."""
    path = commands.layout.table_path(table)
    before = max(latest_version(path) or 0, 0)
    command = commands.start("backfill")
    await_that(lambda: (latest_version(path) or 0) > before, f"{table} has a micro-batch", command)
    command.kill_group()


def compared(commands: Medallion, server: Postgres, settle: float = 0) -> Reconciled:
    """The copy beside its source."""
    wanted = Wanted("gold.customers", server.url("public.customers"), settle_seconds=settle)
    return reconcile(load_pipeline(commands.pipeline), commands.layout, wanted)


def test_a_copy_of_a_database_is_equal_after_kills_and_a_planted_difference_is_named(
    server: Postgres,
    broker: str,
    topic: str,
    send: Callable[[str, list[Message]], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    source = Source(server, lambda messages: send(topic, messages), random.Random(5))  # noqa: S311  # no secret
    file = tmp_path / "feed.py"
    file.write_text(FILE.format(topic=topic))
    with medallion(tmp_path, file, f"kafka.bootstrap_servers={broker}") as commands:
        for table in ("silver.customers", "gold.customers"):
            source.change()
            kill_once_written(commands, table)
        source.change()

        def catch_up(_: float) -> None:
            assert commands.run("backfill").code() == 0

        # Of this module alone: the commands sleep too.
        clock = SimpleNamespace(sleep=catch_up)
        with mock.patch("orchestration.records.reconcile.reconcile.time", clock):
            during = compared(commands, server, settle=1)
        assert during.result.settled > 0  # it was on its way, and so it was not wrong
        assert (during.result.wrong, during.result.rows_here) == (
            0,
            int(server.run("SELECT count(*) FROM customers")),
        )
        against = ("reconcile", "gold.customers", "--against", server.url("public.customers"), "--json")
        assert commands.run(*against).code() == 0

        there = server.run("SELECT customer_id FROM customers ORDER BY 1 LIMIT 2").split()
        server.run(
            "ALTER TABLE customers DISABLE TRIGGER captured; "
            f"UPDATE customers SET name = 'planted' WHERE customer_id = {there[0]}; "
            f"DELETE FROM customers WHERE customer_id = {there[1]}; "
            f"INSERT INTO customers VALUES ({IDS}, 'planted', NULL)"
        )
        planted = commands.run(*against)
        assert planted.code() == 1
        found = {
            (each.key["customer_id"], each.kind) for each in compared(commands, server).result.differences
        }
        assert found == {(int(there[0]), "differs"), (int(there[1]), "extra"), (IDS, "missing")}
        assert PASSWORD not in planted.stdout + planted.stderr
