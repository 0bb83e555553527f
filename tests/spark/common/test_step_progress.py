"""Progress within a step of a command, by the tasks of a real Spark job."""

from __future__ import annotations

import re
import time
from typing import Any

from common.spark.step_progress import steps_reported


def test_a_step_is_named_again_with_the_tasks_that_are_done(spark: Any) -> None:
    said: list[str] = []
    spark.sparkContext.setJobGroup("step", "a step")
    try:
        with steps_reported(spark, said.append, every=0.1) as begin:
            time.sleep(0.25)
            assert said == []
            begin("1 of 2")
            spark.sparkContext.parallelize(range(6), 6).foreach(lambda _: time.sleep(0.3))
            begin("2 of 2")
        assert said[0] == "1 of 2"
        assert said[-1] == "2 of 2"
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    told = [re.fullmatch(r"1 of 2: \d+ s, (\d+) of (\d+) tasks", line) for line in said[1:-1]]
    assert all(told), said
    counts = [(int(line[1]), int(line[2])) for line in told if line is not None]
    assert any(0 < done < total for done, total in counts), said
