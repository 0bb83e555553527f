"""What the demo refuses, and the account that it ends with."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from common.config.settings import Settings, load_settings
from common.declare import Message, Pipeline, Topic
from common.errors import UsageError
from orchestration.cli.run import demo_output, run_demo
from orchestration.observe.status.row_balance import Balance


def sample(seed: int) -> Iterator[Message]:
    yield Message(None, b"{}")


@pytest.mark.parametrize(
    ("topic", "overrides", "why"),
    [
        (Topic("orders"), (), "Pipeline shop has no topic with a sample"),
        (Topic("orders", sample=sample), ("kafka.bootstrap_servers=kafka:9092",), "reads from kafka:9092"),
    ],
)
def test_a_pipeline_without_sample_or_with_a_broker_of_its_own_is_refused(
    topic: Topic, overrides: tuple[str, ...], why: str
) -> None:
    settings: Settings = load_settings(overrides=overrides)
    with pytest.raises(UsageError, match=why):
        run_demo.run(Pipeline("shop", bronze=[topic]), settings, seconds=1, rate=1, seed=1, began=0, after=())


def test_the_account_says_what_is_in_no_place() -> None:
    def shown(silver: int) -> list[str]:
        balance = Balance(
            table="silver.orders", reads="bronze.orders", bronze=10, silver=silver, quarantined=1, dropped=0,
            tombstones=0, duplicates=2, late=0, waiting=1, unread=4,
        )  # fmt: skip
        console = Console(width=80, file=io.StringIO(), record=True)
        console.print(demo_output.account(balance))
        return [line.strip() for line in console.export_text().splitlines()]

    assert shown(6)[-1] == "balanced: every record is in exactly one place"
    assert shown(5)[-1] == "not balanced by 1 records"
    assert [line for line in shown(6) if "Kafka" in line or "not read" in line] == [
        "14  offsets in Kafka",
        "4  not read yet",
    ]
