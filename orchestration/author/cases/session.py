"""A warm Spark session for cases: they are judged together, and several run at a time on their own tables."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from common.config.settings import Settings
from common.declare import Pipeline
from common.machine.stop_signals import was_interrupted
from common.spark import jvm
from common.spark.session import build_session
from orchestration.author.cases.judge_together import Judging
from orchestration.author.cases.read.case import Case
from orchestration.author.cases.run_case import JudgedTables, Outcome, run_case
from orchestration.author.cases.tables import with_json_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 3
"""Cases that run at the same time: while one plans in Python, others run in Spark's JVM."""

_SPARK = {
    # Tens of rows are processed before compiled code pays off.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.pollingDelay": "5ms",
}


@dataclass(frozen=True)
class CaseSession:
    """Runs cases in one Spark session."""

    folder: Path  # a temporary folder; each case gets a folder in it
    sessions: SimpleQueue[SparkSession]  # sessions of one Spark that no case uses now
    judging: Judging  # judges the records of the cases of a run together
    _numbers: Iterator[int] = field(default_factory=count)

    def run(
        self,
        cases: Sequence[tuple[Case, Pipeline, Settings]],
        on_end: Callable[[Outcome], None] = lambda _: None,
        *,
        as_streams: bool = False,
    ) -> list[Outcome]:
        """Run cases, several at a time.

        Args:
            cases: Each case with its pipeline and the user's settings.
            on_end: Called with each outcome in the order of the cases, as soon as it is known.
            as_streams: Whether every query is a streaming query, as in a job: slower, with the same result.

        Returns:
            The outcomes, in the order of the cases.
        """
        outcomes: list[Outcome] = []
        typed = {id(pipeline): with_json_values(pipeline) for _, pipeline, _ in cases}
        cases = [(case, typed[id(pipeline)], settings) for case, pipeline, settings in cases]
        judged: Sequence[JudgedTables | None] = [None for _ in cases] if as_streams else self._judged(cases)
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            given = zip(cases, judged, strict=True)
            for future in [pool.submit(self._run_one, *case, its) for case, its in given]:
                outcomes.append(future.result())
                on_end(outcomes[-1])
        finally:
            # After Ctrl-C the cases that have not begun do not run; those that run end with Spark.
            pool.shutdown(wait=False, cancel_futures=True)
        jvm.clear_table_cache()  # the tables are deleted
        return outcomes

    def _judged(self, cases: Sequence[tuple[Case, Pipeline, Settings]]) -> Sequence[JudgedTables | None]:
        spark = self.sessions.get()
        try:
            return self.judging.judge(spark, cases)
        finally:
            self.sessions.put(spark)

    def _run_one(
        self, case: Case, pipeline: Pipeline, settings: Settings, judged: JudgedTables | None
    ) -> Outcome:
        with self.room() as (spark, folder):
            return run_case(spark, case, pipeline, settings, folder, judged)

    @contextmanager
    def room(self) -> Iterator[tuple[SparkSession, Path]]:
        """A session in which no other case runs, and an empty folder, which is deleted at the end."""
        folder = self.folder / f"case_{next(self._numbers)}"
        folder.mkdir()
        spark = self.sessions.get()
        try:
            yield spark, folder
        finally:
            self.sessions.put(spark)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_cases(settings: Settings) -> Iterator[CaseSession]:
    """A new Spark session for cases, small and quick to start; its files are in a temporary folder.

    Raises:
        SetupError: Java or a jar is missing.
    """
    folder = Path(tempfile.mkdtemp(prefix="medallion_cases_"))
    try:
        spark = build_session(_small(settings, folder), "cases", folder / "log", compiled="quickly")
        try:
            yield _case_session(spark, folder)
        finally:
            if was_interrupted():
                _end_at_once(spark)
            jvm.stop(spark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_at_once(spark: SparkSession) -> None:
    """End Spark under cases that run; what they then meet is no error that anybody is to read."""
    if (child := jvm.process(spark)) is not None:
        logging.disable(logging.CRITICAL)
        child.kill()
        child.wait()


@contextmanager
def cases_in(spark: SparkSession) -> Iterator[CaseSession]:
    """Cases in a session that runs already."""
    folder = Path(tempfile.mkdtemp(prefix="medallion_cases_"))
    try:
        yield _case_session(spark, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _case_session(spark: SparkSession, folder: Path) -> CaseSession:
    (cases := folder / "cases").mkdir()
    return CaseSession(cases, _sessions(spark), Judging(folder / "judging"))


def _sessions(spark: SparkSession) -> SimpleQueue[SparkSession]:
    """Sessions of a Spark for cases that run at the same time."""
    sessions: SimpleQueue[SparkSession] = SimpleQueue()
    for _ in range(AT_ONCE):
        sessions.put(spark.newSession())
    return sessions


def _small(settings: Settings, folder: Path) -> Settings:
    """The settings of a session for tens of rows; what the user adds to Spark stays."""
    spark = settings.spark.model_copy(
        update={
            "master": "local[2]",
            "driver_memory": "1g",
            "shuffle_partitions": 1,
            "state_store": "memory",
            "fsync": False,
            "ui": False,
            "conf": {**_SPARK, **settings.spark.conf},
        }
    )
    return settings.model_copy(update={"spark": spark, "data_dir": folder})
