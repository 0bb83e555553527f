"""W18: what an element of an array costs in silver, in times of the same row sent as a record of its own.

``medallion run silver`` as a process of its own over a bronze table that is made without Kafka: micro-batches
of as many rows, in records of ``ELEMENTS`` elements and one by one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.pandas.types import to_arrow_schema

from bronze.table import PROPERTIES, SCHEMA
from tests.bench.contenders.ours import Ours
from tests.bench.contenders.started_process import ContenderError
from tests.bench.data import history
from tests.bench.data.topic import Source
from tests.bench.measure.per_batch import WARM_UP, Cost, cost_of, cost_table
from tests.bench.measure.stats import Goal, ratio
from tests.bench.reporting.report import Section
from tests.bench.run import Run

ROWS, ELEMENTS = 20_000, 10
"""Of a micro-batch of silver, and of a record."""
MOST_TIMES = 1.2
BY_ELEMENT, ONE_BY_ONE = "records of elements", "one by one"
_BEGIN = 1_767_225_600_000
_LINE = "sku: string, amount: int, price: bigint, at: timestamp"

PIPELINE = """
from common.declare import Json, Pipeline, Rule, Silver, Topic

pipeline = Pipeline(
    name="shop",
    bronze=[Topic("orders", topics=["{{topic}}"])],
    silver=[
        Silver(
            "lines", reads="bronze.orders", {each}
            columns={{{{
                "order_id": "order", "sku": "{of}sku", "amount": "{of}amount", "price": "{of}price",
                "ordered_at": "{of}at",
            }}}},
            key=["order_id", "sku"], event_time="ordered_at", watermark="10 minutes",
            rules=[Rule("amount_positive", "amount > 0")],
        ),
    ],
)
"""
PIPELINES = {
    BY_ELEMENT: PIPELINE.format(
        each=f'each="lines", value=Json("order string, lines array<struct<{_LINE}>>"),', of="lines."
    ),
    ONE_BY_ONE: PIPELINE.format(each=f'value=Json("order string, {_LINE.replace(":", "")}"),', of=""),
}


def values(way: str, batch: int) -> list[bytes]:
    """The values of the records of a micro-batch."""
    found = []
    for order in range(batch * ROWS // ELEMENTS, (batch + 1) * ROWS // ELEMENTS):
        lines_ = [
            {"sku": f"p{place}", "amount": place + 1, "price": 100 * place, "at": _time(order)}
            for place in range(ELEMENTS)
        ]
        if way == BY_ELEMENT:
            found.append(json.dumps({"order": f"o{order}", "lines": lines_}).encode())
        else:
            found += [json.dumps({"order": f"o{order}", **line}).encode() for line in lines_]
    return found


def _time(order: int) -> str:
    return str(np.datetime64(_BEGIN + order * 100, "ms")) + "Z"


def rows_of(way: str, batch: int) -> pa.Table:
    """The same in bronze."""
    schema, sent = to_arrow_schema(SCHEMA, timestamp_utc=True), values(way, batch)
    at = np.full(len(sent), _BEGIN * 1000)
    known = {
        "topic": pa.repeat("orders", len(sent)),
        "partition": np.zeros(len(sent), dtype=np.int32),
        "offset": np.arange(batch * len(sent), (batch + 1) * len(sent)),
        "kafka_timestamp": at,
        "kafka_timestamp_type": np.zeros(len(sent), dtype=np.int32),
        "ingested_at": at,
        "value": pa.array(sent, pa.binary()),
    }
    made = {
        field.name: pa.array(known[field.name]).cast(field.type)
        if field.name in known
        else pa.nulls(len(sent), field.type)
        for field in schema
    }
    return pa.Table.from_arrays([*made.values()], schema=schema)


def measured(run: Run, way: str, batches: int) -> Cost:
    """One way, by a process of its own."""
    folder = run.scratch("elements")
    tables = folder / "data" / "shop" / "tables"
    bronze, target = tables / "bronze" / "orders", tables / "silver" / "lines"
    history.created(bronze, to_arrow_schema(SCHEMA, timestamp_utc=True), PROPERTIES)
    ours = Ours(("silver.trigger=asap", *run.settings), PIPELINES[way])
    source = Source(run.broker.bootstrap_servers, "none")
    with ours.command(folder, source, "run", "silver") as started:
        found = cost_of(way, started, bronze, target, lambda batch: rows_of(way, batch), batches)
        started.stop()
    there, sent = len(DeltaTable(str(target)).to_pyarrow_table(columns=["sku"])), (WARM_UP + batches) * ROWS
    failures = () if there == sent else (f"silver has {there:,} of {sent:,} rows",)
    run.say(f"elements: {way}: {found.median:.2f} CPU s per micro-batch; {failures or 'all rows are there'}")
    return replace(found, failures=failures)


def elements(run: Run) -> Section:
    """W18."""
    batches = run.sized(run.rounds, 10, 5)
    found: list[Cost] = []
    failures: list[str] = []
    for way in (ONE_BY_ONE, BY_ELEMENT):
        try:
            found.append(measured(run, way, batches))
            failures += [f"{way}: {fault}" for fault in found[-1].failures]
        except ContenderError as error:
            failures.append(f"{way}: {error}")
    title = "Elements: an array's, and the same rows one by one"
    return Section("elements", title, lines(found), goals(found), found, failures)


def goals(found: Sequence[Cost]) -> list[Goal]:
    """Per element, against the same rows one by one."""
    cpu = {one.what: one.median for one in found if not one.failures}
    times = ratio(cpu[BY_ELEMENT], cpu[ONE_BY_ONE]) if len(cpu) == len(PIPELINES) else None
    return [Goal("W18 CPU of an element / of the same row sent alone", times, MOST_TIMES, "at most")]


def lines(found: Sequence[Cost]) -> list[str]:
    """The section's text."""
    what = (
        f"Order lines with a key, a watermark and a rule, by `medallion run silver` with `silver.trigger: "
        f"asap` over a bronze table made without Kafka: {ROWS:,} rows of silver a micro-batch, in records of "
        f"{ELEMENTS} lines and one by one. Micro-batches one at a time, each from its commit in bronze to "
        f"that in silver and a second more; median of {len(found[0].cpu) if found else 0}, after {WARM_UP} "
        "that do not count. CPU of all processes of the job. In the end silver had every row once."
    )
    return [what, "", *cost_table(found, ONE_BY_ONE, ROWS, what="sent as", times="times one by one")]
