"""Values that DuckDB may read otherwise than their bytes have them: what is compared beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from common.declare import Json, Pipeline, Silver, Topic
from orchestration.access.query.record_place import Place
from orchestration.records.trace.trace import Trace
from tests.support.oracles.proof import Check, checks
from tests.unit.orchestration.records.small_lake import SmallLake

AT = datetime(2026, 2, 1, tzinfo=UTC)
KINDS = {
    "id": pa.string(),
    "name": pa.string(),
    "n": pa.int32(),
    "amount": pa.decimal128(18, 2),
    "at": pa.timestamp("us", "UTC"),
}
UNREAD = "DuckDB may read a value otherwise than its bytes have it"


class Sent(NamedTuple):
    """A record: its fields as JSON, and the row of silver; None for a record that has none."""

    fields: str
    row: Mapping[str, Any] | None

    def __or__(self, harm: Mapping[str, Any] | None) -> Sent:
        """The record with other values in its row, or without one."""
        return self._replace(row=None if harm is None else {**(self.row or {}), **harm})


def sent(id_: str = '"a"', name: str = '"b"', amount: str = "12.50") -> Sent:
    """A record whose row is what the bytes say."""
    bytes_ = f'"id": {id_}, "name": {name}, "n": 7, "amount": {amount}, "at": "2026-02-01T00:00:00Z"'
    own = {"id": id_.strip('"'), "name": name.strip('"'), "n": 7, "at": AT}
    return Sent(bytes_, own | {"amount": Decimal(amount) if amount[0] != '"' else None})


GOOD = sent('"c"')
VALUES = "values of silver: id, name, n, amount, at"


def of(lake: SmallLake, check: str) -> Check:
    """The check of the silver table whose name begins so."""
    (found,) = [one for one in checks(lake.pipeline, lake.layout) if one.check.startswith(check)]
    return found


def filled(folder: Path, *records: Sent, decimals: Any = "number", where: str | None = None) -> SmallLake:
    """The tables of these records."""
    silver = Silver(
        "orders",
        reads="bronze.orders",
        value=Json("id string, name string, n int, amount decimal(18,2), at timestamp", decimals=decimals),
        columns={name: name for name in KINDS},
        key=["id"],
        event_time="at",
        watermark="1 day",
        dedupe="exact",
        where=where,
    )
    lake = SmallLake(Pipeline("shop", bronze=[Topic("orders", topics=["t"])], silver=[silver]), folder)
    lake.bronze([f"{{{one.fields}}}".encode() for one in records])
    rows = {at: one.row for at, one in enumerate(records) if one.row is not None}
    lake.silver(rows, KINDS, duplicates=len(records) - len(rows))
    return lake


LONG = "1234567890123456.78"
"""A number of more digits than a double has."""
UNTOLD = [sent(amount=LONG), sent(name="1.10"), sent("[ 1.0 ]", '{"b":  2}')]
SEEN = [
    sent(amount="12.50") | {"amount": Decimal("12.51")},
    sent(amount="9999999999999.99") | {"amount": Decimal("9999999999999.98")},
    sent(amount=LONG) | {"name": "c"},
    sent(name="1.10") | {"n": 8},
    sent(name="1.10") | {"at": AT.replace(microsecond=1)},
]


def test_what_duckdb_may_read_otherwise_is_not_compared(tmp_path: Path) -> None:
    healthy = [sent(), sent(amount="9999999999999.99"), sent(amount="-1e2"), sent(amount="100000000000000")]
    found = of(filled(tmp_path, *healthy, *UNTOLD), VALUES)
    assert found.verdict == f"not compared: 3 of 7 records, in id, name, amount: {UNREAD}"
    assert (found.found, found.first_differing) == ("4 are the same", "")


def test_a_fault_beside_it_is_seen(tmp_path: Path) -> None:
    found = of(filled(tmp_path, *UNTOLD, *SEEN), VALUES)
    assert (found.verdict, found.found) == ("different", "0 are the same")
    assert found.first_differing == ", ".join(f"t/0/{at}" for at in range(3, 8))


@pytest.mark.parametrize(
    ("decimals", "amount"), [("text", '"12.50"'), pytest.param("base64", '"BNI="', marks=pytest.mark.long)]
)
def test_decimals_that_are_no_numbers_are_not_compared(tmp_path: Path, decimals: str, amount: str) -> None:
    records = [sent(amount=amount) | {"amount": Decimal("12.50")}, sent() | {"n": 8}]
    lake = filled(tmp_path, *records, decimals=decimals)
    verdicts = {one.check: one.verdict for one in checks(lake.pipeline, lake.layout)}
    why = f"has amount, a decimal that is written as {decimals}, which is not read"
    assert verdicts["values of amount"] == f"not compared: {why}"
    assert verdicts["values of silver: id, name, n, at"] == "different"


def test_columns_of_another_declaration_are_named(tmp_path: Path) -> None:
    """And a column is the same one in other letters, as it is to Spark."""
    lake = filled(tmp_path, GOOD)
    (silver,) = lake.pipeline.silver
    declared = replace(silver, columns={"ID": "id", "amount": "amount", "at": "at"}, key=["ID"])
    found = checks(replace(lake.pipeline, silver=[declared]), lake.layout)
    assert {one.check: one.verdict for one in found if one.check.startswith("values of")} == {
        "values of name, n": "not compared: the declaration has no such column",
        "values of silver: ID, amount, at": "equal",
    }
    other = replace(declared, columns={"own": "id", "at": "at"}, key=["own"])
    found = checks(replace(lake.pipeline, silver=[other]), lake.layout)
    (said,) = [one for one in found if one.check == "witness of each duplicate"]
    assert said.verdict == "not compared: the table has no column own, which the declaration has"


@pytest.mark.parametrize(
    ("records", "where", "verdict"),
    [
        # Records without a row whose key is read otherwise, or the condition by which they are the table's.
        ([GOOD, sent('"1.1"'), sent("1.10") | None], "name <> '1.1'", f"not compared: 1 of 1: {UNREAD}"),
        ([GOOD, sent(name="1.10") | None], "name <> '1.1'", f"not compared: 1 of 1: {UNREAD}"),
        ([GOOD, sent(name="1.10") | None, sent() | None], None, "different"),
    ],
)
def test_a_lost_row_is_no_duplicate_because_of_how_duckdb_reads_it(
    tmp_path: Path, records: list[Sent], where: str | None, verdict: str
) -> None:
    lake = filled(tmp_path, *records, where=where)
    check = of(lake, "witness of each duplicate")
    assert (check.verdict, check.found) == (verdict, "0 have one")
    places = [Place("t", 0, at) for at, one in enumerate(records) if one.row is None]
    traced = Trace(lake.pipeline, lake.layout, has_values=False).records(places)
    unknown = "duplicate, or another table's record"
    assert {one["silver"][0]["place"] for one in traced} == {"missing" if where is None else unknown}
