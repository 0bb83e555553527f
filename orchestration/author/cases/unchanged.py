"""Which cases need no further run in one ``--watch`` session: those that passed and have not changed since.

A case has changed if its records, its expected rows or its lookups have, if the declaration of a query that
writes one of its expected tables has, directly or through the tables that the query reads, or if any file
beside the pipeline that is neither Python nor cases has, such as a schema. A function of a declaration counts
as changed whenever Python has loaded its module again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from common.config.settings import Settings
from common.declare import Pipeline
from orchestration.author.cases.read.case import Case, TextTable
from orchestration.author.cases.read.load import SUFFIXES
from orchestration.author.cases.run_case import Outcome, pruned


@dataclass
class PassedCases:
    """The cases that passed in a session, by their names, with all that their results depend on."""

    _passed: dict[str, list[Any]] = field(default_factory=dict)

    def changed(
        self, cases: Sequence[tuple[Case, Pipeline]], settings: Settings, times: Mapping[Path, float]
    ) -> tuple[tuple[Case, Pipeline], ...]:
        """The cases that have to run: those that did not pass, or have changed.

        Args:
            times: When each file in the folders of cases and pipeline was changed.
        """
        return tuple(
            (case, pipeline)
            for case, pipeline in cases
            if _meaning(case, pipeline, settings, times) not in self._passed.get(case.name, ())
        )

    def learn(
        self,
        cases: Sequence[tuple[Case, Pipeline]],
        outcomes: Sequence[Outcome],
        settings: Settings,
        times: Mapping[Path, float],
    ) -> None:
        """Keep the cases that passed; ``outcomes`` are those of ``cases``, in the same order."""
        for (case, pipeline), outcome in zip(cases, outcomes, strict=True):
            if outcome.has_passed:
                self._passed[case.name] = [
                    *self._passed.get(case.name, [])[-1:],
                    _meaning(case, pipeline, settings, times),
                ]


def _meaning(case: Case, pipeline: Pipeline, settings: Settings, times: Mapping[Path, float]) -> Any:
    """All that the result of a case depends on, without its place in the file; compared with ``==``."""
    needed = pruned(pipeline, tuple(case.expect))
    return (
        [[replace(record, place=None) for record in batch] for batch in case.batches],
        _cells(case.expect),
        _cells(case.lookups),
        (needed.silver, needed.gold, pipeline.name),
        [(topic.name, topic.pattern, topic.table) for topic in pipeline.bronze],
        settings,
        {file: time for file, time in times.items() if not file.name.endswith((".py", *SUFFIXES))},
    )


def _cells(tables: Mapping[str, TextTable]) -> Mapping[str, Any]:
    return {name: (table.columns, table.rows) for name, table in tables.items()}
