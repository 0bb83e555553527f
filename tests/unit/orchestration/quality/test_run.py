"""Suites on real Delta tables, evaluated by DuckDB: results, failing rows, slices and the results table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from common.config.paths import Layout
from common.config.settings import load_settings
from common.declare import (
    Aggregate,
    Expect,
    Freshness,
    InRange,
    InSet,
    Matches,
    Meets,
    NullShare,
    Pipeline,
    Quality,
    References,
    RowCount,
    Rule,
    SameAs,
    SameDistribution,
    SumsEqual,
    Topic,
    Unique,
    ValueShare,
)
from common.errors import PipelineError
from orchestration.quality import results
from orchestration.quality.evaluate import failing_rows
from orchestration.quality.judgement import ExpectationResult, SuiteResult
from orchestration.quality.session import QualitySession
from orchestration.quality.versions import pin, version_before
from tests.support.shops import plain_silver

NOW = datetime.now(UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("status", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("weight", pa.float64()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)


def orders(*rows: tuple[Any, ...]) -> pa.Table:
    """Rows of silver.orders: id, status, amount, weight, minutes ago."""
    return pa.Table.from_pylist(
        [
            {
                "id": key,
                "status": status,
                "amount": None if amount is None else Decimal(amount),
                "weight": weight,
                "at": NOW - timedelta(minutes=minutes),
            }
            for key, status, amount, weight, minutes in rows
        ],
        schema=SCHEMA,
    )


FIRST = orders(
    ("a", "new", "1.00", 1.0, 50),
    ("b", "paid", "2.50", 2.0, 40),
    ("b", "paid", "-3.00", float("nan"), 30),
    ("c", None, None, 4.0, 20),
    (None, "odd\n", "9.99", None, 10),
)


def declared(*expectations: Any, table: str = "silver.orders", gate: Any = None) -> Pipeline:
    """A pipeline with one suite."""
    return Pipeline(
        name="shop",
        bronze=[Topic("orders")],
        silver=[
            plain_silver(
                "orders",
                "id string, status string, amount decimal(12,2), weight double, at timestamp",
                rules=[Rule("positive", "amount > 0"), Rule("has_status", "status is not null", "warn")],
            )
        ],
        gold=[Aggregate("totals", reads="silver.orders", by=["status"], measures={"amount": "sum(amount)"})],
        quality=[Quality(table, list(expectations), gate=gate)],
    )


class Shop:
    """The pipeline's tables in a folder."""

    def __init__(self, folder: Path) -> None:
        self.settings = load_settings(overrides=[f"data_dir={folder}"])
        self.layout = Layout.of(declared(RowCount(1)), self.settings)

    def write(self, rows: pa.Table, table: str = "silver.orders", metadata: str | None = None) -> None:
        """Append rows in one commit."""
        properties = CommitProperties(custom_metadata={"userMetadata": metadata} if metadata else {})
        write_deltalake(self.layout.table_path(table), rows, mode="append", commit_properties=properties)

    def run(self, *expectations: Any, table: str = "silver.orders", **options: Any) -> SuiteResult:
        """Evaluate a suite on the newest version, or with ``since``."""
        pipeline = declared(*expectations, table=table)
        pinned = pin(self.layout, table, since=options.pop("since", None))
        ((_, result),) = self.session(pipeline).evaluate([(pipeline.quality[0], pinned)], **options)
        return result

    def session(self, pipeline: Pipeline) -> QualitySession:
        """A session without Spark."""

        def no_spark() -> Any:
            raise AssertionError("this suite needs no Spark")

        return QualitySession(pipeline, self.settings, self.layout, no_spark)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """The tables with the first five orders."""
    shop = Shop(tmp_path)
    shop.write(FIRST)
    return shop


def own(result: SuiteResult) -> Sequence[ExpectationResult]:
    """The results without those of rules."""
    return [one for one in result.checked if one.expectation != "rule"]


FORMS: Sequence[tuple[Any, object, str, int | None]] = [
    (RowCount(5, 5), True, "observed 5", None),
    (RowCount(max=4), False, "observed 5", None),
    (Unique(["id"]), False, "2 of 4 rows do not meet it", 2),
    (Unique(["id", "amount"]), True, "", 0),
    (NullShare("amount"), False, "1 of 5 rows are null", 1),
    (NullShare("amount", max=0.2), True, "1 of 5 rows are null", 1),
    (NullShare("at"), True, "", 0),
    (Meets("amount > 0"), False, "1 of 5 rows do not meet it", 1),
    (Meets("amount > 0", mostly=0.75), True, "1 of 5 rows do not meet it", 1),
    (Meets("amount > 0", mostly=0.8), False, "1 of 5 rows do not meet it", 1),
    (Meets("at <= current_timestamp() and trim(id) <> ''"), True, "", 0),
    (InRange("amount", min=0), False, "1 of 5 rows do not meet it", 1),
    (InRange("amount", min=-3, max=9.99), True, "", 0),
    (InRange("amount", min=0, mostly=0.75), True, "1 of 5 rows do not meet it", 1),
    (InRange("amount", min=0, mostly=0.76), False, "1 of 5 rows do not meet it", 1),
    (InRange("weight", max=10), False, "1 of 5 rows do not meet it", 1),
    (InRange("at", min=NOW - timedelta(minutes=45)), False, "1 of 5 rows do not meet it", 1),
    (InSet("status", ["new", "paid"]), False, "1 of 5 rows do not meet it", 1),
    (Matches("status", r"^[a-z]+\z"), False, "1 of 5 rows do not meet it", 1),
    (Matches("status", "^[a-z]+$"), True, "", 0),
    (Matches("status", "a|e|o"), True, "", 0),
    (ValueShare("status", "paid", 0.4, 0.4), True, "observed 40 %, 2 of 5 rows", None),
    (ValueShare("status", "paid", max=0.3), False, "observed 40 %, 2 of 5 rows", None),
    (
        Expect("expect_column_max_to_be_between", {"column": "amount", "max_value": 9}),
        False,
        "observed 9.99",
        None,
    ),
    (
        Expect("expect_column_values_to_be_unique", {"column": "id"}),
        False,
        "2 of 4 rows do not meet it",
        2,
    ),
    (
        Expect("expect_column_values_to_be_between", {"column": "amount", "min_value": 0, "mostly": 0.9}),
        False,
        "1 of 5 rows do not meet it",
        1,
    ),
    (
        Expect("expect_column_values_to_not_be_null", {"column": "status", "mostly": 0.8}),
        True,
        "1 of 5 rows are null",
        1,
    ),
]  # fmt: skip
"""An expectation, whether the first orders meet it, what is reported, and its failing rows."""


def test_each_form_is_met_or_not(shop: Shop) -> None:
    """With the number of failing rows, in words too; all forms in one suite, in their order."""
    found = own(shop.run(*(expectation for expectation, *_ in FORMS)))
    reported = [(one.is_met, one.observed, one.failing_rows) for one in found]
    assert reported == [tuple(expected) for _, *expected in FORMS]


def test_freshness_is_the_age_of_the_newest_row_at_the_time_of_the_run(shop: Shop) -> None:
    """The newest of the five orders is ten minutes old."""
    result = shop.run(Freshness("at", "1 hour"), Freshness("at", "5 minutes"))
    assert [one.is_met for one in own(result)] == [True, False]
    assert re.search(r"\d+\.\d minutes old$", own(result)[0].observed)


def test_a_row_ahead_of_now_is_said_and_makes_nothing_fresh(shop: Shop) -> None:
    far = FIRST.slice(0, 1).set_column(
        FIRST.schema.get_field_index("at"),
        "at",
        pa.array([datetime(9999, 12, 31, tzinfo=UTC)], FIRST.schema.field("at").type),
    )
    shop.write(far)
    ahead = (None, "5 minutes", "3000000 days")
    found = own(shop.run(*(Freshness("at", "1 hour", at_most_ahead=bound) for bound in ahead)))
    assert [one.is_met for one in found] == [True, False, True]
    last = r"the last by [\d,.]+ days \(9999-12-31 00:00:00\)"
    pattern = rf"^newest .*, \d+\.\d minutes old; 1 row ahead of now, {last}$"
    assert re.match(pattern, found[0].observed)
    only = own(shop.run(Freshness("at", "1 hour"), since=0))
    assert not only[0].is_met
    assert only[0].observed.startswith("no row has a time that has passed; 1 row ahead of now")


def test_a_warning_fails_no_suite(shop: Shop) -> None:
    """An error beside it does."""
    assert shop.run(Unique(["id"], severity="warn")).is_met
    assert not shop.run(Unique(["id"], severity="warn"), RowCount(9)).is_met


def test_one_expectation_that_cannot_be_evaluated_does_not_hide_the_others(
    shop: Shop, tmp_path: Path
) -> None:
    """A pattern on a number is no pattern; what is not DuckDB's says so where there is no Spark."""
    shop.settings = load_settings(overrides=[f"data_dir={tmp_path}", "quality.engine=duckdb"])
    result = shop.run(Matches("weight", "^a$"), Meets("reverse(id) <> id"), RowCount(5, 5))
    assert [one.is_met for one in own(result)] == [False, False, True]
    assert own(result)[0].observed.startswith("cannot be evaluated: ")
    assert own(result)[1].observed == (
        "cannot be evaluated: it has reverse(), which is not translated; "
        "under quality.engine: auto, Spark evaluates it"
    )


def test_results_are_appended_to_the_results_table(shop: Shop) -> None:
    """One row per expectation and run, with the version."""
    shop.run(Unique(["id"]), RowCount(1))
    shop.write(FIRST)
    shop.run(RowCount(1, severity="warn"))
    rows = [row for row in results.read(shop.layout) if row.expectation != "rule"]
    assert [(row.version, row.expectation, row.severity, row.is_met, row.failing_rows) for row in rows] == [
        (0, "unique", "error", False, 2),
        (0, "row_count", "error", True, None),
        (1, "row_count", "warn", True, None),
    ]
    assert {(row.pipeline, row.table, row.engine, row.rows) for row in rows} == {
        ("shop", "silver.orders", "duckdb", 5),
        ("shop", "silver.orders", "duckdb", 10),
    }
    assert DeltaTable(shop.layout.table_path("quality.results")).version() == 1


def test_a_slice_reads_only_what_was_written_since(shop: Shop) -> None:
    """By files: those that the older version did not have."""
    shop.write(orders(("x", "new", "5.00", 1.0, 1), ("y", "new", "-5.00", 1.0, 1)))
    result = shop.run(InRange("amount", min=0), RowCount(2, 2), since=0)
    assert result.rows == 2
    assert [one.observed for one in own(result)] == ["1 of 2 rows do not meet it", "observed 2"]
    assert shop.run(RowCount(0, 0), since=1).rows == 0


def test_a_slice_by_age_begins_at_the_version_of_that_time(shop: Shop) -> None:
    """Nothing is a day old; everything is older than no time."""
    shop.write(FIRST)
    assert version_before(shop.layout, "silver.orders", timedelta(days=1)) is None
    assert version_before(shop.layout, "silver.orders", timedelta(0)) == 1


def test_failing_rows_are_named_by_key(shop: Shop) -> None:
    """In the order of the key, at most as many as were requested."""
    pipeline = declared(InRange("amount", min=2), Unique(["id"]))
    session, pinned = shop.session(pipeline), pin(shop.layout, "silver.orders")
    ((run, result),) = session.evaluate([(pipeline.quality[0], pinned)])
    found = {one.expectation: (one.columns, one.rows) for one in failing_rows(run, result.checked, 5)}
    assert found == {
        "in_range": (("id", "amount"), (("a", Decimal("1.00")), ("b", Decimal("-3.00")))),
        "unique": (("id", "rows"), (("b", 2),)),
    }


def test_a_distribution_is_compared_with_the_last_run_that_passed(shop: Shop) -> None:
    """A failing run does not become the measure; --accept makes it one."""
    suite = (SameDistribution("status", 0.2), SameDistribution("weight", 0.2))
    assert shop.run(*suite).is_met
    assert [one.observed for one in own(shop.run(*suite))] == ["0 % moved since the last run"] * 2
    shop.write(orders(*[(str(n), "lost", "1.00", 3.5, 1) for n in range(15)]))
    for _ in range(2):
        failed = own(shop.run(*suite))
        assert [one.observed for one in failed] == ["75 % moved since the last run"] * 2
        assert not any(one.is_met for one in failed)
    assert shop.run(*suite, accept=True).is_met
    assert shop.run(*suite).is_met


def test_references_and_sums_between_tables(shop: Shop) -> None:
    """A gold table whose sums are right, with a status that silver does not have."""
    rows = {
        "status": ["new", "paid", "ghost"],
        "amount": [Decimal("1.00"), Decimal("-0.50"), Decimal("9.99")],
    }
    shop.write(pa.table(rows), "gold.totals")
    result = shop.run(
        References(["status"], "silver.orders"),
        SumsEqual("amount", "silver.orders"),
        SumsEqual("*", "silver.orders", where="status = 'paid'"),
        SumsEqual("amount", "silver.orders", where="id is not null", tolerance=9.99),
        table="gold.totals",
    )
    assert [(one.is_met, one.observed) for one in result.checked] == [
        (False, "1 row has no row in silver.orders"),
        (True, "10.49 here, 10.49 in silver.orders"),
        (False, "3 here, 2 in silver.orders"),
        (True, "10.49 here, 0.50 in silver.orders"),
    ]


def test_the_other_table_is_read_up_to_where_this_table_has_read_it(shop: Shop) -> None:
    """Silver may be ahead of gold while jobs run; the sums agree all the same."""
    silver = DeltaTable(shop.layout.table_path("silver.orders")).metadata().id
    position = f'{{"positions": [{{"reservoirId": "{silver}", "reservoirVersion": 1, "index": -1}}]}}'
    shop.write(pa.table({"amount": [Decimal("10.49")]}), "gold.totals", position)
    shop.write(FIRST)
    assert shop.run(SumsEqual("amount", "silver.orders"), table="gold.totals").is_met


def test_rules_are_reported_from_the_counts_in_commits(shop: Shop) -> None:
    """Counting goes on where the last run ended; only rows that are in the table are a warning."""
    shop.write(FIRST, metadata='{"counts": {"rules": {"positive": 3, "has_status": 2}}}')
    for more in (0, 1):
        found = {one.column: one for one in shop.run(RowCount(1)).checked if one.expectation == "rule"}
        assert (found["positive"].is_met, found["positive"].observed) == (
            True,
            f"{3 + more} rows quarantined",
        )
        assert (found["has_status"].is_met, found["has_status"].failing_rows) == (False, 2)
        assert found["has_status"].severity == "warn"
        shop.write(FIRST, metadata='{"counts": {"rules": {"positive": 1}}}')


def test_a_table_is_compared_with_its_source_by_its_key(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    source = str(tmp_path / "source.parquet")
    same = orders(("a", "new", "1.00", 1.0, 50), ("b", "paid", "2.50", 2.0, 40))
    shop.write(same)
    pq.write_table(same, source)
    (equal,) = shop.run(SameAs(source)).checked[:1]
    assert (equal.is_met, equal.failing_rows, equal.observed) == (True, 0, "keys: 2 the same")
    shop.write(orders(("c", "new", "3.00", 1.0, 30)))
    changed = orders(("a", "new", "1.01", 1.0, 50), ("b", "paid", "2.50", 2.0, 40), ("d", "x", "1", 1.0, 9))
    pq.write_table(changed, source)
    failed = shop.run(SameAs(source))
    wrong = failed.checked[0]
    assert (failed.is_met, wrong.failing_rows) == (False, 3)
    assert wrong.expected == f"the same rows as in {source}"
    assert {"1 the same", "1 missing", "1 extra", "1 differs"} <= set(
        re.split(r"keys: |, |;", wrong.observed)
    )
    assert shop.run(SameAs(source, columns=["status"], settle="1 second")).checked[0].failing_rows == 2
    mapped = shop.run(SameAs(source, columns=["amount"], map={"amount": "amount - 0.01"}, severity="warn"))
    assert (mapped.is_met, mapped.checked[0].failing_rows) == (True, 3)  # b differs now, a no longer
    gone = shop.run(SameAs(str(tmp_path / "gone.parquet"))).checked[0]
    assert (gone.is_met, "there is no such file" in gone.observed) == (False, True)


def test_a_password_is_not_declared() -> None:
    with pytest.raises(PipelineError, match="set PGPASSWORD"):
        SameAs("postgresql://reader:secret@db/shop?table=orders")
