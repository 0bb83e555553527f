"""``--standby`` of ``up`` and ``run``: wait, with Spark started, beside a running job."""

from __future__ import annotations

import errno
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from common.errors import AddressError, Problem
from common.machine.console import say
from orchestration.access.declaration.context import Context
from orchestration.cli.run.tried_remedies import tried_remedies
from orchestration.observe.page.serve import alerts_of, page_of

if TYPE_CHECKING:  # imports Spark, which other commands do not need
    from pyspark.sql import SparkSession

    from orchestration.run.job import Job
    from orchestration.run.wiring import Layer


_LOOK_SECONDS = 0.1

_PAGE_SECONDS = 60.0
"""So long a job may have its page after it has released its leases: it closes the page after its Spark."""


def run_as_standby(
    ready: Context, layers: Sequence[Layer], name: str, http: str | None, run: Callable[[Job], None]
) -> None:
    """Run a job once no other process writes its tables.

    Args:
        http: The address of the page; where the running job has it, it is opened with the leases.

    Raises:
        PipelineError: The next start of this pipeline would be refused.
    """
    from orchestration.run.job import written_queries
    from orchestration.run.standby.wait import open_standby

    own = written_queries(ready.pipeline, layers)
    page = functools.partial(page_of, ready.pipeline, ready.settings, http, own if name != "up" else ())
    refusals = functools.partial(_refusals, ready, own)
    with (
        tried_remedies(ready),
        _page_if_free(page) as has_page,
        # A job that hangs has the page's address, and watches no alert.
        nullcontext() if has_page else alerts_of(ready.pipeline, ready.settings),
        open_standby(
            ready.pipeline,
            ready.settings,
            layers,
            name=name,
            refusals=refusals,
            beside=nullcontext if has_page else functools.partial(_page_if_free, page, _PAGE_SECONDS),
        ) as job,
    ):
        if job is not None:
            run(job)


@contextmanager
def _page_if_free(page: Callable[[], AbstractContextManager[object]], seconds: float = 0.0) -> Iterator[bool]:
    """Open the page, unless another process listens at its address for so long; yields whether it is open.

    Raises:
        AddressError: The address is wrong.
    """
    deadline = time.monotonic() + seconds
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(page())
            except AddressError as error:
                if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EADDRINUSE:
                    raise
                if time.monotonic() < deadline:
                    time.sleep(_LOOK_SECONDS)
                    continue
                say(f"no page now: {error}")
                yield False
                return
            break
        yield True


def _refusals(ready: Context, queries: Sequence[str], spark: SparkSession) -> list[Problem]:
    """Why the next start of these queries would be refused, by the plan of the pipeline."""
    from orchestration.change.plan.plan import plan

    plans = plan(ready.pipeline, ready.settings, ready.layout, lambda: spark)
    return [
        Problem(
            f"{one.query}, {change.name}",
            f"{change.why or 'the table has to be filled again'}. A standby with this pipeline could not "
            "take over, so it ends; the running job is not touched. What to do says: medallion plan",
        )
        for one in plans
        if one.query in queries
        for change in one.changes
        if change.effect in {"rebuild", "refused"}
    ]
