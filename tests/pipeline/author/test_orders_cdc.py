"""The example of change events: gold is what an oracle makes of the envelopes; and over captured ones."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from common.declare import ChangeFeed, Debezium, Message, Pipeline, Silver, Topic
from orchestration.access.declaration.load_file import load_pipeline
from tests.conftest import make_settings
from tests.spark.silver.test_captured_envelopes import CAPTURED, envelopes, loaded, payload, row_type
from tests.support.engine import Engine

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[3] / "examples" / "orders_cdc" / "pipeline.py"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MESSAGES = 900
CUTS = (0, 300, 310, MESSAGES)

Row = dict[str, Any]


def bronze(topic: str, messages: Sequence[Message], first: int, partitions: int = 3) -> list[tuple[Any, ...]]:
    """Rows as a broker would number them: a key has one partition."""
    return [
        (topic, zlib.crc32(m.key or b"") % partitions, at, NOON, 0, NOON, m.key, m.value, None)
        for at, m in enumerate(messages, first)
    ]


def applied(messages: Sequence[Message]) -> dict[int, Row]:
    """The source table: its changes in the order of its log, each as if it came once."""
    changes = [json.loads(message.value) for message in messages if message.value is not None]
    table: dict[int, Row] = {}
    for change in sorted(changes, key=lambda change: change["source"]["lsn"]):
        row = change["after"] or change["before"]
        number = next(iter(row.values()))
        if change["op"] == "d":
            table.pop(number, None)
        else:
            table[number] = row
    return table


class Ran:
    """The example over its own sample, in several runs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.sent: dict[str, list[Message]] = {}
        for topic in engine.pipeline.bronze:
            assert topic.sample is not None
            self.sent[topic.name] = list(islice(topic.sample(7), MESSAGES))

    def gold(self, name: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Some columns of a gold table."""
        rows = self.engine.rows(f"gold.{name}")
        return sorted((tuple(row[column] for column in columns) for row in rows), key=repr)


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Bronze grows, and the jobs catch up, several times."""
    settings = make_settings(tmp_path_factory.mktemp("orders_cdc"), "none:1")
    made = Ran(Engine(spark, load_pipeline(EXAMPLE), settings))
    for start, end in pairwise(CUTS):
        for name, messages in made.sent.items():
            made.engine.append_bronze(f"bronze.{name}", bronze(name, messages[start:end], start))
        made.engine.run("silver", "gold")
    # The join reads what the copies have written by now.
    made.engine.run("gold")
    return made


CUSTOMER = ("customer_id", "name", "city")
ORDER = ("order_id", "customer_id", "status", "cents", "note")


@pytest.mark.parametrize(("name", "columns"), [("customers", CUSTOMER), ("orders", ORDER)])
def test_gold_is_the_source_table_as_it_is_now(ran: Ran, name: str, columns: tuple[str, ...]) -> None:
    """Updates, deletions, rows that come back, what is sent twice, and what comes after later changes."""
    table = applied(ran.sent[name])
    assert ran.gold(name, columns) == sorted(
        (tuple(row[column] for column in columns) for row in table.values()), key=repr
    )
    deleted = {row[columns[0]] for row in ran.engine.rows(f"gold.{name}__deleted")}
    keys = {json.loads(message.key or b"")[columns[0]] for message in ran.sent[name]}
    assert deleted == keys - set(table)
    assert deleted


def test_an_order_has_its_customer_as_that_is_now(ran: Ran) -> None:
    """None where the customer was deleted; the order's own row whatever became of it since."""
    orders, customers = applied(ran.sent["orders"]), applied(ran.sent["customers"])
    want = []
    for order in orders.values():
        customer = customers.get(order["customer_id"], {"name": None, "city": None})
        named = ("order_id", "status", "cents", "customer_id")
        want.append((*(order[name] for name in named), customer["name"], customer["city"]))
    columns = ("order_id", "status", "cents", "customer_id", "customer", "city")
    assert ran.gold("orders_with_customers", columns) == sorted(want, key=repr)
    assert len({row[-1] for row in want}) > 1


def test_the_sample_has_every_trouble(ran: Ran) -> None:
    """Else this would prove nothing."""
    for name, messages in ran.sent.items():
        changes = [json.loads(message.value) for message in messages if message.value is not None]
        operations = [change["op"] for change in changes]
        assert {"c", "u", "d"} <= set(operations)
        assert sum(message.value is None for message in messages) == operations.count("d")
        seen: dict[str, int] = {}
        deleted, twice, late, again = set(), 0, 0, 0
        for message, change in zip((m for m in messages if m.value is not None), changes, strict=True):
            key, lsn = str(message.key), change["source"]["lsn"]
            twice += seen.get(key) == lsn
            late += seen.get(key, 0) > lsn
            again += change["op"] == "c" and key in deleted
            deleted |= {key} if change["op"] == "d" else set()
            seen[key] = max(lsn, seen.get(key, 0))
        assert min(twice, late, again) > 0, (name, twice, late, again)


def test_the_same_seed_gives_the_same_bytes(ran: Ran) -> None:
    for topic in ran.engine.pipeline.bronze:
        assert topic.sample is not None
        assert list(islice(topic.sample(7), MESSAGES)) == ran.sent[topic.name]
        assert list(islice(topic.sample(8), MESSAGES)) != ran.sent[topic.name]


def test_a_truncation_takes_away_the_orders_before_it(ran: Ran) -> None:
    """Half of the log: orders that were changed after it stay, as in the source."""
    changes = [json.loads(message.value) for message in ran.sent["orders"] if message.value is not None]
    newest: dict[int, int] = {}
    for change in changes:
        row = change["after"] or change["before"]
        newest[row["order_id"]] = max(change["source"]["lsn"], newest.get(row["order_id"], 0))
    middle = sorted(newest.values())[len(newest) // 2] + 1
    assert middle not in newest.values()
    source = {"ts_ms": 1767225600000, "lsn": middle}
    message = Message(None, json.dumps({"before": None, "after": None, "op": "t", "source": source}).encode())
    ran.engine.append_bronze("bronze.orders", bronze("orders", [message], MESSAGES))
    ran.engine.run("silver", "gold")
    left = {key for key in applied(ran.sent["orders"]) if newest[key] > middle}
    assert {key for (key,) in ran.gold("orders", ("order_id",))} == left
    assert left


def captured() -> dict[str, list[str]]:
    """Captured envelopes by table; those files only in which rows are changed or deleted, too."""
    found: dict[str, list[str]] = {}
    for file in sorted(CAPTURED.glob("**/*.txt")):
        if "debezium" not in file.name or "/debezium-" in str(file.parent):
            continue
        for text in envelopes(file):
            source = payload(text).get("source") or {}
            found.setdefault(f"{file.parent.name}_{source.get('table')}", []).append(text)
    return {
        name: texts for name, texts in found.items() if {payload(text)["op"] for text in texts} & {"u", "d"}
    }


@pytest.mark.skipif(not CAPTURED.is_dir(), reason=f"the captured change events are not there: {CAPTURED}")
def test_captured_change_events_make_the_tables_they_were_captured_from(spark: Any, tmp_path: Path) -> None:
    """Each capture's table, its first column the key; a capture has no log position, so its order counts."""
    tables = captured()
    assert len(tables) > 1
    topics, silvers, golds, rows = [], [], [], {}
    for number, texts in enumerate(tables.values()):
        name = f"t{number}"
        payloads = [payload(text) for text in texts]
        names = list(payloads[0]["after"])
        key = names[0]
        topics.append(Topic(name))
        columns = {each: f"if(op = 'd', before.`{each}`, after.`{each}`)" for each in names}
        silvers.append(
            Silver(
                name,
                reads=f"bronze.{name}",
                value=Debezium(row_type(payloads)),
                columns={
                    **columns,
                    "operation": "op",
                    "position": "_kafka.offset",
                    "at": "_kafka.timestamp",
                },
                key=["position"],
                event_time="at",
                watermark="1 day",
            )
        )
        golds.append(
            ChangeFeed(
                name,
                reads=f"silver.{name}",
                key=[key],
                sequence_by=["position"],
                operation="operation",
                columns=[*names, "position"],
            )
        )
        rows[name] = (texts, payloads, names)
    pipeline = Pipeline(name="captured", bronze=topics, silver=silvers, gold=golds)
    engine = Engine(spark, pipeline, make_settings(tmp_path, "none:1"))
    for name, (texts, _, _) in rows.items():
        half = len(texts) // 2
        for first, part in ((half, texts[half:]), (0, texts[:half])):
            # The later half comes first.
            messages = [Message(None, text.encode()) for text in part]
            engine.append_bronze(f"bronze.{name}", bronze(name, messages, first, 1))
    engine.run("silver", "gold")
    for name, (_, payloads, names) in rows.items():
        table: dict[str, Row] = {}
        for each in payloads:
            row = each["before"] if each["op"] == "d" else each["after"]
            table.pop(str(row[names[0]]), None)
            if each["op"] != "d":
                table[str(row[names[0]])] = row
        found = engine.rows(f"gold.{name}")
        assert {str(row[names[0]]) for row in found} == set(table), name
        assert len(found) == len(table)
        for row in found:
            want = table[str(row[names[0]])]
            assert {each: read(row[each], want.get(each)) for each in names} == {
                each: want.get(each) for each in names
            }


def read(got: object, sent: object) -> object:
    """A column's value as the envelope has it: numbers exactly, and what is no plain value from its text."""
    if isinstance(got, float):
        return Decimal(repr(got))
    return loaded(got) if isinstance(got, str) and not isinstance(sent, str) else got
