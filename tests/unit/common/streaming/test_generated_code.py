"""A query's session generates code where the last micro-batch had many rows, and only there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from common.delta.generated_code import FEW, SETTINGS, GeneratedCode
from common.delta.micro_batch import MicroBatch

OWN = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def batch(before: int | None, after: int) -> MicroBatch:
    start: Any = ({"t": {"0": before}},) if before is not None else ()
    return MicroBatch("p", "bronze.orders", "id", 7, ({"t": {"0": after}},), before=start)


@pytest.mark.parametrize("constraints", ["true", "false"])
def test_the_settings_follow_the_rows_and_the_sessions_own_come_back(constraints: str) -> None:
    own = OWN | {"spark.sql.constraintPropagation.enabled": constraints}
    conf = dict(own)
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
        told.append(conf == own)
        assert conf in (own, SETTINGS)
    assert told == [True, False, False, True, True, False]
    assert len(written) == 3 * len(SETTINGS), "a setting is written where it changes"
