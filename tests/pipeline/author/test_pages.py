"""The examples of the documentation do what their pages say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from deltalake import write_deltalake
from typer.testing import CliRunner

from common.declare import KafkaSink
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.author.check.pipeline import check
from orchestration.cli.options import register
from orchestration.cli.records import erase
from orchestration.run.maintenance import maintain
from tests.conftest import make_settings
from tests.pipeline.records.test_audit import account
from tests.pipeline.records.test_erasure import all_values, session_of
from tests.support.avro import number
from tests.support.bronze_batches import append_batch
from tests.support.engine import Engine
from tests.support.oracles.protobuf import REFUND, descriptors, tagged

ROOT = Path(__file__).parents[3]
ARRIVED = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)

HOW_FAR = re.compile(r": \d+ s, \d+ of \d+ tasks$")
"""A step that takes longer than some seconds says how far it is."""

NOTHING: dict[str, Any] = {"silver": [], "gold": [], "publish": [], "quality": []}


def example(spark: Any, folder: Path, page: str) -> tuple[Engine, str, dict[str, str]]:
    """The pipeline of a page or a file, its text, and the page's block of each language."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(python|json)\n(.*?)```", text, flags=re.DOTALL))
    blocks.setdefault("python", text)
    (folder / "shop.py").write_text(blocks["python"], encoding="utf-8")
    (folder / "refund.desc").write_bytes(descriptors(REFUND))
    pipeline = load_pipeline(folder / "shop.py")
    assert check(pipeline) == ()
    return Engine(spark, pipeline, make_settings(folder, "none:1")), text, blocks


def shown(page: str, command: str) -> list[str]:
    """The lines that the page shows below a command; a time is TIME."""
    (output,) = re.findall(
        rf"^\$ {re.escape(command)}\n(.*?)(?=^\$ |^```|\n\n)", page, re.DOTALL | re.MULTILINE
    )
    return [timeless(line) for line in output.splitlines()]


def timeless(line: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME", line).rstrip()


def test_the_example_of_an_erasure(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, page, blocks = example(spark, tmp_path, "records/erasure.md")
    append_batch(engine, 0, {0: [line.encode() for line in blocks["json"].splitlines()]}, {0: 0})
    engine.run("silver", "gold")
    app = typer.Typer()
    register(app, erase)
    monkeypatch.setattr("orchestration.cli.options.context", lambda *given: engine)
    monkeypatch.setattr("orchestration.run.job.spark_for_writing", session_of(engine))
    for option in ("--plan", "--yes"):
        words = ["silver.orders", "--where", "customer = 'C7'", option]
        done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        lines = [timeless(line) for line in done.output.splitlines() if not HOW_FAR.search(line)]
        expected = shown(page, f"""medallion erase silver.orders --where "customer = 'C7'" {option}""")
        if "…" in expected:
            lines = lines[-len(expected) + 1 :]
            expected = expected[1:]
        assert lines == expected
    found = account(engine, engine.pipeline)
    assert found.faults == ()
    columns, *_, total = shown(page, "medallion audit")[1:-1]
    places = dict(zip(columns.split()[1:], map(int, total.split()[1:]), strict=True))
    waiting, offsets = places.pop("waiting"), places.pop("offsets")
    assert (waiting, offsets) == (0, found.offsets)
    assert {place: count for place, count in found.totals.items() if count} == places
    engine.run("gold")
    _, _, *rows, _ = shown(page, 'medallion query "select * from gold.spent order by customer"')
    spent = {row["customer"]: (row["orders"], row["amount"]) for row in engine.rows("gold.spent")}
    assert {name: (int(orders), Decimal(amount)) for name, orders, amount in map(str.split, rows)} == spent
    assert any("C7" in value for value in all_values(engine, "bronze", "silver", "gold"))
    (command,) = re.findall(r"^\$ medallion maintain --now (.*)$", page, flags=re.MULTILINE)
    for table in command.split():
        assert maintain(spark, engine.pipeline, engine.layout, table, at_once=True).kept_because == ""
    assert not any("C7" in value for value in all_values(engine, "bronze", "silver", "gold"))


def values_of_the_shop(orders: Callable[[int], Any]) -> dict[str, list[bytes | None]]:
    """Values for each topic of the example ``docs/reference/each_class.py``."""
    seconds = round(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)
    changes = [
        {"op": op, "before": before, "after": after, "ts_ms": seconds + at}
        for at, (op, before, after) in enumerate(
            [
                *(("c", None, {"id": each, "name": f"name {each}"}) for each in range(3)),
                ("u", {"id": 1, "name": "name 1"}, {"id": 1, "name": "other"}),
                ("d", {"id": 2, "name": "name 2"}, None),
            ]
        )
    ]
    paid = [number(4) + f"o7-{each}".encode() + number(seconds + 90_000) for each in range(10)]
    return {
        "orders": [message.value for message in orders(7)],
        "customer_changes": [json.dumps(each).encode() for each in changes],
        "payments": [*paid],
        "refunds": [tagged(1, 2, b"o7-1") + tagged(2, 2, tagged(1, 0, b"\5"))],
        "rates": [b"EUR,1.0,2026-03-01T11:00:00Z", b"USD,NA,2026-03-01T11:00:00Z"],
        "notes": [b"a note"],
        "pictures": [b"\xff\xd8\0"],
    }


def parcels() -> pa.Table:
    """What another team keeps in a Delta table."""
    weights = [Decimal("1.250"), Decimal("0.500")]
    rows = [{"order_id": f"o7-{at}", "weight": one, "sent_at": ARRIVED} for at, one in enumerate(weights)]
    sent_at = pa.timestamp("us", tz="UTC")
    types = [("order_id", pa.string()), ("weight", pa.decimal128(9, 3)), ("sent_at", sent_at)]
    return pa.Table.from_pylist(rows, pa.schema(types))


@pytest.mark.long
def test_the_example_of_all_declarations(spark: Any, tmp_path: Path) -> None:
    engine, _, _ = example(spark, tmp_path, "reference/each_class.py")
    to_tables = [each for each in engine.pipeline.publish if not isinstance(each.to, KafkaSink)]
    engine = Engine(spark, replace(engine.pipeline, publish=to_tables), engine.settings)
    topics = {topic.name: topic for topic in engine.pipeline.bronze}
    sample = topics["orders"].sample
    assert sample is not None
    for name, values in values_of_the_shop(sample).items():
        (topic,) = topics[name].topic_names
        rows = [(topic, 0, at, ARRIVED, 0, ARRIVED, None, value, None) for at, value in enumerate(values)]
        engine.append_bronze(f"bronze.{name}", rows)
    write_deltalake(str(tmp_path / "parcels"), parcels())
    given = replace(topics["parcels"], path=str(tmp_path / "parcels"))
    Engine(spark, replace(engine.pipeline, bronze=[given], **NOTHING), engine.settings).run("bronze")
    rates = [silver for silver in engine.pipeline.silver if silver.name == "rates"]
    first = replace(engine.pipeline, silver=rates, gold=[], publish=[], quality=[])
    Engine(spark, first, engine.settings).run("silver")
    engine.run("silver", "gold")
    engine.publish()
    for silver in engine.pipeline.silver:
        assert engine.rows(silver.quarantine) == [], silver.name
    counts = {gold.name: len(engine.rows(gold.table)) for gold in engine.pipeline.gold}
    assert counts == {
        "revenue_per_minute": 1,
        "visits": 3,
        "last_order": 3,
        "customers": 2,
        "names": 4,
        "orders_with_names": 60,
        "orders_by_name": 3,
        "paid_in_an_hour": 10,
        "third_orders": 18,
        "large_orders": 10,
    }
    weights = {row["order_id"]: row["weight"] for row in engine.rows("silver.parcels")}
    assert weights == {"o7-0": Decimal("1.250"), "o7-1": Decimal("0.500")}
    assert {row["rate"] for row in engine.rows("silver.rates")} == {1.0, None}
    (revenue,) = engine.rows("gold.revenue_per_minute")
    assert (revenue["orders"], revenue["revenue"]) == (60, Decimal("1800.00"))
