"""The proof of healthy tables never says that they differ, however legal messages spell their values."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from common.declare import Json, Pipeline, Silver, Topic
from tests.support.bronze_batches import append_batch
from tests.support.drawn.messages import FIELDS, KEY, draw_message
from tests.support.engine import Engine
from tests.support.oracles.proof import checks, different
from tests.support.stored_shop import settings_of

NAMES = [
    text.split()[0]
    for text in FIELDS.replace("(9,2)", "").replace("(20,2)", "").replace("(38,10)", "").split(", ")
]
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders", topics=["t"])],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json(FIELDS),
            columns={name: name for name in NAMES}
            | {
                "half": "floor(f)",
                "twice": "n * 2L",
                "is_dear": "price > 10",
                "seen": "coalesce(at, _kafka.timestamp)",
            },
            key=[*KEY],
            event_time="seen",
            watermark="1 hour",
            dedupe="exact",
        )
    ],
)
SEED = int(os.environ.get("DRAWN_SEED", "1"))


@pytest.mark.parametrize("messages", [600, pytest.param(20_000, marks=pytest.mark.long)])
def test_a_healthy_table_is_equal_or_not_compared(spark: Any, tmp_path: Path, messages: int) -> None:
    draw = Random(f"messages {SEED}")  # noqa: S311  # a seed has to give the same messages again
    engine, ends = Engine(spark, PIPELINE, settings_of(tmp_path)), {0: 0}
    values = [draw_message(draw, number) for number in range(messages)]
    append_batch(engine, 0, {0: values}, ends)
    engine.run("silver")
    rows = checks(PIPELINE, engine.layout)
    assert different(rows) == {}
    (account,) = [one for one in rows if one.check.startswith("offsets of")]
    assert account.expected == f"each of {messages} offsets from 0 in one place"
    (said,) = [one for one in rows if one.check.startswith("values of silver")]
    assert said.found.endswith("otherwise than its bytes have it"), said
    assert engine.faults() == ()
