"""What a person reads after an erasure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from orchestration.cli.records.erase_output import old_files
from orchestration.records.erasure.erase import Plan, TableCount
from orchestration.records.rejudge.followers import Follower

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BRONZE, SILVER = TableCount("bronze.orders", 9, 2), TableCount("silver.orders", 5, 1)
LATE = TableCount("silver.orders__late", 3, 0)
FOLLOWERS = (Follower("gold.latest", follows=True), Follower("gold.totals", follows=False, advice="rebuild"))


def test_the_commands_that_delete_older_files_name_gold_too() -> None:
    """Tables by retention; none that lost no row, and no gold table that does not follow."""
    plan = Plan("silver.orders", 2, (BRONZE, LATE, SILVER), None, FOLLOWERS)
    kept = {
        "bronze.orders": timedelta(14),
        "silver.orders": timedelta(7),
        "silver.orders__late": timedelta(7),
    }
    lines = list(old_files(plan, kept, NOW))
    assert [line.partition("medallion ")[2] for line in lines if "medallion " in line] == [
        "maintain silver.orders",
        "maintain --now silver.orders",
        "maintain bronze.orders",
        "maintain --now bronze.orders",
        "maintain --now gold.latest",
    ]
    assert "2026-03-08 12:00 UTC" in lines[1]


def test_an_erasure_of_nothing_leaves_no_file_to_delete() -> None:
    assert list(old_files(Plan("silver.orders", 0, (LATE,), None, FOLLOWERS), {}, NOW)) == []
