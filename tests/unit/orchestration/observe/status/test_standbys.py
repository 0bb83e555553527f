"""The places of standbys: one process has a place, and those who look see what it does."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import pytest

from common.delta.lease.lease_holder import find_holder, find_standbys
from common.delta.lease.local_leases import Leases
from common.delta.lease.release import can_follow, own_release
from common.delta.lease.standby_place import StandbyPlace


def test_a_standby_has_the_lowest_free_place_and_says_what_it_does(tmp_path: Path) -> None:
    with StandbyPlace(tmp_path, "up") as first:
        with StandbyPlace(tmp_path, "run-gold") as second:
            second.record_jvm(os.getpid())
            second.note("ready")
            found = find_standbys(tmp_path)
            assert [(one.place, one.job, one.pid, one.is_ready) for one in found] == [
                ("standby-1", "up", os.getpid(), False),
                ("standby-2", "run-gold", os.getpid(), True),
            ]
        assert [one.place for one in find_standbys(tmp_path)] == [first.name]
        with StandbyPlace(tmp_path, "up") as again:
            assert again.name == "standby-2"


def test_a_standby_that_has_taken_over_keeps_its_place_and_is_none_any_more(tmp_path: Path) -> None:
    with StandbyPlace(tmp_path, "up") as one, Leases(tmp_path, ["gold.g"], "up"):
        one.note("took over")
        assert find_standbys(tmp_path) == ()
        assert find_holder(tmp_path, one.name) is not None


def test_a_lease_names_its_holder_as_before_after_a_note(tmp_path: Path) -> None:
    """When the process has started does not change."""
    with Leases(tmp_path, ["gold.g"], "up") as leases:
        before = find_holder(tmp_path, "gold.g")
        leases.record_jvm(os.getpid())
        leases.note(state="ready")
        assert find_holder(tmp_path, "gold.g") == before


def test_leases_and_places_have_the_release_of_their_process(tmp_path: Path) -> None:
    assert own_release() == version("medallion-lakehouse")
    with StandbyPlace(tmp_path, "up") as place, Leases(tmp_path, ["gold.g"], "up"):
        place.note("ready")
        (one,) = find_standbys(tmp_path)
        holder = find_holder(tmp_path, "gold.g")
        assert holder is not None
        assert one.release == holder.release == own_release()


@pytest.mark.parametrize(
    ("own", "written", "can"),
    [
        ("0.3.0", "0.2.5", True),
        ("0.2.0", "0.2.5", True),
        ("0.2.5", "0.3.0", False),
        ("0.9.0", "0.10.0", False),
        ("1.0.0", "0.10.0", True),
        ("0.10.0", "1.0.0", False),
        ("", "1.0.0", True),
        ("0.2.0", "", True),
    ],
)
def test_the_way_back_is_between_patches_only(own: str, written: str, can: bool) -> None:  # noqa: FBT001
    assert can_follow(own, written) is can
