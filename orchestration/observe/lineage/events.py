"""OpenLineage's run events of a query; the only module, with ``sender``, that imports the client library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from openlineage.client import event_v2 as ol
from openlineage.client import facet_v2 as facets
from openlineage.client.generated.base import DatasetFacet

from common.declare import Silver
from orchestration.observe.lineage.datasets import Dataset, QueryDatasets
from orchestration.observe.lineage.sources import Source

PRODUCER = "urn:medallion-lakehouse"
_INDIRECT = frozenset({"FILTER", "GROUP_BY", "JOIN", "SORT", "WINDOW"})

EventType = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"]


@dataclass
class RunCounts:
    """What the micro-batches of a run have read and written so far."""

    batches: int = 0  # Micro-batches
    read: int = 0  # rows or records that they read
    written: dict[str, int] = field(default_factory=dict)  # rows that they wrote, by table
    files: int = 0  # files that they added to the query's own table
    bytes: int = 0  # size of these files
    rules: dict[str, int] = field(default_factory=dict)  # rows that broke a rule, by rule


@dataclass(frozen=True, slots=True)
class Suite:
    """The last result of a quality suite: its table, and name and success of each expectation."""

    table: str
    assertions: tuple[tuple[str, str | None, bool], ...]


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """One event, before it is written in OpenLineage's terms."""

    kind: EventType  # the event type
    at: datetime  # when it happened
    run_id: str  # the run: one start of the query
    query: str
    counts: RunCounts  # the counts up to this event
    error: str = ""  # what ended the run


@dataclass(frozen=True, slots=True)
class Origin:
    """What all events of a job have in common."""

    namespace: str  # namespace of the jobs
    pipeline: str  # name of the pipeline
    spark_version: str  # version of Spark
    interval_seconds: int  # seconds between two RUNNING events of a query


def run_event(
    event: QueryEvent, origin: Origin, found: QueryDatasets, declared: object, suites: Iterable[Suite] = ()
) -> ol.RunEvent:
    """One event as OpenLineage has it.

    Args:
        origin: What all events have in common.
        found: The datasets of the query.
        suites: Results of quality suites on tables that the query writes.
    """
    emission = facets.job_type_job.EmissionPattern("PERIODIC", "ACCUMULATIVE", origin.interval_seconds)
    kind = facets.job_type_job.JobTypeJobFacet("STREAMING", "MEDALLION", "QUERY", emissionPattern=emission)
    return ol.RunEvent(
        eventType=ol.RunState[event.kind],
        eventTime=event.at.isoformat(),
        run=ol.Run(event.run_id, _run_facets(event, origin)),
        job=ol.Job(origin.namespace, f"{origin.pipeline}.{event.query}", {"jobType": kind}),
        inputs=[_input(each, event.counts) for each in found.inputs],
        outputs=[_output(each, event, found, declared, suites) for each in found.outputs],
        producer=PRODUCER,
    )


def _run_facets(event: QueryEvent, origin: Origin) -> dict[str, Any]:
    engine = facets.processing_engine_run.ProcessingEngineRunFacet(origin.spark_version, "spark")
    found: dict[str, Any] = {"processing_engine": engine}
    if event.error:
        found["errorMessage"] = facets.error_message_run.ErrorMessageRunFacet(event.error, "PYTHON")
    return found


def _input(dataset: Dataset, counts: RunCounts) -> ol.InputDataset:
    statistics = facets.input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=counts.read)
    is_known = counts.batches > 0
    return ol.InputDataset(
        *dataset.name,
        facets=_dataset_facets(dataset),
        inputFacets={"inputStatistics": statistics} if is_known else {},
    )


def _output(
    dataset: Dataset, event: QueryEvent, found: QueryDatasets, declared: object, suites: Iterable[Suite]
) -> ol.OutputDataset:
    counts = event.counts
    about: dict[str, Any] = {**_dataset_facets(dataset)}
    if dataset.sources is not None:
        about["columnLineage"] = _column_lineage(dataset, found)
    assertions = _assertions(dataset, declared, counts, suites)
    if assertions:
        about["dataQualityAssertions"] = (
            facets.data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions)
        )
    is_main = dataset.table == event.query
    statistics = facets.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=counts.written.get(dataset.table),
        size=counts.bytes if is_main else None,
        fileCount=counts.files if is_main else None,
    )
    is_known = counts.batches > 0 and (is_main or dataset.table in counts.written)
    return ol.OutputDataset(
        *dataset.name, facets=about, outputFacets={"outputStatistics": statistics} if is_known else {}
    )


def _dataset_facets(dataset: Dataset) -> dict[str, DatasetFacet]:
    found: dict[str, DatasetFacet] = {}
    if dataset.columns:
        columns = [
            facets.schema_dataset.SchemaDatasetFacetFields(name, type=kind)
            for name, kind in dataset.columns.items()
        ]
        found["schema"] = facets.schema_dataset.SchemaDatasetFacet(columns)
    if dataset.table:
        link = facets.symlinks_dataset.Identifier(
            namespace=dataset.name.namespace, name=dataset.table, type="TABLE"
        )
        found["symlinks"] = facets.symlinks_dataset.SymlinksDatasetFacet([link])
    return found


def _column_lineage(dataset: Dataset, found: QueryDatasets) -> DatasetFacet:
    about = facets.column_lineage_dataset
    sources = dataset.sources
    assert sources is not None  # noqa: S101  # the caller looked
    return about.ColumnLineageDatasetFacet(
        fields={
            column: about.Fields(_input_fields(of_column, found))
            for column, of_column in sources.columns.items()
        },
        dataset=_input_fields(sources.rows, found),
    )


def _input_fields(sources: Sequence[Source], found: QueryDatasets) -> list[Any]:
    about = facets.column_lineage_dataset
    fields: dict[tuple[str, str, str], Any] = {}
    for source in sources:
        kind = "INDIRECT" if source.kind in _INDIRECT else "DIRECT"
        how = about.Transformation(kind, source.kind, source.sql or None, masking=False)
        for name in found.names.get(source.table, ()):
            place = (name.namespace, name.name, source.column)
            field_of = fields.setdefault(place, about.InputField(*place, transformations=[]))
            field_of.transformations.append(how)
    return list(fields.values())


def _assertions(dataset: Dataset, declared: object, counts: RunCounts, suites: Iterable[Suite]) -> list[Any]:
    about = facets.data_quality_assertions_dataset
    found = []
    if isinstance(declared, Silver) and dataset.table == declared.table and counts.batches:
        for rule in declared.rules:
            broken = counts.rules.get(rule.name, 0)
            found.append(
                about.Assertion(
                    assertion="rule",
                    success=broken == 0,
                    severity="warn" if rule.on_fail == "warn" else "error",
                    name=rule.name,
                    expected="0",
                    actual=str(broken),
                    content=rule.condition,
                    contentType="sql",
                )
            )
    for suite in suites:
        if suite.table == dataset.table:
            found += [about.Assertion(assertion=a, success=ok, column=c) for a, c, ok in suite.assertions]
    return found


def all_written(counts: RunCounts, more: Mapping[str, int]) -> None:
    """Add the rows of one micro-batch to the counts, by table."""
    for table, rows in more.items():
        counts.written[table] = counts.written.get(table, 0) + rows
