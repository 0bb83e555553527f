"""What hangs on a table that has failed, which failures are the job's, and when a query is tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from common.declare import Pipeline, Topic, Upsert, View
from common.errors import (
    BrokerError,
    CheckpointMismatchError,
    DiskFullError,
    LeaseLostError,
    MedallionError,
    PipelineError,
    Problem,
    RegistryError,
    RuleFailedError,
    StatementRefusedError,
    TablesFailedError,
    TransientFailureError,
)
from orchestration.run.failures import healing
from orchestration.run.failures.healing import Healing
from orchestration.run.failures.restart_schedule import RestartPolicy
from orchestration.run.failures.table_failures import TableFailures, is_of_job
from tests.support.shops import plain_silver

FIELDS = "id string, at timestamp"
PIPELINE = Pipeline(
    name="shop",
    bronze=[Topic("orders"), Topic("returns")],
    silver=[plain_silver("orders", FIELDS), plain_silver("returns", FIELDS)],
    gold=[
        View("late", sql="select id from silver.orders__late"),
        View("both", sql="select o.id from gold.latest o join silver.returns r on o.id = r.id"),
        Upsert("latest", reads="silver.orders", key=["id"], newest_by=["at"]),
        View("returned", sql="select id from silver.returns"),
    ],
)


def test_what_hangs_on_a_table_directly_by_a_side_table_or_through_others() -> None:
    failures = TableFailures.of(PIPELINE)
    assert failures.hang_on("silver.orders") == ["gold.late", "gold.latest", "gold.both"]
    assert failures.hang_on("silver.returns") == ["gold.both", "gold.returned"]
    assert failures.hang_on("bronze.returns") == ["silver.returns", "gold.both", "gold.returned"]
    assert failures.behind(["silver.orders__late"]) is None
    failures.failed("silver.orders", RuleFailedError("silver.orders", "rule known"))
    assert failures.behind(["silver.orders__late"]) == "silver.orders"
    failures.waits["gold.latest"] = "silver.orders"
    assert failures.behind(["silver.returns", "gold.latest"]) == "silver.orders"
    failures.forget("silver.orders")
    assert failures.behind(["silver.returns", "gold.latest"]) is None


def test_one_failure_is_told_as_it_is_and_several_line_by_line_with_their_codes() -> None:
    failures = TableFailures.of(PIPELINE)
    assert failures.error() is None
    refused = StatementRefusedError("gold.late", "there is no column `x`", "shop.py:7:3")
    failures.failed("gold.late", refused)
    assert failures.error() is refused
    misfit = [Problem("gold.latest, column 'a'", "no"), Problem("gold.latest, column 'b'", "no", "shop.py:9")]
    failures.failed("gold.latest", PipelineError(misfit))
    failures.waits["gold.both"] = "gold.latest"
    found = failures.error()
    assert isinstance(found, TablesFailedError)
    assert found.exit_code == 1
    assert str(found).split("\n") == [
        "gold.late failed: there is no column `x`",
        "gold.latest, column 'a': no",
        "shop.py:9: gold.latest, column 'b': no",
        "gold.both waits for gold.latest, which has failed",
    ]
    assert [(each.code, each.source) for each in found.problems] == [
        ("MED-4014", "shop.py:7:3"),
        ("MED-1000", ""),
        ("MED-1000", "shop.py:9"),
        ("MED-4017", ""),
    ]


@pytest.mark.parametrize(
    ("failure", "is_whole"),
    [
        (BrokerError("no answer"), True),
        (LeaseLostError("silver.x", "another"), True),
        (DiskFullError("silver.x", "full"), True),
        (TransientFailureError("silver.x", "the network", "no"), True),
        (RegistryError("no answer"), True),
        (RuleFailedError("silver.x", "rule"), False),
        (StatementRefusedError("gold.x", "no"), False),
        (CheckpointMismatchError("gold.x"), False),
    ],
)
def test_which_failures_end_a_run_with_an_end(failure: MedallionError, *, is_whole: bool) -> None:
    assert is_of_job(failure) is is_whole


@dataclass
class Clock:
    """The newest versions of two sources, and the time."""

    versions: dict[str, int | None]
    now: float = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock({"u": 4, "w": 9})
    monkeypatch.setattr(healing, "latest_version", found.versions.__getitem__)
    monkeypatch.setattr(healing, "_read_to", lambda stream: (4, 9))
    real: Callable[..., Any] = healing.Restarts
    made = lambda policy: real(policy, clock=lambda: found.now, draw=lambda: 1.0)  # noqa: E731
    monkeypatch.setattr(healing, "Restarts", made)
    return found


def test_a_query_that_has_failed_at_a_row_is_tried_again_once_per_newer_commit(clock: Clock) -> None:
    sources = [SimpleNamespace(path=name) for name in clock.versions]
    view: Any = SimpleNamespace(name="gold.q", heals=True, streamed=sources)
    healing_of = Healing(RestartPolicy(first_pause=1, longest_pause=60))
    assert not healing_of.failed(SimpleNamespace(name="gold.x", heals=False, streamed=sources))  # type: ignore[arg-type]
    assert not healing_of.is_watched("gold.x")
    assert healing_of.failed(view)
    assert not healing_of.has_newer(view)  # of a run with an end: it has failed
    assert not healing_of.is_again("gold.q")
    clock.now += 1
    assert not healing_of.is_due(view)
    clock.versions["u"] = 5
    assert not healing_of.is_due(view)  # not looked at twice at once
    clock.now += healing._LOOK_SECONDS
    assert healing_of.is_due(view)
    assert healing_of.failed(view)
    assert healing_of.is_again("gold.q")
    clock.versions["u"] = 6
    clock.now += 1
    assert not healing_of.is_due(view)  # the pause has doubled
    clock.now += 1
    assert healing_of.is_due(view)
    healing_of.forget("gold.q")
    assert not healing_of.is_watched("gold.q")
