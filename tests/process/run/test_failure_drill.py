"""The drill: one job without its broker, with a store that throttles, a data and an operator's error."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from common.config.settings import Settings, load_settings
from orchestration.access.embedded_broker import lifecycle as embedded
from orchestration.access.kafka import client as kafka
from orchestration.access.progress.query_states import QueryState, read_state
from tests.process.run.test_supervision import QUICK, is_waiting
from tests.support.pages import address, get, of_tables, pipeline_metric, seen, unready
from tests.support.processes import Command, Medallion, await_that, medallion

AWAY_SECONDS = float(os.environ.get("TESTS_BROKER_AWAY_SECONDS", "120"))

PIPELINE = '''
from pathlib import Path

from medallion import Custom, Json, Pipeline, Rule, Silver, Topic

REFUSED = Path(__file__).parent / "refused"


class S3Exception(Exception):
    """As the client of an object store raises it."""


def store(rows, gold):
    left = int(REFUSED.read_text()) if REFUSED.exists() else 0
    if left:
        REFUSED.write_text(str(left - 1))
        raise S3Exception("Please reduce your request rate. (Service: S3, Status Code: 503, SlowDown)")
    gold.append(rows.select("id"), "stored")


def silver(name, reads="bronze.orders", rules=()):
    return Silver(
        name, reads=reads, value=Json("id string, at timestamp"), columns=["id", "at"], key=["id"],
        event_time="at", watermark="1 day", rules=rules,
    )


pipeline = Pipeline(
    name="drill",
    bronze=[Topic("orders"), Topic("returns")],
    silver=[
        silver("plain"),
        silver("strict", rules=[Rule("not_b", "id <> 'b'", on_fail="fail")]),
        silver("returns", reads="bronze.returns"),
    ],
    gold=[Custom("stored", reads="silver.plain", write=store, tables={"stored": "id string"})],
)
'''


def send(address: str, topic: str, ids: str) -> None:
    """One record per letter."""
    producer = Producer({"bootstrap.servers": address})
    for name in ids:
        producer.produce(topic, json.dumps({"id": name, "at": "2026-01-05T12:00:00Z"}).encode())
    assert producer.flush(60) == 0


def ids(commands: Medallion, table: str) -> Counter[str]:
    """The ids of a table's rows."""
    path = commands.layout.table_path(table)
    if not DeltaTable.is_deltatable(path):
        return Counter()
    return Counter(DeltaTable(path).to_pyarrow_table(columns=["id"])["id"].to_pylist())


def state(commands: Medallion, query: str) -> QueryState | None:
    return read_state(commands.layout.query_states, query)


def has_failed(commands: Medallion, query: str, kind: str) -> bool:
    found = state(commands, query)
    return found is not None and (found.state, found.kind) == ("failed", kind)


def shown(commands: Medallion) -> dict[str, str]:
    """The state of each query, as ``status --json`` has it."""
    tables = json.loads(commands.run("status", "--json").stdout)["tables"]
    return {one["table"]: one["query"]["state"] for one in tables}


def delete_first_row(commands: Medallion, table: str) -> None:
    """What an operator must not do: another program deletes a row of bronze."""
    path = DeltaTable(commands.layout.table_path(table))
    path.alter.set_table_properties({"delta.appendOnly": "false"})
    path.delete("offset = 0")


@pytest.mark.long
def test_each_failure_of_a_job_ends_as_its_cause_says(tmp_path: Path) -> None:
    own = load_settings(overrides=[f"data_dir={tmp_path / 'broker'}"])
    (tmp_path / "drill.py").write_text(PIPELINE)
    with embedded.start(own) as first:
        servers = first.bootstrap_servers
        kafka.ensure_topics(servers, ["orders", "returns"], 1, {})
    named = f"kafka.bootstrap_servers={servers}"
    with medallion(tmp_path, tmp_path / "drill.py", named) as commands, ExitStack() as broker:
        broker.enter_context(embedded.start(own))
        send(servers, "orders", "a")
        send(servers, "returns", "x")
        job = commands.start("up", more=(*QUICK, "http.address=127.0.0.1:0"))
        await_that(lambda: ids(commands, "gold.stored") == Counter("a"), "gold has the first order", job)
        await_that(lambda: ids(commands, "silver.returns") == Counter("x"), "silver has it too", job)
        page = address(job)
        await_that(lambda: unready(page) == set(), "the job is ready", job)

        throttled(commands, tmp_path / "refused", job, page)
        assert ids(commands, "gold.stored") == Counter("ac")
        without_broker(commands, own, job, page)
        broker.close()
        with embedded.start(own) as again:
            assert again.bootstrap_servers == servers
            send(servers, "orders", "bd")
            plain = Counter("abcd")
            await_that(lambda: ids(commands, "gold.stored") == plain, "gold has what came after", job)
            await_that(lambda: has_failed(commands, "silver.strict", "data"), "the rule stops it", job)
            await_that(lambda: unready(page) == {"silver.strict"}, "the others are ready again", job)
            assert seen(page) == {"silver.strict": "critical"}
            assert pipeline_metric(page, "medallion_broker_up") == 1
            assert of_tables(page, "medallion_query_up")["silver.strict"] == 0

            delete_first_row(commands, "bronze.returns")
            send(servers, "returns", "y")
            await_that(lambda: has_failed(commands, "silver.returns", "operator"), "the change stops it", job)
            send(servers, "orders", "e")
            await_that(lambda: ids(commands, "gold.stored") == Counter("abcde"), "the others go on", job)
            states = shown(commands)
            assert {table for table, found in states.items() if found == "failed"} == {
                "silver.strict",
                "silver.returns",
            }
            job.signal(signal.SIGTERM)
            assert job.code() == 1, job.stderr
            assert "the next start goes on with the same rows" in job.stderr  # the failure, not the stop
        assert ids(commands, "silver.plain") == Counter("abcde")
        assert ids(commands, "silver.strict") == Counter("ac")
        assert ids(commands, "silver.returns") == Counter("x")
        audited = commands.run("audit", "--table", "silver.plain", "--json")
        assert audited.code() == 0, audited.stderr


def throttled(commands: Medallion, refused: Path, job: Command, page: str) -> None:
    """The store refuses two micro-batches of gold, which are written after."""
    refused.write_text("2")
    send(str(commands.settings.kafka.bootstrap_servers), "orders", "c")
    await_that(lambda: ids(commands, "gold.stored") == Counter("ac"), "the store takes it", job)
    await_that(lambda: job.stderr.count("gold.stored: works again") == 1, "gold says so", job)
    stored = state(commands, "gold.stored")
    assert stored is not None
    assert [one.subject for one in stored.last_restarts] == ["the object store"] * 2
    await_that(lambda: (unready(page), seen(page)) == (set(), {}), "nobody need look", job)
    assert of_tables(page, "medallion_query_restarts_total")["gold.stored"] == 2


def without_broker(commands: Medallion, own: Settings, job: Command, page: str) -> None:
    """Kill the broker, and stay without it; bronze waits, and the queries that need no broker go on.

    Whether a record waits is not known of any table: all of them are unready, and none is a failure.
    """
    facts = embedded.describe(own)
    assert facts is not None
    killed_at = time.monotonic()
    os.kill(int(facts["pid"]), signal.SIGKILL)
    for table in ("bronze.orders", "bronze.returns"):
        await_that(lambda: is_waiting(commands, table), f"{table} waits for its broker", job)  # noqa: B023
    await_that(lambda: time.monotonic() - killed_at >= AWAY_SECONDS, "the broker was away long enough", job)
    states = shown(commands)
    assert {states[table] for table in ("bronze.orders", "bronze.returns")} == {"restarting"}
    assert {states[table] for table in ("silver.plain", "silver.strict", "gold.stored")} == {"waiting"}
    # Half a minute from the first look at the page on.
    await_that(lambda: unready(page) == set(states), "no table is known to be fresh", job)
    assert seen(page) == dict.fromkeys(("", *states), "warning")
    assert pipeline_metric(page, "medallion_broker_up") == 0
    assert pipeline_metric(page, "medallion_waiting_seconds") is None
    assert get(page, "healthz")[0] == 200  # a restart would mend nothing
