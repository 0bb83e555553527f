"""The queries of a job that have failed for good, each with its error, and those that wait for one of them.

A query that fails by its statement, its data or its rule is an error of its table: the others go on, but what
reads the table, directly or through others. A failure that all queries meet alike is one of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from common.codes import code_of
from common.declare import Pipeline
from common.errors import (
    DiskFullError,
    Fault,
    LeaseHeldError,
    LeaseLostError,
    MedallionError,
    OutOfMemoryError,
    Problem,
    SetupError,
    TablesFailedError,
)
from orchestration.access.declaration.lineage import in_data_order, sources, written_by

_WAITS = "MED-4017"


def is_of_job(failure: MedallionError) -> bool:
    """Whether a failure is no table's own: a service is away, a disk is full, a lease is lost."""
    whole = SetupError, DiskFullError, LeaseHeldError, LeaseLostError, OutOfMemoryError
    return failure.retryable or isinstance(failure, whole)


@dataclass
class TableFailures:
    """What has failed in a job."""

    writers: Mapping[str, str] = field(default_factory=dict)  # the query that writes each table
    # The tables that each query reads, in the order of data flow.
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The error of each query that has failed for good, in the order of the failures.
    errors: dict[str, MedallionError] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)  # for each query that waits, the one that has failed

    @classmethod
    def of(cls, pipeline: Pipeline) -> Self:
        """Those of a job of a pipeline: none yet."""
        ordered = (*pipeline.silver, *in_data_order(pipeline.gold), *pipeline.publish)
        return cls(
            {name: one.table for one in pipeline.tables for name in written_by(one)},
            {one.table: sources(one) for one in ordered},
        )

    def behind(self, reads: Iterable[str]) -> str | None:
        """The query that has failed and that one of these tables hangs on; None where none has."""
        for query in (self.writers.get(table, table) for table in reads):
            if query in self.errors:
                return query
            if query in self.waits:
                return self.waits[query]
        return None

    def hang_on(self, failed: str) -> list[str]:
        """The queries that read a table of a query, directly or through others, in the order of data flow."""
        found = {failed: None}
        for query, tables in self.reads.items():
            if any(self.writers.get(table, table) in found for table in tables):
                found[query] = None
        return list(found)[1:]

    def failed(self, query: str, error: MedallionError) -> None:
        """A query has failed for good."""
        self.waits.pop(query, None)
        self.errors.setdefault(query, error)

    def forget(self, query: str) -> None:
        """A query is started again; what has waited for it goes on."""
        self.errors.pop(query, None)
        self.waits.pop(query, None)
        self.waits = {name: failed for name, failed in self.waits.items() if failed != query}

    def error(self) -> MedallionError | None:
        """The error that tells of all of them; None where none has failed."""
        if len(self.errors) == 1 and not self.waits:
            return next(iter(self.errors.values()))
        return TablesFailedError(self.errors, dict(self._told())) if self.errors else None

    def _told(self) -> Iterable[tuple[str, Problem]]:
        """A line for each, and what is wrong as a problem of the table."""
        for query, error in self.errors.items():
            own = getattr(error, "problems", ())
            told = str(error).split("\n")
            if own and len(own) == len(told):
                yield from zip(told, own, strict=True)
            else:
                yield " ".join(told), Problem(query, Fault(code_of(error), " ".join(told)))
        for query, failed in self.waits.items():
            text = f"{query} waits for {failed}, which has failed"
            yield text, Problem(query, Fault(_WAITS, text))
