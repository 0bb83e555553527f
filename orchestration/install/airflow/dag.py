"""A DAG that processes what is available, judges it, checks its freshness and maintains the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset

from common.declare import Pipeline
from orchestration.access.declaration.load_file import load_pipeline
from orchestration.install.airflow.operator import FreshnessOperator, MedallionOperator

_SCHEME = "x-medallion"


def table_asset(pipeline: Pipeline, table: str) -> Asset:
    """The asset of a table: ``<pipeline>.<table>``, for DAGs that are to run after the table has changed."""
    layer, _, name = table.partition(".")
    uri = f"{_SCHEME}://{pipeline.name}/{layer}/{name}"
    return Asset(name=f"{pipeline.name}.{table}", uri=uri, group="medallion")


def topic_asset(pipeline: Pipeline, topic: str) -> Asset:
    """The asset of a topic that a pipeline reads."""
    return Asset(name=f"{pipeline.name}.topic.{topic}", uri=f"{_SCHEME}://{pipeline.name}/topic/{topic}")


def build_dag(  # noqa: PLR0913  # each names one thing that users set
    pipeline_file: str | Path,
    *,
    dag_id: str | None = None,
    schedule: Any = "@hourly",
    start_date: datetime | None = None,
    command: str | Sequence[str] = "medallion",
    settings: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    freshness: timedelta | None = None,
    maintain: bool = True,
    default_args: Mapping[str, Any] | None = None,
    **dag_options: Any,
) -> DAG:
    """The DAG of a pipeline: ``backfill``, then ``quality`` and ``freshness``, then ``maintain``.

    ``quality`` is there if the pipeline declares suites, ``freshness`` if a limit is given. One run of
    the DAG is active at a time, because a table has one writer. Each task ends as ``MedallionOperator`` says.

    Args:
        pipeline_file: The pipeline file. It is loaded whenever Airflow parses the DAG, without Spark.
        dag_id: Name of the DAG; unset: ``medallion_<pipeline>``.
        schedule: Airflow's schedule.
        start_date: Airflow's start date; runs for times that are past are not caught up.
        command: The ``medallion`` command: its path, or the words that start it.
        settings: The settings file.
        overrides: Settings as ``--set`` takes them: ``{"kafka.bootstrap_servers": "broker:9092"}``.
        env: Environment variables of the command, such as secrets that settings refer to.
        freshness: The age of the oldest record that is not in gold at which ``freshness`` fails.
        maintain: Whether the tables are maintained at the end.
        default_args: Airflow's arguments of all tasks; ``retries`` is 2 unless given.
        dag_options: More arguments of Airflow's DAG.

    Raises:
        PipelineError: The pipeline file is wrong.
        UsageError: There is no such file.
    """
    file = Path(pipeline_file).resolve()
    pipeline = load_pipeline(file)
    words = [command] if isinstance(command, str) else list(command)
    given = ["-p", str(file), *([] if settings is None else ["--settings", str(settings)])]
    for name, value in (overrides or {}).items():
        given += ["--set", f"{name}={value}"]
    common: dict[str, Any] = {"command": words, "arguments": given, "env": dict(env or {})}
    with DAG(
        dag_id or f"medallion_{pipeline.name}",
        schedule=schedule,
        start_date=start_date,
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 2, "retry_delay": timedelta(minutes=1), **(default_args or {})},
        **{"tags": ["medallion"], **dag_options},
    ) as dag:
        last = _tasks(pipeline, common, freshness)
        if maintain:
            last >> MedallionOperator(
                task_id="maintain", words=["maintain"], trigger_rule="none_failed", **common
            )
    return dag


def _tasks(pipeline: Pipeline, common: Mapping[str, Any], freshness: timedelta | None) -> list[Any]:
    """All tasks but the last; returns those that the last one follows."""
    topics = [name for topic in pipeline.topics for name in topic.topic_names]
    tables = [table.table for table in pipeline.tables]
    backfill = MedallionOperator(
        task_id="backfill",
        words=["backfill"],
        inlets=[topic_asset(pipeline, name) for name in topics],
        outlets=[table_asset(pipeline, name) for name in tables],
        **common,
    )
    checks: list[Any] = []
    # A job that runs beside has done the work of a backfill that is skipped: the checks run all the same.
    rule: dict[str, Any] = {"trigger_rule": "none_failed"}
    if pipeline.quality:
        suites = [table_asset(pipeline, suite.table) for suite in pipeline.quality]
        checks.append(
            MedallionOperator(task_id="quality", words=["quality", "run"], inlets=suites, **rule, **common)
        )
    if freshness is not None:
        ends = [table_asset(pipeline, name) for name in tables]
        seconds = freshness.total_seconds()
        checks.append(
            FreshnessOperator(task_id="freshness", limit_seconds=seconds, inlets=ends, **rule, **common)
        )
    if checks:
        backfill >> checks
    return checks or [backfill]
