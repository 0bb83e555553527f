"""The README's pipeline and messages, as they stand there, from topic to gold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from common.config.settings import Settings
from common.declare import Message
from orchestration.access.declaration.load_file import load_pipeline
from tests.conftest import with_topic
from tests.unit.test_docs import blocks


def test_the_readmes_pipeline_does_what_its_rules_say(
    tmp_path: Path,
    settings: Settings,
    topic: str,
    send: Callable[..., None],
    catch_up: Callable[..., object],
    read: Callable[..., list[dict[str, Any]]],
) -> None:
    """Two orders are accepted, one is a duplicate, one breaks the rule."""
    (tmp_path / "shop.py").write_text(blocks("python")[0], encoding="utf-8")
    pipeline = with_topic(load_pipeline(tmp_path / "shop.py"), topic)
    send(topic, [Message(b"k", line.encode()) for line in blocks("json")[0].splitlines()])
    catch_up(pipeline, settings)
    silver = {row["order_id"]: row for row in read(pipeline, settings, "silver.orders")}
    assert set(silver) == {"o1", "o2"}
    assert silver["o1"]["amount"] == Decimal("12.50")
    assert silver["o1"]["ordered_at"] == datetime(2026, 1, 5, 10, tzinfo=UTC)
    assert [row["reasons"] for row in read(pipeline, settings, "silver.orders__quarantine")] == [
        ["amount_positive"]
    ]
    revenue = {row["currency"]: row for row in read(pipeline, settings, "gold.revenue_by_currency")}
    assert {name: (row["orders"], row["revenue"]) for name, row in revenue.items()} == {
        "EUR": (1, Decimal("12.50")),
        "USD": (1, Decimal("80.00")),
    }
    latest = {
        row["customer"]: row["order_id"] for row in read(pipeline, settings, "gold.latest_order_by_customer")
    }
    assert latest == {"ann": "o1", "bob": "o2"}
