"""Any topic, cut into any micro-batches, killed at any write: every offset is where the oracle says, once.

One topic is written down, with every kind of fault; others are drawn: ``ACCOUNT_EXAMPLES=50`` draws so many.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bronze.table import PROPERTIES, SCHEMA
from common.declare import Json, Pipeline, Rule, Silver, Topic
from common.delta import table as delta_table
from common.delta.micro_batch import MicroBatch
from orchestration.records.audit.audit import audit
from tests.conftest import make_settings
from tests.support.crashes import run_through_crashes
from tests.support.engine import Engine
from tests.support.oracles.silver_oracle import Record, SilverOracle

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DELAY = timedelta(minutes=30)
EVENTS = Silver(
    "events",
    reads="bronze.events",
    value=Json("id string, at timestamp, amount decimal(10,2)"),
    columns={"event_id": "id", "happened_at": "at", "amount": "amount"},
    key=["event_id"],
    event_time="happened_at",
    watermark="30 minutes",
    rules=[
        Rule("amount_positive", "amount > 0"),
        Rule("not_tiny", "amount <> 0.01", on_fail="drop"),
        Rule("usual_amount", "amount < 100", on_fail="warn"),
    ],
    unknown_fields="rescue",
)
KAFKA_TIME = NOON + timedelta(hours=3)
ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("kafka_timestamp", pa.timestamp("us", "UTC")),
        ("kafka_timestamp_type", pa.int32()),
        ("ingested_at", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
PIPELINE = Pipeline(name="accounts", bronze=[Topic("events")], silver=[EVENTS])
_folders = itertools.count()


def _event(key: str, minutes: int, amount: str, more: str) -> bytes:
    at = (NOON + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f'{{"id": "{key}", "at": "{at}", "amount": {amount}{more}}}'.encode()


KEYS = st.sampled_from([f"e{n}" for n in range(9)])
AMOUNTS = st.sampled_from(["5", "7.25", "99.99", "250", "12345678.91"])
# Two changes upstream: a field that nobody declared, then an amount that has become a text.
GOOD = st.builds(_event, KEYS, st.integers(0, 150), AMOUNTS, st.sampled_from(["", "", ', "note": "n"']))
ROTTEN: list[bytes | None] = [
    None,
    b"",
    b" \n",
    b"\xc3\x28",
    b'{"id": "x", "at"',
    b'{"id": "x"} {"id": "y"}',
    b'{"id": "x", "id": "y"}',
    b"[1]",
    b'{"id": null, "at": "2026-03-01T12:00:00Z", "amount": 1}',
    b'{"id": "x", "amount": 1}',
    b'{"id": "x", "at": "2026-03-01T12:00:00", "amount": 1}',
    b'{"id": "x", "at": "2026-03-01T12:00:00Z"}',
    b'{"id": "x", "at": "2026-03-01T12:00:00Z", "amount": -1}',
    b'{"id": "x", "at": "2026-03-01T12:00:00Z", "amount": 0.01}',
    b'{"id": "x", "at": "2026-03-01T12:00:00Z", "amount": 1.999}',
    b'{"id": "x", "at": "2026-03-01T12:00:00Z", "amount": 123456789}',
    b'{"id": "x", "at": "2026-03-01T12:00:00Z", "amount": "12.50"}',
    b'{"id": "x", "at": "2099-01-01T00:00:00Z", "amount": 1}',
    b'{"id": "e1", "at": "1969-07-20T20:17:40Z", "amount": 1}',
    b'{"id": "e2", "at": "1900-01-01T00:00:00Z", "amount": 1, "note": {"n": 1}}',
]
CUTS = st.lists(
    st.lists(st.one_of(GOOD, GOOD, GOOD, st.sampled_from(ROTTEN)), min_size=1, max_size=14),
    min_size=4,
    max_size=7,
)
CRASHES = st.dictionaries(st.integers(0, 14), st.booleans(), min_size=1, max_size=4)
"""At which of all writes the process dies, and whether that write is still done."""
WRITTEN: list[list[bytes | None]] = [
    [_event("e0", 0, "5", ""), _event("e1", 5, "250", ', "note": "n"'), _event("e0", 9, "7.25", ""), *ROTTEN],
    [_event("e2", 150, "99.99", ""), _event("e1", 6, "5", ""), _event("e2", 149, "12345678.91", "")],
    [
        _event("e3", 149, "5", ""),
        _event("e1", 1, "5", ""),
        _event("e4", 2, "5", ""),
        _event("e4", 3, "7", ""),
    ],
    # Late from here on: of a key that is there, of one that is not, and that one twice.
    [
        _event("e4", 4, "5", ""),
        _event("e5", 2, "5", ""),
        _event("e5", 3, "7", ""),
        _event("e2", 150, "5", ""),
        *ROTTEN[::3],
    ],
]


def test_every_offset_is_in_its_one_place(spark: Any, session_dir: Path) -> None:
    """Silver, late and quarantine equal the oracle as multisets, and the audit balances."""
    crashed, oracle = live(spark, session_dir, WRITTEN, {3: True, 5: False})
    assert crashed == 2
    assert oracle.late & set(oracle.silver)
    assert oracle.late - set(oracle.silver)
    assert oracle.duplicates


@pytest.mark.long
@settings(
    max_examples=int(os.environ.get("ACCOUNT_EXAMPLES", "3")),
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(cuts=CUTS, crashes=CRASHES)
def test_every_offset_of_any_topic_is_in_its_one_place(
    spark: Any, session_dir: Path, cuts: list[list[bytes | None]], crashes: dict[int, bool]
) -> None:
    """Topics drawn anew in each run: three, or as many as ``ACCOUNT_EXAMPLES`` says."""
    live(spark, session_dir, cuts, crashes)


def live(
    spark: Any, session_dir: Path, cuts: Sequence[Sequence[bytes | None]], crashes: dict[int, bool]
) -> tuple[int, SilverOracle]:
    """Run one topic through silver, compare and audit it; returns the number of crashes and the oracle."""
    folder = session_dir / f"accounts_{next(_folders)}"
    folder.mkdir()
    engine = Engine(spark, PIPELINE, make_settings(folder, "none:1", "silver.max_files_per_trigger=1"))
    delta_table.ensure(spark, "bronze.events", engine.path("bronze.events"), SCHEMA, PROPERTIES)
    oracle, ends = SilverOracle(DELAY), [0, 0]
    for number, values in enumerate(cuts):
        batch = []
        for value in values:
            partition = ends.index(min(ends))
            batch.append(Record(partition, ends[partition], KAFKA_TIME, value))
            ends[partition] += 1
        bring(engine, number, batch, ends)
        oracle.batch(batch)
    crashed = run_through_crashes(lambda: engine.run("silver"), crashes)
    compare(engine, oracle, sum(ends))
    balanced(engine, oracle, sum(ends))
    return crashed, oracle


def bring(
    engine: Engine,
    number: int,
    batch: Sequence[Record],
    ends: Sequence[int],
    table: str = "bronze.events",
) -> None:
    """One bronze commit of one file, as a bronze query leaves it."""
    rows = [
        {
            "topic": "t",
            "partition": record.partition,
            "offset": record.offset,
            "kafka_timestamp": record.kafka_time,
            "kafka_timestamp_type": 0,
            "ingested_at": record.kafka_time,
            "key": b"k",
            "value": record.value,
            "headers": None,
        }
        for record in batch
    ]
    position = {"t": {str(partition): end for partition, end in enumerate(ends)}}
    told = MicroBatch("accounts", table, "bronze", number, (position,)).metadata("append", {})
    write_deltalake(
        engine.path(table),
        pa.Table.from_pylist(rows, schema=ARROW),
        mode="append",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": told}),
    )


def compare(engine: Engine, oracle: SilverOracle, offsets: int) -> None:
    """Rows as multisets, reasons, and what the commits say."""
    silver = engine.rows("silver.events")
    assert Counter(map(_row, silver)) == Counter(
        (*place, event.id, event.at, event.amount, _text(event.rescued))
        for place, event in oracle.silver.items()
    )
    aside = engine.rows("silver.events__quarantine")
    assert {
        _place(row): row["reasons"] for row in aside if row["verdict"] == "quarantine"
    } == oracle.quarantine
    assert {_place(row): row["reasons"] for row in aside if row["verdict"] == "drop"} == oracle.dropped
    assert len(aside) == len(oracle.quarantine) + len(oracle.dropped)
    late = engine.rows("silver.events__late")
    assert Counter((row["_kafka_partition"], row["_kafka_offset"]) for row in late) == Counter(oracle.late)
    told = [each["counts"] for each in engine.commits("silver.events") if each["step"] == "accepted"]
    total = Counter[str]()
    for counts in told:
        total.update({name: n for name, n in counts.items() if isinstance(n, int)})
    assert total["duplicates"] == len(oracle.duplicates)
    assert total["tombstones"] == len(oracle.tombstones)
    assert total["late"] == len(oracle.late)
    assert total["quarantined"] == len(oracle.quarantine)
    assert total["dropped"] == len(oracle.dropped)
    assert sum(counts.get("rules", {}).get("usual_amount", 0) for counts in told) == oracle.warned
    accepted = offsets - sum(
        total[name] for name in ("duplicates", "tombstones", "late", "quarantined", "dropped")
    )
    assert total["accepted"] == accepted


def balanced(engine: Engine, oracle: SilverOracle, offsets: int) -> None:
    """The audit finds every offset once, and where the oracle has it."""
    found = audit(engine.spark, PIPELINE, EVENTS, engine.layout, again_seconds=0)
    assert found.faults == ()
    assert {name: count for name, count in found.totals.items() if count} == {
        name: count
        for name, count in (
            ("silver", len(oracle.silver)),
            ("duplicates", len(oracle.duplicates)),
            ("late", len(oracle.late - set(oracle.silver))),
            ("quarantine", len(oracle.quarantine)),
            ("dropped", len(oracle.dropped)),
            ("tombstones", len(oracle.tombstones)),
        )
        if count
    }
    assert found.offsets == offsets


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    kept = ("_kafka_partition", "_kafka_offset", "event_id", "happened_at", "amount")
    rescued = row["_rescued"]
    return (*(row[name] for name in kept), _text(None if rescued is None else json.loads(rescued)))


def _text(rescued: dict[str, Any] | None) -> str:
    return json.dumps(rescued, sort_keys=True)


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["partition"], row["offset"]
