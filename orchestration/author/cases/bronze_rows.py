"""Writes the bronze tables of a case: a commit per micro-batch, as bronze's own query writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bronze.table import PROPERTIES
from common.config.paths import Layout
from common.declare import Pipeline
from common.delta.small_table import SmallTable
from common.errors import CaseError, Problem
from common.schema.ddl import DdlError, Field, parse
from orchestration.author.cases.read.case import TIMESTAMP, Case, Record, TextTable
from orchestration.author.cases.read.cells import CellError, wanted
from orchestration.author.cases.tables import topic_of, topic_problem

if TYPE_CHECKING:
    import pyarrow as pa

BronzeBatch = Mapping[str, Sequence[Mapping[str, Any]]]
"""The rows of one micro-batch, by bronze table."""

_STEP = timedelta(seconds=1)
"""Between the times at which two micro-batches were read from Kafka."""


@dataclass
class _Offsets:
    """The next offset of each topic's partition."""

    following: dict[tuple[str, int], int] = field(default_factory=dict)

    def of(self, record: Record, topic: str) -> int:
        place = topic, record.partition
        offset = self.following.get(place, 0) if record.offset is None else record.offset
        self.following[place] = max(offset + 1, self.following.get(place, 0))
        return offset


def bronze_batches(case: Case, pipeline: Pipeline) -> tuple[BronzeBatch, ...]:
    """The rows of bronze tables that each micro-batch of a case brings.

    Raises:
        CaseError: No bronze table reads the topic of a record.
    """
    offsets = _Offsets()
    batches = []
    for number, batch in enumerate(case.batches):
        rows: dict[str, list[dict[str, Any]]] = {}
        for record in batch:
            found = topic_of(record, pipeline)
            if found is None:
                problem = topic_problem(record, pipeline, f"case {case.name!r}")
                raise CaseError([problem] if problem else [])
            topic, name = found
            row = _row(record, name, offsets.of(record, name), number)
            rows.setdefault(topic.table, []).append(row)
        batches.append(rows)
    return tuple(batches)


def create_bronze(pipeline: Pipeline, layout: Layout) -> None:
    """Create every bronze table, without rows."""
    for topic in pipeline.bronze:
        SmallTable(layout.table_path(topic.table), PROPERTIES).write(_schema().empty_table())


def write_bronze(rows: BronzeBatch, pipeline: Pipeline, layout: Layout) -> None:
    """Write a micro-batch of a case into the bronze tables."""
    from common.delta import table as delta_table

    for table, written in rows.items():
        # Silver refuses rows that no commit of the engine's own has brought.
        metadata = delta_table.maintenance_metadata(pipeline.name, table, "repair")
        SmallTable(layout.table_path(table)).write(arrow_rows(written), metadata=metadata)


def arrow_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of a bronze table."""
    import pyarrow as pa

    return pa.Table.from_pylist(list(rows), _schema())


def _row(record: Record, topic: str, offset: int, batch: int) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": record.partition,
        "offset": offset,
        "kafka_timestamp": record.timestamp,
        "kafka_timestamp_type": 0,
        "ingested_at": TIMESTAMP + batch * _STEP,
        "key": record.key,
        "value": record.value,
        "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
    }


def _schema() -> pa.Schema:
    """The columns of ``bronze.table.SCHEMA``, as Arrow has them."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    moment = pa.timestamp("us", "UTC")
    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("kafka_timestamp", moment),
            ("kafka_timestamp_type", pa.int32()),
            ("ingested_at", moment),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
        ]
    )


def write_lookup(table: TextTable, folder: Path) -> str:
    """Write the rows that rules look up as a Delta table; its heading has names and types.

    Returns:
        The path of the table.

    Raises:
        CaseError: A type of the heading is unknown, or a cell is no value of its type.
    """
    import pyarrow as pa

    fields = list(_typed(table))
    names = [name.name for name in fields]
    rows = []
    for cells, line in zip(table.rows, table.lines, strict=True):
        try:
            values = [wanted(cell, kind).value for cell, kind in zip(cells, fields, strict=True)]
        except CellError as error:
            raise CaseError([Problem("lookups", str(error), f"{table.place.file}:{line}")]) from None
        rows.append(dict(zip(names, values, strict=True)))
    schema = pa.schema([(kind.name, _arrow_type(kind, table)) for kind in fields])
    folder.parent.mkdir(parents=True, exist_ok=True)
    SmallTable(str(folder)).write(pa.Table.from_pylist(rows, schema))
    return str(folder)


def _typed(table: TextTable) -> Iterator[Field]:
    """The columns of a heading of names and types; a name alone is a text."""
    for heading in table.columns:
        text = heading if " " in heading else f"{heading} string"
        try:
            yield from parse(text)
        except DdlError as error:
            raise CaseError([Problem("lookups", str(error), str(table.place))]) from None


def _arrow_type(kind: Field, table: TextTable) -> pa.DataType:
    import pyarrow as pa

    plain = {
        "string": pa.string(),
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "binary": pa.binary(),
    }
    if kind.kind == "decimal":
        digits, _, scale = kind.type.removeprefix("decimal(").removesuffix(")").partition(",")
        return pa.decimal128(int(digits), int(scale or 0))
    if kind.kind not in plain:
        text = f"column {kind.name!r}: a lookup's columns are {', '.join(plain)} or decimal(…)"
        raise CaseError([Problem("lookups", text, str(table.place))])
    return plain[kind.kind]
