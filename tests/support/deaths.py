"""A process that dies at its writes, or as it begins, and is started anew until it has caught up."""

from __future__ import annotations

import itertools
import json
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


def survive(run: Callable[[], object], deaths: Mapping[int, bool]) -> int:
    """Run until it has caught up, through every death; how often it died.

    Args:
        run: A run, from a restart to its end.
        deaths: At which of all writes the process dies, and whether that write is still done.
    """
    writes = itertools.count()
    left = dict(deaths)
    with _dying(writes, left):
        for _ in range(len(deaths) + 1):
            try:
                run()
            except QueryFailedError as error:
                assert "killed here" in str(error)  # noqa: PT017  # anything else is a failure of its own
            else:
                return len(deaths) - len(left)
    raise AssertionError("it dies more often than it is killed")


def die_before_the_first_batch(checkpoint: Path) -> list[Path]:
    """What a SIGKILL leaves of a query that was about to plan its first micro-batch; the temporary files."""
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid4())}))
    left = [checkpoint / f".metadata.{uuid4()}.tmp", checkpoint / "offsets" / f".0.{uuid4()}.tmp"]
    for file in left:
        file.touch()
    return left


@contextmanager
def _dying(writes: Iterator[int], deaths: dict[int, bool]) -> Iterator[None]:
    """Every write of a table counts; where a death is due, it raises before the write, or right after."""

    def mortal(write: Callable[..., Any]) -> Callable[..., Any]:
        def run(*words: Any, **named: Any) -> Any:
            due = deaths.pop(next(writes), None)
            if due is False:
                raise RuntimeError("killed here")
            result = write(*words, **named)
            if due:
                raise RuntimeError("killed here")
            return result

        return run

    with ExitStack() as stack:
        for owner, name in (
            (DataFrameWriter, "save"),
            (DeltaMergeBuilder, "execute"),
            (DeltaRsTable, "append"),
            (DeltaRsTable, "change"),
        ):
            stack.enter_context(mock.patch.object(owner, name, mortal(getattr(owner, name))))
        yield
