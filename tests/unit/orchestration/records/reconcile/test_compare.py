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
from common.declare import Aggregate, History, Join, Json, Pipeline, SameAs, Silver, Topic, Upsert, Window
from common.errors import TableError, TableMissingError, UsageError
from orchestration.cli.records.reconcile_output import report
from orchestration.quality.query_checks import same_as
from orchestration.quality.versions import pin
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


@pytest.mark.long
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
    assert found.result.not_yet_since == DAY + timedelta(minutes=50)
    far = datetime(2099, 1, 1, tzinfo=UTC)
    write_deltalake(str(shop.folder / "far"), table([order(1), order(2), (*order(3)[:2], far)]))
    found = shop.compare("far", changed_at="at")
    assert (found.result.wrong, found.result.not_yet) == (1, 0)
    assert (found.result.ahead, found.result.farthest) == (1, far)


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
        ("delta", {"expressions": {"amount": "(from read_csv('/etc/passwd'))"}}, "opens no file"),
        ("delta", {"expressions": {"amount": "(select 1 from 'delta/x.parquet')"}}, "opens no file"),
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


def silver(name: str, **more: Any) -> Silver:
    columns = (
        {"id": "id", "n": "n", "at": "at"} if "each" not in more else {"id": "id", "n": "lines.n", "at": "at"}
    )
    return Silver(
        name,
        reads="bronze.orders",
        value=Json("id string, n int, at timestamp, lines array<struct<n: int>>"),
        columns=columns,
        event_time="at",
        watermark="7 days",
        **more,
    )


KINDS = Pipeline(
    name="kinds",
    bronze=[Topic("orders")],
    silver=[
        silver("orders", key=["id"]),
        silver("states", key=["id"], dedupe="event_time"),
        silver("lines", key=["id", "n"], each="lines"),
    ],
    gold=[
        Upsert("latest", "silver.orders", key=["id"], newest_by=["at"], delete_when="n = 0"),
        History("states", "silver.orders", key=["id"], valid_by="at", columns=["n"]),
        Aggregate("days", "silver.orders", by={"day": "date(at)"}, measures={"n": "count(*)"}),
        Aggregate(
            "sliding",
            "silver.orders",
            by=["id"],
            window=Window("at", "10 minutes", slide="5 minutes"),
            measures={"n": "count(*)"},
        ),
        Aggregate("all", "silver.orders", window=Window("at", "10 minutes"), measures={"n": "count(*)"}),
        Join("both", "silver.orders", "silver.states", on={"id": "id"}, columns={"id": "id"}),
    ],
)
RECORD = ("_kafka_topic", "_kafka_partition", "_kafka_offset")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("silver.orders", ("id",)),
        ("silver.states", ("id", "at")),
        ("silver.lines", ("id", "n")),
        ("gold.latest", ("id",)),
        ("gold.latest__deleted", ("id",)),
        ("gold.states", ("id", "valid_from")),
        ("gold.days", ("day",)),
        ("gold.sliding", ("id", "window_start")),
        ("gold.all", ("window_start",)),
        ("gold.both", (*RECORD, "_match")),
    ],
)
def test_a_table_has_the_rows_of_its_own_copy(tmp_path: Path, name: str, key: tuple[str, ...]) -> None:
    """By what identifies a row of its kind, which its last column alone tells apart here."""
    layout = Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)
    rows = pa.table({**{each: ["a", "a"] for each in key}, key[-1]: ["b", "c"], "content": [1, 2]})
    write_deltalake(layout.table_path(name), rows)
    copy = str(tmp_path / "copy")
    write_deltalake(copy, rows)
    found = reconcile(KINDS, layout, Wanted(name, copy))
    assert found.key == key
    assert (found.result.equal, found.result.wrong, found.result.left_out) == (2, 0, ())
    assert found.result.columns == ("content",)
    judged = same_as(SameAs(copy), KINDS, layout, pin(layout, name))
    assert (judged.is_met, judged.observed) == (True, "keys: 2 the same")


def test_a_history_beside_a_table_without_versions_is_its_current_rows(tmp_path: Path) -> None:
    """By its key, which may be named; versions are compared with a side that has them, or by their key."""
    layout = Layout(str(tmp_path / "tables"), str(tmp_path / "checkpoints"), tmp_path)
    versions = [
        ("a", 1, 1, False),
        ("a", 2, 2, True),
        ("b", 3, 1, False),
        ("c", 4, 1, True),
        ("d", 5, 1, True),
    ]
    names = ("id", "n", "valid_from", "is_current")
    rows = pa.table(dict(zip(names, zip(*versions, strict=True), strict=True)))
    write_deltalake(layout.table_path("gold.states"), rows)
    (tmp_path / "now.csv").write_text("id,n\na,2\nb,3\nc,5\nd,5\n")
    pq.write_table(rows, tmp_path / "copy.parquet")

    def compared(against: str, **options: Any) -> Reconciled:
        return reconcile(KINDS, layout, Wanted("gold.states", str(tmp_path / against), **options))

    for found in (compared("now.csv"), compared("now.csv", key=["id"])):
        assert (found.key, found.is_current, found.result.columns) == (("id",), True, ("n",))
        assert told(found) == {("missing", "b", ()), ("differs", "c", ("n",))}
        assert (found.result.rows_here, found.result.equal) == (3, 2)
        assert ", current rows" in str(next(iter(report(found, has_values=False))).rows)
    for found in (compared("copy.parquet"), compared("copy.parquet", key=["valid_from", "id"])):
        assert (found.is_current, found.result.equal, found.result.wrong) == (False, 5, 0)


def test_a_table_that_is_none_is_said_so_even_with_a_key(shop: Shop) -> None:
    with pytest.raises(UsageError, match=r"gold\.nope is no silver or gold table"):
        reconcile(PIPELINE, shop.layout, Wanted("gold.nope", "x.csv", key=["id"]))


def test_no_digit_of_a_text_is_left_out(shop: Shop) -> None:
    rows = pa.table(
        {
            "id": ["a"],
            "amount": pa.array([Decimal("1.00")], pa.decimal128(12, 2)),
            "n": pa.array([7], pa.int64()),
            "at": pa.array([datetime(2026, 1, 1, 0, 0, 0, 123456, UTC)], pa.timestamp("us", "UTC")),
            "day": pa.array([DAY.date()], pa.date32()),
        }
    )
    write_deltalake(shop.layout.table_path("gold.latest"), rows)
    head = "id,amount,n,at,day\n"
    lost = "a,1.0000000000001,7.0000000000001,2026-01-01T00:00:00.1234567Z,2026-01-01 23:59:59\n"
    (shop.folder / "lost.csv").write_text(head + lost)
    same = "a,10e-1,+7.0,2026-01-01T00:00:00.1234560Z,2026-01-01 00:00:00\n"
    (shop.folder / "same.csv").write_text(head + same)
    assert told(shop.compare("lost.csv")) == {("differs", "a", ("amount", "n", "at", "day"))}
    assert told(shop.compare("same.csv")) == set()


def test_a_key_with_more_digits_is_another_key(shop: Shop) -> None:
    write_deltalake(shop.layout.table_path("gold.latest"), pa.table({"id": pa.array([1], pa.int64())}))
    (shop.folder / "x.csv").write_text("id\n1.0000000000001\n")
    with pytest.raises(UsageError, match="the key id of the other side cannot be read as BIGINT"):
        shop.compare("x.csv")


def test_an_empty_text_in_quotes_is_no_null(shop: Shop) -> None:
    write_deltalake(shop.layout.table_path("gold.latest"), pa.table({"id": ["a", "b"], "x": ["", None]}))
    (shop.folder / "same.csv").write_text('id,x\na,""\nb,\n')
    (shop.folder / "other.csv").write_text('id,x\na,\nb,""\n')
    assert told(shop.compare("same.csv")) == set()
    assert told(shop.compare("other.csv")) == {("differs", "a", ("x",)), ("differs", "b", ("x",))}


def test_csv_is_read_whole_whatever_its_first_rows_look_like(shop: Shop) -> None:
    """Quotes that come late are quotes, and a row that begins with # is no comment."""
    ids = ["#1", *(f"k{number}" for number in range(30_000)), "last"]
    texts = [*("plain" for _ in ids[1:]), 'a "b", c']
    write_deltalake(shop.layout.table_path("gold.latest"), pa.table({"id": ids, "x": texts}))
    lines = [f"{one},plain\n" for one in ids[:-1]]
    (shop.folder / "x.csv").write_text("".join(["id,x\n", *lines, 'last,"a ""b"", c"\n']))
    found = shop.compare("x.csv")
    assert (found.result.equal, found.result.wrong) == (len(ids), 0)


def test_names_are_the_same_whatever_their_case(shop: Shop) -> None:
    shop.gold([order(1), order(2)])
    there = table([order(1), order(2, "9.00")]).rename_columns(["ID", "Amount", "AT", "_kafka_timestamp"])
    pq.write_table(there, shop.folder / "x.parquet")
    found = shop.compare("x.parquet")
    assert told(found) == {("differs", "o2", ("amount",))}
    assert (found.result.columns, found.result.left_out) == (("amount", "at"), ())


def test_a_column_of_the_source_that_begins_like_the_engines_own_is_compared(shop: Shop) -> None:
    here = pa.table({"id": ["a"], "_id": [1], "_kafka_offset": [1], "_ingested_at": [1]})
    write_deltalake(shop.layout.table_path("gold.latest"), here)
    pq.write_table(pa.table({"id": ["a"], "_id": [2], "_kafka_offset": [2]}), shop.folder / "x.parquet")
    found = shop.compare("x.parquet")
    assert told(found) == {("differs", "a", ("_id",))}
    assert (found.result.columns, found.result.left_out) == (("_id",), ())
    assert told(shop.compare("x.parquet", columns=["_kafka_offset"])) == {
        ("differs", "a", ("_kafka_offset",))
    }


def test_nothing_to_compare_is_no_equality(shop: Shop) -> None:
    shop.gold([order(1)])
    (shop.folder / "x.csv").write_text("id,price\no1,9\n")
    with pytest.raises(
        UsageError, match=r"no column of the table but the key.*amount, at, price.*--column id"
    ):
        shop.compare("x.csv")
    assert shop.compare("x.csv", columns=["id"]).result.columns == ()
    assert shop.compare("x.csv", expressions={"amount": "price::int / 6"}).result.wrong == 0


def test_the_last_line_says_how_many_columns_were_compared(tmp_path: Path) -> None:
    from orchestration.cli.records.reconcile_output import compared, report

    shop = Shop(tmp_path)
    shop.gold([order(1)])
    write_deltalake(str(tmp_path / "copy"), table([order(1)]))
    found = shop.compare("copy")
    assert compared(found) == "2 columns beside the key"
    assert "compared by id: amount, at" in [str(part) for part in report(found, has_values=False)]
    assert compared(shop.compare("copy", columns=["at"])) == "1 column beside the key"
    assert compared(shop.compare("copy", columns=["id"])) == "nothing beside the key"


def test_a_nested_column_is_no_key(shop: Shop) -> None:
    here = pa.table({"id": ["a"], "tags": [["x"]], "s": [{"a": 1}]})
    write_deltalake(shop.layout.table_path("gold.latest"), here)
    pq.write_table(here, shop.folder / "x.parquet")
    for name in ("tags", "s"):
        with pytest.raises(UsageError, match=rf"the key {name} is of type .*single values only"):
            shop.compare("x.parquet", key=[name])
    assert shop.compare("x.parquet").result.wrong == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("against", "says"),
    [
        ("s3://bucket/x.parquet", "files are read from local disks only"),
        ("https://u:hunter2@host/x.csv", "files are read from local disks only"),
        ("gs://b/*.csv.gz", "files are read from local disks only"),
        ("mysql://u:hunter2@host/shop?table=o", "of databases PostgreSQL alone is read"),
        ("sqlite:///o.db?table=o", "of databases PostgreSQL alone is read"),
    ],
)
def test_what_is_elsewhere_is_refused(shop: Shop, against: str, says: str) -> None:
    shop.gold([order(1)])
    with pytest.raises(UsageError, match=says) as refused:
        reconcile(PIPELINE, shop.layout, Wanted("gold.latest", against))
    assert "hunter2" not in str(refused.value)


def test_an_address_of_no_store_cannot_be_read(shop: Shop) -> None:
    shop.gold([order(1)])
    with pytest.raises(TableError, match="https://host/orders cannot be read"):
        reconcile(PIPELINE, shop.layout, Wanted("gold.latest", "https://host/orders"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        (
            "bad.csv",
            b"id,amount\no1,1.50\nsecret,\xff\xfe\n",
            r"bad\.csv cannot be read: line 3: .*not utf-8",
        ),
        (
            "cut.csv",
            b'id,amount\no1,1.50\n"secret',
            r"cut\.csv: line 3: a value in double quotes that does not end",
        ),
        (
            "long.csv",
            b"id,amount\n" + b"o1,1.50\n" * 30_000 + b"secret,1,2,3\n",
            r"long\.csv cannot be read: line 3000\d: Expected Number of Columns: 2 Found: 3",
        ),
    ],
)
def test_bytes_that_are_no_csv_are_told_with_file_and_line(
    shop: Shop, file: str, content: bytes, says: str
) -> None:
    shop.gold([order(1)])
    (shop.folder / "good.csv").write_text("id,amount\no1,1.50\n")
    (shop.folder / file).write_bytes(content)
    for against in (file, "*.csv"):
        with pytest.raises(TableError, match=says) as failed:
            shop.compare(against)
        assert "secret" not in str(failed.value)


def test_a_file_without_a_byte_is_named_and_passed_over_where_others_have_rows(shop: Shop) -> None:
    """A part without a row may have no header; rows that were cut off with it are missing on this side."""
    shop.gold([order(1)])
    (shop.folder / "none.csv").touch()
    with pytest.raises(UsageError, match=r"none\.csv is empty; it has no header"):
        shop.compare("*.csv")
    (shop.folder / "good.csv").write_text("id,amount\no1,1.50\no2,1.50\n")
    found = shop.compare("*.csv")
    assert told(found) == {("missing", "o2", ())}
    assert f"*.csv without {shop.folder / 'none.csv'}, which is empty" in found.against
    pq.write_table(table([order(1)]), shop.folder / "good.parquet")
    (shop.folder / "none.parquet").touch()
    with pytest.raises(UsageError, match=r"none\.parquet is empty"):
        shop.compare("*.parquet")


@pytest.mark.long
@pytest.mark.parametrize("header", ["id,amount,amount", "id,amount,Amount", 'id,amount,"amount"'])
def test_a_name_twice_in_a_header_is_refused(shop: Shop, header: str) -> None:
    shop.gold([order(1)])
    (shop.folder / "x.csv").write_text(f"{header}\no1,1.50,9\n")
    with pytest.raises(UsageError, match=r"x\.csv: the header has the name amount more than once"):
        shop.compare("x.csv")
    (shop.folder / "x.csv").write_text("id,amount,amount_1\no1,1.50,9\n")
    assert shop.compare("x.csv").result.left_out == ("amount_1", "at")


def test_what_is_no_number_on_both_sides_does_not_differ(shop: Shop) -> None:
    here = pa.table({"id": ["a"], "x": [float("nan")], "l": [[float("nan")]], "y": [1]})
    write_deltalake(shop.layout.table_path("gold.latest"), here)
    pq.write_table(here.set_column(3, "y", pa.array([2])), shop.folder / "x.parquet")
    assert told(shop.compare("x.parquet")) == {("differs", "a", ("y",))}


def test_only_columns_that_an_expression_reads_count_as_compared(shop: Shop) -> None:
    shop.gold([order(1)])
    there = pa.table({"id": ["o1"], "Cents": [150], "c": [1], "cent": [1], "lower": [1]})
    pq.write_table(there, shop.folder / "x.parquet")
    found = shop.compare(
        "x.parquet", expressions={"amount": "cast(lower('0') as int) + cents / 100 /* cent */"}
    )
    assert found.result.left_out == ("at", "c", "cent", "lower")
    assert found.result.wrong == 0
