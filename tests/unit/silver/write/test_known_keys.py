"""Until when duplicates of rows that a first load or a replay wrote are looked up in the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.declare import Json, Silver
from common.delta.micro_batch import MicroBatch
from silver.write.known_keys import KeysWrittenOutsideStream

SILVER = Silver(
    "orders",
    reads="bronze.orders",
    value=Json("id string, at timestamp"),
    columns={"id": "id", "at": "at"},
    key=["id"],
    event_time="at",
    watermark="1 hour",
)
BATCH = MicroBatch("shop", "silver.orders", "q", 7, ())


@pytest.mark.parametrize(
    ("until_ms", "watermark_ms", "is_over"),
    [
        (None, 0, True),
        (5_000, 5_000, False),
        (5_000, 5_001, True),
        # Rows of before 1970: in time until the watermark is in 1970, and late from then on.
        (-5_000, None, False),
        (-5_000, 0, False),
        (-5_000, 1, True),
    ],
)
def test_keys_are_looked_up_until_the_watermark_has_passed_them(
    until_ms: int | None, watermark_ms: int | None, *, is_over: bool
) -> None:
    keys = KeysWrittenOutsideStream(SILVER, "/nowhere", until_ms)
    assert keys.is_over(replace(BATCH, late_watermark_ms=lambda: watermark_ms)) is is_over
