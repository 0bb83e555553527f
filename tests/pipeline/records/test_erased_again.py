"""What was erased does not come back by a rebuild or an undo; where it is back, the audit says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.delta.lease.local_leases import Leases
from common.errors import LeaseHeldError, UsageError
from orchestration.change.rebuild import rebuild_silver as rebuilding
from orchestration.records.rejudge.shadow import lease_of, shadow_of
from tests.support.pairs.operations import Life, erase, fill, rebuild
from tests.support.pairs.shop import ORDERS, READS, SIDES, place_of


def wrong(life: Life) -> list[str]:
    """What the audit and the oracle find."""
    return [*(one.name for one in life.engine.faults()), *life.shop.problems(life.engine)]


@pytest.mark.long
def test_erased_records_stay_away_from_a_waiting_shadow_and_an_undo_and_a_restore_is_a_fault(
    spark: Any, tmp_path: Path
) -> None:
    life = fill(spark, tmp_path, gold=())
    layout = life.engine.layout
    with Leases(layout.leases, [READS], "silver"), pytest.raises(LeaseHeldError):
        rebuild(life)  # the shadow is complete, and waits for the switch
    shadow = Path(shadow_of(layout, ORDERS).table_path(READS))
    assert shadow.exists()
    before = {table: life.engine.version(table) for table in (READS, *SIDES)}
    with Leases(layout.leases, [lease_of(ORDERS)], "rebuild"), pytest.raises(LeaseHeldError):
        erase(life)  # a rebuild that is filling the shadow
    erase(life)
    assert not shadow.exists()
    rebuild(life)
    assert wrong(life) == []

    for table, version in before.items():
        spark.sql(f"RESTORE TABLE delta.`{life.engine.path(table)}` TO VERSION AS OF {version}")
    back = {
        place
        for table in before
        for place in map(place_of, life.engine.rows(table))
        if (order := life.shop.sent[place]) is not None and order.customer in life.shop.erased
    }
    assert len(back) > len(before)
    found = next(one for one in life.engine.faults() if one.name == "erased")
    assert (found.count, set(found.examples)) == (len(back), back)
    erase(life, "false")
    assert [one for one in wrong(life) if "erased" in one] == []
    with pytest.raises(UsageError, match="records were erased after the rebuild"):
        life.silver_work(rebuilding.undo)
