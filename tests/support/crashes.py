"""Runs a function that crashes at chosen writes, and restarts it until it has caught up."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

from delta.tables import DeltaMergeBuilder
from pyspark.sql import DataFrameWriter

from common.delta.delta_rs import DeltaRsTable
from common.errors import QueryFailedError
from common.streaming.attempt_mark import AttemptMark


def run_through_crashes(run: Callable[[], object], crashes: Mapping[int, bool]) -> int:
    """Call ``run`` again after each crash, until a call ends without one; returns the number of crashes.

    Args:
        run: One run, from a restart to the end.
        crashes: By the number of a write, counted over all runs: whether that write is done before the crash.
    """
    writes = itertools.count()
    left = dict(crashes)
    with _crashing(writes, left):
        for _ in range(len(crashes) + 1):
            try:
                run()
            except (QueryFailedError, RuntimeError) as error:  # the latter: before any query has started
                assert "killed here" in str(error)  # noqa: PT017  # any other error is a failure of the test
            else:
                return len(crashes) - len(left)
    raise AssertionError("the run failed more often than it was to crash")


def die_before_the_first_batch(checkpoint: Path) -> list[Path]:
    """What a SIGKILL leaves of a query that was about to plan its first micro-batch; the temporary files."""
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid4())}))
    left = [checkpoint / f".metadata.{uuid4()}.tmp", checkpoint / "offsets" / f".0.{uuid4()}.tmp"]
    for file in left:
        file.touch()
    return left


@contextmanager
def _crashing(writes: Iterator[int], crashes: dict[int, bool]) -> Iterator[None]:
    """Count every write of a table; raise before or right after each write that is to crash.

    What is left of a marked micro-batch is its mark, as after a SIGKILL.

    Crashes are logged, and pytest keeps each log record until the test is over, with all that its traceback
    refers to: about 5 MB of Spark's heap per crash. So the loggers' records do not reach pytest.
    """

    def crashing(write: Callable[..., Any]) -> Callable[..., Any]:
        def run(*words: Any, **named: Any) -> Any:
            due = crashes.pop(next(writes), None)
            if due is False:
                raise RuntimeError("killed here")
            result = write(*words, **named)
            if due:
                raise RuntimeError("killed here")
            return result

        return run

    with ExitStack() as stack:
        for logger in map(logging.getLogger, ("py4j", "medallion.supervisor")):
            stack.enter_context(mock.patch.object(logger, "propagate", False))
        for owner, name in (
            (DataFrameWriter, "save"),
            (DeltaMergeBuilder, "execute"),
            (DeltaRsTable, "append"),
            (DeltaRsTable, "change"),
        ):
            stack.enter_context(mock.patch.object(owner, name, crashing(getattr(owner, name))))
        stack.enter_context(mock.patch.object(AttemptMark, "fail"))
        yield
