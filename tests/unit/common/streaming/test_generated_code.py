"""A query's session generates code where the last micro-batch had many rows, and only there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.delta.generated_code import FEW, SETTINGS, GeneratedCode
from common.delta.micro_batch import MicroBatch

OWN = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def batch(before: int | None, after: int) -> MicroBatch:
    start: Any = ({"t": {"0": before}},) if before is not None else ()
    return MicroBatch("p", "bronze.orders", "id", 7, ({"t": {"0": after}},), before=start)


def test_the_settings_follow_the_rows_and_the_sessions_own_come_back() -> None:
    conf = dict(OWN)
    written: list[str] = []
    spark: Any = SimpleNamespace(
        conf=SimpleNamespace(
            get=conf.__getitem__,
            set=lambda name, value: (written.append(name), conf.update({name: value})),
        )
    )
    code = GeneratedCode(())
    told = []
    for before, after in ((None, 5), (5, 5 + FEW), (5, 6), (6, 7 + FEW), (7, 8 + FEW), (8, 8)):
        code.follow(spark, batch(before, after))
        told.append(conf == OWN)
        assert conf in (OWN, SETTINGS)
    assert told == [True, False, False, True, True, False]
    assert len(written) == 3 * len(SETTINGS), "a setting is written where it changes"


@pytest.mark.parametrize("position", [7, {"logOffset": 7}, {"reservoirVersion": 7, "index": 1}])
def test_a_source_whose_positions_count_no_records_keeps_the_sessions_settings(position: Any) -> None:
    ended = MicroBatch("p", "bronze.lines", "id", 7, (position,), before=(position,))
    GeneratedCode(()).follow(cast("Any", None), ended)
    assert ended.most_records() is None
