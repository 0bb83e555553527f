"""Two tables compared row by row: Delta tables, files of CSV and Parquet, and an account made in Python."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from common.config.paths import Layout
from common.declare import Aggregate, Json, Pipeline, Silver, Topic, Upsert
from common.errors import TableMissingError, UsageError
from orchestration.records.reconcile.compare import Unreadable
from orchestration.records.reconcile.other_side import OtherSide
from orchestration.records.reconcile.reconcile import Reconciled, Wanted, reconcile

PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders")],
    silver=[
        Silver(
            "orders",
            reads="bronze.orders",
            value=Json("id string, amount decimal(9,2), at timestamp"),
            columns={"id": "id", "amount": "amount", "at": "at"},
            key=["id"],
            event_time="at",
            watermark="7 days",
        )
    ],
    gold=[
        Upsert("latest", "silver.orders", key=["id"], newest_by=["at"], columns=["id", "amount", "at"]),
        Aggregate("days", "silver.orders", by=["day"], measures={"n": "count(*)"}),
    ],
)
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def table(rows: list[tuple[Any, ...]], kind: pa.DataType | None = None) -> pa.Table:
    """Rows of id, amount and time, as gold has them."""
    ids, amounts, times = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "amount": pa.array(amounts, kind or pa.decimal128(9, 2)),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "_kafka_timestamp": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


class Shop:
    """The table ``gold.latest``, and a folder for the other side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.layout = Layout(str(folder / "tables"), str(folder / "checkpoints"), folder)

    def gold(self, rows: list[tuple[Any, ...]]) -> None:
        write_deltalake(self.layout.table_path("gold.latest"), table(rows), mode="overwrite")

    def compare(self, against: str, **options: Any) -> Reconciled:
        return reconcile(PIPELINE, self.layout, Wanted("gold.latest", str(self.folder / against), **options))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def order(number: int, amount: str | None = "1.50") -> tuple[Any, ...]:
    return (f"o{number}", None if amount is None else Decimal(amount), DAY + timedelta(minutes=number))


def told(found: Reconciled) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(one.kind, str(one.key["id"]), one.columns) for one in found.result.differences}


def test_each_kind_of_difference_is_told_with_its_key(shop: Shop) -> None:
    shop.gold([order(1), order(2), order(3), order(4), order(5), order(5)])
    there = [order(1), order(2, "1.51"), order(4, None), order(5), order(6)]
    write_deltalake(str(shop.folder / "delta"), table(there))
    found = shop.compare("delta")
    assert told(found) == {
        ("differs", "o2", ("amount",)),
        ("extra", "o3", ()),
        ("differs", "o4", ("amount",)),
        ("repeated", "o5", ()),
        ("missing", "o6", ()),
    }
    result = found.result
    assert result.kinds == {"missing": 1, "extra": 1, "differs": 2, "repeated": 1}
    assert (result.rows_here, result.rows_there, result.equal) == (6, 5, 1)
    (one,) = [one for one in result.differences if one.key["id"] == "o2"]
    assert one.here is not None
    assert one.there is not None
    assert (one.here["amount"], one.there["amount"]) == (Decimal("1.50"), Decimal("1.51"))
    assert sum(each.wrong for each in result.ranges) == 5
    assert (sum(each.here for each in result.ranges), sum(each.there for each in result.ranges)) == (6, 5)


def test_drawn_tables_are_compared_as_in_python(shop: Shop) -> None:
    draw = random.Random(7)  # noqa: S311  # which rows differ
    here = {number: draw.choice(["1.00", "2.00", None]) for number in range(400) if draw.random() < 0.9}
    there = {
        number: draw.choice(["1.00", "3.00", None]) if draw.random() < 0.1 else here.get(number, "9.00")
        for number in range(400)
        if draw.random() < 0.9
    }
    shop.gold([order(*one) for one in here.items()])
    write_deltalake(str(shop.folder / "delta"), table([order(*one) for one in there.items()]))
    found = shop.compare("delta", limit=1000)
    expected = {("missing", f"o{n}") for n in there.keys() - here.keys()}
    expected |= {("extra", f"o{n}") for n in here.keys() - there.keys()}
    expected |= {("differs", f"o{n}") for n in here.keys() & there.keys() if here[n] != there[n]}
    assert {one[:2] for one in told(found)} == expected
    assert found.result.equal == len(here.keys() | there.keys()) - len(expected)
    assert sum(one.wrong for one in found.result.ranges) == len(expected)
    assert len(found.result.ranges) == 10


def test_equal_tables_have_no_difference_whatever_the_order_and_the_types(shop: Shop) -> None:
    shop.gold([order(1), order(2, None), order(3, "7.00")])
    (shop.folder / "orders.csv").write_text(
        "at,note,id,amount\n2026-01-01T00:03:00Z,x,o3,7\n2026-01-01 00:01:00,y,o1,1.5\n"
        "2026-01-01 00:02:00+00,,o2,\n"
    )
    wide = table([order(2, None), order(3, "7"), order(1)], pa.decimal128(20, 6))
    pq.write_table(wide, shop.folder / "orders.parquet")
    found = shop.compare("orders.csv")
    assert (found.result.wrong, found.result.equal, found.result.left_out) == (0, 3, ("note",))
    assert found.result.ranges == []
    assert shop.compare("orders.parquet").result.wrong == 0
    assert shop.compare("*.parquet").result.equal == 3


@pytest.mark.parametrize("amount", ["1.504", "1,50", "much", "1e400", " "])
def test_a_value_that_the_type_does_not_hold_is_not_rounded_to_an_equal_one(shop: Shop, amount: str) -> None:
    shop.gold([order(1)])
    (shop.folder / "orders.csv").write_text(f'id,amount,at\no1,"{amount}",2026-01-01 00:01:00\n')
    found = shop.compare("orders.csv")
    assert told(found) == {("differs", "o1", ("amount",))}
    assert found.result.differences[0].there == {
        "amount": Unreadable(amount),
        "at": DAY + timedelta(minutes=1),
    }


def test_digits_that_a_narrower_type_loses_are_a_difference(shop: Shop) -> None:
    shop.gold([order(1), order(2)])
    there = table([order(1, "1.500001"), order(2)], pa.decimal128(20, 6))
    pq.write_table(there, shop.folder / "orders.parquet")
    assert told(shop.compare("orders.parquet")) == {("differs", "o1", ("amount",))}


def test_other_names_are_mapped_and_columns_chosen(shop: Shop) -> None:
    shop.gold([order(1), order(2)])
    (shop.folder / "orders.csv").write_text("number,cents,day\n1,150,x\n2,151,y\n")
    maps = {"id": "'o' || number", "amount": "cents::DECIMAL(9,2) / 100"}
    found = shop.compare("orders.csv", expressions=maps)
    assert told(found) == {("differs", "o2", ("amount",))}
    assert found.result.columns == ("amount",)
    assert found.result.left_out == ("at", "day")
    with pytest.raises(UsageError, match=r"the other side has no column at; .*--map at=SQL"):
        shop.compare("orders.csv", expressions=maps, columns=["at"])


def test_rows_newer_than_the_table_are_not_wrong(shop: Shop) -> None:
    shop.gold([order(1), order(2)])
    there = [order(1), (*order(2, "9.00")[:2], DAY + timedelta(hours=1)), order(50), order(2)][:3]
    write_deltalake(str(shop.folder / "delta"), table(there))
    assert shop.compare("delta").result.wrong == 2
    found = shop.compare("delta", changed_at="at")
    assert (found.result.wrong, found.result.not_yet, found.read_until) == (0, 2, DAY + timedelta(minutes=2))


def test_what_settles_is_not_wrong_and_what_stays_is(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.gold([order(1), order(2, "2.00"), order(3)])
    there = [order(1), order(2), order(4), order(5)]
    write_deltalake(str(shop.folder / "delta"), table(there))
    monkeypatch.setattr(
        "orchestration.records.reconcile.reconcile.time",  # of this module alone: other threads sleep too
        SimpleNamespace(sleep=lambda _: shop.gold([order(1, "7.00"), order(2, "2.00"), order(4), order(5)])),
    )
    found = shop.compare("delta", settle_seconds=1)
    assert told(found) == {("differs", "o2", ("amount",))}  # o1 differs since a moment ago: it is on its way
    assert (found.result.wrong, found.result.settled) == (1, 3)
    assert found.version == 1


def test_one_version_is_compared_with_one_version(shop: Shop) -> None:
    shop.gold([order(1)])
    shop.gold([order(2)])
    for rows in ([order(1)], [order(3)]):
        write_deltalake(str(shop.folder / "delta"), table(rows), mode="overwrite")
    assert shop.compare("delta?version=0", version=0).result.wrong == 0
    assert shop.compare("delta", version=0).result.wrong == 2


@pytest.mark.parametrize(
    ("against", "options", "says"),
    [
        ("nothing", {}, "no Delta table is there"),
        ("nothing.csv", {}, "there is no such file"),
        ("delta?version=9", {}, "its newest version is 0"),
        ("delta?versio=0", {}, "only version=NUMBER"),
        ("delta", {"key": ["idd"]}, "the table has no column idd; did you mean 'id'?"),
        ("delta", {"columns": ["amuont"]}, "no column amuont; did you mean 'amount'?"),
        ("delta", {"changed_at": "changed"}, "the other side has no column changed"),
        ("delta", {"version": 5}, "gold.latest has no version 5 yet"),
        ("delta", {"version": 0, "settle_seconds": 1}, "--settle reads the newest version again"),
        ("delta", {"expressions": {"amount": "price * 2"}}, "--map amount=price * 2: Binder Error"),
        ("delta", {"expressions": {"amount": "amount +"}}, "--map amount=amount .: Parser Error"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_words(
    shop: Shop, against: str, options: dict[str, Any], says: str
) -> None:
    shop.gold([order(1)])
    write_deltalake(str(shop.folder / "delta"), table([order(1)]))
    with pytest.raises(UsageError, match=says.replace("?", r"\?").replace("*", r"\*")):
        shop.compare(against, **options)


def test_a_key_that_is_no_number_is_refused_with_its_value(shop: Shop) -> None:
    numbers = pa.table({"id": pa.array([1, 2], pa.int64())})
    write_deltalake(shop.layout.table_path("gold.latest"), numbers)
    (shop.folder / "orders.csv").write_text("id\n1\n2.5\n")
    with pytest.raises(UsageError, match=r"the key id of the other side cannot be read as BIGINT: 2\.5"):
        shop.compare("orders.csv")


def test_a_table_without_key_or_rows_is_refused(shop: Shop) -> None:
    (shop.folder / "some.csv").write_text("id\no1\n")
    with pytest.raises(TableMissingError):
        shop.compare("some.csv")
    with pytest.raises(UsageError, match=r"gold\.days"):
        reconcile(PIPELINE, shop.layout, Wanted("gold.day", "some.csv"))
    with pytest.raises(UsageError, match=r"gold\.lates is no silver or gold table.*gold\.latest"):
        reconcile(PIPELINE, shop.layout, Wanted("gold.lates", "x.csv"))


def test_the_address_that_the_client_quotes_is_not_printed() -> None:
    address = "postgresql://u:hunter2@h/db?password=hunter3"
    given = RuntimeError(f'Unable to connect to Postgres at "{address}": refused')
    assert str(OtherSide("h, table x", "x", address).failed(given)) == (
        'h, table x cannot be read: Unable to connect to Postgres at "the database": refused'
    )
