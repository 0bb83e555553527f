"""A commit wakes those that read the table, and nobody else."""

from __future__ import annotations

from collections import Counter

from common.streaming.wake_up import CommitNotifier


def test_a_commit_wakes_once_each_query_that_reads_one_of_its_tables() -> None:
    notifier, woken = CommitNotifier(), Counter[str]()

    def follow(query: str, *tables: str) -> None:
        notifier.follow(query, tables, lambda: woken.update([query]))

    follow("silver.orders", "bronze.orders")
    follow("gold.by_day", "silver.orders")
    follow("gold.joined", "silver.orders", "silver.customers")
    follow("publish.rejected", "silver.orders__quarantine")

    notifier.notify(["bronze.orders"])
    assert woken == {"silver.orders": 1}
    notifier.notify(["silver.orders", "silver.orders__quarantine", "silver.orders__late"])
    assert woken == {"silver.orders": 1, "gold.by_day": 1, "gold.joined": 1, "publish.rejected": 1}
    notifier.notify(["silver.customers"])
    assert woken["gold.joined"] == 2
    notifier.notify(["gold.by_day"])
    assert woken.total() == 5


def test_a_query_that_is_started_again_is_woken_as_it_is_now() -> None:
    notifier, woken = CommitNotifier(), list[str]()
    notifier.follow("silver.orders", ["bronze.orders"], lambda: woken.append("the first"))
    notifier.follow("silver.orders", ["bronze.orders"], lambda: woken.append("the second"))
    notifier.notify(["bronze.orders"])
    assert woken == ["the second"]
