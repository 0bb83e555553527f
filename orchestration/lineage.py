"""What reads what: tables that are declared twice, read in the wrong layer, or in a ring."""

from __future__ import annotations

from collections.abc import Iterator

from common.declare import Gold, Pipeline, Silver
from common.declaring import source_of
from common.errors import Problem, nearest

Reader = Silver | Gold

_READS = {"silver": "bronze", "gold": "silver"}


def lineage_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Problems of the graph of tables."""
    yield from _twice(pipeline)
    rings = tuple(_rings(pipeline))
    told: set[str] = set()
    for ring in rings:
        told.update(ring)
        shown = " -> ".join([*ring, ring[0]])
        layer = ring[0].partition(".")[0]
        text = f"reads in a ring: {shown}" if len(ring) > 1 else "reads itself"
        reader = next(table for table in readers(pipeline) if table.table == ring[0])
        yield Problem(ring[0], f"{text}; a {layer} table reads a {_READS[layer]} table", source_of(reader))
    for reader in readers(pipeline):
        if reader.table not in told and (fault := _read_fault(reader, pipeline)) is not None:
            yield Problem(reader.table, fault, source_of(reader))


def readers(pipeline: Pipeline) -> tuple[Reader, ...]:
    """The tables that read another table."""
    return (*pipeline.silver, *pipeline.gold)


def _twice(pipeline: Pipeline) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for table in pipeline.tables:
        source = source_of(table)
        if table.table in first:
            text = f"is declared twice, first at {first[table.table]}; one table has one writer: rename one"
            yield Problem(table.table, text, source)
        first.setdefault(table.table, source)


def _read_fault(reader: Reader, pipeline: Pipeline) -> str | None:
    wanted = _READS[reader.LAYER]
    right = [table.table for table in pipeline.tables if table.table.startswith(f"{wanted}.")]
    if reader.reads in right:
        return None
    advice = nearest(reader.reads, right) if right else f"the pipeline declares no {wanted} table yet"
    if reader.reads in {table.table for table in pipeline.tables}:
        return f"reads {reader.reads!r}, but a {reader.LAYER} table reads a {wanted} table; {advice}"
    return f"reads {reader.reads!r}, which the pipeline does not declare; {advice}"


def _rings(pipeline: Pipeline) -> Iterator[tuple[str, ...]]:
    reads = {table.table: table.reads for table in readers(pipeline)}
    done: set[str] = set()
    for start in reads:
        trail: list[str] = []
        table = start
        while table in reads and table not in done and table not in trail:
            trail.append(table)
            table = reads[table]
        if table in trail:
            yield tuple(trail[trail.index(table) :])
        done.update(trail)
