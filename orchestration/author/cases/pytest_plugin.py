"""The pytest plugin: ``*.cases.yaml`` files are collected as tests, and ``medallion_case`` runs one case.

pytest loads this module in every run, so it imports nothing but pytest; Spark starts with the first case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from common.config.settings import Settings
    from common.declare import Pipeline
    from orchestration.author.cases.read.case import Case
    from orchestration.author.cases.session import CaseSession

_YAML = (".cases.yaml", ".cases.yml")

_SESSION: pytest.StashKey[CaseSession] = pytest.StashKey()
_STACK: pytest.StashKey[ExitStack] = pytest.StashKey()
_LOADED: pytest.StashKey[dict[Path, Pipeline]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting for the pipeline of files that name none."""
    parser.addini("medallion_pipeline", "The pipeline file of cases that name none.", type="paths")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect files of cases; each case is a test."""
    if file_path.name.endswith(_YAML):
        collected: pytest.Collector = CaseFile.from_parent(parent, path=file_path)
        return collected
    return None


class CaseFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[pytest.Item]:
        """A test per case.

        Raises:
            CollectError: The file has a mistake.
        """
        from orchestration.author.cases.read.load import load_files

        loaded = load_files([self.path])
        if loaded.problems:
            raise self.CollectError("\n".join(map(str, loaded.problems)))
        for case in loaded.cases:
            item: CaseItem = CaseItem.from_parent(self, name=case.name)
            item.case = case
            yield item


class CaseItem(pytest.Item):
    """A case as a test."""

    case: Case

    def runtest(self) -> None:
        """Run the case.

        Raises:
            CaseFailure: A table has other rows than the case expects.
        """
        _check(self.config, self.case, _pipeline_of(self.config, self.case))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """The rows that differ, without a traceback."""
        if excinfo.errisinstance(CaseFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """File, line and name for the report."""
        return self.path, self.case.place.line - 1, self.name


class CaseFailure(AssertionError):  # noqa: N818  # pytest speaks of failures
    """A table has other rows than a case expects."""


@pytest.fixture
def medallion_case(request: pytest.FixtureRequest) -> Callable[..., None]:
    """A function that runs a case on a pipeline and fails with the rows that differ.

    ``medallion_case(pipeline, messages=[…], expect={…})``; the pipeline is a ``Pipeline`` or the path of a
    pipeline file, and the other arguments are those of ``medallion.case``.
    """
    from orchestration.access.declaration.load_file import load_pipeline
    from orchestration.author.cases.read.load import case

    def check(pipeline: Pipeline | Path | str, **given: Any) -> None:
        if isinstance(pipeline, str | Path):
            pipeline = load_pipeline(Path(pipeline))
        _check(request.config, case(request.node.name, **given), pipeline)

    return check


def use_session(config: pytest.Config, session: CaseSession) -> None:
    """Have all cases of this run use a session that is open already."""
    config.stash[_SESSION] = session


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop Spark, if a case has started it."""
    if _STACK in config.stash:
        config.stash[_STACK].close()


def _check(config: pytest.Config, case: Case, pipeline: Pipeline) -> None:
    from common.errors import CaseError
    from orchestration.author.cases.output import failure_text
    from orchestration.author.cases.problems import case_problems

    if problems := case_problems([case], pipeline):
        raise CaseError(problems)
    settings = _settings()
    (outcome,) = _session(config, settings).run([(case, pipeline, settings)])
    if not outcome.has_passed:
        raise CaseFailure(failure_text(outcome))


def _session(config: pytest.Config, settings: Settings) -> CaseSession:
    """The run's session; the first case starts Spark, or takes the session that the tests have."""
    if _SESSION not in config.stash:
        from pyspark.sql import SparkSession

        from orchestration.author.cases.session import cases_in, open_cases

        stack = config.stash[_STACK] = ExitStack()
        active = SparkSession.getActiveSession()
        opening = open_cases(settings) if active is None else cases_in(active)
        config.stash[_SESSION] = stack.enter_context(opening)
    return config.stash[_SESSION]


def _settings() -> Settings:
    from common.config.settings import load_settings

    return load_settings()


def _pipeline_of(config: pytest.Config, case: Case) -> Pipeline:
    from orchestration.access.declaration.load_file import load_pipeline

    named = config.getini("medallion_pipeline")
    path = case.pipeline or (named[0] if named else _settings().pipeline)
    loaded = config.stash.setdefault(_LOADED, {})
    key = path.resolve() if path is not None else Path()
    if key not in loaded:
        loaded[key] = load_pipeline(path)
    return loaded[key]
